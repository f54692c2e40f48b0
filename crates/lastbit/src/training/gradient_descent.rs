//! Gradient descent as a [`Dynamics`], with any optimizer, on any model: what is asked of a PDE can be
//! asked of a training.
//!
//! ```text
//! state     θ | memory of the optimizer | buffers: all that the next step depends on,
//!           besides the number of the step, which decides the batch
//! energy    L(θ) + (alpha/2) |θ|²      of plain gradient descent on one and the same batch
//! ```
//!
//! The bits are those of a [`Trainer`](super::Trainer) at a constant rate. A clone, and one that was
//! given another state, sees the same batches from where it is: twins differ in their state alone.
//!
//! Momentum, Adam and changing batches have no energy that every small step lowers; neither has a loss
//! that is computed in single precision ([`Objective::loss_roundoff`]). The gradient that an energy
//! comes with is kept for the step that follows, so that watching the energy costs nothing.
//!
//! [`Objective::loss_roundoff`]: crate::objective::Objective::loss_roundoff

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Replica;
use crate::batches::{BatchSource, FullBatch};
use crate::curve::Curve;
use crate::objective::TrainableModel;
use crate::optim::direction::Optimizer;
use crate::optim::method::Method;
use crate::optim::perturbation::Perturbation;
use crate::reduce::{max_abs, sum_by};
use crate::{Dynamics, Real, Watcher};

/// How far a value may be moved before a step that divides by roots or norms (Adam, CFL) stops to be
/// linear, over the scale of the state.
const LINEAR_RANGE_OF_QUOTIENTS: f64 = 1e-4;

/// A replica in training, with a model `O` of its own and batches from a source `S`.
#[derive(Debug, Clone)]
pub struct GradientDescent<F, O, S> {
    optimizer: Optimizer,
    dt: f64,
    perturbation: Perturbation,
    scale: f64,
    step: usize,
    replica: Replica<F>,
    /// The replica's numbers one after the other.
    state: Vec<F>,
    /// In a cell, because asking for the energy uses them.
    tools: RefCell<Tools<F, O, S>>,
}

/// What a replica borrows for a step.
#[derive(Debug, Clone)]
struct Tools<F, O, S> {
    model: O,
    batches: S,
    gradient: Vec<F>,
    /// Whether the gradient is that of the coming step.
    is_fresh: bool,
    /// The loss of the coming step, where it is known.
    loss: Option<f64>,
}

impl<F, O, S> Tools<F, O, S>
where
    F: Real,
    O: TrainableModel<F>,
    S: BatchSource<Batch = O::Batch>,
{
    fn prepare(&mut self, step: usize, replica: &Replica<F>) {
        self.model.load_buffers(&replica.buffers);
        self.model.set_batch(&self.batches.batch(step));
    }

    fn take_gradient(
        &mut self,
        step: usize,
        replica: &Replica<F>,
        optimizer: &Optimizer,
    ) -> Result<(), O::Error> {
        self.prepare(step, replica);
        replica.take_gradient(optimizer, &mut self.model, &mut self.gradient)?;
        self.is_fresh = true;
        Ok(())
    }

    fn forget(&mut self) {
        self.is_fresh = false;
        self.loss = None;
    }
}

impl<F: Real, O: TrainableModel<F, Batch = ()>> GradientDescent<F, O, FullBatch<()>> {
    /// Starts from `theta` with a model that has no batches.
    ///
    /// # Panics
    ///
    /// See [`new`](Self::new).
    pub fn full_batch(model: O, optimizer: Optimizer, dt: f64, theta: Vec<F>) -> Self {
        let nothing = FullBatch { batch: Arc::new(()), examples: 1 };
        Self::new(model, nothing, optimizer, dt, theta)
    }
}

