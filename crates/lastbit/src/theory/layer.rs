//! One convolution of a stack: which weight, position and pixel meet, and the three sums over them.
//!
//! ```text
//! map       (K * I)_o(x) = Σ_c Σ_z K_oc(z) I_c(x + z − b)
//! patches   (R * I)_oc(z) = Σ_x R_o(x) I_c(x + z − b)          ⟨K * I, R⟩ = ⟨K, R * I⟩
//! pixels    (K ⋆ R)_c(y) = Σ_o Σ_z K_oc(z) R_o(y − z + b)      ⟨K * I, R⟩ = ⟨I, K ⋆ R⟩
//! ```
//!
//! `b` is 0 without padding; with padding that keeps the size it is half the kernel, and pixels
//! outside the image are zero. Maps and images are planes, channel by channel; kernels are in the
//! order output, input, row, column.

use std::ops::Range;

use crate::nn::Padding;
use crate::reduce::sum_by;

/// Shapes of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Channels, rows and columns of what it reads.
    pub from: [usize; 3],
    /// Channels, rows and columns of what it writes.
    pub to: [usize; 3],
    /// Rows and columns of its kernels.
    pub kernel: [usize; 2],
    /// Zeros above and to the left.
    before: [usize; 2],
}

impl Layer {
    /// A convolution of stride 1 that reads `from` (channels, rows, columns).
    ///
    /// # Panics
    ///
    /// If the kernel does not fit.
    pub fn new(from: [usize; 3], channels: usize, kernel: [usize; 2], padding: Padding) -> Self {
        let [_, height, width] = from;
        let (to, before) = match padding {
            Padding::Same => ([channels, height, width], kernel.map(|k| (k - 1) / 2)),
            Padding::Valid => {
                assert!(
                    (1..=height).contains(&kernel[0]) && (1..=width).contains(&kernel[1]),
                    "a kernel of {kernel:?} on {height} x {width} pixels"
                );
                ([channels, height - kernel[0] + 1, width - kernel[1] + 1], [0, 0])
            }
        };
        Self { from, to, kernel, before }
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.to[0] * self.from[0] * self.kernel[0] * self.kernel[1]
    }

    /// Numbers it reads.
    pub fn inputs(&self) -> usize {
        self.from.iter().product()
    }

    /// Numbers it writes.
    pub fn outputs(&self) -> usize {
        self.to.iter().product()
    }

    /// `K * I`.
    pub fn map(&self, kernel: &[f64], input: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.outputs()];
        self.for_each_row(|k, positions, pixels| {
            let pairs = out[positions].iter_mut().zip(&input[pixels]);
            pairs.for_each(|(o, pixel)| *o += kernel[k] * pixel);
        });
        out
    }

    /// `R * I`: a number for each weight.
    pub fn patches(&self, map: &[f64], input: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.weights()];
        self.for_each_row(|k, positions, pixels| {
            let (row, pixels) = (&map[positions], &input[pixels]);
            out[k] += sum_by(row.len(), |x| row[x] * pixels[x]);
        });
        out
    }

    /// `K ⋆ R`: a number for each pixel.
    pub fn pixels(&self, kernel: &[f64], map: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.inputs()];
        self.for_each_row(|k, positions, pixels| {
            let pairs = out[pixels].iter_mut().zip(&map[positions]);
            pairs.for_each(|(o, r)| *o += kernel[k] * r);
        });
        out
    }

    /// Calls `meet` with a weight, a row of positions and the row of pixels it meets there.
    fn for_each_row(&self, mut meet: impl FnMut(usize, Range<usize>, Range<usize>)) {
        let [inputs, rows, columns] = self.from;
        let [_, out_rows, out_columns] = self.to;
        for k in 0..self.weights() {
            let (z_row, z_column) = (k / self.kernel[1] % self.kernel[0], k % self.kernel[1]);
            let plane = k / (self.kernel[0] * self.kernel[1]);
            let (o, c) = (plane / inputs, plane % inputs);
            let across = inside(z_column, self.before[1], columns, out_columns);
            for x in inside(z_row, self.before[0], rows, out_rows) {
                let y = x + z_row - self.before[0];
                let to = (o * out_rows + x) * out_columns;
                let from = (c * rows + y) * columns + across.start + z_column - self.before[1];
                meet(k, to + across.start..to + across.end, from..from + across.len());
            }
        }
    }
}

/// The positions `x < positions` with `0 ≤ x + z − before < pixels`.
fn inside(z: usize, before: usize, pixels: usize, positions: usize) -> Range<usize> {
    let first = before.saturating_sub(z);
    first..positions.min((pixels + before).saturating_sub(z)).max(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn noise(seed: u64, len: usize) -> Vec<f64> {
        let stream = Stream::new(seed, 7);
        (0..len as u64).map(|i| stream.normal(i)).collect()
    }

    #[test]
    fn all_three_are_their_definitions() {
        for padding in [Padding::Valid, Padding::Same] {
            for (from, channels, kernel) in
                [([1, 5, 7], 1, [3, 3]), ([2, 4, 6], 3, [2, 3]), ([1, 3, 3], 2, [3, 1])]
            {
                let layer = Layer::new(from, channels, kernel, padding);
                let before = |k: usize| if padding == Padding::Same { (k - 1) / 2 } else { 0 };
                let (k, i) = (noise(1, layer.weights()), noise(2, layer.inputs()));
                let r = noise(3, layer.outputs());
                let (mut map, mut patches) = (vec![0.0; r.len()], vec![0.0; k.len()]);
                let mut pixels = vec![0.0; i.len()];
                let [_, rows, columns] = layer.to;
                for weight in 0..k.len() {
                    let (zr, zc) = (weight / kernel[1] % kernel[0], weight % kernel[1]);
                    let plane = weight / (kernel[0] * kernel[1]);
                    for x in 0..rows * columns {
                        let y = (x / columns + zr).checked_sub(before(kernel[0]));
                        let z = (x % columns + zc).checked_sub(before(kernel[1]));
                        let (Some(y), Some(z)) = (y, z) else { continue };
                        if y >= from[1] || z >= from[2] {
                            continue;
                        }
                        let pixel = (plane % from[0] * from[1] + y) * from[2] + z;
                        let position = plane / from[0] * rows * columns + x;
                        map[position] += k[weight] * i[pixel];
                        patches[weight] += r[position] * i[pixel];
                        pixels[pixel] += k[weight] * r[position];
                    }
                }
                // Sums of at most 72 products of normal numbers, in another order.
                let close =
                    |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-13);
                assert!(close(&layer.map(&k, &i), &map), "{layer:?}");
                assert!(close(&layer.patches(&r, &i), &patches), "{layer:?}");
                assert!(close(&layer.pixels(&k, &r), &pixels), "{layer:?}");
            }
        }
    }
}
