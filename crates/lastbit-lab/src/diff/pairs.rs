//! Entries of two tensors, whatever their types.

use half::{bf16, f16};
use lastbit::Real;
use lastbit::comparison::{Comparison, Digit, Pair, Pairs};

use crate::tensors::{Dtype, Values};

/// Two arrays that can be compared.
pub trait Compared: Sync {
    /// See [`Pairs::compare`].
    fn compare(&self) -> Comparison;
    /// See [`Pairs::count_ulps`].
    fn count_ulps(&self, digit: Digit, counts: &mut [u64]);
}

impl<P: Fn(usize) -> Pair + Sync> Compared for Pairs<P> {
    fn compare(&self) -> Comparison {
        Pairs::compare(self)
    }

    fn count_ulps(&self, digit: Digit, counts: &mut [u64]) {
        Pairs::count_ulps(self, digit, counts);
    }
}

/// The entries of two tensors of one shape, with the type on whose grid ulps are counted; none
/// where the types differ and are not both floats.
pub fn of<'a>(a: &'a Values, b: &'a Values) -> Option<(Dtype, Box<dyn Compared + 'a>)> {
    use Values::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    assert_eq!(a.len(), b.len(), "tensors of one shape have as many values");
    let pairs: Box<dyn Compared + 'a> = match (a, b) {
        (F64(x), F64(y)) => alike(x, y),
        (F32(x), F32(y)) => alike(x, y),
        (F16(x), F16(y)) => alike(x, y),
        (BF16(x), BF16(y)) => alike(x, y),
        (I64(x), I64(y)) => alike(x, y),
        (I32(x), I32(y)) => alike(x, y),
        (I16(x), I16(y)) => alike(x, y),
        (I8(x), I8(y)) => alike(x, y),
        (U64(x), U64(y)) => alike(x, y),
        (U32(x), U32(y)) => alike(x, y),
        (U16(x), U16(y)) => alike(x, y),
        (U8(x), U8(y)) => alike(x, y),
        (Bool(x), Bool(y)) => alike(x, y),
        _ => return unlike(a, b),
    };
    Some((a.dtype(), pairs))
}

fn alike<'a, T: Entry>(x: &'a [T], y: &'a [T]) -> Box<dyn Compared + 'a> {
    let pair = |i: usize| {
        let (a, b) = (x[i], y[i]);
        Pair { a: a.to_f64(), b: b.to_f64(), equal_bits: a.equal_bits(b), ulps: a.ulps(b) }
    };
    Box::new(Pairs { len: x.len(), precision: T::PRECISION, pair })
}

/// Floats of two types: as `f64`, which holds both exactly.
fn unlike<'a>(a: &'a Values, b: &'a Values) -> Option<(Dtype, Box<dyn Compared + 'a>)> {
    let coarser = [a, b].into_iter().min_by_key(|side| precision_of(side.dtype()))?;
    let (dtype, precision) = (coarser.dtype(), precision_of(coarser.dtype())?);
    precision_of(a.dtype()).and(precision_of(b.dtype()))?;
    let pair = move |i: usize| {
        let (a, b) = (float_at(a, i), float_at(b, i));
        let equal_bits = a.to_bits() == b.to_bits();
        Pair { a, b, equal_bits, ulps: ulps_in(dtype, a, b) }
    };
    Some((dtype, Box::new(Pairs { len: a.len(), precision: Some(precision), pair })))
}

fn precision_of(dtype: Dtype) -> Option<u32> {
    match dtype {
        Dtype::F64 => f64::PRECISION,
        Dtype::F32 => f32::PRECISION,
        Dtype::F16 => f16::PRECISION,
        Dtype::BF16 => bf16::PRECISION,
        _ => None,
    }
}

fn float_at(values: &Values, i: usize) -> f64 {
    match values {
        Values::F64(x) => x[i],
        Values::F32(x) => x[i].into(),
        Values::F16(x) => x[i].into(),
        Values::BF16(x) => x[i].into(),
        other => unreachable!("{} is no float", other.dtype()),
    }
}

/// Steps between the nearest values of a type.
fn ulps_in(dtype: Dtype, a: f64, b: f64) -> u64 {
    match dtype {
        Dtype::F32 => (a as f32).ulps(b as f32),
        Dtype::F16 => f16::from_f64(a).ulps(f16::from_f64(b)),
        Dtype::BF16 => bf16::from_f64(a).ulps(bf16::from_f64(b)),
        _ => a.ulps(b),
    }
}

/// A value of a tensor.
trait Entry: Copy + Sync {
    /// Significant bits of a float.
    const PRECISION: Option<u32> = None;

    /// As a number; whole numbers beyond 2^53 are rounded.
    fn to_f64(self) -> f64;

    /// Whether all bits are equal.
    fn equal_bits(self, other: Self) -> bool;

    /// Steps from one value to the other among all values of the type.
    fn ulps(self, other: Self) -> u64;
}

macro_rules! float {
    ($type:ty, $precision:expr, $rank:expr) => {
        impl Entry for $type {
            const PRECISION: Option<u32> = Some($precision);

            fn to_f64(self) -> f64 {
                self.into()
            }

            fn equal_bits(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            fn ulps(self, other: Self) -> u64 {
                ($rank)(self).abs_diff(($rank)(other))
            }
        }
    };
}

float!(f64, f64::MANTISSA_DIGITS, Real::rank);
float!(f32, f32::MANTISSA_DIGITS, Real::rank);
float!(f16, f16::MANTISSA_DIGITS, |x: f16| rank_of_half(x.to_bits()));
float!(bf16, bf16::MANTISSA_DIGITS, |x: bf16| rank_of_half(x.to_bits()));

/// Like [`Real::rank`]: the sign, and how many steps from zero.
fn rank_of_half(bits: u16) -> i64 {
    let steps = i64::from(bits & 0x7FFF);
    if bits >> 15 == 1 { -steps } else { steps }
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl Entry for $type {
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn equal_bits(self, other: Self) -> bool {
                self == other
            }

            fn ulps(self, other: Self) -> u64 {
                self.abs_diff(other).into()
            }
        }
    )*};
}

whole!(i64 i32 i16 i8 u64 u32 u16 u8);

impl Entry for bool {
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }

    fn equal_bits(self, other: Self) -> bool {
        self == other
    }

    fn ulps(self, other: Self) -> u64 {
        u64::from(self != other)
    }
}
