//! Runs a loop with the widest vector instructions of the machine, without changing a bit.
//!
//! Two ways lead here. [`vectorized`] takes loops in which each element is computed by itself. A
//! kernel generic over [`pulp::Simd`] works on vectors of [`Lanes`]; it must keep every sum within
//! one lane and in one order, so that the number of lanes cannot matter. Either way an operation is
//! correctly rounded, and a fused multiply-add is written as one: nothing is left to the compiler.

use std::sync::atomic::{AtomicU8, Ordering};

use pulp::{Arch, Simd};

/// Instructions with which a machine computes on several floats at once. No result depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// One float after the other.
    Scalar,
    /// Registers of 256 bits.
    Avx2,
    /// Registers of 512 bits.
    Avx512,
}

/// 0: the best of the machine; otherwise 1 plus the discriminant of [`Instructions`].
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Sets the instructions of the whole process, for tests and benchmarks; call it before anything is computed. False if the
/// machine does not have them.
pub fn use_instructions(instructions: Instructions) -> bool {
    let is_there = arch_of(instructions).is_some();
    if is_there {
        CHOSEN.store(1 + instructions as u8, Ordering::Relaxed);
    }
    is_there
}

fn arch_of(instructions: Instructions) -> Option<Arch> {
    match instructions {
        Instructions::Scalar => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => pulp::x86::V4::try_new().map(Arch::V4),
        #[cfg(not(target_arch = "x86_64"))]
        _ => None,
    }
}

/// The instructions in use.
#[inline]
fn arch() -> Arch {
    let chosen = match CHOSEN.load(Ordering::Relaxed) {
        1 => arch_of(Instructions::Scalar),
        2 => arch_of(Instructions::Avx2),
        3 => arch_of(Instructions::Avx512),
        _ => None,
    };
    chosen.unwrap_or_default()
}

/// Calls `kernel` compiled for the instructions in use: AVX-512, AVX2 or the baseline.
///
/// Write `#[inline(always)]` before the closure: one that is not inlined into the function with
/// the wide instructions is compiled for the baseline.
#[inline]
pub(crate) fn vectorized<T>(kernel: impl FnOnce() -> T) -> T {
    arch().dispatch(kernel)
}

/// Calls `kernel` with the instruction set in use as a value.
#[inline]
pub(crate) fn with_simd<K: pulp::WithSimd>(kernel: K) -> K::Output {
    arch().dispatch(kernel)
}

/// A float of which a vector register holds several.
pub trait Lanes: Copy {
    /// A register of the instruction set `S`.
    type Vector<S: Simd>: Copy;

    /// Floats in a register.
    fn lanes<S: Simd>() -> usize;

    /// `x` in every lane.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;

    /// `a b + c` with one rounding.
    fn fused<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// `a + b`.
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// `a − b`.
    fn minus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// A register from at most as many floats as it holds, zeros behind.
    fn load_part<S: Simd>(simd: S, values: &[Self]) -> Self::Vector<S>;

    /// The first floats of a register, as many as there is room for.
    fn store_part<S: Simd>(simd: S, values: &mut [Self], vector: Self::Vector<S>);

    /// A slice as registers; what does not fill one is left out.
    fn vectors<S: Simd>(values: &[Self]) -> &[Self::Vector<S>];

    /// The same, to be written.
    fn vectors_mut<S: Simd>(values: &mut [Self]) -> &mut [Self::Vector<S>];
}

macro_rules! lanes {
    ($float:ty, $vector:ident, $lanes:ident, $splat:ident, $fused:ident, $add:ident,
     $sub:ident, $as:ident, $as_mut:ident, $load:ident, $store:ident) => {
        impl Lanes for $float {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }

            #[inline(always)]
            fn fused<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                simd.$fused(a, b, c)
            }

            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn minus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }

            #[inline(always)]
            fn load_part<S: Simd>(simd: S, values: &[Self]) -> S::$vector {
                simd.$load(values)
            }

            #[inline(always)]
            fn store_part<S: Simd>(simd: S, values: &mut [Self], vector: S::$vector) {
                simd.$store(values, vector);
            }

            #[inline(always)]
            fn vectors<S: Simd>(values: &[Self]) -> &[S::$vector] {
                S::$as(values).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(values: &mut [Self]) -> &mut [S::$vector] {
                S::$as_mut(values).0
            }
        }
    };
}

lanes!(
    f32,
    f32s,
    F32_LANES,
    splat_f32s,
    mul_add_f32s,
    add_f32s,
    sub_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    partial_load_f32s,
    partial_store_f32s
);
lanes!(
    f64,
    f64s,
    F64_LANES,
    splat_f64s,
    mul_add_f64s,
    add_f64s,
    sub_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    partial_load_f64s,
    partial_store_f64s
);

/// Floats in a register of this machine.
pub(crate) fn width<F: Lanes>() -> usize {
    struct Width<F>(std::marker::PhantomData<F>);
    impl<F: Lanes> pulp::WithSimd for Width<F> {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            F::lanes::<S>()
        }
    }
    with_simd(Width(std::marker::PhantomData::<F>))
}
