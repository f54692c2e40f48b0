//! The passes over a network for all replicas at once.
//!
//! The order of the layers, and which of them write a gradient and which add to it, are those of the
//! CPU's engine; `norm.cu` and `view.cu` hold the formulas.

mod args;
mod backward;
mod forward;
mod tangent;
mod tangent_conv3x3;
mod weights;

use std::sync::Arc;

use lastbit::nn::{Batch, BatchNormMode, Layer, Loss, Network, Targets};
use lastbit::objective::Evaluation;
use lastbit::optim::direction::Optimizer;

use crate::conv3x3_plan::MathMode;
use crate::device::{Aside, Device, DeviceReal, Grid, Memory};
use crate::device_dataset::{BatchSource, ExampleLists};
use crate::error::Error;
use crate::kernel_args::{Address, BatchArgs, Step, Tally};
use crate::tangent_workspace::TangentWorkspace;
use crate::workspace::Workspace;

/// Replicas of a network on a device.
#[derive(Debug)]
pub struct Engine<F> {
    pub(crate) device: Device,
    network: Arc<Network>,
    loss: Loss,
    optimizer: Optimizer,
    math: MathMode,
    replicas: usize,
    capacity: usize,
    workspace: Workspace<F>,
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
    /// Slot 0 for all replicas, while all read the same batch.
    same_slot: Memory<i32>,
    all_read_slot_0: bool,
    losses: Memory<f64>,
    answers: Memory<i32>,
    right: Memory<i32>,
    /// Largest absolute parameter of each block of a step.
    block_max: Memory<f64>,
    /// Mean losses.
    mean: Memory<f64>,
    /// Statistics that the last forward pass used.
    mode: BatchNormMode,
    /// Memory for Hessian-vector products, from the first one on.
    tangents: Option<TangentWorkspace<F>>,
    /// Gradients that launches beside the main stream read.
    readers: Vec<Reader>,
}

/// A launch beside the main stream that reads the gradient at an address.
#[derive(Debug)]
struct Reader {
    gradient: Address,
    launch: Aside,
}

/// For engines that take no steps.
pub(crate) const NO_OPTIMIZER: Optimizer = Optimizer::SGD;

/// Losses and predictions for each example of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    /// Loss of each example.
    pub losses: Vec<f64>,
    /// Predicted classes.
    pub classes: Vec<i32>,
    /// Whether each prediction is right.
    pub right: Vec<bool>,
}

impl Predictions {
    /// Adds them to an evaluation; classes only if the targets are classes.
    pub(crate) fn add_to(self, sum: &mut Evaluation, has_classes: bool) {
        sum.loss += self.losses.iter().sum::<f64>();
        if has_classes {
            sum.right.extend(self.right);
            sum.classes.extend(self.classes.iter().map(|class| *class as u32));
        }
    }
}

impl<F: DeviceReal> Engine<F> {
    /// Memory for replicas with batches of up to `capacity` examples; replica `r` reads the batch in slot
    /// `slots[r]`.
    ///
    /// # Panics
    ///
    /// If the optimizer needs Hessian-vector products.
    pub fn new(
        network: &Arc<Network>,
        loss: Loss,
        optimizer: Optimizer,
        math: MathMode,
        slots: &[usize],
        capacity: usize,
    ) -> Result<Self, Error> {
        let device = || Device::new::<F>(math);
        Self::on(device, network, loss, optimizer, math, slots, capacity)
    }

