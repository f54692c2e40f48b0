//! Estimates with a standard error: Student's intervals, bounds, tests against a target, equivalence.
//!
//! ```text
//! mean of n runs, or of n differences    x̄         error s/√n                   ν = n − 1
//! difference of two means (Welch)        ȳ − x̄     error √(a + b)               ν = (a + b)²/(a²/(n_x−1) + b²/(n_y−1))
//!                                                  a = s_x²/n_x, b = s_y²/n_y
//!
//! interval     estimate ± t_{1−(1−confidence)/2, ν} error
//! upper bound  estimate + t_{confidence, ν} error         lower bound with −
//! p below c    P(T ≤ (estimate − c)/error):  how likely a mean of c or more makes an estimate as low
//! equivalent   within ±m: p = max(p below m, p above −m), two one-sided tests (TOST)
//! ```
//!
//! Exact for normal runs, Welch's approximately: its coverage stays within a percent of what it says
//! (`tests/mathematics/statistics.rs`). Values are centred by the first of them before anything is summed. For
//! values that lie within a factor of two of each other this subtraction is exact, so an offset common
//! to all changes nothing.
//!
//! Runs that are all equal, up to the rounding of their input, tell nothing of their spread: there is
//! no estimate then, and [`NoEstimate`] says why.
//!
//! References: Welch, *Biometrika* 34, 1947; Schuirmann, *J. Pharmacokinetics and Biopharmaceutics*
//! 15, 1987.

use super::Interval;
use super::distributions::{student_cdf, student_quantile};
use super::sample::{deviation, mean};
use crate::reduce::max_abs;

/// Spreads up to this, relative to the largest value, are rounding of the input: a value is known to
/// ε/2 of itself, a difference of two to twice that.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// An estimate that is normally distributed around the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the standard error.
    pub degrees: f64,
}

/// Why runs have no [`Estimate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEstimate {
    /// A single run has no spread.
    TooFew,
    /// All runs of a sample are equal.
    NoSpread,
}

/// Two one-sided tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// The larger of both p-values.
    pub p: f64,
    /// The interval of confidence `1 − 2 level`: within the margin exactly if `p` is below the level.
    pub interval: Interval,
}

impl Estimate {
    /// The mean of one sample.
    pub fn of_mean(values: &[f64]) -> Result<Self, NoEstimate> {
        Self::of_differences(values, max_abs(values))
    }

