//! The passes over a network for all replicas at once.
//!
//! The order of the layers, and who writes and who adds to a gradient, are those of the CPU's
//! engine; `norm.cu` and `view.cu` hold the formulas.

use std::sync::Arc;

use lastbit::nn::{Batch, Conv, Loss, Network, Op, PoolKind, Targets};
use lastbit::optim::direction::{Method, Optimizer};
use lastbit::verdict::BLOW_UP;

use crate::device::{Device, DeviceReal, Grid, Memory};
use crate::error::Error;
use crate::fast::{Fast, Precision};
use crate::jobs::{
    Address, ConvJob, FastJob, LossJob, NormJob, OpJob, PackJob, Step, StepJob, SumJob, Tally,
    View, WeightsJob,
};
use crate::places::{Places, chunks_of_images, fast, partial_weights};

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
    inputs: Memory<F>,
    classes: Memory<i32>,
    reals: Memory<F>,
    has_classes: bool,
    slot: Memory<i32>,
    /// Slot of each replica; there are twice as many, so that the coming batches can be written
    /// while a step looks at the others.
    slots: Vec<usize>,
    /// Slot 0 for all, while all look at the same.
    same_slot: Memory<i32>,
    all_look_at_one: bool,
    losses: Memory<f64>,
    answers: Memory<i32>,
    right: Memory<i32>,
    largest: Memory<f64>,
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
        let has_products = matches!(optimizer.method, Method::Cfl { .. });
        assert!(!has_products, "{:?} needs products with the Hessian", optimizer.method);
        let device = Device::new::<F>(precision)?;
        let replicas = slots.len();
        let len = network.len();
        let used = slots.iter().max().map_or(0, |slot| slot + 1);
        let inputs: usize = network.input_shape().iter().product();
        let mut slot = device.zeros(replicas)?;
        let numbers: Vec<i32> = slots.iter().map(|slot| *slot as i32).collect();
        device.write(&mut slot, 0, &numbers)?;
        let room = 2 * used * capacity;
        let buffers: usize = network.buffers().iter().map(|buffer| buffer.range.len()).sum();
        let engine = Self {
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
            slot,
            slots: slots.to_vec(),
            same_slot: device.zeros(replicas)?,
            all_look_at_one: false,
            losses: device.zeros(replicas * capacity)?,
            answers: device.zeros(replicas * capacity)?,
            right: device.zeros(replicas * capacity)?,
            largest: device.zeros(replicas * len.div_ceil(256))?,
            network: network.clone(),
            loss,
            optimizer,
            precision,
            replicas,
            capacity,
            device,
        };
        // Batches are written by another queue than the one that made room for them.
        engine.device.wait()?;
        Ok(engine)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Examples that there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// From now on replica `r` looks at slot `first + slots[r]`.
    pub(crate) fn look_from(&mut self, first: usize) -> Result<(), Error> {
        let numbers: Vec<i32> = self.slots.iter().map(|slot| (first + slot) as i32).collect();
        self.device.write(&mut self.slot, 0, &numbers)
    }

    /// Puts examples into a slot at which no step in work looks; at once, beside that work.
    ///
    /// # Panics
    ///
    /// If they are more than there is room for.
    pub fn set_batch(&mut self, slot: usize, batch: &Batch<F>) -> Result<usize, Error> {
        let outputs = self.network.outputs();
        let examples = batch.targets.len(outputs);
        assert!(examples <= self.capacity, "{examples} examples, room for {}", self.capacity);
        let len: usize = self.network.input_shape().iter().product();
        self.device.write_beside(&mut self.inputs, slot * self.capacity * len, &batch.inputs)?;
        self.has_classes = matches!(batch.targets, Targets::Classes(_));
        match &batch.targets {
            Targets::Classes(classes) => {
                let classes: Vec<i32> = classes.iter().map(|class| *class as i32).collect();
                self.device.write_beside(&mut self.classes, slot * self.capacity, &classes)?;
            }
            Targets::Reals(values) => {
                self.device.write_beside(
                    &mut self.reals,
                    slot * self.capacity * outputs,
                    values,
                )?;
            }
        }
        Ok(examples)
    }

    /// Puts parameters in place, replica after replica.
    pub fn set_theta(&mut self, replica: usize, theta: &[F]) -> Result<(), Error> {
        self.device.write(&mut self.theta, replica * self.network.len(), theta)
    }

    /// The gradient of a replica on its batch, which has so many examples. Nothing remains of it
    /// but the gradient.
    pub fn gradients(&mut self, examples: usize) -> Result<Vec<Vec<F>>, Error> {
        self.forward(examples, Look::Measuring)?;
        self.measure(examples)?;
        self.backward(examples)?;
        let len = self.network.len();
        (0..self.replicas).map(|r| self.device.read(&self.gradient, r * len, len)).collect()
    }

    /// What the last forward pass answered.
    pub fn answers(&self, replica: usize, examples: usize) -> Result<Answers, Error> {
        let first = replica * self.capacity;
        let right = self.device.read(&self.right, first, examples)?;
        Ok(Answers {
            losses: self.device.read(&self.losses, first, examples)?,
            classes: self.device.read(&self.answers, first, examples)?,
            right: right.iter().map(|right| *right != 0).collect(),
        })
    }

    fn view(&self, l: usize) -> View {
        let view = self.places.view(l, &self.network.nodes()[l]);
        if l > 0 {
            return view;
        }
        View { z: self.inputs.address(), slot: self.slots(), ..view }
    }

    fn slots(&self) -> Address {
        if self.all_look_at_one { self.same_slot.address() } else { self.slot.address() }
    }

    /// All replicas look at the batch in slot 0 as finished networks.
    pub(crate) fn examine(&mut self, examples: usize) -> Result<(), Error> {
        self.all_look_at_one = true;
        let done = self.forward(examples, Look::Running).and_then(|()| self.measure(examples));
        self.all_look_at_one = false;
        done
    }

    /// Raw values of all layers.
    pub(crate) fn forward(&mut self, images: usize, look: Look) -> Result<(), Error> {
        let network = self.network.clone();
        for (l, layer) in network.nodes().iter().enumerate() {
            let numbers = images * layer.len();
            let each = Grid::each(numbers, self.replicas);
            match &layer.op {
                Op::Input => {}
                Op::Conv(conv) => self.forward_conv(conv, l, images, look)?,
                Op::Add if layer.inputs.len() == 2 && goes_by_fours(layer.shape[2]) => {
                    let grid = Grid::each(numbers / 4, self.replicas);
                    let job = self.sum(l, images);
                    self.device.launch("sum_forward_fours", grid, &job)?;
                }
                Op::Add => {
                    for (term, &input) in layer.inputs.iter().enumerate() {
                        let job = OpJob { add: i32::from(term > 0), ..self.op(l, input, images) };
                        self.device.launch("add_forward", each, &job)?;
                    }
                }
                Op::Pool(_) => {
                    let job = self.op(l, layer.inputs[0], images);
                    self.device.launch("pool_forward", each, &job)?;
                }
                Op::Subsample { .. } => {
                    let job = self.op(l, layer.inputs[0], images);
                    self.device.launch("subsample_forward", each, &job)?;
                }
                Op::Mean => {
                    let job = self.op(l, layer.inputs[0], images);
                    let grid = Grid::each(images, self.replicas);
                    self.device.launch("mean_forward", grid, &job)?;
                }
            }
            if layer.norm.is_some() {
                let channels = layer.shape[2];
                let fast = self.fast_of(l);
                let job = NormJob {
                    settle: i32::from(look == Look::Learning),
                    ..self.norm(l, images, fast)
                };
                if look == Look::Running {
                    let grid = Grid::each(channels, self.replicas);
                    self.device.launch("norm_running", grid, &job)?;
                } else {
                    // Fast convolutions make the moments of what they write.
                    if fast.is_none() {
                        let grid = Grid::blocks([images, self.replicas, 1], 256);
                        let name = by_fours(channels, ["norm_moments", "norm_moments_fours"]);
                        self.device.launch(name, grid, &job)?;
                    }
                    let grid = Grid::blocks([channels.div_ceil(4), self.replicas, 1], 128);
                    self.device.launch("norm_forward", grid, &job)?;
                }
            }
        }
        Ok(())
    }

    /// Losses, answers, and the gradient by the outputs.
    pub(crate) fn measure(&mut self, images: usize) -> Result<(), Error> {
        let last = self.network.nodes().len() - 1;
        let job = LossJob {
            output: self.view(last),
            classes: if self.has_classes { self.classes.address() } else { 0 },
            reals: self.reals.address(),
            slot: self.slots(),
            losses: self.losses.address(),
            answers: self.answers.address(),
            right: self.right.address(),
            kind: match self.loss {
                Loss::CrossEntropy => 0,
                Loss::BinaryCrossEntropy => 1,
                Loss::HalfMse => 2,
            },
            outputs: self.network.outputs() as i32,
            images: images as i32,
            capacity: self.capacity as i32,
        };
        self.device.launch("loss_examples", Grid::each(images, self.replicas), &job)
    }

    /// The gradients by all parameters.
    pub(crate) fn backward(&mut self, images: usize) -> Result<(), Error> {
        let network = self.network.clone();
        let layers = network.nodes();
        self.finish_gradient(layers.len() - 1, images)?;
        for l in (1..layers.len()).rev() {
            let layer = &layers[l];
            if let Op::Conv(conv) = &layer.op {
                self.backward_weights(conv, l, images)?;
            }
            if self.places.is_in_place(l) {
                self.backward_in_place(l, images)?;
                continue;
            }
            for (index, &input) in layer.inputs.iter().enumerate() {
                if input == 0 {
                    continue;
                }
                let uses = |other: &lastbit::nn::Layer| other.inputs.contains(&input);
                let first =
                    !layers[l + 1..].iter().any(uses) && !layer.inputs[..index].contains(&input);
                let last =
                    !layers[..l].iter().any(uses) && !layer.inputs[index + 1..].contains(&input);
                let each = Grid::each(images * layers[input].len(), self.replicas);
                let job = OpJob { add: i32::from(!first), ..self.op(l, input, images) };
                match &layer.op {
                    Op::Input => {}
                    Op::Conv(conv) => self.backward_data(conv, l, images, !first)?,
                    Op::Add => self.device.launch("add_backward", each, &job)?,
                    Op::Pool(_) => self.device.launch("pool_backward", each, &job)?,
                    Op::Subsample { .. } => {
                        self.device.launch("subsample_backward", each, &job)?;
                    }
                    Op::Mean => self.device.launch("mean_backward", each, &job)?,
                }
                if last {
                    self.finish_gradient(input, images)?;
                }
            }
        }
        Ok(())
    }

    /// The gradients by both inputs of a sum, in the place of its own.
    fn backward_in_place(&mut self, l: usize, images: usize) -> Result<(), Error> {
        let network = self.network.clone();
        let (layers, layer) = (network.nodes(), &network.nodes()[l]);
        let by_fours = goes_by_fours(layer.shape[2]);
        if by_fours {
            let grid = Grid::blocks([images, self.replicas, 1], 256);
            let job = self.sum(l, images);
            self.device.launch("sum_backward_fours", grid, &job)?;
        } else {
            let each = Grid::each(images * layer.len(), self.replicas);
            let job = self.op(l, layer.inputs[0], images);
            self.device.launch("add_backward", each, &job)?;
        }
        for (index, &input) in layer.inputs.iter().enumerate() {
            let uses = |other: &lastbit::nn::Layer| other.inputs.contains(&input);
            if layers[..l].iter().any(uses) {
                continue;
            }
            // The first input's sums are made on the way.
            if index == 0 && by_fours && layers[input].norm.is_some() {
                self.norm_backward(input, images)?;
            } else {
                self.finish_gradient(input, images)?;
            }
        }
        Ok(())
    }

    /// Batch norm's part of the gradient of a layer whose `u` is complete.
    fn finish_gradient(&mut self, l: usize, images: usize) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        if layer.norm.is_none() {
            return Ok(());
        }
        let names = ["norm_gradient_sums", "norm_gradient_sums_fours"];
        let name = by_fours(layer.shape[2], names);
        let job = self.norm(l, images, None);
        let grid = Grid::blocks([images, self.replicas, 1], 256);
        self.device.launch(name, grid, &job)?;
        self.norm_backward(l, images)
    }

    /// The same once the images' sums are made.
    fn norm_backward(&mut self, l: usize, images: usize) -> Result<(), Error> {
        let channels = self.network.nodes()[l].shape[2];
        let job = self.norm(l, images, None);
        let grid = Grid::blocks([channels.div_ceil(4), self.replicas, 1], 128);
        self.device.launch("norm_backward", grid, &job)
    }

    fn forward_conv(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        look: Look,
    ) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let [height, width, channels] = layer.shape;
        if let Some(fast) = self.fast_of(l) {
            let with_sums = layer.norm.is_some() && look != Look::Running;
            let pack = self.pack(conv, l);
            let each = Grid::each(pack.stride as usize, self.replicas);
            self.device.launch("pack_kernels", each, &pack)?;
            let input = self.view(self.network.nodes()[l].inputs[0]);
            let job = FastJob {
                bias: match &conv.bias {
                    Some(bias) => self.theta.address() + (bias.start * size_of::<F>()) as u64,
                    None => 0,
                },
                sums: if with_sums { self.places.sums.address() } else { 0 },
                kernels: pack.forward,
                kernels_stride: pack.stride,
                ..self.fast_job(input, self.view(l).z, [height, width, channels], images)
            };
            let grid = fast.grid(images, channels, self.replicas, self.precision);
            return self.device.launch(fast.forward, grid, &job);
        }
        let job = self.conv(conv, l, images);
        let name = by_width(channels, ["conv_forward_16", "conv_forward_32", "conv_forward_64"]);
        let grid = product_grid(images * height * width, channels, 1, self.replicas);
        self.device.launch(name, grid, &job)
    }

    fn backward_data(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        add: bool,
    ) -> Result<(), Error> {
        let layers = self.network.nodes();
        let from = layers[l].inputs[0];
        let [height, width, channels] = layers[from].shape;
        if let Some((name, blocks)) = self.fast_of(l).and_then(Fast::data) {
            let input = self.view(from);
            let pack = self.pack(conv, l);
            let job = FastJob {
                add: i32::from(add),
                kernels: pack.backward,
                kernels_stride: pack.stride,
                ..self.fast_job(self.view(l), input.u, [height, width, channels], images)
            };
            let grid = blocks.grid(images, channels, self.replicas, self.precision);
            return self.device.launch(name, grid, &job);
        }
        let job = ConvJob { add: i32::from(add), ..self.conv(conv, l, images) };
        let name = by_width(channels, ["conv_data_16", "conv_data_32", "conv_data_64"]);
        let pixels = height.div_ceil(conv.stride) * width.div_ceil(conv.stride);
        let classes = conv.stride * conv.stride;
        let grid = product_grid(images * pixels, channels, classes, self.replicas);
        self.device.launch(name, grid, &job)
    }

    fn backward_weights(&mut self, conv: &Conv, l: usize, images: usize) -> Result<(), Error> {
        let channels = self.network.nodes()[l].shape[2];
        let job = self.conv(conv, l, images);
        if let Some(fast) = self.fast_of(l) {
            let ConvJob { input, output, partials, images, chunks, images_per_chunk, .. } = job;
            let rows = job.inputs;
            let grid = fast.grid_of_weights(
                [rows as usize, channels],
                chunks as usize,
                self.replicas,
                self.precision,
            );
            let job =
                WeightsJob { input, output, partials, images, chunks, images_per_chunk, rows };
            self.device.launch(fast.weights, grid, &job)?;
        } else {
            let names = ["conv_weights_16", "conv_weights_32", "conv_weights_64"];
            let rows = conv.weight.len() / channels;
            let grid = product_grid(rows, channels, job.chunks as usize, self.replicas);
            self.device.launch(by_width(channels, names), grid, &job)?;
        }
        let sums = conv.weight.len() / job.input.channels as usize * job.inputs as usize;
        let each = Grid::each(sums, self.replicas);
        self.device.launch("conv_weights_finish", each, &job)?;
        let Some(bias) = &conv.bias else { return Ok(()) };
        let job = NormJob { shift: bias.start as u64, ..self.norm(l, images, None) };
        let grid = Grid::blocks([images, self.replicas, 1], 256);
        self.device.launch("bias_sums", grid, &job)?;
        self.device.launch("bias_finish", Grid::each(channels, self.replicas), &job)
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

    /// The fast way of a layer, if it is a convolution that has one.
    fn fast_of(&self, l: usize) -> Option<&'static Fast> {
        let layers = self.network.nodes();
        let Op::Conv(conv) = &layers[l].op else { return None };
        fast::<F>(conv, &layers[layers[l].inputs[0]], &layers[l])
    }

    fn pack(&self, conv: &Conv, l: usize) -> PackJob {
        let layers = self.network.nodes();
        let from = &layers[layers[l].inputs[0]];
        let [forward, backward] = self.places.packed(l);
        PackJob {
            theta: self.theta.address(),
            forward,
            backward,
            parameters: self.network.len() as u64,
            weight: conv.weight.start as u64,
            stride: partial_weights(conv, from, self.fast_of(l)) as u64,
            inputs: from.shape[2] as i32,
            outputs: layers[l].shape[2] as i32,
            rows: Fast::rows(from.shape[2]) as i32,
            unused: 0,
        }
    }

    /// A fast convolution from what is read to a result of some shape, without kernels yet.
    fn fast_job(
        &self,
        from: View,
        result: Address,
        [height, width, channels]: [usize; 3],
        images: usize,
    ) -> FastJob {
        let pixels = height * width;
        FastJob {
            from,
            result,
            kernels: 0,
            bias: 0,
            sums: 0,
            result_stride: (self.capacity * pixels * channels) as u64,
            kernels_stride: 0,
            bias_stride: self.network.len() as u64,
            channels: channels as i32,
            add: 0,
            images: images as i32,
            unused: 0,
        }
    }

    fn sum(&self, l: usize, images: usize) -> SumJob {
        let layers = self.network.nodes();
        let [first, second] = layers[l].inputs[..] else { panic!("a sum of two") };
        let has_norm = layers[first].norm.is_some();
        SumJob {
            first: self.view(first),
            second: self.view(second),
            sum: self.view(l),
            sums: if has_norm { self.places.sums.address() } else { 0 },
            images: images as i32,
            unused: 0,
        }
    }

    fn conv(&self, conv: &Conv, l: usize, images: usize) -> ConvJob {
        let fast = self.fast_of(l);
        let from = &self.network.nodes()[self.network.nodes()[l].inputs[0]];
        let sums = partial_weights(conv, from, fast);
        let (chunks, images_per_chunk) = chunks_of_images(sums, images, fast);
        ConvJob {
            input: self.view(self.network.nodes()[l].inputs[0]),
            output: self.view(l),
            theta: self.theta.address(),
            partials: self.places.partials.address(),
            gradient: self.gradient.address(),
            parameters: self.network.len() as u64,
            weight: conv.weight.start as u64,
            bias: conv.bias.as_ref().map_or(0, |range| range.start as u64),
            has_bias: i32::from(conv.bias.is_some()),
            add: 0,
            rows: conv.kernel[0] as i32,
            cols: conv.kernel[1] as i32,
            stride: conv.stride as i32,
            above: conv.before[0] as i32,
            left: conv.before[1] as i32,
            images: images as i32,
            chunks: chunks as i32,
            images_per_chunk: images_per_chunk as i32,
            inputs: if fast.is_some() { Fast::rows(from.shape[2]) } else { from.shape[2] } as i32,
        }
    }

    /// The batch norm of a layer whose sums are those of images or, made by a fast convolution, of
    /// what its blocks have.
    fn norm(&self, l: usize, images: usize, by: Option<&Fast>) -> NormJob {
        let [height, width, _] = self.network.nodes()[l].shape;
        let [parts, pixels] = by.map_or([images, height * width], |fast| fast.parts(images));
        let place = |range: Option<usize>| range.unwrap_or(0) as u64;
        let norm = self.network.nodes()[l].norm.as_ref();
        let last = self.network.buffers().last();
        NormJob {
            layer: self.view(l),
            norm: self.places.norm_of(l),
            sums: self.places.sums.address(),
            moments: self.places.moments_of(l),
            theta: self.theta.address(),
            gradient: self.gradient.address(),
            buffers: self.buffers.address(),
            tally: self.tally.address(),
            parameters: self.network.len() as u64,
            statistics: place(last.map(|last| last.range.end)),
            scale: place(norm.map(|norm| norm.scale.start)),
            shift: place(norm.map(|norm| norm.shift.start)),
            mean: place(norm.map(|norm| norm.mean.start)),
            variance: place(norm.map(|norm| norm.variance.start)),
            images: images as i32,
            settle: 0,
            parts: parts as i32,
            pixels: pixels as i32,
        }
    }

    fn op(&self, l: usize, input: usize, images: usize) -> OpJob {
        let (size, stride, largest) = match &self.network.nodes()[l].op {
            Op::Pool(pool) => (pool.size, pool.stride, pool.kind == PoolKind::Max),
            Op::Subsample { stride } => ([1, 1], *stride, false),
            _ => ([1, 1], 1, false),
        };
        OpJob {
            input: self.view(input),
            output: self.view(l),
            rows: size[0] as i32,
            cols: size[1] as i32,
            stride: stride as i32,
            largest: i32::from(largest),
            add: 0,
            images: images as i32,
        }
    }

    fn step(&self, images: usize) -> StepJob {
        let (method, mu, [beta1, beta2], epsilon) = match self.optimizer.method {
            Method::Sgd | Method::Cfl { .. } => (0, 0.0, [0.0; 2], 0.0),
            Method::HeavyBall { mu } => (1, mu, [0.0; 2], 0.0),
            Method::Nesterov { mu } => (2, mu, [0.0; 2], 0.0),
            Method::Adam { beta1, beta2, epsilon } => (3, 0.0, [beta1, beta2], epsilon),
            Method::NesterovPde { mu } => (4, mu, [0.0; 2], 0.0),
        };
        StepJob {
            theta: self.theta.address(),
            gradient: self.gradient.address(),
            memory: self.memory.address(),
            tally: self.tally.address(),
            steps: self.steps.address(),
            losses: self.losses.address(),
            right: self.right.address(),
            largest: self.largest.address(),
            scale: self.scale.address(),
            parameters: self.network.len() as u64,
            method,
            images: images as i32,
            capacity: self.capacity as i32,
            blocks: self.network.len().div_ceil(256) as i32,
            alpha: self.optimizer.alpha,
            mu,
            beta1,
            beta2,
            c1: 1.0 - beta1,
            c2: 1.0 - beta2,
            epsilon,
            blow_up: BLOW_UP,
        }
    }
}

/// Whether the kernels of `fours.cu` take so many channels.
fn goes_by_fours(channels: usize) -> bool {
    channels.is_power_of_two() && (4..=1024).contains(&channels)
}

fn by_fours(channels: usize, [one, fours]: [&'static str; 2]) -> &'static str {
    if goes_by_fours(channels) { fours } else { one }
}

/// The kernel whose tiles fit so many columns best.
fn by_width(columns: usize, names: [&'static str; 3]) -> &'static str {
    match columns {
        0..=16 => names[0],
        17..=32 => names[1],
        _ => names[2],
    }
}

/// Blocks of 4096 results.
fn product_grid(rows: usize, columns: usize, chunks: usize, replicas: usize) -> Grid {
    let wide = match columns {
        0..=16 => 16,
        17..=32 => 32,
        _ => 64,
    };
    let tiles = rows.div_ceil(4096 / wide) * columns.div_ceil(wide);
    Grid::blocks([tiles, chunks, replicas], 256)
}

#[cfg(test)]
mod tests;
