//! A convolution over a group of images: its weights in the order of its loops, and the loops.
//!
//! PyTorch keeps `weight[out][in][row][column]`. The loops want a matrix whose rows are
//! (row, column, in) and whose columns are the outputs; the transposed ones, for each residue class,
//! rows (flipped row, flipped column, out) and columns `in`. Where patches are used, the rows are
//! (number in the transformed kernel, in or out).

use super::geometry::{Class, Geometry, Placement};
use super::kernel::{self, Panels, Start, multiply};
use super::network::Conv;
use super::parallel;
use super::plane::{self, Extent, Plane};
use super::winograd::{self, Grid, PATCH, Patches};
use crate::Real;
use crate::simd::width;

impl Geometry {
    /// Rows of the matrix of weights.
    pub fn rows(&self) -> usize {
        match self.tiles {
            Some(_) => PATCH * self.input_grid().channels,
            None => self.runs.rows(),
        }
    }

    /// `out = w * x` for the first `count` images.
    pub fn convolve<F: Real>(
        &self,
        count: usize,
        x: &[F],
        w: &Panels<F>,
        start: Start<F>,
        out: &mut [F],
        patches: &mut Patches<F>,
    ) {
        match &self.tiles {
            None if self.is_plane() => {
                let (from, extent, w) = (self.x_plane(), self.extent(), &w.values);
                plane::convolve(x, from, extent, w, width::<F>(), start, out, count);
            }
            None => multiply(x, self.part(&self.forward, count), self.runs, w, start, out),
            Some(tiles) => {
                let to = Grid { stride: self.output_row, ..self.output_grid() };
                let tiles = self.part(&tiles.forward, count);
                winograd::convolve(x, self.input_grid(), tiles, w, start, out, to, patches);
            }
        }
    }

    /// `out = wᵀ * d` for the first `count` images; `w` has one matrix per class.
    pub fn transpose<F: Real>(
        &self,
        count: usize,
        d: &[F],
        w: &[Panels<F>],
        start: Start<F>,
        out: &mut [F],
        patches: &mut Patches<F>,
    ) {
        match &self.tiles {
            None if self.is_plane() => {
                let extent =
                    Extent { rows: self.input_rows, cols: self.input_row, ..self.extent() };
                let Placement { image, stride, .. } = self.output;
                let from = Plane { start: self.classes[0].pixels[0].from, image, stride };
                let w = &w[0].values;
                plane::convolve(d, from, extent, w, width::<F>(), start, out, count);
            }
            None => {
                for (class, w) in self.classes.iter().zip(w) {
                    multiply(d, self.part(&class.pixels, count), class.runs, w, start, out);
                }
            }
            Some(tiles) => {
                let to = Grid { stride: self.input_row, ..self.input_grid() };
                let tiles = self.part(&tiles.transposed, count);
                winograd::convolve(d, self.output_grid(), tiles, &w[0], start, out, to, patches);
            }
        }
    }

    /// Adds the gradient by the weights of the first `count` images.
    pub fn outer<F: Real>(
        &self,
        count: usize,
        x: &[F],
        d: &[F],
        w: &mut [F],
        patches: &mut Patches<F>,
    ) {
        match &self.tiles {
            None if self.is_plane() => {
                let Placement { start, image, stride, .. } = self.output;
                let to = Plane { start, image, stride };
                let (extent, step) = (self.extent(), width::<F>());
                plane::outer(x, self.x_plane(), d, to, extent, w, step, count, &mut patches.x);
            }
            None => self.outer_panels(count, x, d, 0, w),
            Some(tiles) => {
                let tiles = self.part(&tiles.outer, count);
                winograd::outer(x, self.input_grid(), d, self.output_grid(), tiles, w, patches);
            }
        }
    }

    /// Whether each image has one output pixel, as in a fully connected layer.
    pub fn is_single(&self) -> bool {
        self.outer.len() == self.group
    }

