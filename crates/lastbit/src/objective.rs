//! The seam: a function of parameters with its gradient and its Hessian, on a batch.
//!
//! ```text
//! Objective             L(θ), ∇L(θ), ∇²L(θ) v                        gradient descent, verdict, sharpness
//! StochasticObjective   the same on a batch of the model's own type   mini-batches, batch sharpness
//! TrainableModel        what training reports besides                 replicas in lock step, epochs
//! ```
//!
//! Whatever implements them (a network of [`nn`](crate::nn), a GPU, a model in plain Rust or behind
//! another language) is trained with any optimizer and perturbation, judged, searched for its edge of
//! stability and measured for sharpness. A model needs a loss, a gradient, a Hessian-vector product
//! and a batch; all other methods have defaults. `examples/own_model.rs` shows one.

use std::ops::Range;
use std::sync::Arc;

use crate::Real;

/// A function `L(θ)` to be made small.
pub trait Objective<F: Real>: Clone {
    /// Why it could not be evaluated; [`Infallible`](std::convert::Infallible) where arithmetic is all
    /// there is. Overflow and NaN are values, not errors.
    type Error;

    /// Number of parameters.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `L(θ)`.
    ///
    /// # Errors
    ///
    /// If it could not be computed; likewise below.
    fn loss(&mut self, theta: &[F]) -> Result<f64, Self::Error>;

    /// `out = ∇L(θ)`.
    ///
    /// # Errors
    ///
    /// See [`loss`](Self::loss).
    fn gradient(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Self::Error>;

    /// `out = ∇L(θ)`, keeping what Hessian-vector products at `θ` need as well.
    ///
    /// # Errors
    ///
    /// See [`loss`](Self::loss).
    fn linearize(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Self::Error> {
        self.gradient(theta, out)
    }

    /// `out = ∇²L(θ) v`.
    ///
    /// # Errors
    ///
    /// See [`loss`](Self::loss).
    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]) -> Result<(), Self::Error>;

    /// Whether the gradient is linear in `θ` up to a constant: then nothing can restrain an
    /// instability.
    fn is_quadratic(&self) -> bool {
        false
    }

    /// Unit roundoff of the arithmetic that the loss is computed in. In single precision a loss does not
    /// tell a rise from a fall, and is not used to judge a step.
    fn loss_roundoff(&self) -> f64 {
        F::UNIT_ROUNDOFF
    }
}

/// An objective over examples, evaluated on one batch at a time.
pub trait StochasticObjective<F: Real>: Objective<F> {
    /// Examples with their targets, in whatever form the model wants them.
    type Batch: Send + Sync;

    /// Loss, gradient and Hessian mean this batch from now on. It is only remembered here: what can
    /// fail is done when one of them is asked for.
    fn set_batch(&mut self, batch: &Arc<Self::Batch>);

    /// State besides `θ` that training carries along (running statistics of batch norm).
    fn buffers(&self) -> &[F] {
        &[]
    }

    /// Puts that state in place.
    fn load_buffers(&mut self, buffers: &[F]) {
        assert!(buffers.is_empty(), "{} buffers for a model without any", buffers.len());
    }

    /// Called after a training step with the last gradient: what the gradient saw of the batch becomes
    /// part of the buffers. Losses and Hessian-vector products in between leave no trace.
    fn update_running_stats(&mut self) {}
}

/// A model that can be trained and evaluated.
pub trait TrainableModel<F: Real>: StochasticObjective<F> {
    /// The loss of the batch at `θ`, where the last gradient was taken; free for a model that has
    /// computed it on the way.
    ///
    /// # Errors
    ///
    /// See [`Objective::loss`].
    fn last_loss(&mut self, theta: &[F]) -> Result<f64, Self::Error> {
        self.loss(theta)
    }

    /// For each example of that batch whether its class was found; empty where targets are no
    /// classes.
    fn right_answers(&self) -> Vec<bool> {
        vec![]
    }

    /// The parameters of each layer, tiling the flat vector.
    fn layers(&self) -> Vec<Range<usize>> {
        std::iter::once(0..self.len()).collect()
    }

    /// How a finished network does on a batch: with its running statistics, not the batch's.
    ///
    /// # Errors
    ///
    /// See [`Objective::loss`].
    fn evaluate(
        &mut self,
        theta: &[F],
        batch: &Arc<Self::Batch>,
    ) -> Result<Evaluation, Self::Error> {
        self.set_batch(batch);
        Ok(Evaluation { loss: self.loss(theta)?, ..Evaluation::default() })
    }
}

/// What a network answers on examples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// Mean loss.
    pub loss: f64,
    /// For each example whether its class was found; empty where targets are no classes.
    pub right: Vec<bool>,
    /// For each example the class that was answered; empty where targets are no classes.
    pub classes: Vec<u32>,
}

impl Evaluation {
    /// Share of classes found.
    pub fn accuracy(&self) -> Option<f64> {
        let right = self.right.iter().filter(|right| **right).count();
        (!self.right.is_empty()).then(|| right as f64 / self.right.len() as f64)
    }
}
