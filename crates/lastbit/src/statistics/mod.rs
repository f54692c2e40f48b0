//! Is a difference larger than the noise? Spread, intervals, tests and power for a handful of runs.
//!
//! ```text
//! special        incomplete gamma and beta functions; the inverse of an increasing function
//! distributions  normal, chi-square, Student's t, F
//! noncentral     noncentral t
//! sample         mean, sigma and its interval under normality
//! t_test         Student's and Welch's intervals; one-sided tests against a target; equivalence
//! median         a median from order statistics, of draws that are known to lie in intervals
//! abc            BCa intervals without resampling, for large samples
//! bootstrap      BCa intervals of mean, sigma and difference
//! permutation    sign flips of pairs, splits of two samples; Holm's correction
//! power          minimum detectable effect, runs needed for a gain
//! sequential     looks at a growing number of runs, with the level kept
//! envelope       could rounding alone have made this run?
//! components     how much of the variance is rounding
//! quotient       one standard deviation over another, with its interval
//! answers        churn and disagreement, example by example
//! ```
//!
//! Written by hand on the pinned `libm`, because the crates for it call the platform's: an interval
//! must not depend on the machine. Too little data is data: what cannot be computed is `None`.

mod abc;
pub mod answers;
pub mod bootstrap;
pub mod components;
pub mod distributions;
pub mod envelope;
pub mod median;
pub mod noncentral;
pub mod permutation;
pub mod power;
pub mod quotient;
pub mod sample;
pub mod sequential;
mod special;
pub mod t_test;

/// Where random numbers of a resampling come from, and how many resamples there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// Resamples.
    pub resamples: usize,
    /// Seed.
    pub seed: u64,
}

/// Values that are drawn at most for one interval or test; more take seconds and give no digit that
/// large samples do not have by expansion.
pub const MOST_DRAWS: usize = 1 << 25;

impl Resampling {
    /// Whether samples of so many values in all are resampled.
    fn is_feasible(self, values: usize) -> bool {
        values.saturating_mul(self.resamples) <= MOST_DRAWS
    }
}

impl Default for Resampling {
    fn default() -> Self {
        Self { resamples: 9999, seed: 0 }
    }
}

/// An interval of confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Streams of one seed, so that no two uses share their draws.
mod stream {
    pub const BOOTSTRAP: u64 = 1 << 56;
    pub const SIGN_FLIP: u64 = 2 << 56;
    pub const SPLIT: u64 = 3 << 56;
    pub const SEQUENTIAL: u64 = 4 << 56;
}
