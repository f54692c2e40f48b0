//! Products with the Hessian: the derivative of forward and backward pass along a direction.
//!
//! Beside the values and gradients of a point, which stay in place from one product to the next, the
//! forward pass carries the derivatives of raw values, the backward pass those of gradients; `dot.cu`
//! holds the formulas. The order of the layers, and who writes and who adds, are those of the
//! gradient.

use lastbit::nn::{Conv, Op};

use super::backward::Turn;
use super::{Engine, Look};
use crate::device::{DeviceReal, Grid, Memory};
use crate::dot_places::DotPlaces;
use crate::error::Error;
use crate::fast::Fast;
use crate::jobs::{
    Address, ConvDotJob, ConvJob, Dots, LossDotJob, NormDotJob, NormJob, OpDotJob, OpJob, View,
};
use crate::places::{is_curved, is_read_as_is};
use crate::plane::Plane;

impl<F: DeviceReal> Engine<F> {
    /// The gradient, keeping what products at the same parameters need.
    pub(crate) fn linearize(&mut self, images: usize, look: Look) -> Result<(), Error> {
        self.places.keep(&self.device, &self.network, self.replicas)?;
        let done = self.take_gradient(images, look);
        if done.is_err() {
            self.forget();
        }
        done
    }

    /// From now on gradients keep nothing.
    pub(crate) fn forget(&mut self) {
        self.places.recycle();
    }

    /// The product of a replica's Hessian with `v`, where the engine was last linearized; that of
    /// others is with what they were given last.
    pub(crate) fn product(
        &mut self,
        replica: usize,
        v: &[F],
        images: usize,
    ) -> Result<Vec<F>, Error> {
        let mut dots = match self.dots.take() {
            Some(dots) => dots,
            None => DotPlaces::new(&self.device, &self.network, self.replicas, self.capacity)?,
        };
        let first = replica * self.network.len();
        self.device.write(&mut dots.direction, first, v)?;
        let dots = self.dots.insert(dots);
        let pass = Pass { direction: dots.direction.address(), images };
        self.forward_dot(pass)?;
        self.measure_dot(pass)?;
        self.backward_dot(pass)?;
        let dots = self.dots();
        self.device.read(&dots.product, first, self.network.len())
    }

    pub(super) fn dots(&self) -> &DotPlaces<F> {
        self.dots.as_ref().expect("made before the first product")
    }

    fn forward_dot(&mut self, pass: Pass) -> Result<(), Error> {
        let network = self.network.clone();
        for (l, layer) in network.nodes().iter().enumerate().skip(1) {
            let each = Grid::each(pass.images * layer.len(), self.replicas);
            let op = self.op_dot(l, layer.inputs[0], pass);
            match &layer.op {
                Op::Input => {}
                Op::Conv(conv) => self.forward_conv_dot(conv, l, pass)?,
                Op::Add => {
                    for (term, &input) in layer.inputs.iter().enumerate() {
                        let mut job = self.op_dot(l, input, pass);
                        job.op.add = i32::from(term > 0);
                        self.device.launch("add_forward_dot", each, &job)?;
                    }
                }
                Op::Pool(_) => self.device.launch("pool_forward_dot", each, &op)?,
                Op::Subsample { .. } => self.device.launch("subsample_forward_dot", each, &op)?,
                Op::Mean => {
                    let grid = Grid::each(32 * pass.images, self.replicas);
                    self.device.launch("mean_forward_dot", grid, &op)?;
                }
            }
            if layer.norm.is_some() {
                let job = self.norm_dot(l, pass);
                if self.look != Look::Running {
                    let grid = Grid::blocks([pass.images, self.replicas, 1], 256);
                    self.device.launch("norm_moments_dot", grid, &job)?;
                }
                let grid = Grid::blocks([layer.shape[2].div_ceil(4), self.replicas, 1], 128);
                self.device.launch("norm_forward_dot", grid, &job)?;
            }
        }
        Ok(())
    }