    /// The mean of `to − from`, pair by pair.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn of_pairs(from: &[f64], to: &[f64]) -> Result<Self, NoEstimate> {
        assert_eq!(from.len(), to.len(), "values without a partner");
        let differences: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
        Self::of_differences(&differences, max_abs(from).max(max_abs(to)))
    }

    /// The mean of `to` less that of `from`, samples of any sizes and spreads.
    pub fn of_difference(from: &[f64], to: &[f64]) -> Result<Self, NoEstimate> {
        if from.len() < 2 || to.len() < 2 {
            return Err(NoEstimate::TooFew);
        }
        let origin = from[0];
        let rounding = ROUNDING * max_abs(from).max(max_abs(to));
        let moments = |values: &[f64]| {
            let centred: Vec<f64> = values.iter().map(|value| value - origin).collect();
            let sigma = deviation(&centred);
            let n = values.len() as f64;
            (sigma > rounding).then(|| (mean(&centred), sigma * sigma / n, n - 1.0))
        };
        let (x, y) = (moments(from), moments(to));
        let ((x, a, nu_x), (y, b, nu_y)) = x.zip(y).ok_or(NoEstimate::NoSpread)?;
        // Shares of the variance, so that no square overflows.
        let (share, variance) = (a / (a + b), a + b);
        let degrees = 1.0 / (share * share / nu_x + (1.0 - share) * (1.0 - share) / nu_y);
        Ok(Self { value: y - x, error: variance.sqrt(), degrees })
    }

    /// Of values that were rounded like numbers of the size `largest`.
    fn of_differences(values: &[f64], largest: f64) -> Result<Self, NoEstimate> {
        if values.len() < 2 {
            return Err(NoEstimate::TooFew);
        }
        let sigma = deviation(values);
        if sigma <= ROUNDING * largest {
            return Err(NoEstimate::NoSpread);
        }
        let centred: Vec<f64> = values.iter().map(|value| value - values[0]).collect();
        let n = values.len() as f64;
        Ok(Self { value: values[0] + mean(&centred), error: sigma / n.sqrt(), degrees: n - 1.0 })
    }

    /// The two-sided interval.
    pub fn interval(&self, confidence: f64) -> Interval {
        let reach = student_quantile(0.5 + confidence / 2.0, self.degrees) * self.error;
        Interval { low: self.value - reach, high: self.value + reach }
    }

    /// What the truth is below with this confidence.
    pub fn upper_bound(&self, confidence: f64) -> f64 {
        self.value + student_quantile(confidence, self.degrees) * self.error
    }

    /// What the truth is above with this confidence.
    pub fn lower_bound(&self, confidence: f64) -> f64 {
        self.value - student_quantile(confidence, self.degrees) * self.error
    }

    /// One-sided p-value of "the truth is below `target`".
    pub fn p_below(&self, target: f64) -> f64 {
        student_cdf((self.value - target) / self.error, self.degrees)
    }

    /// One-sided p-value of "the truth is above `target`".
    pub fn p_above(&self, target: f64) -> f64 {
        student_cdf((target - self.value) / self.error, self.degrees)
    }

    /// Two-sided p-value of "the truth is not `target`".
    pub fn p_two_sided(&self, target: f64) -> f64 {
        2.0 * self.p_below(target).min(self.p_above(target))
    }

    /// Whether the truth lies within ±`margin`.
    pub fn equivalence(&self, margin: f64, level: f64) -> Equivalence {
        Equivalence {
            p: self.p_below(margin).max(self.p_above(-margin)),
            interval: self.interval(1.0 - 2.0 * level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_spread_has_no_estimate() {
        assert_eq!(Estimate::of_mean(&[1.0]), Err(NoEstimate::TooFew));
        assert_eq!(Estimate::of_mean(&[0.1; 6]), Err(NoEstimate::NoSpread));
        // 93.1 + 0.5 − 93.1 and its like are 0.5 up to rounding.
        let base = [93.1, 93.4, 93.2];
        let better = base.map(|value| value + 0.5);
        assert_eq!(Estimate::of_pairs(&base, &better), Err(NoEstimate::NoSpread));
        assert_eq!(Estimate::of_difference(&[1.0, 2.0], &[3.0]), Err(NoEstimate::TooFew));
        // Two equal runs do not show that the spread of their method is nothing.
        assert_eq!(Estimate::of_difference(&[1.0, 2.0], &[3.0; 2]), Err(NoEstimate::NoSpread));
    }

    #[test]
    fn an_offset_changes_nothing() {
        // Multiples of 2⁻¹⁰ below 2⁵ keep their bits beside 2⁴⁰.
        let values = [3.25, 4.5, 2.125, 7.0, 5.0 + 1.0 / 1024.0];
        let moved = values.map(|value| value + 1_099_511_627_776.0);
        let (one, two) = (Estimate::of_mean(&values).unwrap(), Estimate::of_mean(&moved).unwrap());
        assert_eq!((one.error, one.degrees), (two.error, two.degrees));
        let other = [1.0, 9.0, 4.0, 2.5];
        let moved_other = other.map(|value| value + 1_099_511_627_776.0);
        assert_eq!(
            Estimate::of_difference(&values, &other),
            Estimate::of_difference(&moved, &moved_other)
        );
    }

    #[test]
    fn tests_bounds_and_intervals_agree() {
        let found = Estimate::of_mean(&[3.279, 3.277, 3.281, 3.276, 3.278, 3.2775]).unwrap();
        let bound = found.upper_bound(0.99);
        // The bound is the target whose p is 1 %; the quantile is good to an ulp, and p changes by
        // at most its density times that.
        assert!((found.p_below(bound) - 0.01).abs() < 1e-13);
        assert!((found.p_above(found.lower_bound(0.99)) - 0.01).abs() < 1e-13);
        let interval = found.interval(0.98);
        assert_eq!((interval.low, interval.high), (found.lower_bound(0.99), bound));
        // Equivalent exactly where the interval of twice the level lies within the margin.
        let shifted = Estimate { value: 0.02, ..found };
        for margin in [0.0201, 0.021, 0.0215, 0.022, 0.03] {
            let tested = shifted.equivalence(margin, 0.05);
            assert_eq!(tested.p < 0.05, tested.interval.high < margin, "{margin}: {tested:?}");
        }
    }
}
