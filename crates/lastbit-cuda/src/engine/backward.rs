//! The backward pass: gradients by all parameters.

use lastbit::nn::{Conv, Layer, Op};

use super::args::{OpKernels, has_vec4_sums, vec4_if_multiple_of_4, vec4_sums};
use super::{Engine, Reader};
use crate::conv3x3_plan::Conv3x3Plan;
use crate::device::{DeviceReal, Grid, KernelArgs};
use crate::error::Error;
use crate::kernel_args::{
    Address, Conv3x3Args, ConvArgs, NormArgs, OpArgs, View, WeightSums, Weights3x3Args,
};
use crate::plane::Plane;

/// Whether a layer is the first or the last to add its gradient to one of its inputs.
pub(super) struct Turn {
    pub first: bool,
    pub last: bool,
}

impl Turn {
    pub fn of(layers: &[Layer], l: usize, index: usize) -> Self {
        let own = &layers[l].inputs;
        let uses = |other: &Layer| other.inputs.contains(&own[index]);
        Self {
            first: !layers[l + 1..].iter().any(uses) && !own[..index].contains(&own[index]),
            last: !layers[..l].iter().any(uses) && !own[index + 1..].contains(&own[index]),
        }
    }
}

impl<F: DeviceReal> Engine<F> {
    /// The gradients by all parameters.
    pub(crate) fn backward(&mut self, images: usize) -> Result<(), Error> {
        let mut sums = Vec::new();
        let passed = self.backward_pass(images, &mut sums);
        // Also after an error: memory may not be freed while they read it.
        let joined = self.wait_for_readers(|_| true);
        passed?;
        joined?;
        self.finish_weights(self.gradient.address(), &sums)
    }

    /// The same without the gradients by weights of 3x3 convolutions, of which `sums` over chunks of images are left to
    /// be finished. Launches beside the main stream may still compute these.
    pub(super) fn backward_pass(
        &mut self,
        images: usize,
        sums: &mut Vec<WeightSums>,
    ) -> Result<(), Error> {
        let network = self.network.clone();
        let layers = network.nodes();
        self.finish_gradient(layers.len() - 1, images)?;
        for l in (1..layers.len()).rev() {
            let layer = &layers[l];
            let mut gradient = self.gradients_of(l);
            if let Op::Conv(conv) = &layer.op {
                // The single-channel kernels apply any activation while reading, the 3x3 kernels ReLU.
                let applies_it = self.conv3x3_of(l).is_some() && gradient.is_piecewise_linear();
                if !applies_it && self.plane_of(l).is_none() {
                    let to = self.workspace.gradient.address();
                    gradient = self.materialize_gradients(l, images, to)?;
                }
                sums.extend(self.backward_weights(conv, l, images, gradient)?);
            }
            if self.workspace.is_in_place(l) {
                self.backward_in_place(l, images)?;
                continue;
            }
            for (index, &input) in layer.inputs.iter().enumerate() {
                if input == 0 {
                    continue;
                }
                let Turn { first, last } = Turn::of(layers, l, index);
                if let Op::Conv(conv) = &layer.op {
                    self.backward_data(conv, l, images, gradient, !first)?;
                } else {
                    let each = Grid::each(images * layers[input].len(), self.replicas);
                    let args = OpArgs { add: i32::from(!first), ..self.op(l, input, images) };
                    self.wait_for_readers_of(input)?;
                    self.device.launch(OpKernels::of(&layer.op).backward, each, &args)?;
                }
                if last {
                    self.finish_gradient(input, images)?;
                }
            }
        }
        Ok(())
    }

