//! The seam: a function of parameters with its gradient and its Hessian.
//!
//! Whatever implements it can be descended, perturbed, judged, searched for its edge of stability
//! and measured for sharpness.

use std::sync::Arc;

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

    /// `out = ∇L(θ)`, keeping what products with the Hessian at `θ` need as well.
    fn linearize(&mut self, theta: &[F], out: &mut [F]) {
        self.gradient(theta, out);
    }

    /// `out = ∇²L(θ) v`.
    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]);

    /// Whether the gradient is linear in `θ` up to a constant: then nothing can restrain an
    /// instability.
    fn is_quadratic(&self) -> bool {
        false
    }
}

/// An objective over examples, of which one batch at a time is looked at.
pub trait OnBatches<F: Real>: Objective<F> {
    /// Examples with their targets.
    type Batch: Send + Sync;

    /// Loss, gradient and products mean this batch from now on.
    fn set_batch(&mut self, batch: &Arc<Self::Batch>);

    /// State besides `θ` that training carries along (running statistics of batch norm).
    fn buffers(&self) -> &[F];

    /// Puts that state in place.
    fn load_buffers(&mut self, buffers: &[F]);

    /// Tells that a training step was taken with the last gradient: what the gradient saw of the
    /// batch becomes part of the buffers. Losses and products in between leave no trace.
    fn settle(&mut self);
}
