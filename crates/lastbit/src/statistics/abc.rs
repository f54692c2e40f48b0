//! BCa intervals without resampling, for large samples: approximate bootstrap confidence (ABC).
//!
//! The statistic `T` of shares `p_i` of the values is expanded to second order around `p = 1/n`:
//!
//! ```text
//! T_i, T_ii   first and second derivative as the share of value i grows
//! error       √(Σ T_i²)/n,     a = Σ T_i³/(6 (Σ T_i²)^{3/2}),     b = Σ T_ii/(2n²)
//! δ_i         T_i/(n² error):  the direction in which the statistic changes fastest
//! c           d²T/dλ² at 1/n + λδ, over 2 error
//! z₀          Φ⁻¹(2 Φ(a) Φ(c − b/error))
//! ends        T(1/n + λδ),   λ = w/(1 − a w)²,   w = z₀ ± z
//! ```
//!
//! A mean, and a difference of means, is linear in the shares: `b = c = 0`. For the standard deviation
//! of values with mean 0 and variance `v = s²` (divisor n) along any direction the variance is
//! `v + λ Σ δ_i x_i² − λ² (Σ δ_i x_i)²`, from which all derivatives follow. The difference to BCa is
//! of the order `n^{−3/2}`, less than the error of any number of resamples one would draw.
//!
//! Reference: Efron and Tibshirani, *An introduction to the bootstrap*, 1993, 14.4 and 22.6.

use super::Interval;
use super::distributions::{normal_cdf, normal_quantile};
use super::sample;
use crate::reduce::sum_by;

/// Interval of a linear statistic of one or more samples, whose `changes` are those with one value
/// left out. `None` where nothing changes it.
pub fn of_linear(estimate: f64, changes: &[Vec<f64>], confidence: f64) -> Option<Interval> {
    // T_i/n is (n − 1)/n of such a change.
    let moment = |power: i32| -> f64 {
        let of_sample = |changes: &Vec<f64>| {
            let share = (changes.len() as f64 - 1.0) / changes.len() as f64;
            sum_by(changes.len(), |i| (share * changes[i]).powi(power))
        };
        changes.iter().map(of_sample).sum()
    };
    let (squares, cubes) = (moment(2), moment(3));
    let error = squares.sqrt();
    let a = cubes / (6.0 * squares * error);
    ends(a, 0.0, confidence, |lambda| estimate + lambda * error).filter(|_| error > 0.0)
}

/// Interval of a standard deviation. `None` where all values are equal.
pub fn of_sigma(values: &[f64], confidence: f64) -> Option<Interval> {
    let (count, n) = (values.len(), values.len() as f64);
    let mean = sample::mean(values);
    let x = |i: usize| values[i] - mean;
    let v = sum_by(count, |i| x(i) * x(i)) / n;
    let s = v.sqrt();
    let first = |i: usize| (x(i) * x(i) - v) / (2.0 * s);
    let second = |i: usize| -x(i) * x(i) / s - first(i) * first(i) / s;
    let squares = sum_by(count, |i| first(i) * first(i));
    let error = squares.sqrt() / n;
    if error.is_nan() || error <= 0.0 {
        return None;
    }
    let a = sum_by(count, |i| first(i) * first(i) * first(i)) / (6.0 * squares * squares.sqrt());
    let b = sum_by(count, second) / (2.0 * n * n);
    let delta = |i: usize| first(i) / (n * n * error);
    let (linear, square) =
        (sum_by(count, |i| delta(i) * x(i) * x(i)), sum_by(count, |i| delta(i) * x(i)));
    let bend = -square * square / s - linear * linear / (4.0 * s * v);
    let unbiased = (n / (n - 1.0)).sqrt();
    let along = |lambda: f64| {
        let variance = v + lambda * linear - lambda * lambda * square * square;
        unbiased * variance.max(0.0).sqrt()
    };
    ends(a, bend / (2.0 * error) - b / error, confidence, along)
}

/// Both ends; `bias` is `c − b/error`.
fn ends(a: f64, bias: f64, confidence: f64, along: impl Fn(f64) -> f64) -> Option<Interval> {
    let z0 = normal_quantile(2.0 * normal_cdf(a) * normal_cdf(bias));
    let z = normal_quantile(0.5 + confidence / 2.0);
    let end = |z: f64| {
        let w = z0 + z;
        along(w / ((1.0 - a * w) * (1.0 - a * w)))
    };
    let found = Interval { low: end(-z), high: end(z) };
    (found.low.is_finite() && found.high.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use crate::rng::Stream;
    use crate::statistics::{Resampling, bootstrap};

    #[test]
    fn large_samples_get_what_resampling_gives() {
        // Exponential values: skewness 2, kurtosis 9.
        let skewed = |seed: u64, n: u64| -> Vec<f64> {
            (0..n).map(|i| 7.0 - libm::log(Stream::new(seed, 0).uniform(i))).collect()
        };
        let (base, new) = (skewed(1, 600), skewed(2, 500));
        let drawn = Resampling { resamples: 20_000, seed: 4 };
        let infeasible = Resampling { resamples: 1 << 40, seed: 4 };
        let pairs = [
            (bootstrap::of_mean(&base, 0.95, drawn), bootstrap::of_mean(&base, 0.95, infeasible)),
            (bootstrap::of_sigma(&base, 0.95, drawn), bootstrap::of_sigma(&base, 0.95, infeasible)),
            (
                bootstrap::of_difference(&base, &new, 0.95, drawn),
                bootstrap::of_difference(&base, &new, 0.95, infeasible),
            ),
        ];
        for (by_resampling, by_expansion) in pairs {
            let (one, two) = (by_resampling.unwrap(), by_expansion.unwrap());
            // In standard errors: an end of 20,000 resamples has √(0.025 · 0.975/B)/φ(1.96) = 0.019
            // and, through z₀, √(π/(2B)) = 0.009: four of both are 0.11. Third-order terms: 0.04.
            let error = (one.high - one.low) / 3.92;
            assert!((one.low - two.low).abs() < 0.15 * error, "{one:?} {two:?}");
            assert!((one.high - two.high).abs() < 0.15 * error, "{one:?} {two:?}");
            // And not by being symmetric: of skewed data no end is where the normal one would be.
            let centre = (two.low + two.high) / 2.0;
            assert!(two.high > centre && two.low < centre);
        }
        assert_eq!(bootstrap::of_mean(&[2.0; 9], 0.95, infeasible), None);
        assert_eq!(bootstrap::of_sigma(&[2.0; 9], 0.95, infeasible), None);
    }
}
