//! 3×3 convolutions of stride one with 16 instead of 36 multiplications per 2×2 outputs.
//!
//! A 4×4 patch `d` of the input and a kernel `g` give a 2×2 patch of outputs
//!
//! ```text
//! Y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A
//!
//!      1  0 −1  0          1   0   0
//! Bᵀ = 0  1  1  0     G =  ½   ½   ½      Aᵀ = 1  1  1  0
//!      0 −1  1  0          ½  −½   ½           0  1 −1 −1
//!      0  1  0 −1          0   0   1
//! ```
//!
//! so that a convolution becomes sixteen matrix products over channels. The gradient by the kernel
//! is `Gᵀ [ Σ (Bᵀ d B) ⊙ (A dY Aᵀ) ] G`; the gradient by the input is a convolution again.
//!
//! All transforms but `G`'s only add and subtract: rows first, then columns. `G g Gᵀ` is computed in
//! double precision and rounded once. Each of the sixteen sums over channels is one chain of fused
//! multiply-adds. The error is that of the direct sum times a small constant (the transforms' norms).
//!
//! Reference: Lavin and Gray, *Fast algorithms for convolutional neural networks*, CVPR 2016.

#[cfg(test)]
mod naive;

use pulp::{Simd, WithSimd};

use super::kernel::{Panels, Pixel, Runs, STRIP, Start, block_sums, strip_sums};
use crate::Real;
use crate::simd::{width, with_simd};

/// Numbers of a transformed patch.
pub(super) const PATCH: usize = 16;
/// Channels come in multiples of this, which every register's width divides.
pub(super) const CHANNELS: usize = 16;
/// Patches of which the gradient by the kernel is summed before the next number of the patch: the
/// sums are larger than the patches.
const BAND: usize = 32;

/// From one transformed patch to the next: a cache line more than it needs, since powers of two
/// would all fall on the same few lines of the cache.
const fn apart(channels: usize) -> usize {
    PATCH * channels + CHANNELS
}

/// Images of which patches are taken: from a pixel to the one below, and channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub stride: usize,
    pub channels: usize,
}

/// Work space: transformed patches, or whatever else a convolution needs.
#[derive(Debug, Default, Clone)]
pub(super) struct Patches<F> {
    pub x: Vec<F>,
    y: Vec<F>,
}

impl<F: Real> Patches<F> {
    fn prepare(&mut self, x: usize, y: usize) {
        for (values, len) in [(&mut self.x, x), (&mut self.y, y)] {
            if values.len() < len {
                values.resize(len, F::default());
            }
        }
    }
}

/// `G g Gᵀ` of a kernel, number `4 row + column`.
pub(super) fn transform_kernel(g: [f64; 9]) -> [f64; PATCH] {
    let rows = |g: [f64; 3]| [g[0], (g[0] + g[1] + g[2]) / 2.0, (g[0] - g[1] + g[2]) / 2.0, g[2]];
    let columns: [[f64; 4]; 3] = [0, 1, 2].map(|c| rows([g[c], g[3 + c], g[6 + c]]));
    let mut out = [0.0; PATCH];
    for r in 0..4 {
        out[4 * r..4 * r + 4].copy_from_slice(&rows([columns[0][r], columns[1][r], columns[2][r]]));
    }
    out
}

/// `Gᵀ m G`: the transpose of [`transform_kernel`].
pub(super) fn transform_kernel_back(m: [f64; PATCH]) -> [f64; 9] {
    let rows = |m: [f64; 4]| {
        let (sum, difference) = ((m[1] + m[2]) / 2.0, (m[1] - m[2]) / 2.0);
        [m[0] + sum, difference, sum + m[3]]
    };
    let columns: [[f64; 3]; 4] = [0, 1, 2, 3].map(|c| rows([m[c], m[4 + c], m[8 + c], m[12 + c]]));
    let mut out = [0.0; 9];
    for r in 0..3 {
        let row = rows([columns[0][r], columns[1][r], columns[2][r], columns[3][r]]);
        out[3 * r..3 * r + 3].copy_from_slice(&row);
    }
    out
}

/// Convolution of all patches; the rows of `w` are (number of the patch, input channel).
#[expect(clippy::too_many_arguments, reason = "two images, weights and what joins them")]
pub(super) fn convolve<F: Real>(
    x: &[F],
    from: Grid,
    tiles: &[Pixel],
    w: &Panels<F>,
    start: Start<F>,
    out: &mut [F],
    to: Grid,
    patches: &mut Patches<F>,
) {
    assert_eq!(w.rows, PATCH * from.channels, "rows of weights");
    patches.prepare(STRIP * apart(from.channels), STRIP * PATCH * width::<F>());
    with_simd(Convolve { x, from, tiles, w, start, out, to, patches });
}

