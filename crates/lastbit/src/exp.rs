//! `e^x` for whole slices, the same bits on every machine and at any vector width.
//!
//! ```text
//! x = k ln 2 + r,  |r| ≤ ln 2 / 2,    e^x = 2^k (1 + r + r²/2! + … + r¹³/13!)
//! ```
//!
//! In single precision the series ends at `r⁷/7!` (remainder below 6e-9).
//!
//! The libm crate's exponential branches on its argument and cannot be vectorized; here a slice is
//! computed with `+ − ×` alone. The series' remainder is below 5e-18; rounding leaves at most two
//! units in the last place.

/// Above this the result is infinite, below its negative it is zero.
const LIMIT: f64 = 708.0;

/// `e^x`, saturating at `±708`: about `3e307` and `3e-308`.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    // Adding and subtracting 1.5 · 2^52 rounds to the nearest integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // ln 2 in two parts; the first has 21 trailing zero bits, so that its product with k is exact.
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let x = if x > LIMIT { LIMIT } else { x };
    let x = if x < -LIMIT { -LIMIT } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut sum = 1.0 / 6_227_020_800.0;
    for coefficient in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * r + coefficient;
    }
    // The low bits of `shifted` hold k; moved to the exponent they are 2^k.
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    sum * power
}

/// `e^x` in single precision, saturating at `±87`: about `6e37` and `2e-38`.
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    const LIMIT: f32 = 87.0;
    const ROUND: f32 = 12_582_912.0;
    // 355/512 has nine bits, so that its product with k is exact; the rest of ln 2 follows.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > LIMIT { LIMIT } else { x };
    let x = if x < -LIMIT { -LIMIT } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut sum = 1.0 / 5_040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + coefficient;
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    sum * power
}

/// The logistic function `1/(1 + e^{−x})`.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;

    #[test]
    fn agrees_with_libm_to_two_ulps() {
        let mut worst = 0;
        for i in -700_000..=700_000 {
            let x = f64::from(i) * 1e-3;
            worst = worst.max(exp(x).rank().abs_diff(libm::exp(x).rank()));
        }
        assert!(worst <= 2, "{worst} ulps");
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn single_precision_agrees_to_two_ulps() {
        let mut worst = 0;
        for i in -86_000..=86_000 {
            let x = i as f32 * 1e-3;
            worst = worst.max(exp_f32(x).rank().abs_diff((exp(f64::from(x)) as f32).rank()));
        }
        assert!(worst <= 2, "{worst} ulps");
        assert_eq!(exp_f32(0.0), 1.0);
        assert!(exp_f32(1e9).is_finite() && exp_f32(-1e9) > 0.0 && exp_f32(f32::NAN).is_nan());
    }

    #[test]
    fn saturates_without_leaving_the_numbers() {
        assert!(exp(1e9).is_finite() && exp(1e9) > 1e307);
        assert!(exp(-1e9) > 0.0 && exp(-1e9) < 1e-300);
        assert_eq!(sigmoid(1e9), 1.0);
        assert!(sigmoid(-1e9) < 1e-300);
        assert!(exp(f64::NAN).is_nan());
    }
}
