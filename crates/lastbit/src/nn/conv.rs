//! A convolution over a group of images: its weights in the order of its loops, and the loops.
//!
//! PyTorch keeps `weight[out][in][row][column]`. The loops want a matrix whose rows are
//! (row, column, in) and whose columns are the outputs; the transposed ones, for each residue class,
//! rows (flipped row, flipped column, out) and columns `in`. Where patches are used, the rows are
//! (number in the transformed kernel, in or out).

use std::ops::Range;

use super::geometry::{Class, Geometry, Placement};
use super::kernel::{self, Panels, Pixel, Start, multiply};
use super::network::Conv;
use super::parallel;
use super::plane::{self, Extent, Plane};
use super::winograd::{self, Grid, OUTPUTS, PATCH, Patches, Summed, Transform, tiles_together};
use crate::Real;
use crate::simd::width;

/// Work space: transformed patches, and sums that do not fit into registers.
#[derive(Debug, Default, Clone)]
pub(super) struct Workspace<F> {
    patches: Vec<F>,
    sums: Vec<F>,
}

impl<F: Real> Workspace<F> {
    /// Room for several patches of so many numbers, and for sums.
    pub fn split(
        &mut self,
        len: usize,
        count: usize,
    ) -> (impl Iterator<Item = &mut [F]>, &mut Vec<F>) {
        if self.patches.len() < len * count {
            self.patches.resize(len * count, F::default());
        }
        (self.patches[..len * count].chunks_exact_mut(len), &mut self.sums)
    }
}

impl Geometry {
    /// Rows of the matrix of weights.
    pub fn rows(&self) -> usize {
        match self.tiles {
            Some(_) => PATCH * self.input_channels,
            None => self.runs.rows(),
        }
    }

    /// `out = start + Σ w * x` for the first `count` images, over the terms in turn.
    pub fn convolve<F: Real>(
        &self,
        count: usize,
        terms: &[(&[F], &Panels<F>)],
        start: Start<F>,
        out: &mut [F],
        work: &mut Workspace<F>,
    ) {
        if let Some(tiles) = &self.tiles {
            let to = Grid { stride: self.output_row, ..self.output_grid() };
            let tiles = self.part(&tiles.forward, count);
            let terms: Vec<_> = terms.iter().map(|(x, w)| (*x, &w.values[..])).collect();
            return convolve_tiles(&terms, self.input_grid(), tiles, start, out, to, work);
        }
        for (term, (x, w)) in terms.iter().enumerate() {
            let start = if term == 0 { start } else { Start::Out };
            if self.is_plane() {
                let (from, extent, w) = (self.x_plane(), self.extent(), &w.values);
                plane::convolve(x, from, extent, w, width::<F>(), start, out, count);
            } else {
                multiply(x, self.part(&self.forward, count), self.runs, w, start, out);
            }
        }
    }

    /// `out = start + Σ wᵀ * d` for the first `count` images, over the terms in turn; `w` has one matrix per class.
    pub fn transpose<F: Real>(
        &self,
        count: usize,
        terms: &[(&[F], &[Panels<F>])],
        start: Start<F>,
        out: &mut [F],
        work: &mut Workspace<F>,
    ) {
        if let Some(tiles) = &self.tiles {
            let to = Grid { stride: self.input_row, ..self.input_grid() };
            let tiles = self.part(&tiles.transposed, count);
            let terms: Vec<_> = terms.iter().map(|(d, w)| (*d, &w[0].values[..])).collect();
            return convolve_tiles(&terms, self.output_grid(), tiles, start, out, to, work);
        }
        for (term, (d, w)) in terms.iter().enumerate() {
            let start = if term == 0 { start } else { Start::Out };
            if self.is_plane() {
                let extent =
                    Extent { rows: self.input_rows, cols: self.input_row, ..self.extent() };
                let Placement { image, stride, .. } = self.output;
                let from = Plane { start: self.classes[0].pixels[0].from, image, stride };
                let w = &w[0].values;
                plane::convolve(d, from, extent, w, width::<F>(), start, out, count);
            } else {
                for (class, w) in self.classes.iter().zip(*w) {
                    multiply(d, self.part(&class.pixels, count), class.runs, w, start, out);
                }
            }
        }
    }

