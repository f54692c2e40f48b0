//! Fully connected layers, many images at once.
//!
//! ```text
//! out[n, o] = bias[o] + Σ_k x[n, k] w[o, k]     u[n, k] = Σ_o d[n, o] w[o, k]     ∂L/∂w[o, k] = Σ_n d[n, o] x[n, k]
//! ```
//!
//! `k` runs over the numbers of an image in PyTorch's order, channel, row, column, so that weights are used where
//! they lie. Each pass has three phases: images are read into column blocks, threads share the weights and each
//! computes its columns for all images, and the result goes to where images lie one after the other. Every sum is one chain in
//! ascending order, that over images in blocks of [`TOGETHER`] (which matters to a Hessian-vector product,
//! where a block adds `Σ ḋ x` first and then `Σ d ẋ`).

use std::mem::take;
use std::ops::Range;

use super::backward::{Pass, Turn};
use super::{Work, grow};
use crate::Real;
use crate::nn::geometry::Placement;
use crate::nn::network::{Conv, Layer, Network};
use crate::nn::pack;
use crate::nn::parallel;
use crate::nn::products::{self, BLOCK, Factors, Shape, multiply, panel_group};
use crate::nn::read::Reading;
use crate::simd::width;

/// Images that pass through the weights together.
const TOGETHER: usize = 512;
/// Images that a thread reads, and rows of a matrix in column blocks.
const PART: usize = 64;
/// Outputs whose gradients by weights a thread computes together.
const OUTPUTS: usize = 4 * BLOCK;
/// Groups of panels that a thread computes together.
const GROUPS: usize = 4;
/// Columns of a part that pass through these before the next ones: both fit into a second-level cache.
const CUT: usize = 512;

/// Inputs, gradients and results of many images, in column blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Gathered<F> {
    pub x: Vec<F>,
    pub x_dot: Vec<F>,
    pub d: Vec<F>,
    pub d_dot: Vec<F>,
    pub out: Vec<F>,
}

/// A matrix of many images: parts of [`PART`] rows, each in column blocks.
#[derive(Clone, Copy)]
struct Parts<'a, F> {
    values: &'a [F],
    images: usize,
    cols: usize,
}

impl<'a, F: Real> Parts<'a, F> {
    fn shape(self, part: usize) -> Shape {
        let rows = PART.min(self.images - part * PART);
        Shape { rows, cols: self.cols, room: PART }
    }

    fn count(self) -> usize {
        self.images.div_ceil(PART)
    }

    fn get(self, part: usize) -> (&'a [F], Shape) {
        let shape = self.shape(part);
        (&self.values[part * shape.len()..(part + 1) * shape.len()], shape)
    }
}

impl<F: Real> Work<F> {
    /// Raw values of a fully connected layer, or their derivatives along a direction.
    pub(super) fn forward_dense(
        &mut self,
        network: &Network,
        l: usize,
        conv: &Conv,
        theta: &[F],
        direction: Option<&[F]>,
        out: &mut [F],
    ) {
        let layer = &network.layers[l];
        let (input, outputs) = (layer.inputs[0], layer.len());
        let from = &network.layers[input];
        let mut gathered = take(&mut self.gathered);
        for first in (0..self.examples).step_by(TOGETHER) {
            let images = first..self.examples.min(first + TOGETHER);
            let Gathered { x, x_dot, out: result, .. } = &mut gathered;
            let x = self.gather(network, Reading::Value, input, &images, x);
            let x_dot = (direction.is_some() && input > 0)
                .then(|| self.gather(network, Reading::ValueDot, input, &images, x_dot));
            let parameters = direction.unwrap_or(theta);
            let bias = conv.bias.clone().map(|bias| &parameters[bias]);
            let w = [
                Some((x, &parameters[conv.weight.clone()])),
                x_dot.map(|x| (x, &theta[conv.weight.clone()])),
            ];
            self.products(w, bias, outputs, from.len(), pack::transposed, result);
            let out = &mut out[images.start * outputs..images.end * outputs];
            scatter(result, group_len::<F>(images.len()), outputs, out, |of, to| {
                to.copy_from_slice(of);
            });
        }
        self.gathered = gathered;
    }

