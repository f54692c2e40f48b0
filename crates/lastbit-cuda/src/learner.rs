//! One network on a device, with its gradient and its Hessian: a [`Learner`] for whatever takes one.
//!
//! Parameters and directions go up and gradients and products come down at each call; a batch stays on
//! the device as long as the same one is set.
//!
//! **Clones.** All clones share one engine behind a lock, and so its memory. What a clone has to itself
//! (its batch, buffers, what its last gradient saw) lies in this computer's memory, and each call puts
//! in place what it needs: what a clone answers does not depend on the others. Only the time does: a
//! product finds the values and gradients of its point in place where no other clone was at work in
//! between, and else makes them again.
//!
//! **Failures.** The traits have no errors: if the device fails in the middle, a call panics.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use lastbit::nn::{Batch, Evaluation, Loss, Mode, Network, Targets};
use lastbit::objective::{Objective, OnBatches};
use lastbit::optim::direction::{Method, Optimizer};
use lastbit::training::Learner;

use crate::device::{DeviceReal, KernelTime};
use crate::engine::{Engine, Look};
use crate::error::Error;
use crate::fast::Precision;

/// Examples that an evaluation passes through the network at a time, at least.
const EVALUATED_TOGETHER: usize = 500;

/// A network with a loss, on a batch, on a device.
#[derive(Debug, Clone)]
pub struct OnDevice<F> {
    shared: Arc<Mutex<Shared<F>>>,
    network: Arc<Network>,
    loss: Loss,
    mode: Mode,
    batch: Option<Arc<Batch<F>>>,
    buffers: Vec<F>,
    seen: Seen<F>,
    /// The parameters that the engine was linearized at, and at which turn.
    linearized: Option<(Vec<F>, u64)>,
}

/// What the last loss or gradient saw.
#[derive(Debug, Clone)]
struct Seen<F> {
    loss: f64,
    right: Vec<bool>,
    /// The buffers as they are once a step was taken, after a gradient in training mode.
    buffers: Option<Vec<F>>,
}

/// The engine of all clones.
#[derive(Debug)]
struct Shared<F> {
    engine: Engine<F>,
    precision: Precision,
    /// The batch in slot 0.
    resident: Option<Arc<Batch<F>>>,
    /// Counts the times that values were computed anew.
    turn: u64,
}

impl<F: DeviceReal> OnDevice<F> {
    /// In training mode, without a batch yet; with room for batches of so many examples, and for
    /// larger ones once they are set.
    ///
    /// # Errors
    ///
    /// If there is no device, or too little memory on it.
    pub fn new(
        network: &Arc<Network>,
        loss: Loss,
        precision: Precision,
        examples: usize,
    ) -> Result<Self, Error> {
        let engine = Engine::new(network, loss, PLAIN, precision, &[0], examples)?;
        let shared = Shared { engine, precision, resident: None, turn: 0 };
        Ok(Self {
            shared: Arc::new(Mutex::new(shared)),
            network: network.clone(),
            loss,
            mode: Mode::Training,
            batch: None,
            buffers: network.initial_buffers(),
            seen: Seen { loss: f64::NAN, right: vec![], buffers: None },
            linearized: None,
        })
    }

    /// Whether loss, gradient and products look at the batch's statistics or at the running ones.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.forget();
    }

    /// The device and its driver, for whoever keeps records.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn device_in_words(&self) -> Result<String, Error> {
        lock(&self.shared).engine.device.in_words()
    }

    /// What `work` does, and the device time of each kernel in it.
    pub fn profile(&mut self, work: impl FnOnce(&mut Self)) -> BTreeMap<&'static str, KernelTime> {
        lock(&self.shared).engine.device.measure_kernels();
        work(self);
        lock(&self.shared).engine.device.kernel_times()
    }

    fn forget(&mut self) {
        self.seen.buffers = None;
        self.linearized = None;
    }

    fn look(&self) -> Look {
        match self.mode {
            Mode::Training => Look::Learning,
            Mode::Evaluation => Look::Running,
        }
    }

    fn examples(&self) -> usize {
        let batch = self.batch.as_ref().expect("a batch is set before it is used");
        batch.targets.len(self.network.outputs())
    }

    /// The engine with this clone's batch, buffers and parameters in place.
    fn put_into(&self, shared: &mut Shared<F>, theta: &[F]) -> Result<(), Error> {
        let batch = self.batch.as_ref().expect("a batch is set before it is used");
        if shared.resident.as_ref().is_none_or(|resident| !Arc::ptr_eq(resident, batch)) {
            shared.resident = None;
            shared.make_room(&self.network, self.loss, self.examples())?;
            shared.engine.set_batch(0, batch)?;
            shared.resident = Some(batch.clone());
        }
        shared.put(theta, &self.buffers)
    }

    fn try_loss(&mut self, theta: &[F]) -> Result<Seen<F>, Error> {
        let (look, examples) = (self.look(), self.examples());
        let mut shared = lock(&self.shared);
        self.put_into(&mut shared, theta)?;
        shared.engine.forward(examples, look)?;
        shared.engine.measure(examples)?;
        shared.seen(examples)
    }

    fn try_gradient(
        &self,
        shared: &mut Shared<F>,
        theta: &[F],
        keep: bool,
        out: &mut [F],
    ) -> Result<(Seen<F>, u64), Error> {
        let (look, examples) = (self.look(), self.examples());
        self.put_into(shared, theta)?;
        if keep {
            shared.engine.linearize(examples, look)?;
        } else {
            shared.engine.forget();
            shared.engine.take_gradient(examples, look)?;
        }
        let mut seen = shared.seen(examples)?;
        let Shared { engine, turn, .. } = shared;
        out.copy_from_slice(&engine.device.read(&engine.gradient, 0, theta.len())?);
        if look == Look::Learning {
            seen.buffers = match self.buffers.len() {
                0 => Some(vec![]),
                len => Some(engine.device.read(&engine.buffers, 0, len)?),
            };
        }
        Ok((seen, *turn))
    }

    fn try_product(&mut self, theta: &[F], v: &[F], out: &mut [F]) -> Result<(), Error> {
        let mut shared = lock(&self.shared);
        let turn = shared.turn;
        let is_there = |(at, then): &(Vec<F>, u64)| *then == turn && at == theta;
        if !self.linearized.as_ref().is_some_and(is_there) {
            let (_, turn) = self.try_gradient(&mut shared, theta, true, out)?;
            // A product leaves no trace: what the last gradient saw stays.
            self.linearized = Some((theta.to_vec(), turn));
        }
        let examples = self.examples();
        out.copy_from_slice(&shared.engine.product(0, v, examples)?);
        Ok(())
    }

    fn try_evaluate(&mut self, theta: &[F], batch: &Batch<F>) -> Result<Evaluation, Error> {
        let mut shared = lock(&self.shared);
        let examples = batch.targets.len(self.network.outputs());
        shared.make_room(&self.network, self.loss, examples.min(EVALUATED_TOGETHER))?;
        shared.put(theta, &self.buffers)?;
        shared.resident = None;
        let (mut sum, mut total) = (Evaluation::default(), 0);
        for part in parts_of(batch, self.network.outputs(), shared.engine.capacity()) {
            let examples = shared.engine.set_batch(0, &part)?;
            shared.engine.examine(examples)?;
            let answers = shared.engine.answers(examples)?.swap_remove(0);
            total += examples;
            answers.add_to(&mut sum, matches!(part.targets, Targets::Classes(_)));
        }
        sum.loss /= total as f64;
        Ok(sum)
    }
}

