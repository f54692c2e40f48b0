//! `log₂ x`, the same bits on every machine.
//!
//! ```text
//! x = 2^k m,  √½ ≤ m < √2,    s = (m − 1)/(m + 1),  |s| ≤ 3 − 2√2
//! log₂ x = k + (2/ln 2) (s + s³/3 + s⁵/5 + … + s²¹/21)
//! ```
//!
//! Our own and not the libm crate's, because a GPU has to repeat it: `compare.cu` of lastbit-cuda does
//! so operation by operation. It is made of `+ − × ÷` alone, each rounded, none fused.
//!
//! The rest of the series is below `7e-19 s`. With `u = 2⁻⁵³`: `m − 1` is exact, the sum `m + 1` and the
//! quotient make `s` off by `2u`; the first coefficient, the last addition of the series and the product
//! with `s` add `u` each, all else, being smaller by `s²/3 < 0.01`, less than `0.2u`. Where `k ≠ 0`,
//! `|log₂ m| ≤ ½ ≤ |log₂ x|`, and one more addition is rounded. So the relative error is below `6.2u`,
//! which is at most 6.2 units in the last place; of powers of two there is none.

use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E};

/// `2/ln 2`, with the one rounding of [`LOG2_E`].
const FIRST: f64 = 2.0 * LOG2_E;

/// `log₂ x`; `−∞` of zeros, NaN of negative numbers.
#[inline]
pub fn log2(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == f64::INFINITY {
        return x;
    }
    if x < f64::MIN_POSITIVE {
        // 2⁵⁴ makes any of these a number of full precision.
        return log2(x * 18_014_398_509_481_984.0) - 54.0;
    }
    let steps = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits()) as i64;
    let k = steps >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub((k as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = FIRST / 21.0;
    for coefficient in [
        FIRST / 19.0,
        FIRST / 17.0,
        FIRST / 15.0,
        FIRST / 13.0,
        FIRST / 11.0,
        FIRST / 9.0,
        FIRST / 7.0,
        FIRST / 5.0,
        FIRST / 3.0,
        FIRST,
    ] {
        sum = sum * z + coefficient;
    }
    k as f64 + s * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;
    use crate::rng::Stream;

    /// 6.2 units by the module doc, and libm's own error is below one: less than 7.2 between two
    /// floats is at most 7.
    const LIMIT: u64 = 7;

    fn off(x: f64) -> u64 {
        log2(x).rank().abs_diff(libm::log2(x).rank())
    }

    #[test]
    fn agrees_with_libm_as_far_as_derived() {
        let mut worst = (0, 0.0);
        // Around 1, where the result goes through zero, and around both ends of m.
        for centre in [1.0, FRAC_1_SQRT_2, 2.0 * FRAC_1_SQRT_2, 0.5, 1e-9] {
            for i in -200_000..=200_000 {
                let x = centre * (1.0 + f64::from(i) * 1.234_567e-6);
                worst = if off(x) > worst.0 { (off(x), x) } else { worst };
            }
            let (mut below, mut above) = (centre, centre);
            for _ in 0..1000 {
                (below, above) = (below.next_down(), above.next_up());
                assert!(off(below) <= LIMIT && off(above) <= LIMIT, "{below:e} {above:e}");
            }
        }
        // Any bits of a positive number, subnormal ones among them.
        let stream = Stream::new(5, 0);
        for i in 0..200_000 {
            let x = f64::from_bits(stream.below(i, f64::INFINITY.to_bits()));
            worst = if off(x) > worst.0 { (off(x), x) } else { worst };
            let small = f64::from_bits(stream.below(i, f64::MIN_POSITIVE.to_bits()));
            assert!(off(small) <= LIMIT, "{small:e}");
        }
        println!("{} units in the last place at {:e}", worst.0, worst.1);
        assert!(worst.0 <= LIMIT, "{worst:?}");
    }

    #[test]
    fn powers_of_two_are_exact() {
        for k in -1074..=1023 {
            let x = if k < -1022 {
                f64::from_bits(1 << (k + 1074))
            } else {
                f64::from_bits(((k + 1023) as u64) << 52)
            };
            assert_eq!(log2(x), f64::from(k), "2^{k}");
        }
    }

    #[test]
    fn special_values() {
        assert_eq!([log2(0.0), log2(-0.0)], [f64::NEG_INFINITY; 2]);
        assert_eq!(log2(f64::INFINITY), f64::INFINITY);
        for x in [-1.0, -f64::MIN_POSITIVE, f64::NEG_INFINITY, f64::NAN] {
            assert!(log2(x).is_nan(), "{x}");
        }
        assert_eq!(log2(f64::MAX), 1024.0);
    }
}