struct Convolve<'a, F> {
    x: &'a [F],
    from: Grid,
    tiles: &'a [Pixel],
    w: &'a Panels<F>,
    start: Start<'a, F>,
    out: &'a mut [F],
    to: Grid,
    patches: &'a mut Patches<F>,
}

impl<F: Real> WithSimd for Convolve<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, from, tiles, w, start, out, to, patches } = self;
        let lanes = F::lanes::<S>();
        let channels = from.channels;
        let runs = Runs { count: 1, stride: 0, len: channels };
        let zero = F::splat(simd, F::default());
        let panels = F::vectors::<S>(&w.values);
        for tiles in tiles.chunks(STRIP) {
            let mut rows = [0; STRIP];
            for (t, row) in rows.iter_mut().enumerate() {
                *row = t.min(tiles.len() - 1) * apart(channels);
            }
            for (tile, patch) in tiles.iter().zip(patches.x.chunks_exact_mut(apart(channels))) {
                transform_input(simd, x, tile.from, from, patch);
            }
            for (panel, w) in panels.chunks_exact(w.rows).enumerate() {
                let (y, _) = F::vectors_mut::<S>(&mut patches.y).as_chunks_mut::<PATCH>();
                let y: &mut [_; STRIP] = y.first_chunk_mut().expect("room for a strip");
                for (number, w) in w.chunks_exact(channels).enumerate() {
                    let x = &patches.x[number * channels..];
                    let sums = strip_sums::<S, F>(simd, x, &rows, runs, w, [zero; STRIP]);
                    for (y, sum) in y.iter_mut().zip(sums) {
                        y[number] = sum;
                    }
                }
                let column = panel * lanes;
                match start {
                    Start::Zero => write::<S, F, false>(simd, y, tiles, to, column, zero, out),
                    Start::Out => write::<S, F, true>(simd, y, tiles, to, column, zero, out),
                    Start::Bias(bias) => {
                        let bias = register::<S, F>(bias, column);
                        write::<S, F, false>(simd, y, tiles, to, column, bias, out);
                    }
                }
            }
        }
    }
}

/// Four outputs of each patch, for one register of channels: plus what is there already, or plus
/// `bias`.
#[inline(always)]
fn write<S: Simd, F: Real, const ADD: bool>(
    simd: S,
    patches: &[[F::Vector<S>; PATCH]; STRIP],
    tiles: &[Pixel],
    to: Grid,
    column: usize,
    bias: F::Vector<S>,
    out: &mut [F],
) {
    let lanes = F::lanes::<S>();
    for (patch, tile) in patches.iter().zip(tiles) {
        let outputs = inverse::<S, F>(simd, patch);
        for (pixel, value) in outputs.into_iter().enumerate() {
            let at = tile.to + pixel / 2 * to.stride + pixel % 2 * to.channels + column;
            let out = &mut F::vectors_mut::<S>(&mut out[at..at + lanes])[0];
            *out = F::plus(simd, if ADD { *out } else { bias }, value);
        }
    }
}

/// `Bᵀ d B` of one patch, all channels.
#[inline(always)]
fn transform_input<S: Simd, F: Real>(simd: S, x: &[F], from: usize, grid: Grid, out: &mut [F]) {
    let registers = grid.channels / F::lanes::<S>();
    let mut rows: [&[F::Vector<S>]; 4] = [&[]; 4];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = F::vectors::<S>(&x[from + r * grid.stride..][..4 * grid.channels]);
    }
    let out = &mut F::vectors_mut::<S>(out)[..PATCH * registers];
    for channel in 0..registers {
        let mut columns = [[F::splat(simd, F::default()); 4]; 4];
        for (c, column) in columns.iter_mut().enumerate() {
            let at = c * registers + channel;
            let d = [rows[0][at], rows[1][at], rows[2][at], rows[3][at]];
            *column = differences::<S, F>(simd, d);
        }
        for row in 0..4 {
            let [a, b, c, d] = columns;
            let row_out = differences::<S, F>(simd, [a[row], b[row], c[row], d[row]]);
            for (column, value) in row_out.into_iter().enumerate() {
                out[(4 * row + column) * registers + channel] = value;
            }
        }
    }
}

/// The register at an offset.
#[inline(always)]
fn register<S: Simd, F: Real>(values: &[F], at: usize) -> F::Vector<S> {
    F::vectors::<S>(&values[at..at + F::lanes::<S>()])[0]
}

/// `Bᵀ` of four registers.
#[inline(always)]
fn differences<S: Simd, F: Real>(simd: S, d: [F::Vector<S>; 4]) -> [F::Vector<S>; 4] {
    [
        F::minus(simd, d[0], d[2]),
        F::plus(simd, d[1], d[2]),
        F::minus(simd, d[2], d[1]),
        F::minus(simd, d[1], d[3]),
    ]
}

