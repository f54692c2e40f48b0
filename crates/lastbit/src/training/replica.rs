//! One replica: its state, what makes it differ from the others, and its step.

use std::sync::Arc;

use super::has_diverged;
use crate::Real;
use crate::objective::TrainableModel;
use crate::optim::cfl;
use crate::optim::direction::{Memory, Optimizer};
use crate::optim::perturbation::Perturbation;
use crate::reduce::max_abs;

/// What makes a replica differ from another that started equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variant {
    /// Which of the trainer's sequences of batches it sees.
    pub source: usize,
    /// Rounding of its steps.
    pub perturbation: Perturbation,
    /// Seed of the order of the examples within each batch; `None` for the order of the source.
    pub order: Option<u64>,
    /// A bit flipped once.
    pub flip: Option<Flip>,
}

impl Variant {
    /// The plain run.
    pub const PLAIN: Self =
        Self { source: 0, perturbation: Perturbation::NONE, order: None, flip: None };
}

/// The last bit of one parameter, flipped before one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flip {
    /// Which parameter.
    pub parameter: usize,
    /// Before which step, counted from 0.
    pub step: usize,
}

/// Loss and right answers of a replica since its epoch began, each taken before the step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EpochStats {
    /// Loss of the last batch.
    pub last_loss: f64,
    /// Sum of losses, each times the size of its batch.
    pub loss: f64,
    /// Right answers.
    pub right: usize,
    /// Examples.
    pub examples: usize,
}

impl EpochStats {
    /// Mean loss of the epoch so far.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.examples as f64
    }

    /// Share of right answers in the epoch so far; 0 where targets are no classes.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.examples as f64
    }
}

/// The state of a replica: all that its next step depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Replica<F> {
    /// Parameters.
    pub theta: Vec<F>,
    /// What the optimizer remembers.
    pub memory: Memory<F>,
    /// What the network carries along besides parameters.
    pub buffers: Vec<F>,
    /// Its epoch so far.
    pub epoch_stats: EpochStats,
    /// Largest absolute value of the parameters at the start, and at least 1: seen from zero, any
    /// step is a blow-up.
    pub scale: f64,
    /// The step, counted from 1, after which it had diverged.
    pub ended: Option<usize>,
}

impl<F: Real> Replica<F> {
    /// Before the first step.
    pub fn start(theta: Vec<F>, buffers: Vec<F>, optimizer: &Optimizer) -> Self {
        let memory = optimizer.at_rest(&theta);
        let scale = max_abs(&theta).max(1.0);
        Self { theta, memory, buffers, epoch_stats: EpochStats::default(), scale, ended: None }
    }

    /// One step on a batch.
    #[expect(clippy::too_many_arguments, reason = "all of a step, for one caller")]
    pub(super) fn advance<O: TrainableModel<F>>(
        &mut self,
        step: usize,
        variant: &Variant,
        optimizer: &Optimizer,
        rate: f64,
        model: &mut O,
        batch: &Arc<O::Batch>,
        examples: usize,
        gradient: &mut [F],
    ) -> Result<(), O::Error> {
        if let Some(flip) = variant.flip.filter(|flip| flip.step == step) {
            let value = &mut self.theta[flip.parameter];
            *value = value.flip_last_bit();
        }
        model.load_buffers(&self.buffers);
        model.set_batch(batch);
        optimizer.look_ahead(&mut self.theta, &mut self.memory);
        self.take_gradient(optimizer, model, gradient)?;
        let loss = model.last_loss(&self.theta)?;
        let right = model.right_answers().iter().filter(|right| **right).count();
        let stats = &mut self.epoch_stats;
        stats.last_loss = loss;
        stats.loss += loss * examples as f64;
        stats.right += right;
        stats.examples += examples;
        self.follow(step, optimizer, rate, variant.perturbation, model, gradient)
    }

    /// The gradient, with what is needed for Hessian-vector products where the step wants some.
    pub(super) fn take_gradient<O: TrainableModel<F>>(
        &self,
        optimizer: &Optimizer,
        model: &mut O,
        gradient: &mut [F],
    ) -> Result<(), O::Error> {
        match optimizer.products(&self.memory) {
            0 => model.gradient(&self.theta, gradient),
            _ => model.linearize(&self.theta, gradient),
        }
    }

    /// The step along a gradient that the model has just taken.
    pub(super) fn follow<O: TrainableModel<F>>(
        &mut self,
        step: usize,
        optimizer: &Optimizer,
        rate: f64,
        perturbation: Perturbation,
        model: &mut O,
        gradient: &mut [F],
    ) -> Result<(), O::Error> {
        let products = optimizer.products(&self.memory);
        if products > 0 {
            self.look_at_curvature(products, optimizer, model, gradient)?;
        }
        optimizer.step(&mut self.theta, gradient, &mut self.memory, rate, perturbation);
        model.update_running_stats();
        self.buffers.copy_from_slice(model.buffers());
        if has_diverged(&self.theta, self.scale) {
            self.ended = Some(step + 1);
        }
        Ok(())
    }

    fn look_at_curvature<O: TrainableModel<F>>(
        &mut self,
        products: usize,
        optimizer: &Optimizer,
        model: &mut O,
        gradient: &[F],
    ) -> Result<(), O::Error> {
        let parts = optimizer.parts(model.layers());
        let mut product = vec![F::default(); self.theta.len()];
        for _ in 0..products {
            let v = cfl::directions(&parts, &mut self.memory, gradient);
            model.hessian_vector(&self.theta, v, &mut product)?;
            cfl::follow(&parts, &mut self.memory, &product);
        }
        Ok(())
    }
}