    fn forward_conv_dot(&mut self, conv: &Conv, l: usize, pass: Pass) -> Result<(), Error> {
        if let Some(fast) = self.fast_dot_of(l) {
            return self.forward_fast_dot(fast, conv, l, pass);
        }
        let [height, width, channels] = self.network.nodes()[l].shape;
        let job = self.conv_dot(conv, l, pass);
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(pass.images, self.replicas);
            return self.device.launch(plane.forward_dot, grid, &job);
        }
        let job = self.with_values_once(job, l, pass)?;
        let each = Grid::each(conv.weight.len(), self.replicas);
        self.device.launch("conv_pack", each, &job.conv)?;
        let ConvDotJob { direction: theta, packed, .. } = job;
        self.device.launch("conv_pack", each, &ConvJob { theta, packed, ..job.conv })?;
        let names = ["conv_forward_dot_16", "conv_forward_dot_32", "conv_forward_dot_64"];
        self.multiply(names, [pass.images * height * width, channels], 1, &job)
    }

    fn measure_dot(&mut self, pass: Pass) -> Result<(), Error> {
        let last = self.network.nodes().len() - 1;
        let job = LossDotJob { loss: self.loss(pass.images), output: self.dots().of(last) };
        let grid = Grid::each(pass.images, self.replicas);
        self.device.launch("loss_examples_dot", grid, &job)
    }

    fn backward_dot(&mut self, pass: Pass) -> Result<(), Error> {
        let network = self.network.clone();
        let layers = network.nodes();
        self.finish_gradient_dot(layers.len() - 1, pass)?;
        for l in (1..layers.len()).rev() {
            let layer = &layers[l];
            if let Op::Conv(conv) = &layer.op {
                self.gradients_once(l, pass)?;
                self.backward_weights_dot(conv, l, pass)?;
            }
            for (index, &input) in layer.inputs.iter().enumerate() {
                if input == 0 {
                    continue;
                }
                let Turn { first, last } = Turn::of(layers, l, index);
                let each = Grid::each(pass.images * layers[input].len(), self.replicas);
                let mut job = self.op_dot(l, input, pass);
                job.op.add = i32::from(!first);
                match &layer.op {
                    Op::Input => {}
                    Op::Conv(conv) => self.backward_data_dot(conv, l, pass, !first)?,
                    Op::Add => self.device.launch("add_backward_dot", each, &job)?,
                    Op::Pool(_) => self.device.launch("pool_backward_dot", each, &job)?,
                    Op::Subsample { .. } => {
                        self.device.launch("subsample_backward_dot", each, &job)?;
                    }
                    Op::Mean => self.device.launch("mean_backward_dot", each, &job)?,
                }
                if last {
                    self.finish_gradient_dot(input, pass)?;
                }
            }
        }
        Ok(())
    }

    /// Batch norm's part of a layer whose derivatives of gradients are complete.
    fn finish_gradient_dot(&mut self, l: usize, pass: Pass) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        if layer.norm.is_none() {
            return Ok(());
        }
        let channels = layer.shape[2];
        let job = self.norm_dot(l, pass);
        let grid = Grid::blocks([pass.images, self.replicas, 1], 256);
        self.device.launch("norm_gradient_sums_dot", grid, &job)?;
        let grid = Grid::blocks([channels.div_ceil(4), self.replicas, 1], 128);
        self.device.launch("norm_backward_dot", grid, &job)
    }

    fn backward_data_dot(
        &mut self,
        conv: &Conv,
        l: usize,
        pass: Pass,
        add: bool,
    ) -> Result<(), Error> {
        if let Some(fast) = self.fast_dot_of(l).and_then(Fast::data) {
            return self.backward_data_fast_dot(fast, conv, l, pass, add);
        }
        let layers = self.network.nodes();
        let [height, width, channels] = layers[layers[l].inputs[0]].shape;
        let mut job = self.conv_dot(conv, l, pass);
        job.conv.add = i32::from(add);
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(pass.images, self.replicas);
            return self.device.launch(plane.data_dot, grid, &job);
        }
        (job.conv.output, job.output) = self.read_once(l);
        let names = ["conv_data_dot_16", "conv_data_dot_32", "conv_data_dot_64"];
        let pixels = height.div_ceil(conv.stride) * width.div_ceil(conv.stride);
        let classes = conv.stride * conv.stride;
        self.multiply(names, [pass.images * pixels, channels], classes, &job)
    }

    fn backward_weights_dot(&mut self, conv: &Conv, l: usize, pass: Pass) -> Result<(), Error> {
        let channels = self.network.nodes()[l].shape[2];
        let job = self.conv_dot(conv, l, pass);
        let chunks = job.conv.chunks as usize;
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(chunks, self.replicas);
            self.device.launch(plane.weights_dot, grid, &job)?;
            return self.device.launch("plane_finish", Plane::grid(self.replicas, 1), &job.conv);
        }
        if let Some(fast) = self.fast_dot_of(l) {
            self.backward_weights_fast_dot(fast, conv, l, pass)?;
        } else {
            let mut job = self.with_values_once(job, l, pass)?;
            (job.conv.output, job.output) = self.read_once(l);
            let names = ["conv_weights_dot_16", "conv_weights_dot_32", "conv_weights_dot_64"];
            let rows = conv.weight.len() / channels;
            self.multiply(names, [rows, channels], chunks, &job)?;
            self.finish_weights(conv, &job.conv)?;
        }
        let Some(bias) = &conv.bias else { return Ok(()) };
        let mut job = self.norm_dot(l, pass);
        job.norm.shift = bias.start as u64;
        (job.norm.layer, job.layer) = self.read_once(l);
        let grid = Grid::blocks([pass.images, self.replicas, 1], 256);
        self.device.launch("bias_sums_dot", grid, &job)?;
        let grid = Grid::blocks([channels, self.replicas, 1], 256);
        self.device.launch("bias_finish", grid, &job.norm)
    }

    /// A convolution whose input's values and their derivatives are computed once, for all that read
    /// them.
    fn with_values_once(
        &mut self,
        job: ConvDotJob,
        l: usize,
        pass: Pass,
    ) -> Result<ConvDotJob, Error> {
        let input = self.network.nodes()[l].inputs[0];
        let from = self.value_once(input, pass.images, self.dots().value.address())?;
        let conv = ConvJob { input: from, ..job.conv };
        let Some(moved) = self.moved_values(input, pass)? else {
            return Ok(ConvDotJob { conv, ..job });
        };
        Ok(ConvDotJob { conv, input: Dots { z: moved.z, norm: 0, ..job.input }, ..job })
    }

    /// The derivatives of a layer's values, computed once; none of the network's input.
    pub(super) fn moved_values(&mut self, l: usize, pass: Pass) -> Result<Option<View>, Error> {
        if l == 0 {
            return Ok(None);
        }
        let each = Grid::each(pass.images * self.network.nodes()[l].len(), self.replicas);
        let (input, z) = (self.dots().of(l), self.dots().value_dot.address());
        let job = OpDotJob { input, output: Dots { z, ..input }, ..self.op_dot(l, l, pass) };
        self.device.launch("add_forward_dot", each, &job)?;
        Ok(Some(View { z, ..self.view(l) }.as_is()))
    }

    /// Computes the gradients by a convolution's raw values, and in place their derivatives, as far as
    /// its kernels do not.
    fn gradients_once(&mut self, l: usize, pass: Pass) -> Result<(), Error> {
        if self.plane_of(l).is_some() {
            return Ok(());
        }
        let each = Grid::each(pass.images * self.network.nodes()[l].len(), self.replicas);
        if self.reads_gradient_made_before(l) {
            self.gradient_once(l, pass.images, self.dots().gradient.address())?;
        }
        let job = self.op_dot(l, l, pass);
        self.device.launch("add_backward_dot", each, &job)
    }

    /// Whether a convolution's gradients are computed once; the fast kernels do all but curved
    /// activations themselves.
    fn reads_gradient_made_before(&self, l: usize) -> bool {
        let layer = &self.network.nodes()[l];
        if self.fast_dot_of(l).is_some() { is_curved(layer) } else { !is_read_as_is(layer) }
    }

    /// How gradients are read then.
    pub(super) fn gradient_read_once(&self, l: usize) -> View {
        let view = self.view(l);
        match self.reads_gradient_made_before(l) {
            true => View { u: self.dots().gradient.address(), ..view }.as_is(),
            false => view,
        }
    }

    /// How both are read by those that read all as it is.
    fn read_once(&self, l: usize) -> (View, Dots) {
        (self.gradient_read_once(l).as_is(), Dots { norm: 0, ..self.dots().of(l) })
    }

    fn conv_dot(&self, conv: &Conv, l: usize, pass: Pass) -> ConvDotJob {
        let input = self.network.nodes()[l].inputs[0];
        let gradient = self.dots().product.address();
        let partials = self.dots().partials.address();
        let [packed, packed_dot] = self.dots().ordered.each_ref().map(Memory::address);
        ConvDotJob {
            conv: ConvJob {
                gradient,
                partials,
                packed,
                input: self.view(input),
                output: self.view(l),
                ..self.conv_by(None, conv, l, pass.images)
            },
            input: self.dots().of(input),
            output: self.dots().of(l),
            direction: pass.direction,
            packed: packed_dot,
        }
    }

    fn op_dot(&self, l: usize, input: usize, pass: Pass) -> OpDotJob {
        let (from, to) = (self.view(input), self.view(l));
        let op = OpJob { input: from, output: to, ..self.op(l, input, pass.images) };
        OpDotJob { op, input: self.dots().of(input), output: self.dots().of(l) }
    }

    fn norm_dot(&self, l: usize, pass: Pass) -> NormDotJob {
        let layer: Dots = self.dots().of(l);
        let gradient = self.dots().product.address();
        NormDotJob {
            norm: NormJob { gradient, ..self.norm(l, pass.images, None) },
            layer,
            coefficients: self.dots().norm_of(l),
            direction: pass.direction,
        }
    }
}

/// What all layers of a product have in common.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub direction: Address,
    pub images: usize,
}
