//! Replicas in training on a device: the same steps as [`lastbit::training::Trainer`]'s, all
//! replicas at once.
//!
//! Batches are formed on the CPU, with the code and hence the bits of a run there, while the device
//! is at the step before; a batch of 128 CIFAR images is 1.5 MB, one part in a thousand of what a
//! step moves. A step is recorded once for each size of batch and then replayed; what changes from
//! step to step (rates, corrections, a bit to flip) lies in device memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use lastbit::batches::Batches;
use lastbit::nn::{Batch, Evaluation, Loss, Network, Targets};
use lastbit::optim::direction::Method;
use lastbit::optim::perturbation::Form;
use lastbit::training::{Compared, Fluctuation, Plan, Replica, Tally, Variant};

use crate::compare::Comparison;
use crate::device::{DeviceReal, Graph, KernelTime};
use crate::engine::{Engine, Look};
use crate::error::Error;
use crate::fast::Precision;
use crate::jobs::Step;

/// Replicas in training.
#[derive(Debug)]
pub struct CudaTrainer<F> {
    engine: Engine<F>,
    network: Arc<Network>,
    sources: Vec<Batches<F>>,
    plan: Plan,
    variants: Vec<Variant>,
    /// What each slot shows: a source, in its own order or in another. There are two of each.
    slots: Vec<(usize, Option<u64>)>,
    /// What lies in each slot.
    shown: Vec<Option<Arc<Batch<F>>>>,
    /// The half of the slots that the last step looked at.
    half: usize,
    /// The step whose batches were put into the other half while the device was busy, and their
    /// examples.
    coming: Option<(usize, usize)>,
    /// Recorded steps by size of batch; none where it was done once and is yet to be recorded.
    recorded: BTreeMap<usize, Option<Graph>>,
    replicas: Vec<Replica<F>>,
    /// Whether the device has moved on since `replicas` were read.
    is_ahead: bool,
    comparison: Comparison,
    step: usize,
}

impl<F: DeviceReal> CudaTrainer<F> {
    /// Goes on after `step` steps with these replicas, as [`lastbit::training::Trainer::new`].
    ///
    /// # Errors
    ///
    /// If there is no device, or too little memory on it.
    ///
    /// # Panics
    ///
    /// If there is not one variant per replica, or a variant names a source that is not there.
    #[expect(clippy::too_many_arguments, reason = "all that a training is made of")]
    pub fn new(
        network: &Arc<Network>,
        loss: Loss,
        precision: Precision,
        mut sources: Vec<Batches<F>>,
        plan: Plan,
        variants: Vec<Variant>,
        step: usize,
        replicas: Vec<Replica<F>>,
    ) -> Result<Self, Error> {
        assert_eq!(variants.len(), replicas.len(), "variants and replicas");
        assert!(!replicas.is_empty(), "no replicas");
        let mut slots: Vec<(usize, Option<u64>)> = Vec::new();
        let mut slot_of = Vec::new();
        for variant in &variants {
            let shown = (variant.source, variant.order);
            let known = slots.iter().position(|slot| *slot == shown);
            slot_of.push(known.unwrap_or_else(|| {
                slots.push(shown);
                slots.len() - 1
            }));
        }
        // The first batch of an epoch is as large as any.
        let capacity = sources[0].examples(0).len();
        let engine = Engine::new(network, loss, plan.optimizer, precision, &slot_of, capacity)?;
        let tensors = network.parameters().iter().map(|parameter| parameter.range.clone());
        let (len, count) = (network.len(), replicas.len());
        let comparison = Comparison::new::<F>(&engine.device, len, tensors.collect(), count)?;
        let mut trainer = Self {
            engine,
            network: network.clone(),
            sources,
            plan,
            variants,
            shown: vec![None; 2 * slots.len()],
            slots,
            half: 0,
            coming: None,
            recorded: BTreeMap::new(),
            replicas,
            is_ahead: false,
            comparison,
            step,
        };
        trainer.load()?;
        Ok(trainer)
    }

    /// Puts all replicas onto the device.
    fn load(&mut self) -> Result<(), Error> {
        let Self { engine, replicas, .. } = self;
        for (r, replica) in replicas.iter().enumerate() {
            engine.device.write(&mut engine.theta, r * replica.theta.len(), &replica.theta)?;
            let memory = &replica.memory.values;
            engine.device.write(&mut engine.memory, r * memory.len(), memory)?;
            let buffers = &replica.buffers;
            engine.device.write(&mut engine.buffers, r * buffers.len(), buffers)?;
            engine.device.write(&mut engine.scale, r, &[replica.scale])?;
            let Tally { last_loss, loss, right, examples } = replica.tally;
            let tally = crate::jobs::Tally {
                last_loss,
                loss,
                right: right as u64,
                examples: examples as u64,
                ended: replica.ended.unwrap_or(0) as u64,
            };
            engine.device.write(&mut engine.tally, r, &[tally])?;
        }
        Ok(())
    }

    /// The device's engine.
    pub fn engine(&self) -> &Engine<F> {
        &self.engine
    }

