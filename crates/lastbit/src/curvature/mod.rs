//! Curvature of a loss over a set of examples: sharpness, and what it means for a step.
//!
//! ```text
//! mean_loss    loss, gradient and Hessian of the mean over a set, a batch at a time
//! eigen        largest eigenvalues with residuals, warm from one measurement to the next; blocks
//! threshold    the curvature beyond which each optimizer is unstable; Adam's preconditioner
//! critical     2/dt_c: the curvature along the next update, from a few losses
//! stochastic   batch sharpness, Hutchinson's trace, spectral density by Lanczos quadrature
//! ```
//!
//! # Example
//!
//! The sharpness of `½ (ab − 1)²` at `a = b = 1`, where the Hessian is `[[1, 1], [1, 1]]`:
//!
//! ```
//! use lastbit::curvature::eigen::{Wanted, eigenpairs};
//!
//! let wanted = Wanted { top: 1, smallest: true, tolerance: 1e-12, most: 100 };
//! let found = eigenpairs(2, &[], 0, wanted, |v, out| out.fill(v[0] + v[1]));
//! assert!((found.largest[0].value - 2.0).abs() < 1e-14);
//! assert!(found.smallest.unwrap().value.abs() < 1e-14);
//! ```

pub mod critical;
pub mod eigen;
pub mod mean_loss;
pub mod stochastic;
pub mod threshold;
