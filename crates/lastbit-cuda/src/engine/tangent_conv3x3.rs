//! Tangents of the 3x3 convolutions that have kernels of their own, by the same kernels.
//!
//! ```text
//! z'  = value ∗ W' + value' ∗ W        u' = dz' ∗ᵀ W + dz ∗ᵀ W'        dW' = value ⊗ dz' + value' ⊗ dz
//! ```
//!
//! Each is a sum of two convolutions, and the second launch adds to the result of the first. The network's
//! input has no tangent, which leaves one. Tangents of values and `dz'` are computed before.

use lastbit::nn::Conv;

use super::backward::weights3x3_args;
use super::forward::bias_address;
use super::tangent::Pass;
use super::{Engine, Reader};
use crate::conv3x3_plan::{Conv3x3Plan, MathMode};
use crate::device::DeviceReal;
use crate::error::Error;
use crate::kernel_args::{
    Address, Conv3x3Args, ConvArgs, PackedLayer, View, WeightSums, Weights3x3Args,
};

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
        let direction = self.packed_direction(l);
        let result = self.tangents().of(l).z;
        let args = Conv3x3Args {
            bias: bias_address::<F>(conv, pass.direction),
            kernels: direction.forward,
            kernels_stride: direction.stride,
            ..self.conv3x3_args(self.values(input), result, shape, pass.images)
        };
        self.device.launch(plan.forward, grid, &args)?;
        let to = self.tangents().values_of(input);
        let Some(from) = self.value_tangents(input, to, pass)? else { return Ok(()) };
        let kernels = self.packed(l).forward;
        let args = Conv3x3Args { from, kernels, bias: 0, added: result, ..args };
        self.device.launch(plan.forward, grid, &args)
    }

    pub(super) fn backward_data_conv3x3_tangent(
        &mut self,
        (name, tiles): (&'static str, &Conv3x3Plan),
        l: usize,
        pass: Pass,
        add: bool,
    ) -> Result<(), Error> {
        let layers = self.network.nodes();
        let input = layers[l].inputs[0];
        let shape = layers[input].shape;
        let grid = tiles.grid(pass.images, shape[2], self.replicas, self.device.shared_memory());
        let packed = self.packed(l);
        let result = self.tangents().of(input).u;
        let args = Conv3x3Args {
            added: if add { result } else { 0 },
            kernels: packed.backward,
            kernels_stride: packed.stride,
            ..self.conv3x3_args(self.gradient_tangents(l), result, shape, pass.images)
        };
        self.device.launch(name, grid, &args)?;
        let direction = self.packed_direction(l);
        let from = self.gradient_view(l);
        let args = Conv3x3Args { from, kernels: direction.backward, added: result, ..args };
        self.device.launch(name, grid, &args)
    }

    /// Launches sums over chunks of images beside the main stream, and returns them.
    pub(super) fn backward_weights_conv3x3_tangent(
        &mut self,
        plan: &Conv3x3Plan,
        conv: &Conv,
        l: usize,
        pass: Pass,
    ) -> Result<WeightSums, Error> {
        let layer = &self.network.nodes()[l];
        let (input, channels) = (layer.inputs[0], layer.shape[2]);
        let own = self.conv(conv, l, pass.images);
        // Computed in the forward pass.
        let z = self.tangents().values_of(input);
        let values = (input > 0).then(|| View { z, ..self.view(input) }.plain());
        let partials = self.tangents().partials_of(l, true);
        // The chunks of the second sum are stored behind those of the first.
        let chunks = own.chunks * if values.is_some() { 2 } else { 1 };
        let behind = own.chunks as u64 * self.packed(l).stride * size_of::<F>() as u64;
        let sums = ConvArgs { partials, chunks, ..own };
        let output = self.gradient_tangents(l);
        let args = Weights3x3Args { output, ..weights3x3_args(&sums) };
        let (name, grid, args) = self.weights3x3(plan, channels, args);
        let launch = self.device.launch_aside(name, grid, &args)?;
        self.readers.push(Reader { gradient: output.u, launch });
        if let Some(input) = values {
            let gradient = self.gradient_view(l);
            let args =
                Weights3x3Args { input, output: gradient, partials: partials + behind, ..args };
            // Of what it reads, the scratch memory of a gradient alone changes before the end.
            if gradient.u == self.view(l).u {
                let launch = self.device.launch_aside(name, grid, &args)?;
                self.readers.push(Reader { gradient: gradient.u, launch });
            } else {
                self.device.launch(name, grid, &args)?;
            }
        }
        Ok(self.weight_sums(conv, &sums))
    }

    /// The tangents of the gradients by a layer's raw values, computed before.
    fn gradient_tangents(&self, l: usize) -> View {
        View { u: self.tangents().of(l).u, ..self.view(l) }.plain()
    }

    /// Packs the direction's weights in the order in which the 3x3 convolutions read them.
    pub(super) fn pack_direction(&mut self, direction: Address) -> Result<(), Error> {
        let own = self.conv3x3_layers().filter(|l| self.conv3x3_tangent_of(*l).is_some());
        let packed: Vec<_> = own.map(|l| self.packed_direction(l)).collect();
        self.pack_weights(direction, &packed)
    }

    fn packed_direction(&self, l: usize) -> PackedLayer {
        self.packed_in(&self.tangents().packed, l)
    }
}
