//! One replica: its state, what makes it differ from the others, and its step.

use std::sync::Arc;

use super::{Learner, has_diverged};
use crate::Real;
use crate::nn::Batch;
use crate::optim::cfl;
use crate::optim::direction::{Memory, Method, Optimizer};
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

/// What a replica has seen since its epoch began, before each step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Loss of the last batch.
    pub last_loss: f64,
    /// Sum of losses, each times the size of its batch.
    pub loss: f64,
    /// Right answers.
    pub right: usize,
    /// Examples.
    pub examples: usize,
}

impl Tally {
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
    /// What it saw in this epoch.
    pub tally: Tally,
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
        Self { theta, memory, buffers, tally: Tally::default(), scale, ended: None }
    }

    #[expect(clippy::too_many_arguments, reason = "all of a step, for one caller")]
    pub(super) fn advance<O: Learner<F>>(
        &mut self,
        step: usize,
        variant: &Variant,
        optimizer: &Optimizer,
        rate: f64,
        objective: &mut O,
        batch: &Arc<Batch<F>>,
        examples: usize,
        gradient: &mut [F],
    ) {
        if let Some(flip) = variant.flip.filter(|flip| flip.step == step) {
            let value = &mut self.theta[flip.parameter];
            *value = value.flip_last_bit();
        }
        objective.load_buffers(&self.buffers);
        objective.set_batch(batch);
        optimizer.look_ahead(&mut self.theta, &mut self.memory);
        self.take_gradient(optimizer, objective, gradient);
        self.tally.last_loss = objective.last_loss();
        self.tally.loss += self.tally.last_loss * examples as f64;
        self.tally.right += objective.right_answers().iter().filter(|right| **right).count();
        self.tally.examples += examples;
        self.follow(step, optimizer, rate, variant.perturbation, objective, gradient);
    }

    /// The gradient, with what is needed for products with the Hessian where the step wants some.
    pub(super) fn take_gradient<O: Learner<F>>(
        &self,
        optimizer: &Optimizer,
        objective: &mut O,
        gradient: &mut [F],
    ) {
        match optimizer.products(&self.memory) {
            0 => objective.gradient(&self.theta, gradient),
            _ => objective.linearize(&self.theta, gradient),
        }
    }

    /// The step along a gradient that the objective has just taken.
    pub(super) fn follow<O: Learner<F>>(
        &mut self,
        step: usize,
        optimizer: &Optimizer,
        rate: f64,
        perturbation: Perturbation,
        objective: &mut O,
        gradient: &mut [F],
    ) {
        let products = optimizer.products(&self.memory);
        if products > 0 {
            self.look_at_curvature(products, optimizer, objective, gradient);
        }
        optimizer.step(&mut self.theta, gradient, &mut self.memory, rate, perturbation);
        objective.settle();
        self.buffers.copy_from_slice(objective.buffers());
        if has_diverged(&self.theta, self.scale) {
            self.ended = Some(step + 1);
        }
    }

    fn look_at_curvature<O: Learner<F>>(
        &mut self,
        products: usize,
        optimizer: &Optimizer,
        objective: &mut O,
        gradient: &[F],
    ) {
        let layers = match optimizer.method {
            Method::Cfl { by_layer: true, .. } => objective.layers(),
            _ => std::iter::once(0..self.theta.len()).collect(),
        };
        let mut product = vec![F::default(); self.theta.len()];
        for _ in 0..products {
            let v = cfl::directions(&layers, &mut self.memory, gradient);
            objective.hessian_vector(&self.theta, v, &mut product);
            cfl::follow(&layers, &mut self.memory, &product);
        }
    }
}
