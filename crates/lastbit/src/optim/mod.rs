//! Descending an objective: the step, with the last-bit perturbation, and momentum.

pub mod descent;
pub mod nesterov;
pub mod perturbation;
