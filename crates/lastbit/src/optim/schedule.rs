//! How the learning rate changes while training.
//!
//! ```text
//! constant     dt
//! every        dt gamma gamma …          once for each n that have passed
//! milestones   dt gamma gamma …          once for each milestone reached
//! cosine       floor + (dt − floor)(1 + cos(π t/T))/2,   and floor after T
//! ```
//!
//! Time is counted in whole epochs or in steps, both from zero; the value at a step is a function
//! of that step alone. All in `f64`; factors multiply one after the other, from left to right.
//!
//! Reference for the cosine: Loshchilov and Hutter, ICLR 2017, without restarts.

/// What time is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Passes over the data.
    Epochs,
    /// Steps.
    Steps,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// The same rate throughout.
    Constant,
    /// Multiplied by `gamma` every `every`.
    Every {
        /// The factor.
        gamma: f64,
        /// Time between two of them.
        every: usize,
        /// What time is counted in.
        clock: Clock,
    },
    /// Multiplied by `gamma` at each of these times.
    Milestones {
        /// The factor.
        gamma: f64,
        /// The times.
        at: Vec<usize>,
        /// What time is counted in.
        clock: Clock,
    },
    /// Half a cosine from the full rate to `floor`.
    Cosine {
        /// Where it ends.
        floor: f64,
        /// When it gets there.
        over: usize,
        /// What time is counted in.
        clock: Clock,
    },
}

impl Schedule {
    /// The rate at a step of an epoch, for a full rate of `dt`.
    pub fn rate(&self, dt: f64, epoch: usize, step: usize) -> f64 {
        let now = |clock: Clock| match clock {
            Clock::Epochs => epoch,
            Clock::Steps => step,
        };
        let times = |count: usize, gamma: f64| (0..count).fold(dt, |rate, _| rate * gamma);
        match self {
            Self::Constant => dt,
            Self::Every { gamma, every, clock } => times(now(*clock) / every, *gamma),
            Self::Milestones { gamma, at, clock } => {
                times(at.iter().filter(|time| **time <= now(*clock)).count(), *gamma)
            }
            Self::Cosine { floor, over, clock } => {
                let share = now(*clock).min(*over) as f64 / *over as f64;
                floor + (dt - floor) * (1.0 + libm::cos(std::f64::consts::PI * share)) / 2.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_schedule_divides_by_ten_every_forty_epochs() {
        let schedule = Schedule::Every { gamma: 0.1, every: 40, clock: Clock::Epochs };
        let milestones =
            Schedule::Milestones { gamma: 0.1, at: vec![40, 80, 120, 160], clock: Clock::Epochs };
        for (epoch, drops) in [(0, 0), (39, 0), (40, 1), (79, 1), (80, 2), (199, 4)] {
            let rate = schedule.rate(0.1, epoch, 391 * epoch);
            let expected = [0.1, 0.01, 1e-3, 1e-4, 1e-5][drops];
            // Each of at most four products, and each factor 0.1, is off by half an ulp.
            assert!((rate - expected).abs() <= 8.0 * f64::EPSILON * expected, "epoch {epoch}");
            assert_eq!(rate.to_bits(), milestones.rate(0.1, epoch, 0).to_bits());
        }
    }

    #[test]
    fn a_cosine_goes_from_the_full_rate_through_the_middle_to_its_floor() {
        let schedule = Schedule::Cosine { floor: 0.2, over: 10, clock: Clock::Steps };
        let rate = |step| schedule.rate(1.0, 7, step);
        assert_eq!(rate(0), 1.0);
        // cos(π/2) is off by less than its rounding.
        assert!((rate(5) - 0.6).abs() < 1e-15);
        assert_eq!((rate(10), rate(11)), (0.2, 0.2));
        assert!((0..10).all(|step| rate(step) > rate(step + 1)));
    }

    #[test]
    fn epochs_and_steps_are_two_clocks() {
        let every = |clock| Schedule::Every { gamma: 0.5, every: 3, clock };
        assert_eq!(every(Clock::Epochs).rate(1.0, 2, 100), 1.0);
        assert_eq!(every(Clock::Steps).rate(1.0, 2, 7), 0.25);
        assert_eq!(Schedule::Constant.rate(0.3, 5, 500), 0.3);
    }
}
