//! Forward passes: raw values, losses, predictions.

use lastbit::nn::{BatchNormMode, Conv, Op};

use super::Engine;
use super::args::{OpKernels, has_vec4_sums, vec4_if_multiple_of_4, vec4_sums};
use crate::device::{DeviceReal, Grid, KernelArgs};
use crate::error::Error;
use crate::kernel_args::{
    AddArgs, Address, Conv3x3Args, ConvArgs, GEMM_TILE_BYTES, NormArgs, OpArgs, View,
};
use crate::plane::Plane;

impl<F: DeviceReal> Engine<F> {
    /// Raw values of all layers, and the values of smooth activations.
    pub(crate) fn forward(
        &mut self,
        images: usize,
        mode: BatchNormMode,
        update_running_stats: bool,
    ) -> Result<(), Error> {
        self.mode = mode;
        let network = self.network.clone();
        let packed: Vec<_> = self.conv3x3_layers().map(|l| self.packed(l)).collect();
        self.pack_weights(self.theta.address(), &packed)?;
        for (l, layer) in network.nodes().iter().enumerate() {
            match &layer.op {
                Op::Input => {}
                Op::Conv(conv) => self.forward_conv(conv, l, images)?,
                Op::Add if layer.inputs.len() == 2 && has_vec4_sums(layer.shape[2]) => {
                    let grid = Grid::each(images * layer.len() / 4, self.replicas);
                    let [first, second] = [0, 1].map(|term| self.values(layer.inputs[term]));
                    let args = AddArgs { first, second, ..self.add_args(l, images) };
                    self.device.launch("sum_forward_vec4", grid, &args)?;
                }
                op => {
                    let (name, grid) = (OpKernels::of(op).forward, self.op_grid(layer, images));
                    for (term, &input) in layer.inputs.iter().enumerate() {
                        let args = OpArgs { add: i32::from(term > 0), ..self.op(l, input, images) };
                        self.device.launch(name, grid, &args)?;
                    }
                }
            }
            if layer.norm.is_some() {
                self.forward_norm(l, images, update_running_stats)?;
            }
            if let Some(values) = self.workspace.values_of(l) {
                self.compute_values(l, images, values)?;
            }
        }
        Ok(())
    }

    fn forward_norm(&mut self, l: usize, images: usize, update: bool) -> Result<(), Error> {
        let channels = self.network.nodes()[l].shape[2];
        let plan = self.conv3x3_of(l);
        let args = NormArgs { settle: i32::from(update), ..self.norm(l, images, plan) };
        if self.mode == BatchNormMode::Evaluation {
            let grid = Grid::each(channels, self.replicas);
            return self.device.launch("norm_running", grid, &args);
        }
        // The 3x3 convolutions compute the moments of their results themselves.
        if plan.is_none() {
            let grid = Grid::blocks([images, self.replicas, 1], 256);
            let name = vec4_sums(channels, ["norm_moments", "norm_moments_vec4"]);
            self.device.launch(name, grid, &args)?;
        }
        self.device.launch("norm_forward", Grid::channels(channels, self.replicas), &args)
    }

    fn forward_conv(&mut self, conv: &Conv, l: usize, images: usize) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let (input, shape) = (layer.inputs[0], layer.shape);
        let [height, width, channels] = shape;
        let with_sums = layer.norm.is_some() && self.mode == BatchNormMode::Training;
        if let Some(plan) = self.conv3x3_of(l) {
            let packed = self.packed(l);
            let args = Conv3x3Args {
                bias: bias_address::<F>(conv, self.theta.address()),
                sums: if with_sums { self.workspace.sums.address() } else { 0 },
                kernels: packed.forward,
                kernels_stride: packed.stride,
                ..self.conv3x3_args(self.values(input), self.view(l).z, shape, images)
            };
            let grid = plan.grid(images, channels, self.replicas, self.device.shared_memory());
            return self.device.launch(plan.forward, grid, &args);
        }
        let args = self.conv(conv, l, images);
        if let Some(plane) = self.plane_of(l) {
            return self.device.launch(plane.forward, Plane::grid(images, self.replicas), &args);
        }
        let input = self.materialize_values(input, images, self.workspace.value.address())?;
        let args = ConvArgs { input, ..args };
        self.device.launch("conv_pack", Grid::each(conv.weight.len(), self.replicas), &args)?;
        let names = ["conv_forward_16", "conv_forward_32", "conv_forward_64"];
        self.multiply(names, [images * height * width, channels], 1, &args)
    }

    /// Launches products of matrices with so many rows and columns, `parts` for each replica, by the
    /// kernel whose tiles fit the columns best.
    pub(super) fn multiply<A: KernelArgs>(
        &mut self,
        names: [&'static str; 3],
        [rows, columns]: [usize; 2],
        parts: usize,
        args: &A,
    ) -> Result<(), Error> {
        let (name, tall, wide) = match columns {
            0..=16 => (names[0], 256, 16),
            17..=32 => (names[1], 128, 32),
            _ => (names[2], GEMM_TILE_BYTES / size_of::<F>(), 64),
        };
        let blocks = rows.div_ceil(tall) * columns.div_ceil(wide);
        self.device.launch(name, Grid::blocks([blocks, parts, self.replicas], 256), args)
    }

    /// Computes the values of a layer for a matrix product, which reads each of them many times; nothing
    /// where they are stored already.
    pub(super) fn materialize_values(
        &mut self,
        l: usize,
        images: usize,
        to: Address,
    ) -> Result<View, Error> {
        let values = self.values(l);
        if values.is_plain() { Ok(values) } else { self.compute_values(l, images, to) }
    }

    fn compute_values(&mut self, l: usize, images: usize, to: Address) -> Result<View, Error> {
        let (layer, input) = (&self.network.nodes()[l], self.view(l));
        let output = View { z: to, slot: 0, ..input };
        let names = ["add_forward", "add_forward_vec4"];
        let (name, at_once) = vec4_if_multiple_of_4(layer.shape[2], names);
        let each = Grid::each(images * layer.len() / at_once, self.replicas);
        let args = OpArgs { input, output, ..self.op(l, l, images) };
        self.device.launch(name, each, &args)?;
        Ok(output.plain())
    }

    /// Losses, predictions, and the gradient by the outputs.
    pub(crate) fn measure(&mut self, images: usize) -> Result<(), Error> {
        let args = self.loss(images);
        self.device.launch("loss_examples", Grid::each(images, self.replicas), &args)
    }
}

/// Address of a convolution's bias in parameters that begin at `theta`; 0 without a bias.
pub(super) fn bias_address<F>(conv: &Conv, theta: Address) -> Address {
    conv.bias.as_ref().map_or(0, |bias| theta + (bias.start * size_of::<F>()) as u64)
}
