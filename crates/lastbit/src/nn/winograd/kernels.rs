//! Transformed kernels, and their weight gradients transformed back.
//!
//! Kernels lie in PyTorch's layout, nine taps after one another; registers hold one tap of several kernels. Numbers are
//! moved one by one between the two. Loading a register right after scalar stores stalls, so several rows are
//! moved before the first is transformed.

use pulp::{Simd, WithSimd};

use super::{CHANNELS, PATCH};
use crate::Real;
use crate::simd::{Lanes, with_simd};

/// Numbers of a kernel.
const TAPS: usize = 9;
/// Rows of kernels that are moved together by [`pack`].
const MOVED: usize = 8;
/// Kernels that are moved together by [`unpack`].
const KERNELS: usize = 64;

/// `G g Gᵀ` for the kernels of `rows` rows, in panels of one register's width: panel after panel, number `n` of
/// the patch and row `r` at `(n · rows + r) · width`. `steps` lead from a kernel to the next of its row, and from a row
/// to the next. `flipped` kernels are read from their end.
pub(in crate::nn) fn pack<F: Real>(
    weight: &[F],
    rows: usize,
    steps: [usize; 2],
    flipped: bool,
    values: &mut [F],
) {
    with_simd(Pack { weight, rows, steps, flipped, values });
}

struct Pack<'a, F> {
    weight: &'a [F],
    rows: usize,
    steps: [usize; 2],
    flipped: bool,
    values: &'a mut [F],
}

impl<F: Real> WithSimd for Pack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weight, rows, steps: [from_lane, from_row], flipped, values } = self;
        let width = F::lanes::<S>();
        let registers = width / f64::lanes::<S>();
        let mut moved = [F::default(); MOVED * TAPS * CHANNELS];
        let mut taps = [0.0; MOVED * TAPS * CHANNELS];
        let mut patch = [0.0; PATCH * CHANNELS];
        for (panel, values) in values.chunks_exact_mut(PATCH * rows * width).enumerate() {
            for first in (0..rows).step_by(MOVED) {
                let count = MOVED.min(rows - first);
                for lane in 0..width {
                    for row in 0..count {
                        let at = (panel * width + lane) * from_lane + (first + row) * from_row;
                        let kernel: &[F; TAPS] = weight[at..].first_chunk().expect("a kernel");
                        let moved = &mut moved[row * TAPS * width..][..TAPS * width];
                        for (tap, number) in kernel.iter().enumerate() {
                            let tap = if flipped { TAPS - 1 - tap } else { tap };
                            moved[tap * width + lane] = *number;
                        }
                    }
                }
                in_double(&moved[..count * TAPS * width], &mut taps);
                for row in 0..count {
                    let taps = f64::vectors::<S>(&taps[row * TAPS * width..][..TAPS * width]);
                    let out = f64::vectors_mut::<S>(&mut patch[..PATCH * width]);
                    for register in 0..registers {
                        let mut g = [taps[0]; TAPS];
                        for (tap, g) in g.iter_mut().enumerate() {
                            *g = taps[tap * registers + register];
                        }
                        for (number, value) in transform(simd, g).into_iter().enumerate() {
                            out[number * registers + register] = value;
                        }
                    }
                    for (number, patch) in patch.chunks_exact(width).enumerate().take(PATCH) {
                        rounded(
                            patch,
                            &mut values[(number * rows + first + row) * width..][..width],
                        );
                    }
                }
            }
        }
    }
}

/// `Gᵀ m G` of the weight gradients of the transformed kernels of one output, into PyTorch's layout: `sums[number]` has one
/// number for each input channel.
pub(in crate::nn) fn unpack<F: Real>(sums: [&[F]; PATCH], out: &mut [F]) {
    with_simd(Unpack { sums, out });
}

struct Unpack<'a, F> {
    sums: [&'a [F]; PATCH],
    out: &'a mut [F],
}