    /// Hands the gradient of a fully connected layer to its input, and forms those by its weights and bias.
    #[expect(clippy::too_many_arguments, reason = "a layer, its input and what comes of both")]
    pub(super) fn backward_dense(
        &mut self,
        pass: &Pass<F>,
        l: usize,
        conv: &Conv,
        input: usize,
        turn: Turn,
        u: &mut [F],
        out: &mut [F],
    ) {
        let network = pass.network;
        let (layer, from) = (&network.layers[l], &network.layers[input]);
        let (outputs, inputs) = (layer.len(), from.len());
        let is_dot = pass.direction.is_some();
        let mut bias_sums = vec![0.0; outputs];
        let mut gathered = take(&mut self.gathered);
        for first in (0..self.examples).step_by(TOGETHER) {
            let images = first..self.examples.min(first + TOGETHER);
            let Gathered { x, x_dot, d, d_dot, out: result } = &mut gathered;
            let d = self.gather(network, Reading::Gradient, l, &images, d);
            let x = self.gather(network, Reading::Value, input, &images, x);
            let mut terms = vec![(d, x)];
            if is_dot {
                let d_dot = self.gather(network, Reading::GradientDot, l, &images, d_dot);
                terms = vec![(d_dot, x)];
                if input > 0 {
                    let x_dot = self.gather(network, Reading::ValueDot, input, &images, x_dot);
                    terms.push((d, x_dot));
                }
            }
            let d_now = terms[0].0;
            if conv.bias.is_some() {
                add_rows(d_now, &mut bias_sums);
            }
            let weights = &mut out[conv.weight.clone()];
            parallel::zipped([(weights, OUTPUTS * inputs)], |task, [weights]| {
                for (term, (d, x)) in terms.iter().enumerate() {
                    let factors: Vec<_> = (0..d.count())
                        .map(|part| {
                            let ((d, d_shape), (a, a_shape)) = (d.get(part), x.get(part));
                            Factors { d, d_shape, a, a_shape }
                        })
                        .collect();
                    let fresh = first == 0 && term == 0;
                    products::outer(&factors, task * OUTPUTS, fresh, weights);
                }
            });
            if input == 0 {
                continue;
            }
            let w = &pass.theta[conv.weight.clone()];
            let w_dot = pass.direction.map(|v| (d, &v[conv.weight.clone()]));
            self.products([Some((d_now, w)), w_dot], None, inputs, inputs, pack::straight, result);
            let u = &mut u[images.start * inputs..images.end * inputs];
            let (order, len) = (Order::of(from), group_len::<F>(images.len()));
            if turn.first {
                scatter(result, len, inputs, u, |of, u| order.back(of, u, |u, of| *u = of));
            } else {
                scatter(result, len, inputs, u, |of, u| order.back(of, u, |u, of| *u += of));
            }
        }
        if let Some(bias) = &conv.bias {
            out[bias.clone()].iter_mut().zip(bias_sums).for_each(|(out, sum)| *out = F::of(sum));
        }
        self.gathered = gathered;
    }

    /// Reads images of a layer into column blocks.
    fn gather<'a>(
        &self,
        network: &Network,
        reading: Reading,
        layer: usize,
        images: &Range<usize>,
        values: &'a mut Vec<F>,
    ) -> Parts<'a, F> {
        let of = &network.layers[layer];
        let cols = of.len();
        let len = Shape { rows: PART, cols, room: PART }.len();
        let count = images.len().div_ceil(PART);
        grow(values, count * len);
        let order = Order::of(of);
        parallel::zipped([(&mut values[..count * len], len)], |part, [values]| {
            let first = images.start + part * PART;
            let images = first..images.end.min(first + PART);
            let shape = Shape { rows: images.len(), cols, room: PART };
            self.scratch.lend(|scratch| {
                let rows = scratch.x.dense(images.len() * cols);
                self.read(network, reading, layer, &images, Placement::dense(of), rows);
                for (row, image) in rows.chunks_exact(cols).enumerate() {
                    order.into_blocks(image, shape, row, values);
                }
            });
        });
        Parts { values, images: images.len(), cols }
    }

    /// `result = start + Σ a b` over the terms: group of panels after group, all images of each.
    fn products(
        &self,
        terms: [Option<(Parts<F>, &[F])>; 2],
        start: Option<&[F]>,
        columns: usize,
        w_cols: usize,
        pack: impl Fn(&[F], usize, usize, usize, &mut Vec<F>) + Sync,
        result: &mut Vec<F>,
    ) {
        let (width, group) = (width::<F>(), panel_group::<F>());
        let images = terms[0].expect("the first term is there").0.images;
        let len = group_len::<F>(images);
        let groups = columns.div_ceil(group);
        grow(result, groups * len);
        parallel::zipped([(&mut result[..groups * len], GROUPS * len)], |task, [result]| {
            let first = task * GROUPS * group;
            let count = result.len() / len;
            let mut own_start = [F::default(); GROUPS * 2 * BLOCK];
            if let Some(start) = start {
                let start = &start[first..columns.min(first + count * group)];
                own_start[..start.len()].copy_from_slice(start);
            }
            self.scratch.lend(|scratch| {
                for (term, (a, w)) in terms.iter().flatten().enumerate() {
                    pack(w, w_cols, first, count * group / width, &mut scratch.rows);
                    let w = &scratch.rows;
                    for from in (0..a.cols).step_by(CUT) {
                        let cut = from..a.cols.min(from + CUT);
                        for part in 0..a.count() {
                            let (values, shape) = a.get(part);
                            let groups =
                                w.chunks_exact(a.cols * group).zip(own_start.chunks_exact(group));
                            for ((w, start), result) in groups.zip(result.chunks_exact_mut(len)) {
                                let start = (term == 0 && from == 0).then_some(start);
                                let out = &mut result[part * PART * group..];
                                multiply(values, shape, cut.clone(), w, start, out);
                            }
                        }
                    }
                }
            });
        });
    }
}

