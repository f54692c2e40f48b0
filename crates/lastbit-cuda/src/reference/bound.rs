//! Numbers with a bound on the device's error: running error analysis.
//!
//! `x` is computed here in double precision by the kernel's formula, `e` bounds `|device's − x|`. The
//! operators `+ − × ÷` propagate the errors of their operands, exactly to all orders; a rounding is
//! written where the kernel has one:
//!
//! ```text
//! |â| ≤ |x| + e,   fl(â) = â (1 + δ), |δ| ≤ u:   e ← e + u (|x| + e)
//! ```
//!
//! The reference rounds its `x` as well, by at most 2⁻⁵³ of it: an [`Arithmetic`] has the sum of both
//! unit roundoffs.
//!
//! A sum of `n` products, added in any order, by fma multiply-adds or with the products rounded first,
//! rounds each of them at most `n` times on its way into the result:
//!
//! ```text
//! |device's − x| ≤ Σ eᵢ + γₙ Σ (|xᵢ| + eᵢ),    γₙ = n u / (1 − n u)
//! ```
//!
//! That holds for every order of summation, so that a kernel's order may change without its test.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// Unit roundoff of double precision.
pub const U_DOUBLE: f64 = f64::EPSILON / 2.0;

/// A number, and a bound on the device's error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    pub x: f64,
    pub e: f64,
}

impl Bounded {
    pub const ZERO: Self = exactly(0.0);
    pub const ONE: Self = exactly(1.0);
    pub const TWO: Self = exactly(2.0);

    /// Bound of the absolute value of the device's number.
    fn size(self) -> f64 {
        self.x.abs() + self.e
    }
}

/// A number that was read from the device.
pub const fn exactly(x: f64) -> Bounded {
    Bounded { x, e: 0.0 }
}

impl Add for Bounded {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, e: self.e + other.e }
    }
}

impl Sub for Bounded {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { x: self.x - other.x, e: self.e + other.e }
    }
}

impl Neg for Bounded {
    type Output = Self;
    fn neg(self) -> Self {
        Self { x: -self.x, e: self.e }
    }
}

/// `(a + α)(b + β) − a b = a β + b α + α β`.
impl Mul for Bounded {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let e = self.x.abs() * other.e + other.x.abs() * self.e + self.e * other.e;
        Self { x: self.x * other.x, e }
    }
}

/// `(a + α)/(b + β) − a/b = (α − (a/b) β)/(b + β)`.
impl Div for Bounded {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let x = self.x / other.x;
        let e = (self.e + x.abs() * other.e) / (other.x.abs() - other.e).max(0.0);
        Self { x, e: if self.e + other.e > 0.0 { e } else { 0.0 } }
    }
}

/// How a kernel and its reference round.
#[derive(Debug, Clone, Copy)]
pub struct Arithmetic {
    u: f64,
}

impl Arithmetic {
    /// Of a unit roundoff.
    pub fn of(unit: f64) -> Self {
        Self { u: unit + U_DOUBLE }
    }

    /// One rounding.
    pub fn round(self, a: Bounded) -> Bounded {
        Bounded { x: a.x, e: a.e + self.u * a.size() }
    }

    /// `a b + c`, rounded once, also by the reference: if it rounded the product first and `c` cancelled most
    /// of it, the error `u |a b|` would exceed one rounding of the result.
    pub fn fma(self, a: Bounded, b: Bounded, c: Bounded) -> Bounded {
        self.round(Bounded { x: a.x.mul_add(b.x, c.x), e: (a * b).e + c.e })
    }

    /// `eᵃ`: its argument's error `α` is a factor of up to `e^α`. `lastbit::exp`, whose operations the
    /// kernels have, is right to two units in the last place, hence 4 u; in single precision the error
    /// of `r` (0.4 u), the missing term (0.1 u) and the last three roundings (2.5 u) are less than
    /// 5 u of `e^r ≥ 0.7`. CUDA's own is right to one unit in the last place, and so is the reference's: 6 u.
    pub fn exp(self, a: Bounded) -> Bounded {
        let x = libm::exp(a.x);
        Bounded { x, e: x * (libm::expm1(a.e) + 6.0 * self.u * (1.0 + a.e)) }
    }

