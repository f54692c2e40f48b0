//! Which positions of a map are activated, transitioning or not activated.
//!
//! ```text
//! not activated   βx < −1        transitioning   |βx| ≤ 1        activated   βx > 1
//! ```
//!
//! The thresholds are where the tangent of Swish's slope at zero, `1/2 + βx/2`, reaches 0 and 1: the
//! range in which the paper's linearization can hold at all.
//!
//! Reference: the paper, Section 5.4 and Table 3.

/// Regime of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Slope near 0.
    NotActivated,
    /// Slope between.
    Transitioning,
    /// Slope near 1.
    Activated,
}

impl Phase {
    /// The regime at `x`.
    pub fn of(x: f64, beta: f64) -> Self {
        match beta * x {
            t if t > 1.0 => Self::Activated,
            t if t < -1.0 => Self::NotActivated,
            _ => Self::Transitioning,
        }
    }
}

impl Phase {
    /// −1, 0 or 1, for a picture.
    pub fn shade(self) -> f64 {
        match self {
            Self::NotActivated => -1.0,
            Self::Transitioning => 0.0,
            Self::Activated => 1.0,
        }
    }
}

/// Shares of the positions in each regime, and how many changed theirs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Census {
    /// Share activated.
    pub activated: f64,
    /// Share transitioning.
    pub transitioning: f64,
    /// Share not activated.
    pub not_activated: f64,
    /// Share that changed regime since the census before.
    pub changed: f64,
}

/// Takes censuses of one map after another.
#[derive(Debug, Clone, Default)]
pub struct Regimes {
    before: Vec<Phase>,
}

impl Regimes {
    /// The census of `map`.
    pub fn census(&mut self, map: &[f64], beta: f64) -> Census {
        let now: Vec<Phase> = map.iter().map(|x| Phase::of(*x, beta)).collect();
        let total = now.len().max(1) as f64;
        let share = |phase: Phase| now.iter().filter(|p| **p == phase).count() as f64 / total;
        let changed = now.iter().zip(&self.before).filter(|(a, b)| a != b).count() as f64 / total;
        let census = Census {
            activated: share(Phase::Activated),
            transitioning: share(Phase::Transitioning),
            not_activated: share(Phase::NotActivated),
            changed,
        };
        self.before = now;
        census
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_changes() {
        let mut regimes = Regimes::default();
        let first = regimes.census(&[-3.0, 0.0, 0.4, 3.0], 2.0);
        assert_eq!((first.not_activated, first.transitioning, first.activated), (0.25, 0.5, 0.25));
        assert_eq!(first.changed, 0.0);
        assert_eq!(regimes.census(&[-3.0, 3.0, 0.4, 3.0], 2.0).changed, 0.25);
    }
}
