//! Weights of a convolution in the order of its loops, and the way back.
//!
//! PyTorch keeps `weight[out][in][row][column]`. The loops want a matrix whose rows are
//! (row, column, in) and whose columns are the outputs; the transposed ones, for each residue class,
//! rows (flipped row, flipped column, out) and columns `in`.

use rayon::prelude::*;

use super::geometry::{Class, Geometry};
use super::kernel::{Panels, Runs};
use super::network::Conv;
use crate::Real;
use crate::simd::width;

/// Below this many weights one thread adds up the gradient.
const WORTHWHILE: usize = 1 << 14;

/// Weights for the forward loops.
pub(super) fn pack<F: Real>(conv: &Conv, runs: Runs, theta: &[F], panels: &mut Panels<F>) {
    let weight = &theta[conv.weight.clone()];
    let fan_in = runs.rows();
    panels.fill(fan_in, weight.len() / fan_in, |outputs, values| {
        for (row, values) in values.chunks_exact_mut(width::<F>()).enumerate() {
            let at = index(conv, fan_in, row);
            for (value, output) in values.iter_mut().zip(outputs.clone()) {
                *value = weight[output * fan_in + at];
            }
        }
    });
}

/// Weights for the transposed loops, one matrix per residue class.
pub(super) fn pack_transposed<F: Real>(
    conv: &Conv,
    geometry: &Geometry,
    theta: &[F],
    panels: &mut Vec<Panels<F>>,
) {
    let weight = &theta[conv.weight.clone()];
    let fan_in = geometry.runs.rows();
    let [rows, cols] = conv.kernel;
    let (inputs, outputs) = (fan_in / (rows * cols), weight.len() / fan_in);
    panels.resize(geometry.classes.len().max(panels.len()), Panels::default());
    for (class, panels) in geometry.classes.iter().zip(panels) {
        let Class { first, taps, runs, .. } = class;
        panels.fill(runs.rows(), inputs, |inputs, values| {
            for (row, values) in values.chunks_exact_mut(width::<F>()).enumerate() {
                let (tap, output) = (row / outputs, row % outputs);
                let ky = first[0] + conv.stride * (taps[0] - 1 - tap / taps[1]);
                let kx = first[1] + conv.stride * (taps[1] - 1 - tap % taps[1]);
                for (value, input) in values.iter_mut().zip(inputs.clone()) {
                    *value = weight[output * fan_in + (input * rows + ky) * cols + kx];
                }
            }
        });
    }
}

/// Adds the chunks' weight gradients in order and writes the sum in PyTorch's layout.
pub(super) fn unpack_sum<F: Real>(conv: &Conv, runs: Runs, partials: &mut [F], out: &mut [F]) {
    let fan_in = runs.rows();
    let out = &mut out[conv.weight.clone()];
    let len = Panels::<F>::len_of(fan_in, out.len() / fan_in);
    let (sum, others) = partials.split_at_mut(len);
    let panel_len = fan_in * width::<F>();
    let unpack = |(panel, (sum, out)): (usize, (&mut [F], &mut [F]))| {
        for other in others.chunks_exact(len) {
            let other = &other[panel * panel_len..];
            sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += *value);
        }
        for (row, sums) in sum.chunks_exact(width::<F>()).enumerate() {
            let at = index(conv, fan_in, row);
            for (out, sum) in out.chunks_exact_mut(fan_in).zip(sums) {
                out[at] = *sum;
            }
        }
    };
    let out_len = fan_in * width::<F>();
    if len < WORTHWHILE {
        sum.chunks_mut(panel_len).zip(out.chunks_mut(out_len)).enumerate().for_each(unpack);
    } else {
        sum.par_chunks_mut(panel_len).zip(out.par_chunks_mut(out_len)).enumerate().for_each(unpack);
    }
}

/// Place, within an output's weights, of a row (kernel row, kernel column, input).
fn index(conv: &Conv, fan_in: usize, row: usize) -> usize {
    let [rows, cols] = conv.kernel;
    let inputs = fan_in / (rows * cols);
    let (tap, input) = (row / inputs, row % inputs);
    input * rows * cols + tap
}