    /// Adds to `w` the weight gradient of the first `count` images, `Σ x d` over the terms in turn.
    pub fn outer<F: Real>(
        &self,
        count: usize,
        terms: &[(&[F], &[F])],
        w: &mut [F],
        work: &mut Workspace<F>,
    ) {
        if let Some(tiles) = &self.tiles {
            return self.outer_tiles(self.part(&tiles.outer, count), terms, w, work);
        }
        for (x, d) in terms {
            if self.is_plane() {
                let Placement { start, image, stride, .. } = self.output;
                let to = Plane { start, image, stride };
                let (extent, step) = (self.extent(), width::<F>());
                plane::outer(x, self.x_plane(), d, to, extent, w, step, count, &mut work.sums);
            } else {
                let pixels = self.part(&self.outer, count);
                kernel::outer(x, d, pixels, self.runs, self.output_channels, w);
            }
        }
    }

    fn outer_tiles<F: Real>(
        &self,
        tiles: &[Pixel],
        terms: &[(&[F], &[F])],
        w: &mut [F],
        work: &mut Workspace<F>,
    ) {
        let (from, to) = (self.input_grid(), self.output_grid());
        let channels = from.channels.max(to.channels);
        let room = tiles_together::<F>(channels);
        let (mut spaces, _) = work.split(Patches::<F>::len_of(channels, room), 2 * terms.len());
        let mut spaces: Vec<_> =
            terms.iter().map(|_| [(); 2].map(|()| spaces.next().expect("two each"))).collect();
        for tiles in tiles.chunks(room) {
            let parts: Vec<_> = terms
                .iter()
                .zip(&mut spaces)
                .map(|((x, d), [x_space, d_space])| Summed {
                    x: Patches::gather(Transform::Input, x, from, tiles, room, x_space),
                    d: Patches::gather(Transform::Output, d, to, tiles, room, d_space),
                })
                .collect();
            for (block, w) in w.chunks_exact_mut(self.block_len()).enumerate() {
                winograd::outer(&parts, block * OUTPUTS, w);
            }
        }
    }

    /// Numbers of the weight gradient of the transformed kernels of [`OUTPUTS`] outputs, which lie together.
    pub fn block_len(&self) -> usize {
        PATCH * OUTPUTS * self.input_channels
    }

    /// Whether there is one channel on each side, and each pixel counts.
    fn is_plane(&self) -> bool {
        self.input_channels == 1 && self.output_channels == 1 && self.classes.len() == 1
    }

    fn extent(&self) -> Extent {
        let Placement { rows, cols, .. } = self.output;
        Extent { rows, cols, kernel: [self.runs.count, self.runs.len] }
    }

    fn x_plane(&self) -> Plane {
        Plane { start: 0, image: self.input.image, stride: self.input.stride }
    }

    /// Padded inputs.
    pub fn input_grid(&self) -> Grid {
        Grid { stride: self.input.stride, channels: self.input_channels }
    }

    /// Padded gradients of outputs.
    pub fn output_grid(&self) -> Grid {
        Grid { stride: self.output.stride, channels: self.output_channels }
    }
}

/// Convolution of all tiles with transformed kernels.
fn convolve_tiles<F: Real>(
    terms: &[(&[F], &[F])],
    from: Grid,
    tiles: &[Pixel],
    start: Start<F>,
    out: &mut [F],
    to: Grid,
    work: &mut Workspace<F>,
) {
    let room = tiles_together::<F>(from.channels);
    let (spaces, sums) = work.split(Patches::<F>::len_of(from.channels, room), terms.len());
    let mut spaces: Vec<_> = spaces.collect();
    for tiles in tiles.chunks(room) {
        let terms: Vec<_> = terms
            .iter()
            .zip(&mut spaces)
            .map(|((x, w), space)| {
                (Patches::gather(Transform::Input, x, from, tiles, room, space), *w)
            })
            .collect();
        winograd::multiply(&terms, tiles, start, out, to, sums);
    }
}

