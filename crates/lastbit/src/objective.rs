//! The seam: a function of parameters with its gradient and its Hessian.
//!
//! Whatever implements it can be descended, perturbed, judged, searched for its edge of stability
//! and measured for sharpness.

use crate::Real;

/// A function `L(θ)` to be made small.
pub trait Objective<F: Real>: Clone {
    /// Number of parameters.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `L(θ)`.
    fn loss(&mut self, theta: &[F]) -> f64;

    /// `out = ∇L(θ)`.
    fn gradient(&mut self, theta: &[F], out: &mut [F]);

    /// `out = ∇²L(θ) v`.
    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]);

    /// Whether the gradient is linear in `θ` up to a constant: then nothing can restrain an
    /// instability.
    fn is_quadratic(&self) -> bool {
        false
    }
}
