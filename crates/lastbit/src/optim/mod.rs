//! Descending an objective: the direction, the step with its last-bit perturbation, the schedule.

pub mod cfl;
pub mod direction;
pub mod method;
pub mod perturbation;
pub mod schedule;