/// Transformed kernels from all inputs to some outputs: whole panels.
pub(super) fn pack_tiles<F: Real>(
    conv: &Conv,
    geometry: &Geometry,
    theta: &[F],
    outputs: Range<usize>,
    values: &mut [F],
) {
    let inputs = geometry.input_channels;
    let weight = &theta[conv.weight.clone()][9 * inputs * outputs.start..];
    winograd::pack(weight, inputs, [9 * inputs, 9], false, values);
}

/// The same for the transposed convolution, from all outputs to some inputs.
pub(super) fn pack_tiles_transposed<F: Real>(
    conv: &Conv,
    geometry: &Geometry,
    theta: &[F],
    inputs: Range<usize>,
    values: &mut [F],
) {
    let weight = &theta[conv.weight.clone()][9 * inputs.start..];
    winograd::pack(
        weight,
        geometry.output_channels,
        [9, 9 * geometry.input_channels],
        true,
        values,
    );
}

/// Weights for the forward loops.
pub(super) fn pack<F: Real>(conv: &Conv, geometry: &Geometry, theta: &[F], panels: &mut Panels<F>) {
    let weight = &theta[conv.weight.clone()];
    let fan_in = geometry.runs.rows();
    let cols = geometry.output_channels;
    if geometry.tiles.is_some() {
        panels.fill(geometry.rows(), cols, |outputs, values| {
            pack_tiles(conv, geometry, theta, outputs, values);
        });
        return;
    }
    panels.fill(fan_in, cols, |outputs, values| {
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
    let (inputs, outputs) = (geometry.input_channels, geometry.output_channels);
    panels.resize(geometry.classes.len().max(panels.len()), Panels::default());
    if geometry.tiles.is_some() {
        panels[0].fill(PATCH * outputs, inputs, |inputs, values| {
            pack_tiles_transposed(conv, geometry, theta, inputs, values);
        });
        return;
    }
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
pub(super) fn unpack_sum<F: Real>(
    conv: &Conv,
    geometry: &Geometry,
    partials: &mut [F],
    out: &mut [F],
) {
    let (rows, fan_in) = (geometry.rows(), geometry.runs.rows());
    let out = &mut out[conv.weight.clone()];
    let len = Panels::<F>::len_of(rows, geometry.output_channels);
    let (sum, others) = partials.split_at_mut(len);
    let width = width::<F>();
    let outputs = if geometry.tiles.is_some() { OUTPUTS } else { width };
    let part_len = rows * outputs;
    parallel::zipped([(sum, part_len), (out, fan_in * outputs)], |part, [sum, out]| {
        for other in others.chunks_exact(len) {
            let other = &other[part * part_len..];
            sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += *value);
        }
        if geometry.tiles.is_some() {
            return unpack_tiles(geometry, sum, out);
        }
        for (row, sums) in sum.chunks_exact(width).enumerate() {
            let at = index(conv, fan_in, row);
            for (out, sum) in out.chunks_exact_mut(fan_in).zip(sums) {
                out[at] = *sum;
            }
        }
    });
}

/// From the weight gradient of the transformed kernels of [`OUTPUTS`] outputs to that of the kernels.
pub(super) fn unpack_tiles<F: Real>(geometry: &Geometry, sums: &[F], out: &mut [F]) {
    let inputs = geometry.input_channels;
    for (output, out) in out.chunks_exact_mut(9 * inputs).enumerate() {
        let sums =
            std::array::from_fn(|number| &sums[(number * OUTPUTS + output) * inputs..][..inputs]);
        winograd::unpack(sums, out);
    }
}

/// Place, within an output's weights, of a row (kernel row, kernel column, input).
fn index(conv: &Conv, fan_in: usize, row: usize) -> usize {
    let [rows, cols] = conv.kernel;
    let inputs = fan_in / (rows * cols);
    let (tap, input) = (row / inputs, row % inputs);
    input * rows * cols + tap
}