    /// The gradients by both inputs of a sum, which overwrite its own.
    fn backward_in_place(&mut self, l: usize, images: usize) -> Result<(), Error> {
        let network = self.network.clone();
        let (layers, layer) = (network.nodes(), &network.nodes()[l]);
        let with_sums = has_vec4_sums(layer.shape[2]);
        self.wait_for_readers_of(l)?;
        if with_sums {
            let grid = Grid::blocks([images, self.replicas, 1], 256);
            let args = self.add_args(l, images);
            self.device.launch("sum_backward_vec4", grid, &args)?;
        } else {
            let each = Grid::each(images * layer.len(), self.replicas);
            let args = self.op(l, layer.inputs[0], images);
            self.device.launch("add_backward", each, &args)?;
        }
        for (index, &input) in layer.inputs.iter().enumerate() {
            let uses = |other: &Layer| other.inputs.contains(&input);
            if layers[..l].iter().any(uses) {
                continue;
            }
            // The kernel above has computed the sums of the first input's batch norm.
            if index == 0 && with_sums && layers[input].norm.is_some() {
                self.norm_backward(input, images)?;
            } else {
                self.finish_gradient(input, images)?;
            }
        }
        Ok(())
    }

    /// Activation and batch norm of a layer whose gradient `u` by its values is complete.
    fn finish_gradient(&mut self, l: usize, images: usize) -> Result<(), Error> {
        if self.workspace.has_slope_applied(l) {
            self.wait_for_readers_of(l)?;
        }
        let layer = &self.network.nodes()[l];
        if layer.norm.is_none() {
            if self.workspace.has_slope_applied(l) {
                let view = self.view(l);
                self.compute_gradient(l, images, view, view.u)?;
            }
            return Ok(());
        }
        let names = ["norm_gradient_sums", "norm_gradient_sums_vec4"];
        let name = vec4_sums(layer.shape[2], names);
        let slopes = i32::from(self.workspace.has_slope_applied(l));
        let args = NormArgs { slopes, ..self.norm(l, images, None) };
        self.device.launch(name, Grid::images(images, self.replicas), &args)?;
        self.norm_backward(l, images)
    }

    /// Batch norm from sums over images to the coefficients of its gradient.
    fn norm_backward(&mut self, l: usize, images: usize) -> Result<(), Error> {
        let channels = self.network.nodes()[l].shape[2];
        let args = self.norm(l, images, None);
        self.device.launch("norm_backward", Grid::channels(channels, self.replicas), &args)
    }

    /// Computes the gradients by a layer's raw values, as
    /// [`materialize_values`](Self::materialize_values) does values.
    pub(super) fn materialize_gradients(
        &mut self,
        l: usize,
        images: usize,
        to: Address,
    ) -> Result<View, Error> {
        let gradient = self.gradients_of(l);
        if gradient.is_plain() {
            return Ok(gradient);
        }
        self.compute_gradient(l, images, gradient, to)?;
        Ok(View { u: to, ..gradient }.plain())
    }

