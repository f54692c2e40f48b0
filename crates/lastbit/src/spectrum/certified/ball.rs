//! Numbers with a bound on their error: a midpoint and a radius.
//!
//! Every operation returns a ball that holds all results of the operation on the numbers of its
//! operands, the rounding of midpoint and radius included.

use std::ops::{Add, Mul, Neg, Sub};

/// Covers the rounding of the few operations in which a radius is formed.
const UP: f64 = 1.0 + 8.0 * f64::EPSILON;

/// All numbers within `rad` of `mid`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ball {
    pub(super) mid: f64,
    pub(super) rad: f64,
}

impl Ball {
    pub(super) const ZERO: Self = Self { mid: 0.0, rad: 0.0 };

    pub(super) fn exact(mid: f64) -> Self {
        Self { mid, rad: 0.0 }
    }

    /// A number known to a relative error.
    pub(super) fn within(mid: f64, relative: f64) -> Self {
        Self { mid, rad: mid.abs() * relative * UP }
    }

    pub(super) fn widened(self, by: f64) -> Self {
        Self { mid: self.mid, rad: (self.rad + by) * UP }
    }

    pub(super) fn is_positive(self) -> bool {
        self.mid > self.rad
    }

    pub(super) fn is_negative(self) -> bool {
        self.mid < -self.rad
    }

    /// Whether 0 is one of its numbers. A ball that is not a number may hold anything.
    pub(super) fn holds_zero(self) -> bool {
        !self.is_positive() && !self.is_negative()
    }

    /// The largest modulus.
    pub(super) fn size(self) -> f64 {
        (self.mid.abs() + self.rad) * UP
    }

    /// The least number.
    pub(super) fn low(self) -> f64 {
        let low = self.mid - self.rad;
        low - low.abs() * f64::EPSILON
    }
}

impl Add for Ball {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let mid = self.mid + other.mid;
        // A sum with zero is exact.
        let rounding =
            if self.mid == 0.0 || other.mid == 0.0 { 0.0 } else { mid.abs() * f64::EPSILON };
        Self { mid, rad: (self.rad + other.rad + rounding) * UP }
    }
}

impl Neg for Ball {
    type Output = Self;

    fn neg(self) -> Self {
        Self { mid: -self.mid, rad: self.rad }
    }
}

impl Sub for Ball {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Ball {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let mid = self.mid * other.mid;
        // What underflows is lost: products below 1e-290 carry that much.
        let lost =
            if mid.abs() < 1e-290 && self.mid != 0.0 && other.mid != 0.0 { 1e-290 } else { 0.0 };
        let rad = self.mid.abs() * other.rad
            + self.rad * (other.mid.abs() + other.rad)
            + mid.abs() * f64::EPSILON
            + lost;
        Self { mid, rad: rad * UP }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        /// Integers up to 2²⁰ scaled by 1/2²⁰: sums and products of points of the balls are exact in
        /// `f64`, so the truth is known.
        #[test]
        fn a_ball_holds_the_results_for_all_its_numbers(
            a in -1_000_000_i32..1_000_000, b in -1_000_000_i32..1_000_000,
            ra in 0_i32..1000, rb in 0_i32..1000, s in -1.0..1.0_f64, t in -1.0..1.0_f64,
        ) {
            let scale = libm::scalbn(1.0, -20);
            let at = |mid: i32, rad: i32, share: f64| {
                f64::from(mid + (f64::from(rad) * share) as i32) * scale
            };
            let ball = |mid: i32, rad: i32| {
                Ball { mid: f64::from(mid) * scale, rad: f64::from(rad) * scale }
            };
            let (x, y) = (at(a, ra, s), at(b, rb, t));
            for (result, truth) in [
                (ball(a, ra) + ball(b, rb), x + y),
                (ball(a, ra) - ball(b, rb), x - y),
                (ball(a, ra) * ball(b, rb), x * y),
            ] {
                prop_assert!((result.mid - truth).abs() <= result.rad, "{result:?} {truth}");
            }
        }
    }

    #[test]
    fn signs_are_certain_or_unknown() {
        assert!(Ball { mid: 1.0, rad: 0.5 }.is_positive());
        assert!(Ball { mid: -1.0, rad: 0.5 }.is_negative());
        assert!(Ball { mid: 1.0, rad: 1.0 }.holds_zero());
        assert!(Ball { mid: f64::NAN, rad: 1.0 }.holds_zero());
        assert!(!Ball::exact(1e-300).holds_zero());
    }
}
