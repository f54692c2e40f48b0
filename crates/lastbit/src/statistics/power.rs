//! How large a gain must be to be found, and how many runs a gain needs.
//!
//! ```text
//! paired        n pairs,        σ of the differences:   δ = (gain/σ) √n,       ν = n − 1
//! independent   n runs a side,  σ of the runs:          δ = (gain/σ) √(n/2),   ν = 2n − 2
//!
//! power = P(|T| > t),   T noncentral t (ν, δ),   t = Student's quantile at 1 − level/2
//! ```
//!
//! Exact for the t-test of normal data. The sign-flip test finds the gain that a t-test finds in 80 %
//! in 63 % with six pairs (all six differences must have one sign), in 80 % from ten pairs on
//! (simulated in `tests/mathematics/statistics.rs`).

use super::distributions::student_quantile;
use super::noncentral::noncentral_t_cdf;
use super::special::first;

/// How runs of two methods are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// Pairs with a seed in common; σ is that of their differences.
    Paired,
    /// As many runs a side, on their own; σ is that of the runs of a side.
    Independent,
}

/// Runs a side beyond which nobody goes.
pub const MOST_RUNS: usize = 1_000_000_000;

impl Design {
    fn degrees(self, n: usize) -> f64 {
        match self {
            Self::Paired => n as f64 - 1.0,
            Self::Independent => 2.0 * n as f64 - 2.0,
        }
    }

    /// δ over the gain in units of σ.
    fn precision(self, n: usize) -> f64 {
        match self {
            Self::Paired => (n as f64).sqrt(),
            Self::Independent => (n as f64 / 2.0).sqrt(),
        }
    }

    /// Chance that `n` runs (pairs, or a side) show a gain of `effect` σ at `level`, two-sided.
    ///
    /// # Panics
    ///
    /// If `n` is below 2: one run knows no σ.
    pub fn power(self, n: usize, effect: f64, level: f64) -> f64 {
        assert!(n >= 2, "power of {n} runs");
        let nu = self.degrees(n);
        let t = student_quantile(1.0 - level / 2.0, nu);
        exceeds(t, nu, effect * self.precision(n))
    }

    /// The smallest gain, in units of σ, that `n` runs show with the chance `power`. `None` below
    /// two runs.
    pub fn detectable(self, n: usize, level: f64, power: f64) -> Option<f64> {
        if n < 2 {
            return None;
        }
        let nu = self.degrees(n);
        let t = student_quantile(1.0 - level / 2.0, nu);
        Some(first(|delta| exceeds(t, nu, delta) >= power) / self.precision(n))
    }

    /// The fewest runs that show a gain of `effect` σ with the chance `power`; `None` beyond
    /// [`MOST_RUNS`].
    pub fn runs_needed(self, effect: f64, level: f64, power: f64) -> Option<usize> {
        let enough = |n: usize| self.power(n, effect, level) >= power;
        let mut high = 2;
        while !enough(high) {
            if high >= MOST_RUNS {
                return None;
            }
            high *= 2;
        }
        // Power grows with n.
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if middle >= 2 && enough(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }
}

fn exceeds(t: f64, nu: f64, delta: f64) -> f64 {
    // T with −δ is −T with δ.
    noncentral_t_cdf(-t, nu, delta) + noncentral_t_cdf(-t, nu, -delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gain_power_is_the_level() {
        for design in [Design::Paired, Design::Independent] {
            for n in [2, 6, 30] {
                // Sums of some thousand terms: 100 ε each.
                assert!((design.power(n, 0.0, 0.05) - 0.05).abs() < 1e-13);
            }
        }
    }

    #[test]
    fn the_three_questions_agree() {
        for design in [Design::Paired, Design::Independent] {
            for n in [2, 3, 6, 17, 400] {
                let effect = design.detectable(n, 0.05, 0.8).unwrap();
                // The bisection ends at neighbouring floats, the sum's error is below 1e-13.
                assert!((design.power(n, effect, 0.05) - 0.8).abs() < 1e-12);
                assert_eq!(design.runs_needed(effect * 1.0001, 0.05, 0.8), Some(n));
                assert_eq!(design.runs_needed(effect * 0.9999, 0.05, 0.8), Some(n + 1));
            }
            assert_eq!(design.detectable(1, 0.05, 0.8), None);
            assert_eq!(design.runs_needed(1e-9, 0.05, 0.8), None);
        }
    }
}