    fn compute_gradient(
        &mut self,
        l: usize,
        images: usize,
        output: View,
        to: Address,
    ) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let names = ["add_backward", "add_backward_vec4"];
        let (name, at_once) = vec4_if_multiple_of_4(layer.shape[2], names);
        let each = Grid::each(images * layer.len() / at_once, self.replicas);
        let input = View { u: to, ..output };
        let args = OpArgs { input, output, ..self.op(l, l, images) };
        self.device.launch(name, each, &args)
    }

    fn backward_data(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        output: View,
        add: bool,
    ) -> Result<(), Error> {
        let from = self.network.nodes()[l].inputs[0];
        self.wait_for_readers_of(from)?;
        let shape = self.network.nodes()[from].shape;
        if let Some((name, tiles)) = self.conv3x3_of(l).and_then(Conv3x3Plan::data) {
            let packed = self.packed(l);
            let result = self.view(from).u;
            let before = self.workspace.added_by(l).map_or(result, |sum| self.view(sum).u);
            let args = Conv3x3Args {
                added: if add { before } else { 0 },
                kernels: packed.backward,
                kernels_stride: packed.stride,
                ..self.conv3x3_args(output, result, shape, images)
            };
            let grid = tiles.grid(images, shape[2], self.replicas, self.device.shared_memory());
            return self.device.launch(name, grid, &args);
        }
        let args = ConvArgs { output, add: i32::from(add), ..self.conv(conv, l, images) };
        if let Some(plane) = self.plane_of(l) {
            return self.device.launch(plane.data, Plane::grid(images, self.replicas), &args);
        }
        let names = ["conv_data_16", "conv_data_32", "conv_data_64"];
        self.multiply_data(names, conv, shape, images, &args)
    }

    /// Launches transposed convolutions to inputs of this shape as matrix products, one for each residue
    /// class of the stride.
    pub(super) fn multiply_data<A: KernelArgs>(
        &mut self,
        names: [&'static str; 3],
        conv: &Conv,
        [height, width, channels]: [usize; 3],
        images: usize,
        args: &A,
    ) -> Result<(), Error> {
        let pixels = height.div_ceil(conv.stride) * width.div_ceil(conv.stride);
        self.multiply(names, [images * pixels, channels], conv.stride * conv.stride, args)
    }

    /// The gradient by a convolution's parameters. Those by the weights of a 3x3 convolution are computed beside the
    /// main stream, and their sums over chunks of images are returned.
    fn backward_weights(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        output: View,
    ) -> Result<Option<WeightSums>, Error> {
        let channels = self.network.nodes()[l].shape[2];
        let args = ConvArgs { output, ..self.conv(conv, l, images) };
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(args.chunks as usize, self.replicas);
            self.device.launch(plane.weights, grid, &args)?;
            self.device.launch("plane_finish", Plane::grid(self.replicas, 1), &args)?;
            return Ok(None);
        }
        let own_sums = self.weight_sums(conv, &args);
        let mut sums = None;
        if let Some(plan) = self.conv3x3_of(l) {
            let (name, grid, args) = self.weights3x3(plan, channels, weights3x3_args(&args));
            // Whatever else it reads stays as it is until the next forward pass; the scratch memory of a gradient
            // does not.
            if output.u == self.view(l).u {
                let launch = self.device.launch_aside(name, grid, &args)?;
                self.readers.push(Reader { gradient: output.u, launch });
            } else {
                self.device.launch(name, grid, &args)?;
            }
            sums = Some(own_sums);
        } else {
            let input = self.network.nodes()[l].inputs[0];
            let input = self.materialize_values(input, images, self.workspace.value.address())?;
            let args = ConvArgs { input, ..args };
            let names = ["conv_weights_16", "conv_weights_32", "conv_weights_64"];
            let rows = conv.weight.len() / channels;
            self.multiply(names, [rows, channels], args.chunks as usize, &args)?;
            self.finish_weights(self.gradient.address(), &[own_sums])?;
        }
        let Some(bias) = &conv.bias else { return Ok(sums) };
        let norm = self.norm(l, images, None);
        let args = NormArgs { layer: output, shift: bias.start as u64, ..norm };
        self.device.launch("bias_sums", Grid::images(images, self.replicas), &args)?;
        let grid = Grid::blocks([channels, self.replicas, 1], 256);
        self.device.launch("bias_finish", grid, &args)?;
        Ok(sums)
    }

    /// A launch of sums over chunks of images of a 3x3 convolution's gradient by weights.
    pub(super) fn weights3x3(
        &self,
        plan: &Conv3x3Plan,
        channels: usize,
        args: Weights3x3Args,
    ) -> (&'static str, Grid, Weights3x3Args) {
        let chunks = (args.images as usize).div_ceil(args.images_per_chunk as usize);
        let sizes = [args.rows as usize, channels];
        let memory = self.device.shared_memory();
        let grid = plan.grid_of_weights(sizes, chunks, self.replicas, self.math, memory);
        (plan.weights, grid, args)
    }

    /// Lets the main stream wait for launches beside it that read a layer's gradient, before it is written.
    fn wait_for_readers_of(&mut self, l: usize) -> Result<(), Error> {
        let written = self.view(l).u;
        self.wait_for_readers(|reader| reader.gradient == written)
    }

    pub(super) fn wait_for_readers(
        &mut self,
        which: impl Fn(&Reader) -> bool,
    ) -> Result<(), Error> {
        let mut done = Ok(());
        for reader in self.readers.extract_if(.., |reader| which(reader)) {
            done = done.and(self.device.join(reader.launch));
        }
        done
    }
}

/// A 3x3 convolution's gradient by weights.
pub(super) fn weights3x3_args(args: &ConvArgs) -> Weights3x3Args {
    let ConvArgs { input, output, partials, images, chunks, images_per_chunk, .. } = *args;
    let rows = args.inputs;
    Weights3x3Args { input, output, partials, images, chunks, images_per_chunk, rows }
}