/// The engine's own optimizer is not used.
const PLAIN: Optimizer = Optimizer { method: Method::Sgd, alpha: 0.0 };

impl<F: DeviceReal> Shared<F> {
    /// Room for batches of so many examples; what was on the device is gone if there was less.
    fn make_room(
        &mut self,
        network: &Arc<Network>,
        loss: Loss,
        examples: usize,
    ) -> Result<(), Error> {
        if examples > self.engine.capacity() {
            let (device, how) = (self.engine.device.same_queue(), self.precision);
            self.engine = Engine::on(|| Ok(device), network, loss, PLAIN, how, &[0], examples)?;
            self.resident = None;
            self.turn += 1;
        }
        Ok(())
    }

    fn put(&mut self, theta: &[F], buffers: &[F]) -> Result<(), Error> {
        self.turn += 1;
        let Engine { device, buffers: own, .. } = &mut self.engine;
        if !buffers.is_empty() {
            device.write(own, 0, buffers)?;
        }
        self.engine.set_theta(0, theta)
    }

    fn seen(&mut self, examples: usize) -> Result<Seen<F>, Error> {
        let is_class = |batch: &Arc<Batch<F>>| matches!(batch.targets, Targets::Classes(_));
        let right = if self.resident.as_ref().is_some_and(is_class) {
            self.engine.right(0, examples)?
        } else {
            vec![]
        };
        Ok(Seen { loss: self.engine.mean_loss(0, examples)?, right, buffers: None })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no clone failed on the device")
}

fn or_panic<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("the CUDA device failed in the middle of work: {error}"))
}

impl<F: DeviceReal> Objective<F> for OnDevice<F> {
    fn len(&self) -> usize {
        self.network.len()
    }

    fn loss(&mut self, theta: &[F]) -> f64 {
        self.forget();
        self.seen = or_panic(self.try_loss(theta));
        self.seen.loss
    }

    fn gradient(&mut self, theta: &[F], out: &mut [F]) {
        self.forget();
        let (seen, _) = or_panic(self.try_gradient(&mut lock(&self.shared), theta, false, out));
        self.seen = seen;
    }

    fn linearize(&mut self, theta: &[F], out: &mut [F]) {
        self.forget();
        let (seen, turn) = or_panic(self.try_gradient(&mut lock(&self.shared), theta, true, out));
        self.seen = seen;
        self.linearized = Some((theta.to_vec(), turn));
    }

    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]) {
        or_panic(self.try_product(theta, v, out));
    }

    fn is_quadratic(&self) -> bool {
        self.network.is_quadratic(self.loss)
    }
}

impl<F: DeviceReal> OnBatches<F> for OnDevice<F> {
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

    fn settle(&mut self) {
        if self.buffers.is_empty() {
            return;
        }
        let seen = self.seen.buffers.take();
        self.buffers = seen.expect("settle follows a gradient in training mode");
    }
}

impl<F: DeviceReal> Learner<F> for OnDevice<F> {
    fn last_loss(&self) -> f64 {
        self.seen.loss
    }

    fn right_answers(&self) -> Vec<bool> {
        self.seen.right.clone()
    }

    fn layers(&self) -> Vec<Range<usize>> {
        self.network.layers()
    }

    fn evaluate(&mut self, theta: &[F], batch: &Batch<F>) -> Evaluation {
        self.forget();
        or_panic(self.try_evaluate(theta, batch))
    }
}

/// Consecutive examples, at most so many together.
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
