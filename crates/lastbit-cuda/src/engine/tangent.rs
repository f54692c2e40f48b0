//! Hessian-vector products: the derivative of forward and backward pass along a direction.
//!
//! The derivative of a number along the direction is its tangent. The values and gradients at a point
//! stay in memory from one product to the next. Beside them, the forward pass computes the tangents of
//! raw values, the backward pass the tangents of gradients; `tangent.cu` holds the formulas. The order
//! of the layers, and which of them write and which add, are those of the gradient.

use lastbit::nn::{BatchNormMode, Conv, Op};

use super::Engine;
use super::args::{OpKernels, has_vec4_sums, vec4_sums};
use super::backward::Turn;
use crate::conv3x3_plan::Conv3x3Plan;
use crate::device::{DeviceReal, Grid, Memory};
use crate::error::Error;
use crate::kernel_args::{
    Address, ConvArgs, ConvTangentArgs, LossTangentArgs, NormArgs, NormTangentArgs, OpArgs,
    OpTangentArgs, POSITIONS, Tangents, View, WeightSums,
};
use crate::plane::Plane;
use crate::tangent_workspace::TangentWorkspace;
use crate::workspace::{is_linear, is_smooth};

/// Kernels that compute or add tangents, one by one and four channels at a time.
const ADD_FORWARD: [&str; 2] = ["add_forward_tangent", "add_forward_tangent_vec4"];
const ADD_BACKWARD: [&str; 2] = ["add_backward_tangent", "add_backward_tangent_vec4"];

impl<F: DeviceReal> Engine<F> {
    /// The gradient, keeping what products at the same parameters need.
    pub(crate) fn linearize(
        &mut self,
        images: usize,
        mode: BatchNormMode,
        update_running_stats: bool,
    ) -> Result<(), Error> {
        self.workspace.keep(&self.device, &self.network, self.replicas)?;
        let done = self.take_gradient(images, mode, update_running_stats);
        if done.is_err() {
            self.forget();
        }
        done
    }

    /// From now on gradients keep nothing for products.
    pub(crate) fn forget(&mut self) {
        self.workspace.recycle();
    }

    /// The product of a replica's Hessian with `v`, at the point of the last
    /// [`linearize`](Self::linearize). Other replicas keep the directions they were given last.
    pub(crate) fn product(
        &mut self,
        replica: usize,
        v: &[F],
        images: usize,
    ) -> Result<Vec<F>, Error> {
        let mut tangents = match self.tangents.take() {
            Some(tangents) => tangents,
            None => {
                let packed = self.workspace.packed()[0].len();
                let (replicas, capacity) = (self.replicas, self.capacity);
                let is_3x3 = |l| self.conv3x3_tangent_of(l).is_some();
                TangentWorkspace::new(
                    &self.device,
                    &self.network,
                    replicas,
                    capacity,
                    packed,
                    is_3x3,
                )?
            }
        };
        let first = replica * self.network.len();
        self.device.write(&mut tangents.direction, first, v)?;
        let tangents = self.tangents.insert(tangents);
        let pass = Pass { direction: tangents.direction.address(), images };
        self.forward_tangent(pass)?;
        self.loss_tangent(pass)?;
        self.backward_tangent(pass)?;
        self.device.read(&self.tangents().product, first, self.network.len())
    }

    pub(super) fn tangents(&self) -> &TangentWorkspace<F> {
        self.tangents.as_ref().expect("made before the first product")
    }

    fn forward_tangent(&mut self, pass: Pass) -> Result<(), Error> {
        let network = self.network.clone();
        self.pack_direction(pass.direction)?;
        for (l, layer) in network.nodes().iter().enumerate().skip(1) {
            if let Op::Conv(conv) = &layer.op {
                self.forward_conv_tangent(conv, l, pass)?;
            } else {
                let (name, grid) = match &layer.op {
                    Op::Add => self.add_tangent(ADD_FORWARD, l, pass),
                    op => (OpKernels::of(op).forward_tangent, self.op_grid(layer, pass.images)),
                };
                for (term, &input) in layer.inputs.iter().enumerate() {
                    let mut args = self.op_tangent(l, input, pass);
                    args.op.add = i32::from(term > 0);
                    self.device.launch(name, grid, &args)?;
                }
            }
            if layer.norm.is_some() {
                let args = self.norm_tangent(l, pass);
                if self.mode == BatchNormMode::Training {
                    let names = ["norm_moments_tangent", "norm_moments_tangent_vec4"];
                    let name = vec4_sums(layer.shape[2], names);
                    self.device.launch(name, Grid::images(pass.images, self.replicas), &args)?;
                }
                self.device.launch(
                    "norm_forward_tangent",
                    Grid::channels(layer.shape[2], self.replicas),
                    &args,
                )?;
            }
        }
        Ok(())
    }