    /// The same on a given device, which is opened once the size of the batches is checked.
    pub(crate) fn on(
        device: impl FnOnce() -> Result<Device, Error>,
        network: &Arc<Network>,
        loss: Loss,
        optimizer: Optimizer,
        math: MathMode,
        slots: &[usize],
        capacity: usize,
    ) -> Result<Self, Error> {
        let method = optimizer.method;
        assert!(!method.needs_hessian(), "{method:?} needs Hessian-vector products");
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
            workspace: Workspace::new(&device, network, replicas, capacity)?,
            theta: device.zeros(replicas * len)?,
            gradient: device.zeros(replicas * len)?,
            memory: device.zeros(replicas * method.memory().len() * len)?,
            buffers: device.zeros(replicas * buffers)?,
            tally: device.zeros(replicas)?,
            steps: device.zeros(replicas)?,
            scale: device.zeros(replicas)?,
            inputs: device.zeros(room * inputs)?,
            classes: device.zeros(room)?,
            reals: device.zeros(room * network.outputs())?,
            has_classes: false,
            slot: device.upload(&slots)?,
            same_slot: device.zeros(replicas)?,
            all_read_slot_0: false,
            losses: device.zeros(replicas * capacity)?,
            answers: device.zeros(replicas * capacity)?,
            right: device.zeros(replicas * capacity)?,
            block_max: device.zeros(replicas * len.div_ceil(256))?,
            mean: device.zeros(replicas)?,
            mode: BatchNormMode::Training,
            tangents: None,
            readers: vec![],
            network: network.clone(),
            loss,
            optimizer,
            math,
            replicas,
            capacity,
            device,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Largest number of examples of a batch.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes a batch into a slot; returns its number of examples.
    ///
    /// # Panics
    ///
    /// If they are more than the capacity, or their targets do not fit the loss.
    pub fn set_batch(&mut self, slot: usize, batch: &Batch<F>) -> Result<usize, Error> {
        let outputs = self.network.outputs();
        let examples = batch.targets.len(outputs);
        assert!(examples <= self.capacity, "{examples} examples, room for {}", self.capacity);
        self.assert_has_outputs(match &batch.targets {
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

    /// Panics unless the cross-entropy finds an output for each class. `None`: targets are numbers.
    fn assert_has_outputs(&self, last_class: Option<usize>) {
        if self.loss == Loss::CrossEntropy {
            let class = last_class.expect("classes for the cross-entropy");
            assert!(class < self.network.outputs(), "class {class} of {}", self.network.outputs());
        }
    }

    /// Forms a batch of a source's listed examples in a slot.
    ///
    /// # Panics
    ///
    /// If its examples do not fit network and loss, or are more than the capacity.
    pub(crate) fn form_batch(
        &mut self,
        slot: usize,
        source: &BatchSource<F>,
        lists: &ExampleLists,
        examples: usize,
    ) -> Result<(), Error> {
        let outputs = self.network.outputs();
        assert!(examples <= self.capacity, "{examples} examples, room for {}", self.capacity);
        assert_eq!(source.shape(), self.network.input_shape(), "shape of an example");
        assert!(source.targets().is_none_or(|width| width == outputs), "targets of an example");
        self.assert_has_outputs(source.last_class());
        let len: usize = self.network.input_shape().iter().product();
        let first = slot * self.capacity;
        let at = |memory: Address, numbers: usize, size: usize| memory + (numbers * size) as u64;
        let args = BatchArgs {
            inputs: at(self.inputs.address(), first * len, size_of::<F>()),
            classes: at(self.classes.address(), first, size_of::<i32>()),
            reals: at(self.reals.address(), first * outputs, size_of::<F>()),
            ..source.args(lists, slot)
        };
        self.has_classes = source.targets().is_none();
        self.device.launch("batch_form", Grid::blocks([examples, 1, 1], 256), &args)
    }

    /// Writes the parameters of a replica.
    pub fn set_theta(&mut self, replica: usize, theta: &[F]) -> Result<(), Error> {
        self.device.write(&mut self.theta, replica * self.network.len(), theta)
    }

    /// The gradient of each replica on its batch of so many examples, leaving running statistics as they
    /// are.
    pub fn gradients(&mut self, examples: usize) -> Result<Vec<Vec<F>>, Error> {
        self.take_gradient(examples, BatchNormMode::Training, false)?;
        let len = self.network.len();
        (0..self.replicas).map(|r| self.device.read(&self.gradient, r * len, len)).collect()
    }

    /// A forward and a backward pass.
    pub(crate) fn take_gradient(
        &mut self,
        examples: usize,
        mode: BatchNormMode,
        update_running_stats: bool,
    ) -> Result<(), Error> {
        self.forward(examples, mode, update_running_stats)?;
        self.measure(examples)?;
        self.backward(examples)
    }

    /// The mean loss of a replica in the last forward pass.
    pub(crate) fn mean_loss(&mut self, replica: usize, examples: usize) -> Result<f64, Error> {
        let args = self.loss(examples);
        self.device.launch("loss_mean", Grid::blocks([self.replicas, 1, 1], 256), &args)?;
        Ok(self.device.read(&self.mean, replica, 1)?[0])
    }

    /// Losses and predictions of the last forward pass, for each replica.
    pub fn answers(&self, examples: usize) -> Result<Vec<Predictions>, Error> {
        let all = self.replicas * self.capacity;
        let losses = self.device.read(&self.losses, 0, all)?;
        let classes = self.device.read(&self.answers, 0, all)?;
        let right = self.device.read(&self.right, 0, all)?;
        let of = |r: usize| {
            let own = r * self.capacity..r * self.capacity + examples;
            Predictions {
                losses: losses[own.clone()].to_vec(),
                classes: classes[own.clone()].to_vec(),
                right: right[own].iter().map(|right| *right != 0).collect(),
            }
        };
        Ok((0..self.replicas).map(of).collect())
    }

    /// Whether each prediction of a replica is right.
    pub(crate) fn right(&self, replica: usize, examples: usize) -> Result<Vec<bool>, Error> {
        let right = self.device.read(&self.right, replica * self.capacity, examples)?;
        Ok(right.iter().map(|right| *right != 0).collect())
    }

    /// All replicas evaluate the batch in slot 0, with running statistics.
    pub(crate) fn evaluate_slot_0(&mut self, examples: usize) -> Result<(), Error> {
        self.all_read_slot_0 = true;
        let done = self.forward(examples, BatchNormMode::Evaluation, false);
        let done = done.and_then(|()| self.measure(examples));
        self.all_read_slot_0 = false;
        done
    }

    /// What `steps` asks for before the gradient of a step.
    pub(crate) fn prepare_step(&mut self, images: usize) -> Result<(), Error> {
        let grid = Grid::each(self.network.len(), self.replicas);
        let args = self.step(images);
        self.device.launch("step_prepare", grid, &args)
    }

    /// The optimizer's step along the gradient, and the replicas' tallies.
    pub(crate) fn descend(&mut self, images: usize) -> Result<(), Error> {
        let grid = Grid::each(self.network.len(), self.replicas);
        let args = self.step(images);
        self.device.launch("step_descend", grid, &args)?;
        self.device.launch("step_finish", Grid::blocks([self.replicas, 1, 1], 256), &args)
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
