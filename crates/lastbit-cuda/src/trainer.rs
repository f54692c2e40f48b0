//! Replicas in training on a device: the steps of [`lastbit::training::Trainer`], all replicas at once.
//!
//! Data sets are in device memory, and batches are formed there. A step, from its batches to its
//! tallies, is captured into a CUDA graph once for each batch size, and so is the evaluation of a batch;
//! what changes from step to step (lists of examples, learning rates, corrections, a bit to flip) is in
//! device memory.
//!
//! Methods return an error only if the device fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use lastbit::batches::{Batches, Chosen};
use lastbit::nn::{Batch, BatchNormMode, Loss, Network};
use lastbit::objective::Evaluation;
use lastbit::optim::perturbation::Form;
use lastbit::training::{Compared, EpochStats, Fluctuation, Plan, Replica, Variant, assert_fit};

use crate::compare::Comparison;
use crate::conv3x3_plan::MathMode;
use crate::device::{DeviceReal, KernelTime};
use crate::device_dataset::{BatchSource, ExampleLists};
use crate::engine::Engine;
use crate::error::Error;
use crate::graph_cache::GraphCache;
use crate::kernel_args::Step;

/// Replicas in training.
#[derive(Debug)]
pub struct CudaTrainer<F> {
    engine: Engine<F>,
    network: Arc<Network>,
    sources: Vec<BatchSource<F>>,
    plan: Plan,
    variants: Vec<Variant>,
    slots: Vec<Slot>,
    /// The slot of each replica.
    slot_of: Vec<usize>,
    /// Examples of each slot's batch.
    lists: ExampleLists,
    steps: GraphCache,
    evaluation_data: Option<EvaluationData<F>>,
    replicas: Vec<Replica<F>>,
    /// Whether steps were taken since `replicas` were read.
    is_ahead: bool,
    comparison: Comparison,
    step: usize,
}

/// A batch that replicas read.
#[derive(Debug, Clone, Copy)]
struct Slot {
    source: usize,
    /// Seed of an order that replaces the source's.
    order: Option<u64>,
    /// Whether all steps have the same batch.
    is_fixed: bool,
    /// Whether a fixed batch is formed.
    is_formed: bool,
}

/// A data set on which replicas are evaluated.
#[derive(Debug)]
struct EvaluationData<F> {
    source: BatchSource<F>,
    graphs: GraphCache,
}

impl<F: DeviceReal> CudaTrainer<F> {
    /// Continues after `step` steps with these replicas, as [`lastbit::training::Trainer::new`]. An error
    /// says that there is no device, or too little memory on it.
    ///
    /// # Panics
    ///
    /// If these do not fit together ([`assert_fit`]), sources differ in batch size or kind of targets, or a
    /// replica lacks the network's buffers.
    #[expect(clippy::too_many_arguments, reason = "all that a training is made of")]
    pub fn new(
        network: &Arc<Network>,
        loss: Loss,
        math: MathMode,
        mut sources: Vec<Batches<F>>,
        plan: Plan,
        variants: Vec<Variant>,
        step: usize,
        replicas: Vec<Replica<F>>,
    ) -> Result<Self, Error> {
        assert_fit(&sources, &plan, &variants, &replicas, network.len());
        let mut slots: Vec<Slot> = Vec::new();
        let mut slot_of = Vec::new();
        for Variant { source, order, .. } in &variants {
            let same = |slot: &Slot| (slot.source, slot.order) == (*source, *order);
            slot_of.push(slots.iter().position(same).unwrap_or_else(|| {
                let is_fixed = order.is_none() && sources[*source].is_full_batch();
                slots.push(Slot { source: *source, order: *order, is_fixed, is_formed: false });
                slots.len() - 1
            }));
        }
        // The first batch of an epoch is as large as any.
        let capacity = sources[0].examples(0).len();
        for other in &mut sources[1..] {
            assert_eq!(other.examples(0).len(), capacity, "examples of a batch");
        }
        let engine = Engine::new(network, loss, plan.optimizer, math, &slot_of, capacity)?;
        let mut on_device: Vec<BatchSource<F>> = Vec::new();
        for source in sources {
            on_device.push(BatchSource::new(&engine.device, source, &on_device)?);
        }
        let targets = on_device[0].targets();
        assert!(on_device.iter().all(|other| other.targets() == targets), "kind of targets");
        let (len, count) = (network.len(), replicas.len());
        let comparison = Comparison::new::<F>(&engine.device, len, network.tensors(), count)?;
        let mut trainer = Self {
            lists: ExampleLists::new(&engine.device, slots.len(), capacity)?,
            engine,
            network: network.clone(),
            sources: on_device,
            plan,
            variants,
            slots,
            slot_of,
            steps: GraphCache::default(),
            evaluation_data: None,
            replicas,
            is_ahead: false,
            comparison,
            step,
        };
        trainer.load()?;
        Ok(trainer)
    }