    /// Steps done.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Steps in an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.sources[0].steps_per_epoch()
    }

    /// Learning rate of the step that comes next.
    pub fn rate(&self) -> f64 {
        self.plan.schedule.rate(self.plan.dt, self.step / self.steps_per_epoch(), self.step)
    }

    /// The replicas, in the order of their variants: tallies and ends as they are, all else as
    /// [`read_back`](Self::read_back) found it last.
    pub fn replicas(&self) -> &[Replica<F>] {
        &self.replicas
    }

    /// Reads the replicas from the device.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn read_back(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_ahead) {
            let Self { engine, replicas, .. } = self;
            for (r, replica) in replicas.iter_mut().enumerate() {
                let len = replica.theta.len();
                replica.theta = engine.device.read(&engine.theta, r * len, len)?;
                let len = replica.memory.values.len();
                replica.memory.values = engine.device.read(&engine.memory, r * len, len)?;
                let len = replica.buffers.len();
                replica.buffers = engine.device.read(&engine.buffers, r * len, len)?;
            }
        }
        Ok(())
    }

    /// Advances all replicas by one step.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn advance(&mut self) -> Result<(), Error> {
        let examples = self.turn_to(self.step)?;
        let steps = self.steps_of_replicas();
        self.engine.device.write(&mut self.engine.steps, 0, &steps)?;
        self.launch_step(examples)?;
        self.step += 1;
        self.coming = Some((self.step, self.put_batches(self.step, 1 - self.half)?));
        let tallies = self.engine.device.read(&self.engine.tally, 0, self.replicas.len())?;
        for (replica, tally) in self.replicas.iter_mut().zip(tallies) {
            if replica.ended.is_none() {
                replica.memory.steps += 1;
            }
            replica.tally = Tally {
                last_loss: tally.last_loss,
                loss: tally.loss,
                right: tally.right as usize,
                examples: tally.examples as usize,
            };
            replica.ended = (tally.ended > 0).then_some(tally.ended as usize);
        }
        self.is_ahead = true;
        Ok(())
    }

    /// Puts a step into the queue: directly the first time, as a recording from then on (a kernel
    /// must have been loaded before it can be recorded).
    fn launch_step(&mut self, examples: usize) -> Result<(), Error> {
        match self.recorded.get(&examples) {
            None => {
                self.recorded.insert(examples, None);
                self.engine.one_step(examples)
            }
            Some(None) => {
                let graph = self.engine.record_step(examples)?;
                self.engine.device.replay(&graph)?;
                self.recorded.insert(examples, Some(graph));
                Ok(())
            }
            Some(Some(graph)) => self.engine.device.replay(graph),
        }
    }

    /// Lets the replicas look at their batches of a step; the number of examples in each.
    fn turn_to(&mut self, step: usize) -> Result<usize, Error> {
        let examples = match self.coming.take() {
            Some((at, examples)) if at == step => examples,
            _ => self.put_batches(step, 1 - self.half)?,
        };
        self.half = 1 - self.half;
        self.engine.look_from(self.half * self.slots.len())?;
        Ok(examples)
    }

    /// Puts the batches of a step into one half of the slots, those that are not there yet.
    fn put_batches(&mut self, step: usize, half: usize) -> Result<usize, Error> {
        let mut examples = 0;
        for (slot, batch) in self.batches_of_slots(step).into_iter().enumerate() {
            examples = batch.targets.len(self.network.outputs());
            let slot = half * self.slots.len() + slot;
            let there = self.shown[slot].as_ref().is_some_and(|shown| Arc::ptr_eq(shown, &batch));
            if !there {
                self.engine.set_batch(slot, &batch)?;
                self.shown[slot] = Some(batch);
            }
        }
        Ok(examples)
    }

    fn batches_of_slots(&mut self, step: usize) -> Vec<Arc<Batch<F>>> {
        let Self { sources, slots, .. } = self;
        let batch = |(source, order): &(usize, Option<u64>)| match order {
            None => sources[*source].batch(step),
            Some(seed) => sources[*source].reordered(step, *seed),
        };
        slots.iter().map(batch).collect()
    }

    /// What the coming step of each replica depends on besides its state: roundings as in
    /// `lastbit::optim`.
    fn steps_of_replicas(&self) -> Vec<Step<F>> {
        let dt = F::of(self.plan.optimizer.method.length(self.rate()));
        let new_epoch = self.step.is_multiple_of(self.steps_per_epoch());
        let of = |(variant, replica): (&Variant, &Replica<F>)| {
            let k = F::of(variant.perturbation.k);
            let released = variant.perturbation.form == Form::Released;
            let [e1, e2] = match self.plan.optimizer.method {
                Method::Adam { beta1, beta2, .. } => {
                    let n = (replica.memory.steps + 1) as f64;
                    let [first, second] = [beta1, beta2].map(|beta| 1.0 - libm::pow(beta, n));
                    [F::of(first), F::of(second.sqrt())]
                }
                _ => [F::of(1.0); 2],
            };
            let flip = variant.flip.filter(|flip| flip.step == self.step);
            Step {
                k,
                rate: if released { dt * k } else { dt / k },
                e1,
                e2,
                released: i32::from(released),
                flip: i32::from(flip.is_some()),
                flipped: flip.map_or(0, |flip| flip.parameter as u64),
                number: self.step as u64 + 1,
                new_epoch: i32::from(new_epoch),
                unused: 0,
            }
        };
        self.variants.iter().zip(&self.replicas).map(of).collect()
    }

    /// How each replica does on all examples of `batches`, as a finished network. Replicas that have
    /// ended are left out.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn evaluate(&mut self, batches: &mut Batches<F>) -> Result<Vec<Option<Evaluation>>, Error> {
        let goes_on = |replica: &Replica<F>| replica.ended.is_none().then(Evaluation::default);
        let mut sums: Vec<Option<Evaluation>> = self.replicas.iter().map(goes_on).collect();
        let mut total = 0;
        // Slot 0 is used for this; what lies there is written again when it is needed.
        self.shown[0] = None;
        self.coming = None;
        for step in 0..batches.steps_per_epoch() {
            let batch = batches.batch(step);
            for part in parts_of(&batch, self.network.outputs(), self.engine.capacity()) {
                let examples = self.engine.set_batch(0, &part)?;
                self.engine.examine(examples)?;
                total += examples;
                for (r, sum) in sums.iter_mut().enumerate() {
                    let Some(sum) = sum else { continue };
                    let answers = self.engine.answers(r, examples)?;
                    sum.loss += answers.losses.iter().sum::<f64>();
                    if matches!(part.targets, Targets::Classes(_)) {
                        sum.right.extend(answers.right);
                        sum.classes.extend(answers.classes.iter().map(|class| *class as u32));
                    }
                }
            }
        }
        sums.iter_mut().flatten().for_each(|sum| sum.loss /= total as f64);
        Ok(sums)
    }

    /// One step whose kernels are timed one by one.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn profile(&mut self) -> Result<BTreeMap<&'static str, KernelTime>, Error> {
        self.engine.device.wait()?;
        let recorded = std::mem::take(&mut self.recorded);
        self.engine.device.measure_kernels();
        let done = self.advance();
        self.recorded = recorded;
        let times = self.engine.device.kernel_times();
        done.map(|()| times)
    }

    /// The relative gradient fluctuation of each replica, as
    /// [`lastbit::training::Trainer::fluctuations`].
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn fluctuations(&mut self, count: usize) -> Result<Vec<Option<f64>>, Error> {
        assert!(count > 0, "the mean of no gradients");
        let len = self.network.len();
        let mut means = vec![Fluctuation::new(len); self.replicas.len()];
        for step in self.step..self.step + count {
            let gradients = self.gradients(step)?;
            means.iter_mut().zip(&gradients).for_each(|(mean, gradient)| mean.add(gradient));
        }
        let last = self.gradients(self.step + count)?;
        let of = |(i, replica): (usize, &Replica<F>)| {
            replica.ended.is_none().then(|| means[i].against(&last[i]))
        };
        Ok(self.replicas.iter().enumerate().map(of).collect())
    }

    /// The gradients of all replicas on their batches of a step, where they are now.
    fn gradients(&mut self, step: usize) -> Result<Vec<Vec<F>>, Error> {
        let examples = self.turn_to(step)?;
        self.engine.gradients(examples)
    }

    /// The batches of the coming `count` steps, for each replica; none for those that have ended.
    pub fn coming_batches(&mut self, count: usize) -> Vec<Option<Vec<Arc<Batch<F>>>>> {
        let steps = self.step..self.step + count;
        let batches: Vec<_> = steps.map(|step| self.batches_of_slots(step)).collect();
        let own = |(variant, replica): (&Variant, &Replica<F>)| {
            let shown = (variant.source, variant.order);
            let slot = self.slots.iter().position(|slot| *slot == shown)?;
            let of_steps = batches.iter().map(|of_slots| of_slots[slot].clone());
            replica.ended.is_none().then(|| of_steps.collect())
        };
        self.variants.iter().zip(&self.replicas).map(own).collect()
    }

    /// Each replica beside the first, in the bits of [`Compared::of`] and without reading parameters.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn compared(&mut self) -> Result<Vec<Compared>, Error> {
        self.comparison.measure(&mut self.engine.device, &self.engine.theta)
    }
}

impl<F: DeviceReal> Engine<F> {
    /// All of a step.
    fn one_step(&mut self, examples: usize) -> Result<(), Error> {
        self.prepare_step(examples)?;
        self.take_gradient(examples, Look::Learning)?;
        self.descend(examples)
    }

    fn record_step(&mut self, examples: usize) -> Result<Graph, Error> {
        self.device.begin_recording()?;
        let worked = self.one_step(examples);
        let graph = self.device.end_recording();
        worked?;
        graph
    }
}

/// Consecutive examples, at most so many together.
pub(crate) fn parts_of<F: DeviceReal>(
    batch: &Batch<F>,
    outputs: usize,
    most: usize,
) -> Vec<Batch<F>> {
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