    fn forward_conv_tangent(&mut self, conv: &Conv, l: usize, pass: Pass) -> Result<(), Error> {
        if let Some(plan) = self.conv3x3_tangent_of(l) {
            return self.forward_conv3x3_tangent(plan, conv, l, pass);
        }
        let [height, width, channels] = self.network.nodes()[l].shape;
        let args = self.conv_tangent(conv, l, pass);
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(pass.images, self.replicas);
            return self.device.launch(plane.forward_tangent, grid, &args);
        }
        let args = self.with_materialized_values(args, l, pass)?;
        let each = Grid::each(conv.weight.len(), self.replicas);
        self.device.launch("conv_pack", each, &args.conv)?;
        let ConvTangentArgs { direction: theta, packed, .. } = args;
        self.device.launch("conv_pack", each, &ConvArgs { theta, packed, ..args.conv })?;
        let names =
            ["conv_forward_tangent_16", "conv_forward_tangent_32", "conv_forward_tangent_64"];
        self.multiply(names, [pass.images * height * width, channels], 1, &args)
    }

    fn loss_tangent(&mut self, pass: Pass) -> Result<(), Error> {
        let output = self.tangents().of(self.network.nodes().len() - 1);
        let args = LossTangentArgs { loss: self.loss(pass.images), output };
        self.device.launch("loss_examples_tangent", Grid::each(pass.images, self.replicas), &args)
    }

    fn backward_tangent(&mut self, pass: Pass) -> Result<(), Error> {
        let mut sums = Vec::new();
        let passed = self.backward_pass_tangent(pass, &mut sums);
        let joined = self.wait_for_readers(|_| true);
        passed?;
        joined?;
        self.finish_weights(self.tangents().product.address(), &sums)
    }

    /// The same without the tangents of gradients by weights of 3x3 convolutions, as in
    /// [`backward_pass`](Self::backward_pass).
    fn backward_pass_tangent(
        &mut self,
        pass: Pass,
        sums: &mut Vec<WeightSums>,
    ) -> Result<(), Error> {
        let network = self.network.clone();
        let layers = network.nodes();
        self.finish_gradient_tangent(layers.len() - 1, pass)?;
        for l in (1..layers.len()).rev() {
            let layer = &layers[l];
            if let Op::Conv(conv) = &layer.op {
                self.materialize_gradient_tangents(l, pass)?;
                sums.extend(self.backward_weights_tangent(conv, l, pass)?);
            }
            for (index, &input) in layer.inputs.iter().enumerate() {
                if input == 0 {
                    continue;
                }
                let Turn { first, last } = Turn::of(layers, l, index);
                let written = self.tangents().of(input).u;
                self.wait_for_readers(|reader| reader.gradient == written)?;
                if let Op::Conv(conv) = &layer.op {
                    self.backward_data_tangent(conv, l, pass, !first)?;
                } else {
                    let each = Grid::each(pass.images * layers[input].len(), self.replicas);
                    let (name, grid) = match layer.op {
                        Op::Add => self.add_tangent(ADD_BACKWARD, l, pass),
                        _ => (OpKernels::of(&layer.op).backward_tangent, each),
                    };
                    let mut args = self.op_tangent(l, input, pass);
                    args.op.add = i32::from(!first);
                    self.device.launch(name, grid, &args)?;
                }
                if last {
                    self.finish_gradient_tangent(input, pass)?;
                }
            }
        }
        Ok(())
    }

    /// Batch norm of a layer whose tangents of gradients are complete.
    fn finish_gradient_tangent(&mut self, l: usize, pass: Pass) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        if layer.norm.is_none() {
            return Ok(());
        }
        let channels = layer.shape[2];
        let args = self.norm_tangent(l, pass);
        let names = ["norm_gradient_sums_tangent", "norm_gradient_sums_tangent_vec4"];
        let name = vec4_sums(channels, names);
        self.device.launch(name, Grid::images(pass.images, self.replicas), &args)?;
        self.device.launch("norm_backward_tangent", Grid::channels(channels, self.replicas), &args)
    }

    fn backward_data_tangent(
        &mut self,
        conv: &Conv,
        l: usize,
        pass: Pass,
        add: bool,
    ) -> Result<(), Error> {
        if let Some(plan) = self.conv3x3_tangent_of(l).and_then(Conv3x3Plan::data) {
            return self.backward_data_conv3x3_tangent(plan, l, pass, add);
        }
        let layers = self.network.nodes();
        let shape = layers[layers[l].inputs[0]].shape;
        let mut args = self.conv_tangent(conv, l, pass);
        args.conv.add = i32::from(add);
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(pass.images, self.replicas);
            return self.device.launch(plane.data_tangent, grid, &args);
        }
        (args.conv.output, args.output) = self.plain_views(l);
        let names = ["conv_data_tangent_16", "conv_data_tangent_32", "conv_data_tangent_64"];
        self.multiply_data(names, conv, shape, pass.images, &args)
    }

    fn backward_weights_tangent(
        &mut self,
        conv: &Conv,
        l: usize,
        pass: Pass,
    ) -> Result<Option<WeightSums>, Error> {
        let channels = self.network.nodes()[l].shape[2];
        let args = self.conv_tangent(conv, l, pass);
        let chunks = args.conv.chunks as usize;
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(chunks, self.replicas);
            self.device.launch(plane.weights_tangent, grid, &args)?;
            self.device.launch("plane_finish", Plane::grid(self.replicas, 1), &args.conv)?;
            return Ok(None);
        }
        let mut sums = None;
        if let Some(plan) = self.conv3x3_tangent_of(l) {
            sums = Some(self.backward_weights_conv3x3_tangent(plan, conv, l, pass)?);
        } else {
            let mut args = self.with_materialized_values(args, l, pass)?;
            (args.conv.output, args.output) = self.plain_views(l);
            let names =
                ["conv_weights_tangent_16", "conv_weights_tangent_32", "conv_weights_tangent_64"];
            let rows = conv.weight.len() / channels;
            self.multiply(names, [rows, channels], chunks, &args)?;
            let sums = self.weight_sums(conv, &args.conv);
            self.finish_weights(args.conv.gradient, &[sums])?;
        }
        let Some(bias) = &conv.bias else { return Ok(sums) };
        let mut args = self.norm_tangent(l, pass);
        args.norm.shift = bias.start as u64;
        (args.norm.layer, args.layer) = self.plain_views(l);
        self.device.launch("bias_sums_tangent", Grid::images(pass.images, self.replicas), &args)?;
        let grid = Grid::blocks([channels, self.replicas, 1], 256);
        self.device.launch("bias_finish", grid, &args.norm)?;
        Ok(sums)
    }

    /// A convolution whose input's values and their tangents are computed before.
    fn with_materialized_values(
        &mut self,
        args: ConvTangentArgs,
        l: usize,
        pass: Pass,
    ) -> Result<ConvTangentArgs, Error> {
        let input = self.network.nodes()[l].inputs[0];
        let to = self.tangents().value.address();
        let from = self.materialize_values(input, pass.images, to)?;
        let conv = ConvArgs { input: from, ..args.conv };
        let to = self.tangents().value_dot.address();
        let Some(values) = self.value_tangents(input, to, pass)? else {
            return Ok(ConvTangentArgs { conv, ..args });
        };
        let input = Tangents { z: values.z, norm: 0, ..args.input };
        Ok(ConvTangentArgs { conv, input, ..args })
    }

    /// Computes the tangents of a layer's values; none for the network's input.
    pub(super) fn value_tangents(
        &mut self,
        l: usize,
        to: Address,
        pass: Pass,
    ) -> Result<Option<View>, Error> {
        if l == 0 {
            return Ok(None);
        }
        let input = self.tangents().of(l);
        let output = Tangents { z: to, ..input };
        let args = OpTangentArgs { input, output, ..self.op_tangent(l, l, pass) };
        let (name, grid) = self.add_tangent(ADD_FORWARD, l, pass);
        self.device.launch(name, grid, &args)?;
        Ok(Some(View { z: to, ..self.view(l) }.plain()))
    }

    /// Computes the gradients by a convolution's raw values, as far as its kernels do not, and their
    /// tangents in place.
    fn materialize_gradient_tangents(&mut self, l: usize, pass: Pass) -> Result<(), Error> {
        if self.plane_of(l).is_some() {
            return Ok(());
        }
        if self.reads_materialized_gradients(l) {
            self.materialize_gradients(l, pass.images, self.tangents().gradient.address())?;
        }
        let args = self.op_tangent(l, l, pass);
        let (name, grid) = self.add_tangent(ADD_BACKWARD, l, pass);
        self.device.launch(name, grid, &args)
    }

    /// The kernel of two that computes or adds tangents of a layer's numbers, one by one or four channels at a time.
    fn add_tangent(
        &self,
        [one, vec4]: [&'static str; 2],
        l: usize,
        pass: Pass,
    ) -> (&'static str, Grid) {
        let layer = &self.network.nodes()[l];
        let numbers = pass.images * layer.len();
        if has_vec4_sums(layer.shape[2]) {
            (vec4, Grid::each(numbers.div_ceil(4 * POSITIONS), self.replicas))
        } else {
            (one, Grid::each(numbers, self.replicas))
        }
    }

    /// Whether a convolution's gradients are computed before; the 3x3 kernels apply all but smooth
    /// activations themselves.
    fn reads_materialized_gradients(&self, l: usize) -> bool {
        let layer = &self.network.nodes()[l];
        if self.conv3x3_tangent_of(l).is_some() { is_smooth(layer) } else { !is_linear(layer) }
    }

    /// The gradients by a convolution's raw values, as its tangent kernels read them.
    pub(super) fn gradient_view(&self, l: usize) -> View {
        let view = self.view(l);
        match self.reads_materialized_gradients(l) {
            true => View { u: self.tangents().gradient.address(), ..view }.plain(),
            false => view,
        }
    }

    /// The same and their tangents, for kernels that apply neither batch norm nor activation.
    fn plain_views(&self, l: usize) -> (View, Tangents) {
        (self.gradient_view(l).plain(), Tangents { norm: 0, ..self.tangents().of(l) })
    }

    fn conv_tangent(&self, conv: &Conv, l: usize, pass: Pass) -> ConvTangentArgs {
        let input = self.network.nodes()[l].inputs[0];
        let tangents = self.tangents();
        let [packed, packed_dot] = tangents.packed_gemm.each_ref().map(Memory::address);
        ConvTangentArgs {
            conv: ConvArgs {
                gradient: tangents.product.address(),
                partials: tangents.partials_of(l, false),
                packed,
                input: self.view(input),
                output: self.view(l),
                ..self.conv_by(None, conv, l, pass.images)
            },
            input: tangents.of(input),
            output: tangents.of(l),
            direction: pass.direction,
            packed: packed_dot,
        }
    }

    fn op_tangent(&self, l: usize, input: usize, pass: Pass) -> OpTangentArgs {
        let (from, to) = (self.view(input), self.view(l));
        let op = OpArgs { input: from, output: to, ..self.op(l, input, pass.images) };
        OpTangentArgs { op, input: self.tangents().of(input), output: self.tangents().of(l) }
    }

    fn norm_tangent(&self, l: usize, pass: Pass) -> NormTangentArgs {
        let gradient = self.tangents().product.address();
        NormTangentArgs {
            norm: NormArgs { gradient, ..self.norm(l, pass.images, None) },
            layer: self.tangents().of(l),
            coefficients: self.tangents().norm_of(l),
            direction: pass.direction,
        }
    }
}

/// What all layers of a Hessian-vector product have in common.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub direction: Address,
    pub images: usize,
}
