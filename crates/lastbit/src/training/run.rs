//! One replica's training as a [`Dynamics`]: what is asked of a PDE can be asked of it.
//!
//! ```text
//! state     θ | memory of the optimizer | buffers: all that the next step depends on,
//!           besides the number of the step, which decides the batch
//! energy    L(θ) + (alpha/2) |θ|²      of plain gradient descent on one and the same batch, in f64
//! ```
//!
//! The bits are those of a [`Trainer`](super::Trainer) at a constant rate. A clone, and one that was
//! given another state, sees the same batches from where it is: twins differ in their state alone.
//!
//! Momentum, Adam and changing batches have no energy that every small step lowers. In single
//! precision the loss is rounded so coarsely that it does not tell a rise from a fall: no energy
//! there either. The gradient that an energy comes with is kept for the step that follows, so that
//! watching the energy costs nothing.

use std::cell::RefCell;
use std::sync::Arc;

use super::{Learner, Replica};
use crate::batches::Batches;
use crate::nn::Batch;
use crate::optim::direction::{Method, Optimizer};
use crate::optim::perturbation::Perturbation;
use crate::reduce::{max_abs, sum_by};
use crate::{Dynamics, Real};

/// How far a value may be moved before Adam's step stops to be linear, over the scale of the state:
/// it divides by roots of squared gradients. The CFL step divides by norms.
const LINEAR_RANGE_OF_ADAM: f64 = 1e-4;

/// A replica in training, with its own objective and batches.
#[derive(Debug, Clone)]
pub struct Run<F, O> {
    optimizer: Optimizer,
    dt: f64,
    step: usize,
    replica: Replica<F>,
    /// The replica's numbers one after the other.
    state: Vec<F>,
    /// In a cell, because asking for the energy uses them.
    tools: RefCell<Tools<F, O>>,
}

/// What a replica borrows for a step.
#[derive(Debug, Clone)]
struct Tools<F, O> {
    objective: O,
    batches: Batches<F>,
    gradient: Vec<F>,
    /// The loss that the gradient belongs to, where it is that of the coming step.
    loss: Option<f64>,
}

impl<F: Real, O: Learner<F>> Tools<F, O> {
    fn look(&mut self, replica: &Replica<F>, optimizer: &Optimizer, batch: &Arc<Batch<F>>) {
        self.objective.load_buffers(&replica.buffers);
        self.objective.set_batch(batch);
        replica.take_gradient(optimizer, &mut self.objective, &mut self.gradient);
        self.loss = Some(self.objective.last_loss());
    }
}

impl<F: Real, O: Learner<F>> Run<F, O> {
    /// Starts from `theta` and `buffers`.
    ///
    /// # Panics
    ///
    /// If `theta` has another length than the objective's parameters, or `dt` is not positive.
    pub fn new(
        objective: O,
        mut batches: Batches<F>,
        optimizer: Optimizer,
        dt: f64,
        theta: Vec<F>,
        buffers: Vec<F>,
    ) -> Self {
        assert_eq!(theta.len(), objective.len(), "parameters");
        assert!(dt > 0.0, "dt = {dt}, need a positive one");
        // Formed before anybody clones it: what is always the same is shared.
        batches.batch(0);
        let gradient = vec![F::default(); theta.len()];
        let replica = Replica::start(theta, buffers, &optimizer);
        let tools = RefCell::new(Tools { objective, batches, gradient, loss: None });
        let mut run = Self { optimizer, dt, step: 0, replica, state: Vec::new(), tools };
        run.show();
        run
    }

    /// Parameters, memory and buffers as they are now.
    pub fn replica(&self) -> &Replica<F> {
        &self.replica
    }

    /// The loss of the coming step's batch where the run is now, without weight decay.
    pub fn loss(&self) -> f64 {
        let tools = &mut *self.tools.borrow_mut();
        if tools.loss.is_none() {
            let batch = tools.batches.batch(self.step);
            tools.look(&self.replica, &self.optimizer, &batch);
        }
        let loss = tools.loss.expect("looked at above");
        if let Method::NesterovPde { .. } = self.optimizer.method {
            // Its step takes the gradient elsewhere.
            tools.loss = None;
        }
        loss
    }

    /// Whether each step descends one and the same function.
    fn is_descent(&self) -> bool {
        self.optimizer.method == Method::Sgd && self.tools.borrow().batches.is_one_batch()
    }

    /// Copies the replica into the state.
    fn show(&mut self) {
        let Replica { theta, memory, buffers, .. } = &self.replica;
        self.state.clear();
        self.state.extend(theta.iter().chain(&memory.values).chain(buffers));
    }
}

impl<F: Real, O: Learner<F>> Dynamics for Run<F, O> {
    type Scalar = F;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.state
    }

    fn load(&mut self, state: &[F]) {
        assert_eq!(state.len(), self.state.len(), "numbers of a state");
        let Replica { theta, memory, buffers, .. } = &mut self.replica;
        let (parameters, rest) = state.split_at(theta.len());
        let (remembered, carried) = rest.split_at(memory.values.len());
        theta.copy_from_slice(parameters);
        memory.values.copy_from_slice(remembered);
        buffers.copy_from_slice(carried);
        if let Method::Adam { .. } | Method::Cfl { .. } = self.optimizer.method {
            // A mean of squares or a norm, whatever a twin was moved by.
            let second = &mut memory.values[theta.len()..];
            second.iter_mut().filter(|v| **v < F::default()).for_each(|v| *v = F::default());
        }
        self.tools.get_mut().loss = None;
        self.show();
    }

    fn step(&mut self) {
        let (step, replica, tools) = (self.step, &mut self.replica, self.tools.get_mut());
        if tools.loss.is_none() {
            let batch = tools.batches.batch(step);
            self.optimizer.look_ahead(&mut replica.theta, &mut replica.memory);
            tools.look(replica, &self.optimizer, &batch);
        }
        let Tools { objective, gradient, loss, .. } = tools;
        replica.follow(step, &self.optimizer, self.dt, Perturbation::NONE, objective, gradient);
        *loss = None;
        self.step += 1;
        self.show();
    }

    fn energy(&self) -> Option<f64> {
        if F::UNIT_ROUNDOFF > f64::UNIT_ROUNDOFF || !self.is_descent() {
            return None;
        }
        let theta = &self.replica.theta;
        let squares = sum_by(theta.len(), |i| theta[i].to_f64() * theta[i].to_f64());
        Some(self.loss() + 0.5 * self.optimizer.alpha * squares)
    }

    fn is_linear(&self) -> bool {
        let adapts = matches!(self.optimizer.method, Method::Adam { .. } | Method::Cfl { .. });
        !adapts && self.tools.borrow().objective.is_quadratic()
    }

    fn scale(&self) -> f64 {
        // Seen from zero, any step is a blow-up.
        max_abs(&self.state).max(1.0)
    }

    fn linear_range(&self) -> f64 {
        match self.optimizer.method {
            Method::Adam { .. } | Method::Cfl { .. } => LINEAR_RANGE_OF_ADAM * self.scale(),
            _ => self.scale(),
        }
    }
}
