//! Tangents of the 3x3 convolutions that have kernels of their own, by the same kernels.
//!
//! ```text
//! z'  = value ∗ W' + value' ∗ W        u' = dz' ∗ᵀ W + dz ∗ᵀ W'        dW' = value ⊗ dz' + value' ⊗ dz
//! ```
//!
//! Each is a sum of two convolutions, and the second launch adds to the result of the first. The network's
//! input has no tangent, which leaves one. Tangents of values and `dz'` are computed before.

use lastbit::nn::Conv;

use super::Engine;
use super::backward::weights3x3_args;
use super::forward::bias_address;
use super::tangent::Pass;
use crate::conv3x3_plan::{Conv3x3Plan, MathMode};
use crate::device::{DeviceReal, Memory};
use crate::error::Error;
use crate::kernel_args::{Conv3x3Args, ConvArgs, PackArgs, View, Weights3x3Args};

impl<F: DeviceReal> Engine<F> {
    /// The plan of a layer's tangents, if it has one; not on tensor cores, which round factors.
    pub(super) fn conv3x3_tangent_of(&self, l: usize) -> Option<&'static Conv3x3Plan> {
        self.conv3x3_of(l).filter(|_| self.math == MathMode::Fma)
    }

    pub(super) fn forward_conv3x3_tangent(
        &mut self,
        plan: &Conv3x3Plan,
        conv: &Conv,
        l: usize,
        pass: Pass,
    ) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let (input, shape) = (layer.inputs[0], layer.shape);
        let grid = plan.grid(pass.images, shape[2], self.replicas, self.device.shared_memory());
        let direction = self.pack_direction(conv, l, pass)?;
        let result = self.tangents().of(l).z;
        let args = Conv3x3Args {
            bias: bias_address::<F>(conv, pass.direction),
            kernels: direction.forward,
            kernels_stride: direction.stride,
            ..self.conv3x3_args(self.values(input), result, shape, pass.images)
        };
        self.device.launch(plan.forward, grid, &args)?;
        let Some(from) = self.value_tangents(input, pass)? else { return Ok(()) };
        let kernels = self.pack(conv, l).forward;
        let args = Conv3x3Args { from, kernels, bias: 0, add: 1, ..args };
        self.device.launch(plan.forward, grid, &args)
    }

    pub(super) fn backward_data_conv3x3_tangent(
        &mut self,
        (name, tiles): (&'static str, &Conv3x3Plan),
        conv: &Conv,
        l: usize,
        pass: Pass,
        add: bool,
    ) -> Result<(), Error> {
        let layers = self.network.nodes();
        let input = layers[l].inputs[0];
        let shape = layers[input].shape;
        let grid = tiles.grid(pass.images, shape[2], self.replicas, self.device.shared_memory());
        let pack = self.pack(conv, l);
        let result = self.tangents().of(input).u;
        let args = Conv3x3Args {
            add: i32::from(add),
            kernels: pack.backward,
            kernels_stride: pack.stride,
            ..self.conv3x3_args(self.gradient_tangents(l), result, shape, pass.images)
        };
        self.device.launch(name, grid, &args)?;
        let direction = self.pack_direction(conv, l, pass)?;
        let from = self.gradient_view(l);
        let args = Conv3x3Args { from, kernels: direction.backward, add: 1, ..args };
        self.device.launch(name, grid, &args)
    }

    pub(super) fn backward_weights_conv3x3_tangent(
        &mut self,
        plan: &Conv3x3Plan,
        conv: &Conv,
        l: usize,
        pass: Pass,
    ) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let (input, channels) = (layer.inputs[0], layer.shape[2]);
        let own = self.conv(conv, l, pass.images);
        let values = self.value_tangents(input, pass)?;
        let gradient = self.tangents().product.address();
        let partials = self.tangents().partials.address();
        // The chunks of the second sum are stored behind those of the first.
        let chunks = own.chunks * if values.is_some() { 2 } else { 1 };
        let behind = own.chunks as u64 * self.pack(conv, l).stride * size_of::<F>() as u64;
        let sums = ConvArgs { gradient, partials, chunks, ..own };
        let args = Weights3x3Args { output: self.gradient_tangents(l), ..weights3x3_args(&sums) };
        self.launch_weights3x3(plan, channels, &args)?;
        if let Some(input) = values {
            let output = self.gradient_view(l);
            let args = Weights3x3Args { input, output, partials: partials + behind, ..args };
            self.launch_weights3x3(plan, channels, &args)?;
        }
        self.finish_weights(conv, &sums)
    }

    /// The tangents of the gradients by a layer's raw values, computed before.
    fn gradient_tangents(&self, l: usize) -> View {
        View { u: self.tangents().of(l).u, ..self.view(l) }.plain()
    }

    /// Packs the direction's weights in the order in which the 3x3 convolutions read them.
    fn pack_direction(&mut self, conv: &Conv, l: usize, pass: Pass) -> Result<PackArgs, Error> {
        let [forward, backward] = self.tangents().packed_gemm.each_ref().map(Memory::address);
        let args = PackArgs { theta: pass.direction, forward, backward, ..self.pack(conv, l) };
        self.pack_kernels(&args)?;
        Ok(args)
    }
}