    /// Uploads all replicas.
    fn load(&mut self) -> Result<(), Error> {
        let Self { engine, replicas, network, .. } = self;
        let buffers = network.initial_buffers::<F>().len();
        for (r, replica) in replicas.iter().enumerate() {
            assert_eq!(replica.buffers.len(), buffers, "buffers");
            engine.device.write(&mut engine.theta, r * replica.theta.len(), &replica.theta)?;
            let memory = &replica.memory.values;
            engine.device.write(&mut engine.memory, r * memory.len(), memory)?;
            let buffers = &replica.buffers;
            engine.device.write(&mut engine.buffers, r * buffers.len(), buffers)?;
            engine.device.write(&mut engine.scale, r, &[replica.scale])?;
            let EpochStats { last_loss, loss, right, examples } = replica.epoch_stats;
            let tally = crate::kernel_args::Tally {
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
        self.sources[0].batches.steps_per_epoch()
    }

    /// Learning rate of the next step.
    pub fn rate(&self) -> f64 {
        self.plan.schedule.rate(self.plan.dt, self.step / self.steps_per_epoch(), self.step)
    }

    /// The replicas, in the order of their variants. Tallies and ends are current, all else is as of the last
    /// [`read_back`](Self::read_back).
    pub fn replicas(&self) -> &[Replica<F>] {
        &self.replicas
    }

    /// Reads the replicas from the device.
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
    pub fn advance(&mut self) -> Result<(), Error> {
        let examples = self.list_examples(self.step)?;
        let steps = self.steps_of_replicas();
        self.engine.device.write(&mut self.engine.steps, 0, &steps)?;
        let Self { engine, sources, slots, lists, .. } = self;
        self.steps.launch(engine, examples, |engine| {
            form_batches(engine, sources, slots, lists, examples)?;
            engine.prepare_step(examples)?;
            engine.take_gradient(examples, BatchNormMode::Training, true)?;
            engine.descend(examples)
        })?;
        self.step += 1;
        let tallies = self.engine.device.read(&self.engine.tally, 0, self.replicas.len())?;
        for (replica, tally) in self.replicas.iter_mut().zip(tallies) {
            if replica.ended.is_none() {
                replica.memory.steps += 1;
            }
            replica.epoch_stats = EpochStats {
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

    /// Uploads the lists of a step's examples and forms the fixed batches; returns the number of examples,
    /// the same in each batch.
    fn list_examples(&mut self, step: usize) -> Result<usize, Error> {
        let Self { engine, sources, slots, lists, .. } = self;
        let mut counts = Vec::new();
        for (i, slot) in slots.iter_mut().enumerate() {
            let source = &mut sources[slot.source];
            if slot.is_formed {
                counts.push(source.batches.data().len());
                continue;
            }
            let chosen = source.batches.chosen(step, slot.order);
            let examples = chosen.examples.len();
            counts.push(examples);
            lists.write(&engine.device, i, &chosen)?;
            if slot.is_fixed {
                engine.form_batch(i, source, lists, examples)?;
                slot.is_formed = true;
            }
        }
        assert!(counts.iter().all(|count| *count == counts[0]), "batches of {counts:?} examples");
        Ok(counts[0])
    }

    /// What the next step of each replica depends on besides its state, rounded as in `lastbit::optim`.
    fn steps_of_replicas(&self) -> Vec<Step<F>> {
        let method = self.plan.optimizer.method;
        let dt = F::of(method.length(self.rate()));
        let new_epoch = self.step.is_multiple_of(self.steps_per_epoch());
        let of = |(variant, replica): (&Variant, &Replica<F>)| {
            let k = F::of(variant.perturbation.k);
            let released = variant.perturbation.form == Form::Released;
            let [e1, e2] = method.bias_corrections(replica.memory.steps + 1).map(F::of);
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

    /// Evaluates each replica on all examples of `batches`, with running statistics; `None` for replicas
    /// that have ended.
    pub fn evaluate(&mut self, batches: &mut Batches<F>) -> Result<Vec<Option<Evaluation>>, Error> {
        let active = |replica: &Replica<F>| replica.ended.is_none().then(Evaluation::default);
        let mut sums: Vec<Option<Evaluation>> = self.replicas.iter().map(active).collect();
        let mut total = 0;
        // The evaluation overwrites slot 0.
        self.slots[0].is_formed = false;
        let mut evaluation_data = self.evaluation_data_of(batches)?;
        for step in 0..batches.steps_per_epoch() {
            let Chosen { epoch, examples } = batches.chosen(step, None);
            for part in examples.chunks(self.engine.capacity()) {
                let count = part.len();
                let chosen = Chosen { epoch, examples: part.to_vec() };
                self.lists.write(&self.engine.device, 0, &chosen)?;
                let EvaluationData { source, graphs } = &mut evaluation_data;
                graphs.launch(&mut self.engine, count, |engine| {
                    engine.form_batch(0, source, &self.lists, count)?;
                    engine.evaluate_slot_0(count)
                })?;
                total += count;
                for (sum, answers) in sums.iter_mut().zip(self.engine.answers(count)?) {
                    if let Some(sum) = sum {
                        answers.add_to(sum, source.targets().is_none());
                    }
                }
            }
        }
        self.evaluation_data = Some(evaluation_data);
        sums.iter_mut().flatten().for_each(|sum| sum.loss /= total as f64);
        Ok(sums)
    }

    /// The data set of an evaluation: that of the last one, if it is the same.
    fn evaluation_data_of(&mut self, batches: &Batches<F>) -> Result<EvaluationData<F>, Error> {
        match self.evaluation_data.take().filter(|data| data.source.has_same_numbers(batches)) {
            Some(evaluation_data) => Ok(evaluation_data),
            None => Ok(EvaluationData {
                source: BatchSource::new(&self.engine.device, batches.clone(), &self.sources)?,
                graphs: GraphCache::default(),
            }),
        }
    }

    /// One step whose kernels are timed one by one.
    pub fn profile(&mut self) -> Result<BTreeMap<&'static str, KernelTime>, Error> {
        self.engine.device.wait()?;
        let graphs = std::mem::take(&mut self.steps);
        self.engine.device.start_timing();
        let done = self.advance();
        self.steps = graphs;
        let times = self.engine.device.kernel_times();
        done.map(|()| times)
    }

    /// The relative gradient fluctuation of each replica, as
    /// [`lastbit::training::Trainer::fluctuations`]: gradients are read, means and sums formed on the CPU.
    pub fn fluctuations(&mut self, count: usize) -> Result<Vec<Option<f64>>, Error> {
        assert!(count > 0, "the mean of no gradients");
        let len = self.network.len();
        let mut means = vec![Fluctuation::new(len); self.replicas.len()];
        for step in self.step..self.step + count {
            let gradients = self.gradients_at(step)?;
            means.iter_mut().zip(gradients.chunks_exact(len)).for_each(|(mean, own)| mean.add(own));
        }
        let last = self.gradients_at(self.step + count)?;
        let of_replica = |(replica, (mean, last)): (&Replica<F>, (Fluctuation, &[F]))| {
            replica.ended.is_none().then(|| mean.against(last))
        };
        let pairs = means.into_iter().zip(last.chunks_exact(len));
        Ok(self.replicas.iter().zip(pairs).map(of_replica).collect())
    }

    /// The gradients of all replicas, one after the other, at their present parameters on the batches of a
    /// step.
    fn gradients_at(&mut self, step: usize) -> Result<Vec<F>, Error> {
        let examples = self.list_examples(step)?;
        let Self { engine, sources, slots, lists, .. } = self;
        form_batches(engine, sources, slots, lists, examples)?;
        engine.take_gradient(examples, BatchNormMode::Training, false)?;
        engine.device.read(&engine.gradient, 0, engine.gradient.len())
    }

    /// The batches of the next `count` steps, for each replica; `None` for those that have ended.
    pub fn coming_batches(&mut self, count: usize) -> Vec<Option<Vec<Arc<Batch<F>>>>> {
        let Self { sources, slots, .. } = self;
        let steps = self.step..self.step + count;
        let mut of_slot = |slot: &Slot| -> Vec<_> {
            let batches = &mut sources[slot.source].batches;
            steps.clone().map(|step| batches.batch_in(step, slot.order)).collect()
        };
        let of_slots: Vec<_> = slots.iter().map(&mut of_slot).collect();
        let own = |(slot, replica): (&usize, &Replica<F>)| {
            replica.ended.is_none().then(|| of_slots[*slot].clone())
        };
        self.slot_of.iter().zip(&self.replicas).map(own).collect()
    }

    /// Each replica compared with the first, bit-identical to [`Compared::of`], without reading parameters.
    pub fn compared(&mut self) -> Result<Vec<Compared>, Error> {
        self.comparison.measure(&mut self.engine.device, &self.engine.theta)
    }
}

/// Forms the listed batches, except fixed ones.
fn form_batches<F: DeviceReal>(
    engine: &mut Engine<F>,
    sources: &[BatchSource<F>],
    slots: &[Slot],
    lists: &ExampleLists,
    examples: usize,
) -> Result<(), Error> {
    for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| !slot.is_fixed) {
        engine.form_batch(i, &sources[slot.source], lists, examples)?;
    }
    Ok(())
}