    /// `ln a`: its slope is at most `1/(a − α)`; both logarithms are right to one unit in the last place.
    pub fn ln(self, a: Bounded) -> Bounded {
        let x = libm::log(a.x);
        Bounded { x, e: a.e / (a.x - a.e) + 4.0 * self.u * x.abs() }
    }

    /// `ln(1 + a)` for `a ≥ 0`, likewise.
    pub fn ln_1p(self, a: Bounded) -> Bounded {
        let x = libm::log1p(a.x);
        Bounded { x, e: a.e / (1.0 + a.x - a.e) + 4.0 * self.u * x.abs() }
    }

    /// `√a`: its slope grows towards zero.
    pub fn sqrt(self, a: Bounded) -> Bounded {
        let x = a.x.sqrt();
        self.round(Bounded { x, e: a.e / (x + (a.x - a.e).max(0.0).sqrt()) })
    }

    /// `tanh a`, in double precision; its slope is at most 1. With `q = e^{−2|a|}` the kernels have
    /// `(1 − q)/(1 + q)`, whose slope by `q` is `2/(1 + q)²`: an error of 4 u in `q` is one of at most
    /// `8 q/(1 + q)² u ≤ 2 u`, and there are three roundings; the reference's is right to 2 u.
    pub fn tanh(a: Bounded) -> Bounded {
        Bounded { x: libm::tanh(a.x), e: a.e + 8.0 * U_DOUBLE }
    }
}

/// A sum in any order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    x: f64,
    e: f64,
    size: f64,
    terms: f64,
}

impl Sum {
    pub fn add(&mut self, a: Bounded) {
        self.x += a.x;
        self.e += a.e;
        self.size += a.x.abs();
        self.terms += 1.0;
    }

    pub fn of(terms: impl IntoIterator<Item = Bounded>) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }

    /// The sum in an arithmetic.
    pub fn rounded(self, arithmetic: Arithmetic) -> Bounded {
        let nu = self.terms * arithmetic.u;
        Bounded { x: self.x, e: self.e + nu / (1.0 - nu) * (self.size + self.e) }
    }
}

#[cfg(test)]
mod tests {
    use lastbit::rng::Stream;

    use super::*;

    /// `(1 + ε)(1 − ε) − 1 = −ε²` where the rounded product is 1.
    #[test]
    fn a_fused_product_is_not_rounded_before_the_sum() {
        let small = 1.0 / f64::from(1 << 30);
        let [a, b] = [1.0 + small, 1.0 - small].map(exactly);
        let found = Arithmetic::of(U_DOUBLE).fma(a, b, exactly(-1.0));
        assert_eq!(found, Bounded { x: -small * small, e: 2.0 * U_DOUBLE * small * small });
    }

    /// Single precision against double: bounds hold, and are not a thousand times too wide.
    #[test]
    fn bounds_hold_and_are_close() {
        let stream = Stream::new(4, 0);
        let single = Arithmetic::of(f64::from(f32::EPSILON) / 2.0);
        let mut worst = 0.0_f64;
        for trial in 0..1000_u64 {
            let number = |i: u64| stream.normal(trial << 8 | i) as f32;
            let near = |i: u64| exactly(f64::from(number(i)));
            let mut check = |found: f32, expected: Bounded| {
                let error = (f64::from(found) - expected.x).abs();
                assert!(error <= expected.e, "{found} {expected:?}");
                worst = worst.max(error / expected.e);
            };
            let sum: f32 = (0..20).map(|i| number(i) * number(i + 20)).sum();
            check(sum, Sum::of((0..20).map(|i| near(i) * near(i + 20))).rounded(single));
            let root = (number(0) * number(0) + 1.0).sqrt();
            let square = single.round(single.round(near(0) * near(0)) + Bounded::ONE);
            check(root, single.sqrt(square));
            let quotient = (number(1) + number(2)) / root;
            let above = single.round(near(1) + near(2));
            check(quotient, single.round(above / single.sqrt(square)));
            check(lastbit::exp::exp_f32(quotient), {
                single.exp(single.round(above / single.sqrt(square)))
            });
        }
        assert!(worst > 0.2, "{worst}");
    }
}
