//! One network on a device, with its gradient and Hessian-vector products: as a [`TrainableModel`].
//!
//! Each call uploads parameters or a direction and downloads a gradient or a product; a batch stays on
//! the device as long as the same one is set.
//!
//! **Clones.** All clones share one engine behind a lock, and so its memory. The state of a clone (its
//! batch, buffers, the outcome of its last gradient) is in host memory, and each call uploads what it
//! needs: results of a clone do not depend on the others. Only the time does: a product reuses the
//! values and gradients of its point if no other clone ran in between, and computes them again if one
//! did.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use lastbit::nn::{Batch, BatchNormMode, Loss, Network, Targets};
use lastbit::objective::{Evaluation, Objective, StochasticObjective, TrainableModel};

use crate::conv3x3_plan::MathMode;
use crate::device::{DeviceReal, KernelTime};
use crate::engine::{Engine, NO_OPTIMIZER};
use crate::error::Error;

/// Smallest number of examples that an evaluation takes at a time.
const EVALUATED_TOGETHER: usize = 500;

/// A network with a loss, on a batch, on a device.
#[derive(Debug, Clone)]
pub struct CudaModel<F> {
    shared: Arc<Mutex<Shared<F>>>,
    network: Arc<Network>,
    loss: Loss,
    mode: BatchNormMode,
    batch: Option<Arc<Batch<F>>>,
    buffers: Vec<F>,
    outcome: Outcome<F>,
    /// The parameters that the engine was linearized at, and the value of `turn` then.
    linearized: Option<(Vec<F>, u64)>,
}

/// The outcome of the last loss or gradient.
#[derive(Debug, Clone)]
struct Outcome<F> {
    loss: f64,
    right: Vec<bool>,
    /// The buffers after the step, if this was a gradient in training mode.
    buffers: Option<Vec<F>>,
}

/// The engine of all clones.
#[derive(Debug)]
struct Shared<F> {
    engine: Engine<F>,
    math: MathMode,
    /// The batch in slot 0.
    batch: Option<Arc<Batch<F>>>,
    /// Counts how often values were computed.
    turn: u64,
}

impl<F: DeviceReal> CudaModel<F> {
    /// In training mode, without a batch yet. Memory is allocated for batches of so many examples, and again
    /// when a larger one is set.
    ///
    /// # Errors
    ///
    /// If there is no device, or too little memory on it.
    pub fn new(
        network: &Arc<Network>,
        loss: Loss,
        math: MathMode,
        examples: usize,
    ) -> Result<Self, Error> {
        let engine = Engine::new(network, loss, NO_OPTIMIZER, math, &[0], examples)?;
        let shared = Shared { engine, math, batch: None, turn: 0 };
        Ok(Self {
            shared: Arc::new(Mutex::new(shared)),
            network: network.clone(),
            loss,
            mode: BatchNormMode::Training,
            batch: None,
            buffers: network.initial_buffers(),
            outcome: Outcome { loss: f64::NAN, right: vec![], buffers: None },
            linearized: None,
        })
    }

    /// Whether loss, gradient and products use the batch's statistics or the running ones.
    pub fn set_mode(&mut self, mode: BatchNormMode) {
        self.mode = mode;
        self.forget();
    }

    /// The device and the versions of its driver and compiler, for records.
    pub fn device_description(&self) -> Result<String, Error> {
        lock(&self.shared).engine.device.description()
    }

    /// Does `work`, and returns the device time of each of its kernels.
    ///
    /// # Errors
    ///
    /// That of the work.
    pub fn profile(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<BTreeMap<&'static str, KernelTime>, Error> {
        lock(&self.shared).engine.device.start_timing();
        let done = work(self);
        let times = lock(&self.shared).engine.device.kernel_times();
        done.map(|()| times)
    }

    fn forget(&mut self) {
        self.outcome.buffers = None;
        self.linearized = None;
    }

    fn examples(&self) -> usize {
        let batch = self.batch.as_ref().expect("a batch is set before it is used");
        batch.targets.len(self.network.outputs())
    }

    /// Uploads this clone's batch, buffers and parameters.
    fn upload_to(&self, shared: &mut Shared<F>, theta: &[F]) -> Result<(), Error> {
        let batch = self.batch.as_ref().expect("a batch is set before it is used");
        if shared.batch.as_ref().is_none_or(|there| !Arc::ptr_eq(there, batch)) {
            shared.batch = None;
            shared.reserve(&self.network, self.loss, self.examples())?;
            shared.engine.set_batch(0, batch)?;
            shared.batch = Some(batch.clone());
        }
        shared.upload(theta, &self.buffers)
    }

    fn take_gradient(
        &self,
        shared: &mut Shared<F>,
        theta: &[F],
        keep: bool,
        out: &mut [F],
    ) -> Result<(Outcome<F>, u64), Error> {
        let examples = self.examples();
        self.upload_to(shared, theta)?;
        if keep {
            shared.engine.linearize(examples, self.mode, true)?;
        } else {
            shared.engine.forget();
            shared.engine.take_gradient(examples, self.mode, true)?;
        }
        let mut outcome = shared.outcome(examples)?;
        let Shared { engine, turn, .. } = shared;
        out.copy_from_slice(&engine.device.read(&engine.gradient, 0, theta.len())?);
        if self.mode == BatchNormMode::Training {
            outcome.buffers = match self.buffers.len() {
                0 => Some(vec![]),
                len => Some(engine.device.read(&engine.buffers, 0, len)?),
            };
        }
        Ok((outcome, *turn))
    }
}

