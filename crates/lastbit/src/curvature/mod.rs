//! Curvature of a loss over a set of examples: sharpness, and what it means for a step.
//!
//! ```text
//! empirical_risk   loss, gradient and Hessian of the mean over a set, a batch at a time
//! critical         2/dt_c: the curvature along the next update, from a few losses
//! stochastic       batch sharpness, Hutchinson's trace, spectral density by Lanczos quadrature
//! ```
//!
//! The eigenvalues of the Hessian come from [`crate::krylov::eigenpairs`].

pub mod critical;
pub mod empirical_risk;
pub mod stochastic;
