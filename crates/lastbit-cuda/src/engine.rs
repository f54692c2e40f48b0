//! The passes over a network for all replicas at once.
//!
//! The order of the layers, and who writes and who adds to a gradient, are those of the CPU's
//! engine; `norm.cu` and `view.cu` hold the formulas.

mod backward;
mod dot;
mod dot_fast;
mod forward;
mod job;

use std::sync::Arc;

use lastbit::nn::{Batch, Evaluation, Layer, Loss, Network, Targets};
use lastbit::optim::direction::{Method, Optimizer};

use crate::device::{Device, DeviceReal, Grid, Memory};
use crate::dot_places::DotPlaces;
use crate::error::Error;
use crate::fast::Precision;
use crate::jobs::{Address, BatchJob, Step, Tally};
use crate::places::Places;
use crate::resident::{Listed, Source};

/// Whether batch norm looks at the batch or at the running statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// At the batch, and the running statistics follow.
    Learning,
    /// At the batch, and nothing remains of it.
    Measuring,
    /// At the running statistics.
    Running,
}

/// Replicas of a network on a device.
#[derive(Debug)]
pub struct Engine<F> {
    pub(crate) device: Device,
    network: Arc<Network>,
    loss: Loss,
    optimizer: Optimizer,
    precision: Precision,
    replicas: usize,
    capacity: usize,
    places: Places<F>,
    pub(crate) theta: Memory<F>,
    pub(crate) gradient: Memory<F>,
    pub(crate) memory: Memory<F>,
    pub(crate) buffers: Memory<F>,
    pub(crate) tally: Memory<Tally>,
    pub(crate) steps: Memory<Step<F>>,
    pub(crate) scale: Memory<f64>,
    pub(crate) inputs: Memory<F>,
    pub(crate) classes: Memory<i32>,
    pub(crate) reals: Memory<F>,
    has_classes: bool,
    slot: Memory<i32>,
    /// Slot 0 for all, while all look at the same.
    same_slot: Memory<i32>,
    all_look_at_one: bool,
    losses: Memory<f64>,
    answers: Memory<i32>,
    right: Memory<i32>,
    largest: Memory<f64>,
    /// Mean losses.
    mean: Memory<f64>,
    /// What the last forward pass looked at.
    look: Look,
    /// Room for derivatives along a direction, from the first product on.
    dots: Option<DotPlaces<F>>,
}

/// What a forward pass answers for each example of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Losses.
    pub losses: Vec<f64>,
    /// Classes answered.
    pub classes: Vec<i32>,
    /// Whether each is right.
    pub right: Vec<bool>,
}

impl Answers {
    /// Adds them to what was found before; classes only if they are what is asked for.
    pub(crate) fn add_to(self, sum: &mut Evaluation, has_classes: bool) {
        sum.loss += self.losses.iter().sum::<f64>();
        if has_classes {
            sum.right.extend(self.right);
            sum.classes.extend(self.classes.iter().map(|class| *class as u32));
        }
    }
}

impl<F: DeviceReal> Engine<F> {
    /// Room for replicas with batches of up to `capacity` examples; replica `r` sees the batch in
    /// slot `slots[r]`.
    ///
    /// # Panics
    ///
    /// If the optimizer needs products with the Hessian.
    pub fn new(
        network: &Arc<Network>,
        loss: Loss,
        optimizer: Optimizer,
        precision: Precision,
        slots: &[usize],
        capacity: usize,
    ) -> Result<Self, Error> {
        let device = || Device::new::<F>(precision);
        Self::on(device, network, loss, optimizer, precision, slots, capacity)
    }

