//! Trigonometric polynomials whose coefficients are polynomials in the step.
//!
//! ```text
//! S(ω, x) = Σ over k, p   x^p (e_{k,p} cos k·ω + i o_{k,p} sin k·ω)
//! ```
//!
//! with `k` in half of the lattice (the first entry that is not 0 is positive). All sums and
//! products of the symbols of a real scheme have this form, with real `e` and `o`. Even and odd
//! part are kept apart, because a centred difference has no even part and a diffusion no odd
//! one: what cancels between `k` and `−k` then cancels exactly.
//!
//! **What is taken to be zero.** Coefficients of a scheme are rounded numbers, so each is taken as
//! known to a relative [`COEFFICIENT_ERROR`] only. What a scheme owes to exact relations between
//! them (consistency, order, reversibility in time) holds up to that error. A coefficient of
//! `x^p cos k·ω` that is not distinguishable from zero is therefore set to zero.

use std::collections::BTreeMap;

use super::ball::Ball;

/// Relative error that each coefficient of a scheme is taken to have: a constructor forms it in at
/// most about eight operations.
pub const COEFFICIENT_ERROR: f64 = 8.0 * f64::EPSILON;

/// A point of the lattice; the second entry is 0 in one dimension.
pub(super) type Lag = [i32; 2];

/// Coefficients by lag and power of the step.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(pub(super) BTreeMap<(Lag, usize), Ball>);

impl Series {
    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, lag: Lag, power: usize, value: Ball) {
        let sum = self.0.entry((lag, power)).or_insert(Ball::ZERO);
        *sum = *sum + value;
    }

    /// Sets to zero what cannot be told from it.
    fn without_rounding(mut self) -> Self {
        self.0.retain(|_, ball| !ball.holds_zero());
        self
    }

    pub(super) fn minus(mut self, other: &Self) -> Self {
        for ((lag, power), value) in &other.0 {
            self.add(*lag, *power, -*value);
        }
        self.without_rounding()
    }

    fn scaled(&self, by: f64) -> Self {
        Self(self.0.iter().map(|(key, value)| (*key, *value * Ball::exact(by))).collect())
    }

    fn largest(&self) -> f64 {
        self.0.values().map(|ball| ball.mid.abs()).fold(0.0, f64::max)
    }

    fn least_certain(&self) -> f64 {
        self.0.values().map(|ball| ball.rad).fold(0.0, f64::max)
    }
}

/// The lag in the half lattice, and −1 if it had to be reflected (0 for the origin).
fn canonical(lag: Lag) -> (Lag, f64) {
    match lag {
        [0, 0] => (lag, 0.0),
        [a, b] if a > 0 || (a == 0 && b > 0) => (lag, 1.0),
        [a, b] => ([-a, -b], -1.0),
    }
}

/// A symbol: even part (cosines) and odd part (sines, times i).
#[derive(Debug, Clone, Default)]
pub(super) struct Symbol {
    pub(super) even: Series,
    pub(super) odd: Series,
}

impl Symbol {
    /// `Σ c x^power e^{i k·ω}` over the contributions `(k, power, c)`, each with its error.
    pub(super) fn of(contributions: &[(Lag, usize, f64)]) -> Self {
        let mut even: BTreeMap<(Lag, usize), Vec<f64>> = BTreeMap::new();
        let mut odd: BTreeMap<(Lag, usize), Vec<f64>> = BTreeMap::new();
        for (lag, power, c) in contributions {
            let (lag, side) = canonical(*lag);
            even.entry((lag, *power)).or_default().push(*c);
            if side != 0.0 {
                odd.entry((lag, *power)).or_default().push(side * c);
            }
        }
        let summed = |parts: BTreeMap<(Lag, usize), Vec<f64>>| {
            let sums = parts.into_iter().map(|(key, values)| (key, sum_without_pairs(values)));
            Series(sums.collect()).without_rounding()
        };
        Self { even: summed(even), odd: summed(odd) }
    }

    pub(super) fn constant(value: f64) -> Self {
        let even = Series(BTreeMap::from([(([0, 0], 0), Ball::exact(value))]));
        Self { even, odd: Series::default() }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.even.is_zero() && self.odd.is_zero()
    }

    pub(super) fn len(&self) -> usize {
        self.even.len() + self.odd.len()
    }

    pub(super) fn minus(self, other: &Self) -> Self {
        Self { even: self.even.minus(&other.even), odd: self.odd.minus(&other.odd) }
    }

    /// The product of the conjugate of `self` with `other`.
    pub(super) fn conj_times(&self, other: &Self) -> Self {
        let mut product = Self::default();
        // (E − iO)(E' + iO') = E E' + O O' + i (E O' − O E').
        each_pair(&self.even, &other.even, |a, b, power, half| {
            product.even.add(canonical(minus(a, b)).0, power, half);
            product.even.add(canonical(plus(a, b)).0, power, half);
        });
        each_pair(&self.odd, &other.odd, |a, b, power, half| {
            product.even.add(canonical(minus(a, b)).0, power, half);
            product.even.add(canonical(plus(a, b)).0, power, -half);
        });
        // cos a sin b = ½ (sin(b + a) + sin(b − a)).
        let odd = &mut product.odd;
        let mut add_sine = |lag: Lag, power: usize, value: Ball| {
            let (lag, side) = canonical(lag);
            if side != 0.0 {
                odd.add(lag, power, value * Ball::exact(side));
            }
        };
        each_pair(&self.even, &other.odd, |a, b, power, half| {
            add_sine(plus(b, a), power, half);
            add_sine(minus(b, a), power, half);
        });
        each_pair(&self.odd, &other.even, |a, b, power, half| {
            add_sine(plus(a, b), power, -half);
            add_sine(minus(a, b), power, -half);
        });
        Self { even: product.even.without_rounding(), odd: product.odd.without_rounding() }
    }