    /// The same for the panels from `first` on, pixel by pixel.
    pub fn outer_panels<F: Real>(&self, count: usize, x: &[F], d: &[F], first: usize, w: &mut [F]) {
        let pixels = self.part(&self.outer, count);
        kernel::outer(x, d, pixels, self.runs, self.output_channels, first, w);
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
    fn input_grid(&self) -> Grid {
        Grid { stride: self.input.stride, channels: self.input_channels }
    }

    /// Padded gradients of outputs.
    fn output_grid(&self) -> Grid {
        Grid { stride: self.output.stride, channels: self.output_channels }
    }
}

/// Weights for the forward loops.
pub(super) fn pack<F: Real>(conv: &Conv, geometry: &Geometry, theta: &[F], panels: &mut Panels<F>) {
    let weight = &theta[conv.weight.clone()];
    let fan_in = geometry.runs.rows();
    let cols = geometry.output_channels;
    if geometry.tiles.is_some() {
        let inputs = geometry.input_channels;
        pack_patches(inputs, cols, panels, |input, output| {
            let at = output * fan_in + 9 * input;
            std::array::from_fn(|tap| weight[at + tap].to_f64())
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
        pack_patches(outputs, inputs, &mut panels[0], |output, input| {
            let at = output * fan_in + 9 * input;
            std::array::from_fn(|tap| weight[at + 8 - tap].to_f64())
        });
        return;
    }
    for (class, panels) in geometry.classes.iter().zip(panels) {
        let Class { first, taps, runs, .. } = class;
        panels.fill(runs.rows(), inputs, |inputs, values| {
            for (row, values) in values.chunks_exact_mut(width::<F>()).enumerate() {
                let (tap, output) = (row / outputs, row % outputs);
                if fan_in == geometry.input_channels {
                    for (value, input) in values.iter_mut().zip(inputs.clone()) {
                        *value = weight[output * fan_in + index(conv, fan_in, input)];
                    }
                    continue;
                }
                let ky = first[0] + conv.stride * (taps[0] - 1 - tap / taps[1]);
                let kx = first[1] + conv.stride * (taps[1] - 1 - tap % taps[1]);
                for (value, input) in values.iter_mut().zip(inputs.clone()) {
                    *value = weight[output * fan_in + (input * rows + ky) * cols + kx];
                }
            }
        });
    }
}

/// Transformed kernels from channel `row` to channel `col`.
fn pack_patches<F: Real>(
    rows: usize,
    cols: usize,
    panels: &mut Panels<F>,
    kernel: impl Fn(usize, usize) -> [f64; 9] + Sync,
) {
    panels.fill(PATCH * rows, cols, |columns, values| {
        let width = width::<F>();
        for row in 0..rows {
            for (lane, column) in columns.clone().enumerate() {
                let transformed = winograd::transform_kernel(kernel(row, column));
                for (number, value) in transformed.into_iter().enumerate() {
                    values[(number * rows + row) * width + lane] = F::of(value);
                }
            }
        }
    });
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
    let panel_len = rows * width;
    let parts = [(sum, panel_len), (out, fan_in * width)];
    parallel::zipped(parts, |panel, [sum, out]| {
        for other in others.chunks_exact(len) {
            let other = &other[panel * panel_len..];
            sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += *value);
        }
        if geometry.tiles.is_some() {
            let inputs = geometry.input_channels;
            for (lane, out) in out.chunks_exact_mut(fan_in).enumerate() {
                for (input, out) in out.chunks_exact_mut(9).enumerate() {
                    let patch = std::array::from_fn(|number| {
                        sum[(number * inputs + input) * width + lane].to_f64()
                    });
                    let kernel = winograd::transform_kernel_back(patch);
                    out.iter_mut().zip(kernel).for_each(|(out, value)| *out = F::of(value));
                }
            }
            return;
        }
        for (row, sums) in sum.chunks_exact(width).enumerate() {
            let at = index(conv, fan_in, row);
            for (out, sum) in out.chunks_exact_mut(fan_in).zip(sums) {
                out[at] = *sum;
            }
        }
    });
}

/// Place, within an output's weights, of a row (kernel row, kernel column, input).
fn index(conv: &Conv, fan_in: usize, row: usize) -> usize {
    let [rows, cols] = conv.kernel;
    let inputs = fan_in / (rows * cols);
    let (tap, input) = (row / inputs, row % inputs);
    input * rows * cols + tap
}
