//! A sample of runs: where they lie, how far they spread, and how well that is known.
//!
//! ```text
//! mean = Σ x/n,   sigma² = Σ (x − mean)²/(n − 1)
//!
//! (n − 1) sigma²/σ²  is chi-square with n − 1 degrees of freedom, if the runs are normal:
//! σ lies in  sigma √((n−1)/χ²_{1−a/2}) … sigma √((n−1)/χ²_{a/2})   with confidence 1 − a
//! ```
//!
//! Six runs know their σ within a factor of 0.62 to 2.45 at 95 %, twenty within 0.76 to 1.46.

use super::Interval;
use super::distributions::chi_square_quantile;
use crate::reduce::{sum, sum_by};

/// Mean, spread and range of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; none of a single one.
    pub sigma: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Sample {
    /// Of these values.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "a sample of no values");
        Self {
            n: values.len(),
            mean: mean(values),
            sigma: (values.len() > 1).then(|| deviation(values)),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// The interval of σ, exact for normal data; none where all values are equal, which shows that σ is
    /// smaller than the values resolve and not how small.
    pub fn sigma_interval(&self, confidence: f64) -> Option<Interval> {
        let (sigma, nu) = (self.sigma.filter(|sigma| *sigma > 0.0)?, self.n as f64 - 1.0);
        let tail = (1.0 - confidence) / 2.0;
        let end = |p: f64| sigma * (nu / chi_square_quantile(p, nu)).sqrt();
        Some(Interval { low: end(1.0 - tail), high: end(tail) })
    }
}

/// The mean; that of equal values is their value, to the bit.
pub fn mean(values: &[f64]) -> f64 {
    let first = values[0];
    if values.iter().all(|value| *value == first) {
        first
    } else {
        sum(values) / values.len() as f64
    }
}

/// The standard deviation of a sample: with `n − 1` in the denominator. NaN of a single value.
///
/// Values are taken relative to the first, which is exact for those within a factor of two of it: an
/// offset in common changes no bit.
pub fn deviation(values: &[f64]) -> f64 {
    let (origin, n) = (values[0], values.len());
    let mean = sum_by(n, |i| values[i] - origin) / n as f64;
    let square = |i: usize| (values[i] - origin - mean) * (values[i] - origin - mean);
    (sum_by(n, square) / (n as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_equal_values_are_data() {
        let one = Sample::of(&[0.1]);
        assert_eq!((one.mean, one.sigma, one.sigma_interval(0.95)), (0.1, None, None));
        let equal = Sample::of(&[0.1; 7]);
        assert_eq!((equal.mean, equal.sigma), (0.1, Some(0.0)));
        assert_eq!(equal.sigma_interval(0.95), None);
    }

    #[test]
    fn an_offset_changes_no_deviation() {
        let values = [0.25, 0.5, 1.75, 0.0, 3.0 + 1.0 / 4096.0];
        // 1e12 is a multiple of 2¹²; its neighbours of the same binade are 2⁻¹³ apart.
        assert_eq!(deviation(&values.map(|value| value + 1e12)), deviation(&values));
    }

    #[test]
    fn factors_of_the_module_doc() {
        for (n, low, high) in [(6, 0.62, 2.45), (20, 0.76, 1.46)] {
            let sample = Sample { n, mean: 0.0, sigma: Some(1.0), min: 0.0, max: 0.0 };
            let found = sample.sigma_interval(0.95).unwrap();
            // Two decimals are printed.
            assert!(
                (found.low - low).abs() < 0.005 && (found.high - high).abs() < 0.006,
                "{found:?}"
            );
        }
    }
}
