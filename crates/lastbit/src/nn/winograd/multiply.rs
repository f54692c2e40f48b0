//! Patches times transformed kernels, and back into pixels.

use pulp::{Simd, WithSimd};

use super::patches::Patches;
use super::{Grid, PATCH};
use crate::Real;
use crate::nn::kernel::{Pixel, Start};
use crate::nn::products::{STRIP, strip_times_panels};
use crate::simd::with_simd;

/// Patches, and panels of the transformed kernels that they are multiplied with.
pub(in crate::nn) type Term<'a, F> = (Patches<'a, F>, &'a [F]);

/// The convolution `start + Σ patches · kernels` of the tiles that the patches were read from, written from
/// `Pixel::to` on: to as many channels as the kernels have.
///
/// `sums` is work space.
pub(in crate::nn) fn multiply<F: Real>(
    terms: &[Term<F>],
    tiles: &[Pixel],
    start: Start<F>,
    out: &mut [F],
    to: Grid,
    sums: &mut Vec<F>,
) {
    for (patches, kernels) in terms {
        assert_eq!(patches.shape, terms[0].0.shape, "shape of all terms");
        assert_eq!(patches.shape.rows, tiles.len(), "tiles");
        assert_eq!(kernels.len(), terms[0].1.len(), "kernels of all terms");
        assert!(kernels.len().is_multiple_of(PATCH * patches.shape.cols), "whole panels");
    }
    with_simd(Multiply { terms, tiles, start, out, to, sums });
}

pub(super) struct Multiply<'a, F> {
    pub terms: &'a [Term<'a, F>],
    pub tiles: &'a [Pixel],
    pub start: Start<'a, F>,
    pub out: &'a mut [F],
    pub to: Grid,
    pub sums: &'a mut Vec<F>,
}

impl<F: Real> WithSimd for Multiply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = F::lanes::<S>();
        let panels = self.terms[0].1.len() / (PATCH * self.terms[0].0.shape.cols * lanes);
        let mut panel = 0;
        while panel < panels {
            if lanes * size_of::<F>() == 64 && panel + 2 <= panels {
                self.panels::<S, 2>(simd, panel);
                panel += 2;
            } else {
                self.panels::<S, 1>(simd, panel);
                panel += 1;
            }
        }
    }
}

impl<F: Real> Multiply<'_, F> {
    /// All tiles times `P` panels.
    #[inline(always)]
    fn panels<S: Simd, const P: usize>(&mut self, simd: S, panel: usize) {
        let lanes = F::lanes::<S>();
        let shape = self.terms[0].0.shape;
        let strips = shape.rows.div_ceil(STRIP);
        let len = strips * STRIP * P * PATCH * lanes;
        if self.sums.len() < len {
            self.sums.resize(len, F::default());
        }
        let sums = F::vectors_mut::<S>(&mut self.sums[..len]);
        let sums = sums.as_chunks_mut::<PATCH>().0.as_chunks_mut::<P>().0;
        for number in 0..PATCH {
            for (strip, sums) in sums.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
                let mut chain = [[F::splat(simd, F::default()); P]; STRIP];
                for (patches, kernels) in self.terms {
                    let kernels = F::vectors::<S>(kernels);
                    let panels: [&[F::Vector<S>]; P] = std::array::from_fn(
                        #[inline(always)]
                        |p| &kernels[((panel + p) * PATCH + number) * shape.cols..][..shape.cols],
                    );
                    let a = patches.number(number);
                    chain = strip_times_panels(simd, a, shape, strip * STRIP, panels, chain);
                }
                for (sums, chain) in sums.iter_mut().zip(chain) {
                    for (sums, chain) in sums.iter_mut().zip(chain) {
                        sums[number] = chain;
                    }
                }
            }
        }
        for p in 0..P {
            let column = (panel + p) * lanes;
            let zero = F::splat(simd, F::default());
            match self.start {
                Start::Zero => self.write::<S, P, false>(simd, p, column, zero),
                Start::Out => self.write::<S, P, true>(simd, p, column, zero),
                Start::Bias(bias) => {
                    let bias = F::vectors::<S>(&bias[column..column + lanes])[0];
                    self.write::<S, P, false>(simd, p, column, bias);
                }
            }
        }
    }

    /// Four outputs of each tile, for one register of channels: plus what is there already, or plus `bias`.
    #[inline(always)]
    fn write<S: Simd, const P: usize, const ADD: bool>(
        &mut self,
        simd: S,
        p: usize,
        column: usize,
        bias: F::Vector<S>,
    ) {
        let lanes = F::lanes::<S>();
        let Grid { stride, channels } = self.to;
        let sums = F::vectors::<S>(self.sums).as_chunks::<PATCH>().0.as_chunks::<P>().0;
        for (sums, tile) in sums.iter().zip(self.tiles) {
            let outputs = inverse::<S, F>(simd, &sums[p]);
            for (pixel, value) in outputs.into_iter().enumerate() {
                let at = tile.to + pixel / 2 * stride + pixel % 2 * channels + column;
                let out = &mut F::vectors_mut::<S>(&mut self.out[at..at + lanes])[0];
                *out = F::plus(simd, if ADD { *out } else { bias }, value);
            }
        }
    }
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
