//! Mean and standard deviation of a few numbers.

use lastbit::reduce;

/// Where numbers lie and how far they scatter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// `√(Σ (x − mean)²/(n − 1))`; none of fewer than two.
    pub std: Option<f64>,
}

impl Spread {
    /// Of these numbers; none of no numbers.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = reduce::sum(values) / count as f64;
        let square = |k: usize| (values[k] - mean) * (values[k] - mean);
        let variance = || reduce::sum_by(count, square) / (count - 1) as f64;
        Some(Self { mean, std: (count > 1).then(|| variance().sqrt()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0]), Some(Spread { mean: 3.0, std: None }));
        // Squares of distances 4, 0, 4 over 2; all exact.
        assert_eq!(Spread::of(&[1.0, 3.0, 5.0]), Some(Spread { mean: 3.0, std: Some(2.0) }));
        assert!(Spread::of(&[1.0, f64::NAN]).unwrap().std.unwrap().is_nan());
    }
}
