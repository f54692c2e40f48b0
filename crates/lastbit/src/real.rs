//! The two float types we compute in, and their last bits.
//!
//! Everything generic over precision is generic over [`Real`]. Only operations that IEEE 754
//! rounds correctly (`+ − × ÷ √` and the fused `a b + c`) are in the trait, so a formula written with it gives the same
//! bits on every machine; transcendental functions come from the pinned [`libm`] crate, in `f64`.

use std::fmt::{Debug, Display, LowerExp};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

use crate::simd::Lanes;

/// A type for each precision, such as slices of `f32` and slices of `f64`.
pub trait PerPrecision {
    /// That of a precision.
    type Of<F: Real>;
}

/// A value of a precision that is known.
#[derive(Debug)]
pub enum Known<Single, Double> {
    /// Of `f32`.
    Single(Single),
    /// Of `f64`.
    Double(Double),
}

/// Calls code that is generic over [`Real`] through two functions that are not, for `f32` and for
/// `f64`. What is generic is compiled by each crate that calls it, with all that it calls in turn;
/// behind this macro it is compiled once, in this crate and with its optimization.
///
/// ```text
/// once_per_precision!(<'a, F> type of a value, the value, |value| code => type of its result)
/// ```
macro_rules! once_per_precision {
    (<$life:lifetime, $float:ident> $argument:ty, $value:expr, $code:expr) => {
        $crate::real::once_per_precision!(<$life, $float> $argument, $value, $code => ())
    };
    (<$life:lifetime, $float:ident> $argument:ty, $value:expr, $code:expr => $result:ty) => {{
        use $crate::real::{Known, PerPrecision, Real};

        #[allow(dead_code)]
        struct Argument<$life>(&$life());
        impl<$life> PerPrecision for Argument<$life> {
            type Of<$float: Real> = $argument;
        }
        #[inline(never)]
        fn single<$life>(argument: <Argument<$life> as PerPrecision>::Of<f32>) -> $result {
            let code: fn(<Argument<$life> as PerPrecision>::Of<f32>) -> $result = $code;
            code(argument)
        }
        #[inline(never)]
        fn double<$life>(argument: <Argument<$life> as PerPrecision>::Of<f64>) -> $result {
            let code: fn(<Argument<$life> as PerPrecision>::Of<f64>) -> $result = $code;
            code(argument)
        }
        match <$float as Real>::known::<Argument<'_>>($value) {
            Known::Single(argument) => single(argument),
            Known::Double(argument) => double(argument),
        }
    }};
}
pub(crate) use once_per_precision;

/// `f32` or `f64`.
pub trait Real:
    Copy
    + PartialOrd
    + Default
    + Debug
    + Display
    + LowerExp
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + Sum
    + Lanes
{
    /// Unit roundoff `u`: half the gap between 1 and the next larger number.
    const UNIT_ROUNDOFF: f64;

    /// Name in settings and records.
    const NAME: &'static str;

    /// The value as one of the precision that this is.
    fn known<P: PerPrecision>(value: P::Of<Self>) -> Known<P::Of<f32>, P::Of<f64>>;

    /// Rounds to nearest.
    fn of(value: f64) -> Self;

    /// Exact.
    fn to_f64(self) -> f64;

    /// Correctly rounded square root.
    fn sqrt(self) -> Self;

    /// Absolute value.
    fn abs(self) -> Self;

    /// `self · a + b` with one rounding.
    fn mul_add(self, a: Self, b: Self) -> Self;

    /// `e^x` from [`crate::exp`], which vectorizes.
    fn exp(self) -> Self;

    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;

    /// The same number with its lowest significand bit flipped.
    fn flip_last_bit(self) -> Self;

    /// Position on the line of all floats: neighbours differ by one, `−0` and `+0` by none.
    fn rank(self) -> i64;

    /// The bits, little end first, into `out`.
    fn write_bits(self, out: &mut Vec<u8>);
}

macro_rules! real {
    ($float:ty, $int:ty, $name:literal, $known:ident, $exp:path) => {
        impl Real for $float {
            const UNIT_ROUNDOFF: f64 = <$float>::EPSILON as f64 / 2.0;
            const NAME: &'static str = $name;

            #[inline(always)]
            fn known<P: PerPrecision>(value: P::Of<Self>) -> Known<P::Of<f32>, P::Of<f64>> {
                Known::$known(value)
            }

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $float
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                <$float>::sqrt(self)
            }

            #[inline(always)]
            fn abs(self) -> Self {
                <$float>::abs(self)
            }

            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                <$float>::mul_add(self, a, b)
            }

            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                <$float>::is_finite(self)
            }

            fn flip_last_bit(self) -> Self {
                <$float>::from_bits(self.to_bits() ^ 1)
            }

            fn rank(self) -> i64 {
                let bits = self.to_bits() as $int;
                // Negative floats count downwards from zero as their bits count upwards.
                i64::from(if bits < 0 { <$int>::MIN.wrapping_sub(bits) } else { bits })
            }

            fn write_bits(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}

real!(f32, i32, "f32", Single, crate::exp::exp_f32);
real!(f64, i64, "f64", Double, crate::exp::exp);

/// Hash of the bits of `values`: 32 hexadecimal digits, equal exactly when all bits are equal.
///
/// BLAKE3 of the little-endian bytes, first 128 bits, so that a file of the values hashes alike
/// with any other tool.
///
/// ```
/// let a = [0.1_f32, 0.2];
/// assert_eq!(lastbit::hash_of_bits(&a), lastbit::hash_of_bits(&[0.1_f32, 0.2]));
/// assert_ne!(lastbit::hash_of_bits(&a), lastbit::hash_of_bits(&[0.1_f32, 0.200_000_02]));
/// ```
pub fn hash_of_bits<F: Real>(values: &[F]) -> String {
    once_per_precision!(<'a, F> &'a [F], values, |values| hash(values) => String)
}

fn hash<F: Real>(values: &[F]) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::with_capacity(8 * 4096);
    for chunk in values.chunks(4096) {
        bytes.clear();
        chunk.iter().for_each(|value| value.write_bits(&mut bytes));
        hasher.update(&bytes);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_neighbours_differ_by_one_across_zero() {
        let ascending =
            [-f32::MIN_POSITIVE, -f32::from_bits(1), -0.0, f32::from_bits(1), f32::from_bits(2)];
        let ranks = ascending.map(Real::rank);
        assert_eq!(ranks[1..], [-1, 0, 1, 2]);
        assert_eq!(0.0_f32.rank(), (-0.0_f32).rank());
        assert_eq!(1.0_f64.next_up().rank() - 1.0_f64.rank(), 1);
        assert_eq!((-1.0_f64).next_up().rank() - (-1.0_f64).rank(), 1);
    }

    #[test]
    fn flipping_the_last_bit_moves_by_one_ulp_and_back() {
        for x in [1.0_f64, -0.3, 1e300, 0.0] {
            assert_eq!((x.flip_last_bit().rank() - x.rank()).abs(), 1);
            assert_eq!(x.flip_last_bit().flip_last_bit().to_bits(), x.to_bits());
        }
    }

    #[test]
    fn hash_is_blake3_of_the_bytes() {
        // printf '\x00\x00\x80\x3f' | b3sum  (the bits of 1.0_f32)
        let expected = blake3::hash(&1.0_f32.to_le_bytes()).to_hex();
        assert_eq!(hash_of_bits(&[1.0_f32]), expected[..32]);
    }
}