    /// `|S|²`, which is even.
    pub(super) fn squared(&self) -> Series {
        self.conj_times(self).even
    }

    pub(super) fn scaled(&self, by: f64) -> Self {
        Self { even: self.even.scaled(by), odd: self.odd.scaled(by) }
    }

    pub(super) fn largest(&self) -> f64 {
        self.even.largest().max(self.odd.largest())
    }

    /// The largest error of a coefficient.
    pub(super) fn least_certain(&self) -> f64 {
        self.even.least_certain().max(self.odd.least_certain())
    }
}

/// `cos k·ω` where `ω` is 0 or (where `corner` says so) π.
pub(super) fn sign_at(lag: Lag, corner: [bool; 2]) -> f64 {
    let turns = lag.iter().zip(corner).filter(|(k, at_pi)| *at_pi && *k % 2 != 0).count();
    if turns % 2 == 0 { 1.0 } else { -1.0 }
}

fn plus(a: Lag, b: Lag) -> Lag {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus(a: Lag, b: Lag) -> Lag {
    [a[0] - b[0], a[1] - b[1]]
}

/// Calls `f` with both lags, the sum of the powers and half the product, for every pair.
fn each_pair(a: &Series, b: &Series, mut f: impl FnMut(Lag, Lag, usize, Ball)) {
    for ((lag_a, power_a), value_a) in &a.0 {
        let half = *value_a * Ball::exact(0.5);
        for ((lag_b, power_b), value_b) in &b.0 {
            f(*lag_a, *lag_b, power_a + power_b, half * *value_b);
        }
    }
}

/// The sum. Opposite numbers are taken to be meant so and leave no error behind.
fn sum_without_pairs(mut values: Vec<f64>) -> Ball {
    values.sort_by(|a, b| a.abs().total_cmp(&b.abs()).then(a.total_cmp(b)));
    let mut left: Vec<f64> = Vec::new();
    for value in values {
        // Equal sizes lie side by side, the negative ones first.
        match left.last() {
            Some(last) if *last == -value => {
                left.pop();
            }
            _ => left.push(value),
        }
    }
    left.into_iter()
        .map(|value| Ball::within(value, COEFFICIENT_ERROR))
        .fold(Ball::ZERO, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex64;

    fn value(symbol: &Symbol, omega: [f64; 2], x: f64) -> Complex64 {
        let part = |series: &Series, f: fn(f64) -> f64| -> f64 {
            let term = |((lag, power), c): (&(Lag, usize), &Ball)| {
                let phase = f64::from(lag[0]) * omega[0] + f64::from(lag[1]) * omega[1];
                c.mid * libm::pow(x, *power as f64) * f(phase)
            };
            series.0.iter().map(term).sum()
        };
        Complex64::new(part(&symbol.even, libm::cos), part(&symbol.odd, libm::sin))
    }

    #[test]
    fn products_are_those_of_complex_numbers() {
        let a = Symbol::of(&[
            ([0, 0], 0, 1.5),
            ([1, 0], 1, -0.7),
            ([-1, 2], 1, 0.3),
            ([0, -1], 2, 2.0),
        ]);
        let b = Symbol::of(&[([0, 0], 1, -0.5), ([2, 1], 0, 0.9), ([-1, 0], 1, 1.1)]);
        for (omega, x) in [([0.3, -1.1], 0.7), ([2.0, 0.4], 1.3), ([0.0, 0.0], 2.0)] {
            let expected = value(&a, omega, x).conj() * value(&b, omega, x);
            let found = value(&a.conj_times(&b), omega, x);
            // Twelve products of numbers below 8, each with a few roundings.
            assert!((found - expected).norm_sqr().sqrt() < 1e-13, "{found} {expected}");
            let square = value(&Symbol { even: a.squared(), odd: Series::default() }, omega, x);
            assert!((square - value(&a, omega, x).norm_sqr()).norm_sqr().sqrt() < 1e-13);
        }
    }

    #[test]
    fn what_cancels_leaves_nothing_behind() {
        // Diffusion 1e-4 beside a centred difference of 5: the even part keeps all digits.
        let s = Symbol::of(&[
            ([1, 0], 1, 1e-4),
            ([-1, 0], 1, 1e-4),
            ([1, 0], 1, -5.0),
            ([-1, 0], 1, 5.0),
        ]);
        let even = s.even.0[&([1, 0], 1)];
        assert_eq!(even.mid, 2e-4);
        assert!(even.rad < 1e-17);
        assert_eq!(s.odd.0[&([1, 0], 1)].mid, -10.0);
        // A third and two thirds add up to one within rounding: zero is taken as zero.
        let sum = Symbol::of(&[
            ([0, 0], 0, 1.0 / 3.0),
            ([0, 0], 0, 2.0 / 3.0),
            ([0, 0], 0, -1.0 + 1e-16),
        ]);
        assert!(sum.is_zero());
    }
}