impl<F: Real> WithSimd for Unpack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sums, out } = self;
        let lanes = f64::lanes::<S>();
        let mut patches = [0.0; PATCH * KERNELS];
        let mut taps = [0.0; TAPS * KERNELS];
        let mut moved = [F::default(); TAPS * KERNELS];
        for (block, out) in out.chunks_mut(TAPS * KERNELS).enumerate() {
            let count = out.len() / TAPS;
            for (number, sums) in sums.iter().enumerate() {
                in_double(&sums[block * KERNELS..][..count], &mut patches[number * KERNELS..]);
            }
            let m = f64::vectors::<S>(&patches);
            let lines = f64::vectors_mut::<S>(&mut taps);
            for register in 0..count / lanes {
                let mut numbers = [m[0]; PATCH];
                for (number, value) in numbers.iter_mut().enumerate() {
                    *value = m[number * (KERNELS / lanes) + register];
                }
                for (tap, value) in transform_back(simd, numbers).into_iter().enumerate() {
                    lines[tap * (KERNELS / lanes) + register] = value;
                }
            }
            rounded(&taps, &mut moved);
            for (kernel, out) in out.as_chunks_mut::<TAPS>().0.iter_mut().enumerate() {
                for (tap, out) in out.iter_mut().enumerate() {
                    *out = moved[tap * KERNELS + kernel];
                }
            }
        }
    }
}

/// `G g Gᵀ` of a register of kernels, number `4 row + column`.
#[inline(always)]
fn transform<S: Simd>(simd: S, g: [S::f64s; TAPS]) -> [S::f64s; PATCH] {
    let mut columns = [[g[0]; 4]; 3];
    for (c, column) in columns.iter_mut().enumerate() {
        *column = spread(simd, [g[c], g[3 + c], g[6 + c]]);
    }
    let mut flat = [g[0]; PATCH];
    for r in 0..4 {
        let row = spread(simd, [columns[0][r], columns[1][r], columns[2][r]]);
        flat[4 * r..4 * r + 4].copy_from_slice(&row);
    }
    flat
}

/// `Gᵀ m G`: the transpose of [`transform`].
#[inline(always)]
fn transform_back<S: Simd>(simd: S, m: [S::f64s; PATCH]) -> [S::f64s; TAPS] {
    let mut columns = [[m[0]; 3]; 4];
    for (c, column) in columns.iter_mut().enumerate() {
        *column = collect(simd, [m[c], m[4 + c], m[8 + c], m[12 + c]]);
    }
    let mut flat = [m[0]; TAPS];
    for r in 0..3 {
        let row = collect(simd, [columns[0][r], columns[1][r], columns[2][r], columns[3][r]]);
        flat[3 * r..3 * r + 3].copy_from_slice(&row);
    }
    flat
}

/// `G` of three registers.
#[inline(always)]
fn spread<S: Simd>(simd: S, g: [S::f64s; 3]) -> [S::f64s; 4] {
    let sum = f64::plus(simd, f64::plus(simd, g[0], g[1]), g[2]);
    let difference = f64::plus(simd, f64::minus(simd, g[0], g[1]), g[2]);
    [g[0], half(simd, sum), half(simd, difference), g[2]]
}

/// `Gᵀ` of four registers.
#[inline(always)]
fn collect<S: Simd>(simd: S, m: [S::f64s; 4]) -> [S::f64s; 3] {
    let sum = half(simd, f64::plus(simd, m[1], m[2]));
    let difference = half(simd, f64::minus(simd, m[1], m[2]));
    [f64::plus(simd, m[0], sum), difference, f64::plus(simd, sum, m[3])]
}

/// Adding −0 changes no product, not even a zero.
#[inline(always)]
fn half<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    f64::fused(simd, x, f64::splat(simd, 0.5), f64::splat(simd, -0.0))
}

#[inline(always)]
fn in_double<F: Real>(values: &[F], out: &mut [f64]) {
    out.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_f64());
}

#[inline(always)]
fn rounded<F: Real>(values: &[f64], out: &mut [F]) {
    out.iter_mut().zip(values).for_each(|(out, value)| *out = F::of(*value));
}
