//! Is a difference larger than the noise? Spread, intervals, tests and power for a handful of runs.
//!
//! ```text
//! special        incomplete gamma and beta functions; the inverse of an increasing function
//! distributions  normal, chi-square, Student's t, F
//! noncentral     noncentral t
//! sample         mean, sigma and its interval under normality
//! bootstrap      BCa intervals of any statistic
//! permutation    sign flips of pairs, splits of two samples; Holm's correction
//! power          smallest detectable gain, runs needed for a gain
//! components     how much of the variance is rounding
//! answers        churn and disagreement, example by example
//! ```
//!
//! Written by hand on the pinned `libm`, because the crates for it call the platform's: an interval
//! must not depend on the machine. Too little data is data: what cannot be computed is `None`.

pub mod answers;
pub mod bootstrap;
pub mod components;
pub mod distributions;
pub mod noncentral;
pub mod permutation;
pub mod power;
pub mod sample;
mod special;

/// Where random numbers of a resampling come from, and how many resamples there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// Resamples.
    pub resamples: usize,
    /// Seed.
    pub seed: u64,
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
}
