//! Weights of all layers at once: packed before the forward pass, finished after the backward pass.
//!
//! A small network does too little in a launch to keep a device busy, so launches that need not wait for each other
//! are one.

use lastbit::nn::{Conv, Op};

use super::Engine;
use crate::conv3x3_plan::Conv3x3Plan;
use crate::device::{DeviceReal, Grid, Memory};
use crate::error::Error;
use crate::kernel_args::{
    Address, ConvArgs, FinishArgs, LAYERS_AT_ONCE, PackArgs, PackedLayer, WeightSums,
};
use crate::workspace::partial_weights;

impl<F: DeviceReal> Engine<F> {
    /// The packed weights of a 3x3 convolution in memory for those of all layers, forward and transposed.
    pub(super) fn packed_in(&self, memory: &[Memory<F>; 2], l: usize) -> PackedLayer {
        let layers = self.network.nodes();
        let Op::Conv(conv) = &layers[l].op else { panic!("layer {l} is no convolution") };
        let from = &layers[layers[l].inputs[0]];
        let offset = self.workspace.packed_offset(l);
        let [forward, backward] = memory.each_ref().map(|packed| packed.address() + offset);
        PackedLayer {
            forward,
            backward,
            weight: conv.weight.start as u64,
            stride: partial_weights(conv, from, &layers[l], self.conv3x3_of(l)) as u64,
            inputs: from.shape[2] as i32,
            outputs: layers[l].shape[2] as i32,
            rows: Conv3x3Plan::rows(from.shape[2]) as i32,
            unused: 0,
        }
    }

    /// The packed weights of a 3x3 convolution.
    pub(super) fn packed(&self, l: usize) -> PackedLayer {
        self.packed_in(self.workspace.packed(), l)
    }

    /// Packs the weights of all 3x3 convolutions, in the order in which these read them, from parameters at `theta`.
    pub(super) fn pack_weights(
        &mut self,
        theta: Address,
        layers: &[PackedLayer],
    ) -> Result<(), Error> {
        for some in layers.chunks(LAYERS_AT_ONCE) {
            let mut args =
                PackArgs { theta, parameters: self.network.len() as u64, ..PackArgs::default() };
            args.layers[..some.len()].copy_from_slice(some);
            let most = some.iter().map(|layer| layer.stride as usize).max().unwrap_or(0);
            let blocks = [most.div_ceil(256), self.replicas, some.len()];
            self.device.launch("pack_kernels", Grid::blocks(blocks, 256), &args)?;
        }
        Ok(())
    }

    /// The layers that are 3x3 convolutions with kernels of their own.
    pub(super) fn conv3x3_layers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.network.nodes().len()).filter(|l| self.conv3x3_of(*l).is_some())
    }

    /// The sums over chunks of images of a convolution's weights.
    pub(super) fn weight_sums(&self, conv: &Conv, args: &ConvArgs) -> WeightSums {
        WeightSums {
            partials: args.partials,
            weight: conv.weight.start as u64,
            chunks: args.chunks,
            taps: args.rows * args.cols,
            rows: args.inputs,
            inputs: args.input.channels,
            outputs: args.output.channels,
            unused: 0,
        }
    }

    /// Adds the chunks of images of gradients by weights, or of their tangents, into the vector at `gradient`.
    pub(super) fn finish_weights(
        &mut self,
        gradient: Address,
        layers: &[WeightSums],
    ) -> Result<(), Error> {
        for some in layers.chunks(LAYERS_AT_ONCE) {
            let mut args = FinishArgs {
                gradient,
                parameters: self.network.len() as u64,
                ..FinishArgs::default()
            };
            args.layers[..some.len()].copy_from_slice(some);
            let pairs =
                some.iter().map(|layer| (layer.rows * layer.outputs) as usize).max().unwrap_or(0);
            let blocks = [pairs.div_ceil(32), self.replicas, some.len()];
            self.device.launch("conv_weights_finish", Grid::blocks(blocks, 256), &args)?;
        }
        Ok(())
    }
}
