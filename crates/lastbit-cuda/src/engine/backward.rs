//! The backward pass: gradients by all parameters.

use lastbit::nn::{Conv, Layer, Op};

use super::Engine;
use super::job::{by_fours, each_by_fours, goes_by_fours};
use crate::device::{DeviceReal, Grid};
use crate::error::Error;
use crate::fast::Fast;
use crate::jobs::{Address, ConvJob, FastJob, NormJob, OpJob, View, WeightsJob};
use crate::plane::Plane;

/// Whether a layer is the first or the last of those that hand their gradient to one of its inputs.
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
        let network = self.network.clone();
        let layers = network.nodes();
        self.finish_gradient(layers.len() - 1, images)?;
        for l in (1..layers.len()).rev() {
            let layer = &layers[l];
            let mut gradient = self.gradients_of(l);
            if let Op::Conv(conv) = &layer.op {
                // Planes read everything, the fast kernels all but curved activations.
                let goes_fast = self.fast_of(l).is_some() && gradient.is_straight();
                if !goes_fast && self.plane_of(l).is_none() {
                    let to = self.places.gradient.address();
                    gradient = self.gradient_once(l, images, to)?;
                }
                self.backward_weights(conv, l, images, gradient)?;
            }
            if self.places.is_in_place(l) {
                self.backward_in_place(l, images)?;
                continue;
            }
            for (index, &input) in layer.inputs.iter().enumerate() {
                if input == 0 {
                    continue;
                }
                let Turn { first, last } = Turn::of(layers, l, index);
                let each = Grid::each(images * layers[input].len(), self.replicas);
                let job = OpJob { add: i32::from(!first), ..self.op(l, input, images) };
                match &layer.op {
                    Op::Input => {}
                    Op::Conv(conv) => self.backward_data(conv, l, images, gradient, !first)?,
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
            let uses = |other: &Layer| other.inputs.contains(&input);
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

    /// The activation's and batch norm's part of the gradient of a layer whose `u` is complete.
    fn finish_gradient(&mut self, l: usize, images: usize) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        if layer.norm.is_none() {
            if self.places.is_sloped(l) {
                let view = self.view(l);
                self.make_gradient(l, images, view, view.u)?;
            }
            return Ok(());
        }
        let names = ["norm_gradient_sums", "norm_gradient_sums_fours"];
        let name = by_fours(layer.shape[2], names);
        let slopes = i32::from(self.places.is_sloped(l));
        let job = NormJob { slopes, ..self.norm(l, images, None) };
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

    /// Computes the gradients by a layer's raw values once, as [`value_once`](Self::value_once).
    pub(super) fn gradient_once(
        &mut self,
        l: usize,
        images: usize,
        to: Address,
    ) -> Result<View, Error> {
        let gradient = self.gradients_of(l);
        if gradient.is_as_is() {
            return Ok(gradient);
        }
        self.make_gradient(l, images, gradient, to)?;
        Ok(View { u: to, ..gradient }.as_is())
    }

    /// Computes the gradients by a layer's raw values from its gradient.
    fn make_gradient(
        &mut self,
        l: usize,
        images: usize,
        output: View,
        to: Address,
    ) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let (name, at_once) = each_by_fours(layer.shape[2], ["add_backward", "add_backward_fours"]);
        let each = Grid::each(images * layer.len() / at_once, self.replicas);
        let input = View { u: to, ..output };
        let job = OpJob { input, output, ..self.op(l, l, images) };
        self.device.launch(name, each, &job)
    }

    fn backward_data(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        output: View,
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
                ..self.fast_job(output, input.u, [height, width, channels], images)
            };
            let grid = blocks.grid(images, channels, self.replicas, self.device.room());
            return self.device.launch(name, grid, &job);
        }
        let job = ConvJob { output, add: i32::from(add), ..self.conv(conv, l, images) };
        if let Some(plane) = self.plane_of(l) {
            return self.device.launch(plane.data, Plane::grid(images, self.replicas), &job);
        }
        let names = ["conv_data_16", "conv_data_32", "conv_data_64"];
        let pixels = height.div_ceil(conv.stride) * width.div_ceil(conv.stride);
        let classes = conv.stride * conv.stride;
        self.multiply(names, [images * pixels, channels], classes, &job)
    }

    fn backward_weights(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        output: View,
    ) -> Result<(), Error> {
        let channels = self.network.nodes()[l].shape[2];
        let job = ConvJob { output, ..self.conv(conv, l, images) };
        if let Some(plane) = self.plane_of(l) {
            let grid = Plane::grid(job.chunks as usize, self.replicas);
            self.device.launch(plane.weights, grid, &job)?;
            return self.device.launch("plane_finish", Plane::grid(self.replicas, 1), &job);
        }
        if let Some(fast) = self.fast_of(l) {
            let ConvJob { input, output, partials, images, chunks, images_per_chunk, .. } = job;
            let rows = job.inputs;
            let grid = fast.grid_of_weights(
                [rows as usize, channels],
                chunks as usize,
                self.replicas,
                self.precision,
                self.device.room(),
            );
            let job =
                WeightsJob { input, output, partials, images, chunks, images_per_chunk, rows };
            self.device.launch(fast.weights, grid, &job)?;
        } else {
            let input = self.network.nodes()[l].inputs[0];
            let input = self.value_once(input, images, self.places.value.address())?;
            let job = ConvJob { input, ..job };
            let names = ["conv_weights_16", "conv_weights_32", "conv_weights_64"];
            let rows = conv.weight.len() / channels;
            self.multiply(names, [rows, channels], job.chunks as usize, &job)?;
        }
        self.finish_weights(conv, &job)?;
        let Some(bias) = &conv.bias else { return Ok(()) };
        let job = NormJob { layer: output, shift: bias.start as u64, ..self.norm(l, images, None) };
        let grid = Grid::blocks([images, self.replicas, 1], 256);
        self.device.launch("bias_sums", grid, &job)?;
        let grid = Grid::blocks([channels, self.replicas, 1], 256);
        self.device.launch("bias_finish", grid, &job)
    }

    /// Adds the chunks of images of a gradient by weights, or of its derivative.
    pub(super) fn finish_weights(&mut self, conv: &Conv, job: &ConvJob) -> Result<(), Error> {
        let sums = conv.weight.len() / job.input.channels as usize * job.inputs as usize;
        let grid = Grid::blocks([sums.div_ceil(32), self.replicas, 1], 256);
        self.device.launch("conv_weights_finish", grid, job)
    }
}
