//! Weight gradients of the transformed kernels: sums over tiles.

use pulp::{Simd, WithSimd};

use super::PATCH;
use super::patches::Patches;
use crate::Real;
use crate::nn::products::{BLOCK, Factors, HELD, add_outer};
use crate::simd::with_simd;

/// Inputs and gradients of outputs of the same tiles.
#[derive(Debug, Clone, Copy)]
pub(in crate::nn) struct Summed<'a, F> {
    pub x: Patches<'a, F>,
    pub d: Patches<'a, F>,
}

/// Output channels of a block of weight gradients.
pub(in crate::nn) const OUTPUTS: usize = 2 * HELD;

/// Adds `Σ d[t, o] x[t, c]` over the tiles of all parts in turn to `g[(number · OUTPUTS + o − first) · inputs + c]`, for each
/// number of the patches and [`OUTPUTS`] outputs from `first` on.
pub(in crate::nn) fn outer<F: Real>(parts: &[Summed<F>], first: usize, g: &mut [F]) {
    let inputs = parts[0].x.shape.cols;
    assert_eq!(g.len(), PATCH * OUTPUTS * inputs, "numbers of {OUTPUTS} outputs");
    assert!(first.is_multiple_of(OUTPUTS), "whole blocks");
    for Summed { x, d } in parts {
        assert_eq!((x.shape.rows, x.shape.cols), (d.shape.rows, inputs), "parts that fit");
    }
    with_simd(Outer { parts, first, g });
}

pub(super) struct Outer<'a, F> {
    pub parts: &'a [Summed<'a, F>],
    pub first: usize,
    pub g: &'a mut [F],
}

impl<F: Real> WithSimd for Outer<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let registers = self.parts[0].x.shape.cols / F::lanes::<S>();
        for number in 0..PATCH {
            let mut register = 0;
            while register < registers {
                if F::lanes::<S>() * size_of::<F>() == 64 && register + 2 <= registers {
                    self.columns::<S, 2>(simd, number, register);
                    register += 2;
                } else {
                    self.columns::<S, 1>(simd, number, register);
                    register += 1;
                }
            }
        }
    }
}

impl<F: Real> Outer<'_, F> {
    /// `N` registers of input channels for all outputs.
    #[inline(always)]
    fn columns<S: Simd, const N: usize>(&mut self, simd: S, number: usize, register: usize) {
        let registers = self.parts[0].x.shape.cols / F::lanes::<S>();
        let len = OUTPUTS * registers;
        let g = &mut F::vectors_mut::<S>(self.g)[number * len..(number + 1) * len];
        for (block, g) in g.chunks_exact_mut(HELD * registers).enumerate() {
            let output = self.first + block * HELD;
            let mut sums = [[F::splat(simd, F::default()); N]; HELD];
            for (sums, g) in sums.iter_mut().zip(g.chunks_exact(registers)) {
                sums.copy_from_slice(&g[register..register + N]);
            }
            for Summed { x, d } in self.parts {
                let factors = Factors {
                    d: d.number(number),
                    d_shape: d.shape,
                    a: x.number(number),
                    a_shape: x.shape,
                };
                sums = add_outer(simd, factors, output, register, sums);
            }
            for (sums, g) in sums.iter().zip(g.chunks_exact_mut(registers)) {
                g[register..register + N].copy_from_slice(sums);
            }
        }
    }
}

// Both count outputs in the same blocks.
const _: () = assert!(BLOCK.is_multiple_of(HELD));