impl<F, O, S> GradientDescent<F, O, S>
where
    F: Real,
    O: TrainableModel<F>,
    S: BatchSource<Batch = O::Batch>,
{
    /// Starts from `theta` and the model's buffers, unperturbed.
    ///
    /// # Panics
    ///
    /// If `theta` has another length than the model's parameters, or `dt` is not positive.
    pub fn new(model: O, mut batches: S, optimizer: Optimizer, dt: f64, theta: Vec<F>) -> Self {
        assert_eq!(theta.len(), model.len(), "parameters");
        assert!(dt > 0.0, "dt = {dt}, need a positive one");
        // Formed before anybody clones it: what is always the same is shared.
        batches.batch(0);
        let gradient = vec![F::default(); theta.len()];
        let replica = Replica::start(theta, model.buffers().to_vec(), &optimizer);
        let mut run = Self {
            optimizer,
            dt,
            perturbation: Perturbation::NONE,
            scale: 1.0,
            step: 0,
            replica,
            state: Vec::new(),
            tools: RefCell::new(Tools { model, batches, gradient, is_fresh: false, loss: None }),
        };
        run.show();
        // Seen from zero, any step is a blow-up.
        run.scale = max_abs(&run.state).max(1.0);
        run
    }

    /// The same with perturbed rounding.
    pub fn with_perturbation(self, perturbation: Perturbation) -> Self {
        Self { perturbation, ..self }
    }

    /// The same with divergence measured against another size than that of the start or 1, whichever is
    /// larger: for parameters that are known to stay small.
    pub fn with_scale(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    /// Parameters, memory and buffers as they are now.
    pub fn replica(&self) -> &Replica<F> {
        &self.replica
    }

    /// The loss of the coming step's batch where the run is now, without weight decay.
    ///
    /// # Errors
    ///
    /// If it could not be computed.
    pub fn loss(&self) -> Result<f64, O::Error> {
        let tools = &mut *self.tools.borrow_mut();
        if let Some(loss) = tools.loss {
            return Ok(loss);
        }
        if !tools.is_fresh {
            tools.take_gradient(self.step, &self.replica, &self.optimizer)?;
        }
        let loss = tools.model.last_loss(&self.replica.theta)?;
        tools.loss = Some(loss);
        // A step that looks ahead takes its gradient elsewhere.
        tools.is_fresh = !self.optimizer.method.looks_ahead();
        Ok(loss)
    }

    /// Asks the model something at the present parameters, on the coming step's batch.
    pub fn with_model<T>(&self, ask: impl FnOnce(&mut O, &[F]) -> T) -> T {
        let tools = &mut *self.tools.borrow_mut();
        tools.prepare(self.step, &self.replica);
        // Loss, running statistics and curvature come from what the model keeps of its last gradient.
        let keeps = !self.replica.buffers.is_empty() || self.optimizer.method.needs_hessian();
        if keeps || tools.loss.is_none() {
            tools.forget();
        }
        ask(&mut tools.model, &self.replica.theta)
    }

    /// Whether each step descends one and the same function.
    fn is_descent(&self) -> bool {
        self.optimizer.method == Method::Sgd && self.tools.borrow().batches.is_full_batch()
    }

    /// Copies the replica into the state.
    fn show(&mut self) {
        let Replica { theta, memory, buffers, .. } = &self.replica;
        self.state.clear();
        self.state.extend(theta.iter().chain(&memory.values).chain(buffers));
    }
}

impl<F, O, S> Dynamics for GradientDescent<F, O, S>
where
    F: Real,
    O: TrainableModel<F>,
    S: BatchSource<Batch = O::Batch> + Clone,
{
    type Scalar = F;
    type Error = O::Error;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.state
    }

    fn load(&mut self, state: &[F]) {
        assert_eq!(state.len(), self.state.len(), "numbers of a state");
        let Replica { theta, memory, buffers, .. } = &mut self.replica;
        let n = theta.len();
        let (parameters, rest) = state.split_at(n);
        let (remembered, carried) = rest.split_at(memory.values.len());
        theta.copy_from_slice(parameters);
        memory.values.copy_from_slice(remembered);
        buffers.copy_from_slice(carried);
        if let Some(i) = self.optimizer.method.nonnegative_memory() {
            // A mean of squares or a norm, whatever a twin was moved by.
            let vector = &mut memory.values[i * n..(i + 1) * n];
            vector.iter_mut().filter(|v| **v < F::default()).for_each(|v| *v = F::default());
        }
        self.tools.get_mut().forget();
        self.show();
    }

    fn step(&mut self) -> Result<(), O::Error> {
        let (step, replica, tools) = (self.step, &mut self.replica, self.tools.get_mut());
        if !tools.is_fresh {
            self.optimizer.look_ahead(&mut replica.theta, &mut replica.memory);
            tools.take_gradient(step, replica, &self.optimizer)?;
        }
        tools.forget();
        let Tools { model, gradient, .. } = tools;
        replica.follow(step, &self.optimizer, self.dt, self.perturbation, model, gradient)?;
        self.step += 1;
        self.show();
        Ok(())
    }

    fn energy(&self) -> Result<Option<f64>, O::Error> {
        let is_coarse = self.tools.borrow().model.loss_roundoff() > f64::UNIT_ROUNDOFF;
        if is_coarse || !self.is_descent() {
            return Ok(None);
        }
        let (theta, alpha, loss) = (&self.replica.theta, self.optimizer.alpha, self.loss()?);
        if alpha == 0.0 {
            return Ok(Some(loss));
        }
        let squares = sum_by(theta.len(), |i| theta[i].to_f64() * theta[i].to_f64());
        Ok(Some(loss + 0.5 * alpha * squares))
    }

    fn is_linear(&self) -> bool {
        self.optimizer.method.is_linear() && self.tools.borrow().model.is_quadratic()
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    fn linear_range(&self) -> f64 {
        let share = if self.optimizer.method.is_linear() { 1.0 } else { LINEAR_RANGE_OF_QUOTIENTS };
        share * self.scale
    }
}

/// Watches the loss.
#[derive(Debug, Clone, Default)]
pub struct LossCurve(Curve<f64>);

impl LossCurve {
    /// The losses, with their steps.
    pub fn points(&self) -> &[(usize, f64)] {
        self.0.points()
    }
}

impl<F, O, S> Watcher<GradientDescent<F, O, S>> for LossCurve
where
    F: Real,
    O: TrainableModel<F>,
    S: BatchSource<Batch = O::Batch> + Clone,
{
    fn watch(
        &mut self,
        step: usize,
        run: &GradientDescent<F, O, S>,
    ) -> Result<ControlFlow<()>, O::Error> {
        self.0.try_push_with(step, || run.loss())?;
        Ok(ControlFlow::Continue(()))
    }
}