impl<F: DeviceReal> Shared<F> {
    /// Memory for batches of so many examples; replaces the engine if it has less.
    fn reserve(
        &mut self,
        network: &Arc<Network>,
        loss: Loss,
        examples: usize,
    ) -> Result<(), Error> {
        if examples > self.engine.capacity() {
            let (device, math) = (self.engine.device.clone(), self.math);
            self.engine =
                Engine::on(|| Ok(device), network, loss, NO_OPTIMIZER, math, &[0], examples)?;
            self.batch = None;
            self.turn += 1;
        }
        Ok(())
    }

    fn upload(&mut self, theta: &[F], buffers: &[F]) -> Result<(), Error> {
        self.turn += 1;
        let Engine { device, buffers: own, .. } = &mut self.engine;
        if !buffers.is_empty() {
            device.write(own, 0, buffers)?;
        }
        self.engine.set_theta(0, theta)
    }

    fn outcome(&mut self, examples: usize) -> Result<Outcome<F>, Error> {
        let is_class = |batch: &Arc<Batch<F>>| matches!(batch.targets, Targets::Classes(_));
        let right = if self.batch.as_ref().is_some_and(is_class) {
            self.engine.right(0, examples)?
        } else {
            vec![]
        };
        Ok(Outcome { loss: self.engine.mean_loss(0, examples)?, right, buffers: None })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no clone panicked")
}

impl<F: DeviceReal> Objective<F> for CudaModel<F> {
    type Error = Error;

    fn len(&self) -> usize {
        self.network.len()
    }

    fn loss(&mut self, theta: &[F]) -> Result<f64, Error> {
        self.forget();
        let examples = self.examples();
        let mut shared = lock(&self.shared);
        self.upload_to(&mut shared, theta)?;
        shared.engine.forward(examples, self.mode, true)?;
        shared.engine.measure(examples)?;
        self.outcome = shared.outcome(examples)?;
        Ok(self.outcome.loss)
    }

    fn gradient(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Error> {
        self.forget();
        let (outcome, _) = self.take_gradient(&mut lock(&self.shared), theta, false, out)?;
        self.outcome = outcome;
        Ok(())
    }

    fn linearize(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Error> {
        self.forget();
        let (outcome, turn) = self.take_gradient(&mut lock(&self.shared), theta, true, out)?;
        self.outcome = outcome;
        self.linearized = Some((theta.to_vec(), turn));
        Ok(())
    }

    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]) -> Result<(), Error> {
        let mut shared = lock(&self.shared);
        let turn = shared.turn;
        let is_current = |(at, then): &(Vec<F>, u64)| *then == turn && at == theta;
        if !self.linearized.as_ref().is_some_and(is_current) {
            let (_, turn) = self.take_gradient(&mut shared, theta, true, out)?;
            // The outcome of the last gradient stays.
            self.linearized = Some((theta.to_vec(), turn));
        }
        let examples = self.examples();
        out.copy_from_slice(&shared.engine.product(0, v, examples)?);
        Ok(())
    }

    fn is_quadratic(&self) -> bool {
        self.network.is_quadratic(self.loss)
    }
}

impl<F: DeviceReal> StochasticObjective<F> for CudaModel<F> {
    type Batch = Batch<F>;

    /// # Panics
    ///
    /// If inputs or targets do not fit the network.
    fn set_batch(&mut self, batch: &Arc<Batch<F>>) {
        self.network.check_batch(batch);
        self.forget();
        self.batch = Some(Arc::clone(batch));
    }

    fn buffers(&self) -> &[F] {
        &self.buffers
    }

    fn load_buffers(&mut self, buffers: &[F]) {
        self.forget();
        self.buffers.copy_from_slice(buffers);
    }

    fn update_running_stats(&mut self) {
        if self.buffers.is_empty() {
            return;
        }
        let outcome = self.outcome.buffers.take();
        self.buffers = outcome.expect("running statistics follow a gradient in training mode");
    }
}

impl<F: DeviceReal> TrainableModel<F> for CudaModel<F> {
    fn last_loss(&mut self, _: &[F]) -> Result<f64, Error> {
        Ok(self.outcome.loss)
    }

    fn right_answers(&self) -> Vec<bool> {
        self.outcome.right.clone()
    }

    fn layers(&self) -> Vec<Range<usize>> {
        self.network.layers()
    }

    fn evaluate(&mut self, theta: &[F], batch: &Arc<Batch<F>>) -> Result<Evaluation, Error> {
        self.forget();
        let mut shared = lock(&self.shared);
        let examples = batch.targets.len(self.network.outputs());
        shared.reserve(&self.network, self.loss, examples.min(EVALUATED_TOGETHER))?;
        shared.upload(theta, &self.buffers)?;
        shared.batch = None;
        let (mut sum, mut total) = (Evaluation::default(), 0);
        for part in parts_of(batch, self.network.outputs(), shared.engine.capacity()) {
            let examples = shared.engine.set_batch(0, &part)?;
            shared.engine.evaluate_slot_0(examples)?;
            let answers = shared.engine.answers(examples)?.swap_remove(0);
            total += examples;
            answers.add_to(&mut sum, matches!(part.targets, Targets::Classes(_)));
        }
        sum.loss /= total as f64;
        Ok(sum)
    }
}

/// Consecutive examples of a batch, at most so many in each part.
fn parts_of<F: DeviceReal>(batch: &Batch<F>, outputs: usize, most: usize) -> Vec<Batch<F>> {
    let examples = batch.targets.len(outputs);
    let len = batch.inputs.len() / examples;
    let part = |first: usize| {
        let end = examples.min(first + most);
        let targets = match &batch.targets {
            Targets::Classes(classes) => Targets::Classes(classes[first..end].to_vec()),
            Targets::Reals(values) => {
                Targets::Reals(values[first * outputs..end * outputs].to_vec())
            }
        };
        Batch { inputs: batch.inputs[first * len..end * len].to_vec(), targets }
    };
    (0..examples).step_by(most).map(part).collect()
}