    /// The same on a device whose kernels are of this precision, which is asked for when it is clear
    /// that batches can be counted.
    pub(crate) fn on(
        device: impl FnOnce() -> Result<Device, Error>,
        network: &Arc<Network>,
        loss: Loss,
        optimizer: Optimizer,
        precision: Precision,
        slots: &[usize],
        capacity: usize,
    ) -> Result<Self, Error> {
        let has_products = matches!(optimizer.method, Method::Cfl { .. });
        assert!(!has_products, "{:?} needs products with the Hessian", optimizer.method);
        check_size(network, capacity)?;
        let device = device()?;
        let replicas = slots.len();
        let len = network.len();
        let used = slots.iter().max().map_or(0, |slot| slot + 1);
        let inputs: usize = network.input_shape().iter().product();
        let slots: Vec<i32> = slots.iter().map(|slot| *slot as i32).collect();
        let room = used * capacity;
        let buffers: usize = network.buffers().iter().map(|buffer| buffer.range.len()).sum();
        Ok(Self {
            places: Places::new(&device, network, replicas, capacity)?,
            theta: device.zeros(replicas * len)?,
            gradient: device.zeros(replicas * len)?,
            memory: device.zeros(replicas * optimizer.method.memories() * len)?,
            buffers: device.zeros(replicas * buffers)?,
            tally: device.zeros(replicas)?,
            steps: device.zeros(replicas)?,
            scale: device.zeros(replicas)?,
            inputs: device.zeros(room * inputs)?,
            classes: device.zeros(room)?,
            reals: device.zeros(room * network.outputs())?,
            has_classes: false,
            slot: device.with(&slots)?,
            same_slot: device.zeros(replicas)?,
            all_look_at_one: false,
            losses: device.zeros(replicas * capacity)?,
            answers: device.zeros(replicas * capacity)?,
            right: device.zeros(replicas * capacity)?,
            largest: device.zeros(replicas * len.div_ceil(256))?,
            mean: device.zeros(replicas)?,
            look: Look::Measuring,
            dots: None,
            network: network.clone(),
            loss,
            optimizer,
            precision,
            replicas,
            capacity,
            device,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Examples that there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Puts examples into a slot.
    ///
    /// # Panics
    ///
    /// If they are more than there is room for, or their targets are not what the loss asks for.
    pub fn set_batch(&mut self, slot: usize, batch: &Batch<F>) -> Result<usize, Error> {
        let outputs = self.network.outputs();
        let examples = batch.targets.len(outputs);
        assert!(examples <= self.capacity, "{examples} examples, room for {}", self.capacity);
        self.assert_answerable(match &batch.targets {
            Targets::Classes(classes) => {
                Some(classes.iter().max().map_or(0, |last| *last as usize))
            }
            Targets::Reals(_) => None,
        });
        let first = slot * self.capacity;
        let len: usize = self.network.input_shape().iter().product();
        self.device.write(&mut self.inputs, first * len, &batch.inputs)?;
        self.has_classes = matches!(batch.targets, Targets::Classes(_));
        match &batch.targets {
            Targets::Classes(classes) => {
                let classes: Vec<i32> = classes.iter().map(|class| *class as i32).collect();
                self.device.write(&mut self.classes, first, &classes)?;
            }
            Targets::Reals(values) => {
                self.device.write(&mut self.reals, first * outputs, values)?;
            }
        }
        Ok(examples)
    }

    /// That there is an output for each class, where the loss looks for it; none: targets are numbers.
    fn assert_answerable(&self, last_class: Option<usize>) {
        if self.loss == Loss::CrossEntropy {
            let class = last_class.expect("classes for the cross-entropy");
            assert!(class < self.network.outputs(), "class {class} of {}", self.network.outputs());
        }
    }

    /// Forms a batch of the listed examples of a source in a slot.
    ///
    /// # Panics
    ///
    /// If its examples are not what network and loss take, or more than there is room for.
    pub(crate) fn form_batch(
        &mut self,
        slot: usize,
        source: &Source<F>,
        listed: &Listed,
        examples: usize,
    ) -> Result<(), Error> {
        let outputs = self.network.outputs();
        assert!(examples <= self.capacity, "{examples} examples, room for {}", self.capacity);
        assert_eq!(source.shape(), self.network.input_shape(), "shape of an example");
        assert!(source.targets().is_none_or(|width| width == outputs), "targets of an example");
        self.assert_answerable(source.last_class());
        let len: usize = self.network.input_shape().iter().product();
        let first = slot * self.capacity;
        let place = |memory: Address, numbers: usize, size: usize| memory + (numbers * size) as u64;
        let job = BatchJob {
            inputs: place(self.inputs.address(), first * len, size_of::<F>()),
            classes: place(self.classes.address(), first, size_of::<i32>()),
            reals: place(self.reals.address(), first * outputs, size_of::<F>()),
            ..source.job(listed, slot)
        };
        self.has_classes = source.targets().is_none();
        self.device.launch("batch_form", Grid::blocks([examples, 1, 1], 256), &job)
    }

    /// Puts parameters in place, replica after replica.
    pub fn set_theta(&mut self, replica: usize, theta: &[F]) -> Result<(), Error> {
        self.device.write(&mut self.theta, replica * self.network.len(), theta)
    }

    /// The gradient of a replica on its batch, which has so many examples. Nothing remains of it
    /// but the gradient.
    pub fn gradients(&mut self, examples: usize) -> Result<Vec<Vec<F>>, Error> {
        self.take_gradient(examples, Look::Measuring)?;
        let len = self.network.len();
        (0..self.replicas).map(|r| self.device.read(&self.gradient, r * len, len)).collect()
    }

    /// A forward and a backward pass.
    pub(crate) fn take_gradient(&mut self, examples: usize, look: Look) -> Result<(), Error> {
        self.forward(examples, look)?;
        self.measure(examples)?;
        self.backward(examples)
    }

    /// The mean loss of a replica in the last forward pass.
    pub(crate) fn mean_loss(&mut self, replica: usize, examples: usize) -> Result<f64, Error> {
        let job = self.loss(examples);
        self.device.launch("loss_mean", Grid::blocks([self.replicas, 1, 1], 256), &job)?;
        Ok(self.device.read(&self.mean, replica, 1)?[0])
    }

    /// What the last forward pass answered, for each replica.
    pub fn answers(&self, examples: usize) -> Result<Vec<Answers>, Error> {
        let all = self.replicas * self.capacity;
        let losses = self.device.read(&self.losses, 0, all)?;
        let classes = self.device.read(&self.answers, 0, all)?;
        let right = self.device.read(&self.right, 0, all)?;
        let of = |r: usize| {
            let own = r * self.capacity..r * self.capacity + examples;
            Answers {
                losses: losses[own.clone()].to_vec(),
                classes: classes[own.clone()].to_vec(),
                right: right[own].iter().map(|right| *right != 0).collect(),
            }
        };
        Ok((0..self.replicas).map(of).collect())
    }

    /// Whether each answer of a replica is right.
    pub(crate) fn right(&self, replica: usize, examples: usize) -> Result<Vec<bool>, Error> {
        let right = self.device.read(&self.right, replica * self.capacity, examples)?;
        Ok(right.iter().map(|right| *right != 0).collect())
    }

    /// All replicas look at the batch in slot 0 as finished networks.
    pub(crate) fn examine(&mut self, examples: usize) -> Result<(), Error> {
        self.all_look_at_one = true;
        let done = self.forward(examples, Look::Running).and_then(|()| self.measure(examples));
        self.all_look_at_one = false;
        done
    }

    /// Before the gradient of a step: what `steps` says of each replica.
    pub(crate) fn prepare_step(&mut self, images: usize) -> Result<(), Error> {
        let grid = Grid::each(self.network.len(), self.replicas);
        let job = self.step(images);
        self.device.launch("step_prepare", grid, &job)
    }

    /// The optimizer's step along the gradient, and the replicas' tallies.
    pub(crate) fn descend(&mut self, images: usize) -> Result<(), Error> {
        let grid = Grid::each(self.network.len(), self.replicas);
        let job = self.step(images);
        self.device.launch("step_descend", grid, &job)?;
        self.device.launch("step_finish", Grid::blocks([self.replicas, 1, 1], 256), &job)
    }
}

fn check_size(network: &Network, examples: usize) -> Result<(), Error> {
    let numbers = network.nodes().iter().map(Layer::len).max().unwrap_or(0);
    if numbers * examples > i32::MAX as usize {
        return Err(Error::TooMany { numbers, examples });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