/// `Aᵀ m A` of the sixteen numbers of a patch: four outputs.
#[inline(always)]
fn inverse<S: Simd, F: Real>(simd: S, m: &[F::Vector<S>; PATCH]) -> [F::Vector<S>; 4] {
    let mut columns = [[F::splat(simd, F::default()); 2]; 4];
    for (c, column) in columns.iter_mut().enumerate() {
        *column = sums::<S, F>(simd, [m[c], m[c + 4], m[c + 8], m[c + 12]]);
    }
    let [a, b, c, d] = columns;
    let top = sums::<S, F>(simd, [a[0], b[0], c[0], d[0]]);
    let bottom = sums::<S, F>(simd, [a[1], b[1], c[1], d[1]]);
    [top[0], top[1], bottom[0], bottom[1]]
}

/// `Aᵀ` of four registers.
#[inline(always)]
fn sums<S: Simd, F: Real>(simd: S, m: [F::Vector<S>; 4]) -> [F::Vector<S>; 2] {
    let first = F::plus(simd, F::plus(simd, m[0], m[1]), m[2]);
    let second = F::minus(simd, F::minus(simd, m[1], m[2]), m[3]);
    [first, second]
}

/// Adds to `w` (rows: number of the patch, input channel) the sum over patches in the transformed
/// domain; a tile leads from a patch of `x` to one of `d`.
pub(super) fn outer<F: Real>(
    x: &[F],
    from: Grid,
    d: &[F],
    to: Grid,
    tiles: &[Pixel],
    w: &mut [F],
    patches: &mut Patches<F>,
) {
    assert_eq!(w.len(), PATCH * from.channels * to.channels, "length of weights");
    patches.prepare(BAND * apart(from.channels), BAND * apart(to.channels));
    with_simd(Outer { x, from, d, to, tiles, w, patches });
}

struct Outer<'a, F> {
    x: &'a [F],
    from: Grid,
    d: &'a [F],
    to: Grid,
    tiles: &'a [Pixel],
    w: &'a mut [F],
    patches: &'a mut Patches<F>,
}

impl<F: Real> WithSimd for Outer<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, from, d, to, tiles, w, patches } = self;
        let lanes = F::lanes::<S>();
        let mut pixels = [Pixel { from: 0, to: 0 }; BAND];
        for (t, pixel) in pixels.iter_mut().enumerate() {
            *pixel = Pixel { from: t * apart(from.channels), to: t * apart(to.channels) };
        }
        for tiles in tiles.chunks(BAND) {
            let x_patches = patches.x.chunks_exact_mut(apart(from.channels));
            let d_patches = patches.y.chunks_exact_mut(apart(to.channels));
            for (tile, (x_patch, d_patch)) in tiles.iter().zip(x_patches.zip(d_patches)) {
                transform_input(simd, x, tile.from, from, x_patch);
                transform_output(simd, d, tile.to, to, d_patch);
            }
            let pixels = &pixels[..tiles.len()];
            let panels = F::vectors_mut::<S>(w).chunks_exact_mut(PATCH * from.channels);
            for (panel, w) in panels.enumerate() {
                let columns = panel * lanes..(panel + 1) * lanes;
                for (number, w) in w.chunks_exact_mut(from.channels).enumerate() {
                    let d = &patches.y[number * to.channels..];
                    for (block, w) in w.as_chunks_mut::<CHANNELS>().0.iter_mut().enumerate() {
                        let x = &patches.x[number * from.channels + block * CHANNELS..];
                        block_sums::<S, F, CHANNELS>(simd, x, d, pixels, &columns, w);
                    }
                }
            }
        }
    }
}

/// `A dY Aᵀ` of one 2×2 patch, all channels.
#[inline(always)]
fn transform_output<S: Simd, F: Real>(simd: S, d: &[F], from: usize, grid: Grid, out: &mut [F]) {
    let registers = grid.channels / F::lanes::<S>();
    let above = F::vectors::<S>(&d[from..][..2 * grid.channels]);
    let below = F::vectors::<S>(&d[from + grid.stride..][..2 * grid.channels]);
    let out = &mut F::vectors_mut::<S>(out)[..PATCH * registers];
    for channel in 0..registers {
        let left = spread::<S, F>(simd, above[channel], below[channel]);
        let next = registers + channel;
        let right = spread::<S, F>(simd, above[next], below[next]);
        for row in 0..4 {
            let row_out = spread::<S, F>(simd, left[row], right[row]);
            for (column, value) in row_out.into_iter().enumerate() {
                out[(4 * row + column) * registers + channel] = value;
            }
        }
    }
}

/// `A` of two registers.
#[inline(always)]
fn spread<S: Simd, F: Real>(simd: S, a: F::Vector<S>, b: F::Vector<S>) -> [F::Vector<S>; 4] {
    let zero = F::splat(simd, F::default());
    [a, F::plus(simd, a, b), F::minus(simd, a, b), F::minus(simd, zero, b)]
}