/// Numbers of a group of panels for so many images.
fn group_len<F: Real>(images: usize) -> usize {
    images.div_ceil(PART) * PART * panel_group::<F>()
}

/// Adds the rows in ascending order.
fn add_rows<F: Real>(d: Parts<F>, sums: &mut [f64]) {
    for part in 0..d.count() {
        let (values, shape) = d.get(part);
        for (block, sums) in sums.chunks_mut(BLOCK).enumerate() {
            let values = &values[block * shape.room * BLOCK..][..shape.rows * BLOCK];
            for row in values.chunks_exact(BLOCK) {
                sums.iter_mut().zip(row).for_each(|(sum, d)| *sum += d.to_f64());
            }
        }
    }
}

/// From groups of panels, `len` numbers each, to rows of `columns` numbers.
pub(super) fn scatter<F: Real>(
    result: &[F],
    len: usize,
    columns: usize,
    out: &mut [F],
    write: impl Fn(&[F], &mut [F]) + Sync,
) {
    let group = panel_group::<F>();
    parallel::zipped([(out, PART * columns)], |part, [out]| {
        let mut values = vec![F::default(); columns];
        for (row, out) in out.chunks_exact_mut(columns).enumerate() {
            let at = (part * PART + row) * group;
            for (values, result) in values.chunks_mut(group).zip(result.chunks_exact(len)) {
                values.copy_from_slice(&result[at..at + values.len()]);
            }
            write(&values, out);
        }
    });
}

/// From the order in which images lie here (row, column, channel) to PyTorch's (channel, row, column), and back.
#[derive(Clone, Copy)]
struct Order {
    pixels: usize,
    channels: usize,
}

impl Order {
    fn of(layer: &Layer) -> Self {
        let [rows, cols, channels] = layer.shape;
        Self { pixels: rows * cols, channels }
    }

    fn into_blocks<F: Real>(self, image: &[F], shape: Shape, row: usize, values: &mut [F]) {
        let Self { pixels, channels } = self;
        if pixels == 1 || channels == 1 {
            shape.set_row(values, row, image);
            return;
        }
        if channels == 3 && pixels.is_multiple_of(BLOCK) {
            // Colours, by far the most frequent, with a stride that the compiler knows.
            for (block, image) in image.as_chunks::<{ 3 * BLOCK }>().0.iter().enumerate() {
                for channel in 0..3 {
                    let some: [F; BLOCK] = std::array::from_fn(|i| image[3 * i + channel]);
                    let k = channel * pixels + block * BLOCK;
                    values[(k / BLOCK * shape.room + row) * BLOCK..][..BLOCK]
                        .copy_from_slice(&some);
                }
            }
            return;
        }
        for channel in 0..channels {
            for (pixel, value) in image[channel..].iter().step_by(channels).enumerate() {
                let k = channel * pixels + pixel;
                values[(k / BLOCK * shape.room + row) * BLOCK + k % BLOCK] = *value;
            }
        }
    }

    fn back<F: Real>(self, of: &[F], image: &mut [F], write: impl Fn(&mut F, F)) {
        for (channel, of) in of.chunks_exact(self.pixels).enumerate() {
            let numbers = image[channel..].iter_mut().step_by(self.channels);
            numbers.zip(of).for_each(|(number, of)| write(number, *of));
        }
    }
}
