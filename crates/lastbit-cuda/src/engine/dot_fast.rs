//! Derivatives of the convolutions that have kernels of their own, by these kernels.
//!
//! ```text
//! z'  = value ∗ W' + value' ∗ W        u' = dz' ∗ᵀ W + dz ∗ᵀ W'        dW' = value ⊗ dz' + value' ⊗ dz
//! ```
//!
//! Each is a sum of two, of which the second adds to the first; of the network's input, which does not
//! move, only one is there. Values' derivatives and `dz'` are computed once and read as they are.

use lastbit::nn::Conv;

use super::Engine;
use super::dot::Pass;
use crate::device::{DeviceReal, Memory};
use crate::error::Error;
use crate::fast::{Fast, Precision};
use crate::jobs::{ConvJob, FastJob, PackJob, View, WeightsJob};

impl<F: DeviceReal> Engine<F> {
    /// The fast way of a layer's derivatives, if it has one; on tensor cores factors would be rounded.
    pub(super) fn fast_dot_of(&self, l: usize) -> Option<&'static Fast> {
        self.fast_of(l).filter(|_| self.precision == Precision::Plain)
    }

    pub(super) fn forward_fast_dot(
        &mut self,
        fast: &Fast,
        conv: &Conv,
        l: usize,
        pass: Pass,
    ) -> Result<(), Error> {
        let input = self.network.nodes()[l].inputs[0];
        let shape = self.network.nodes()[l].shape;
        let grid = fast.grid(pass.images, shape[2], self.replicas, self.device.room());
        let direction = self.pack_direction(conv, l, pass)?;
        let result = self.dots().of(l).z;
        let job = FastJob {
            bias: match &conv.bias {
                Some(bias) => pass.direction + (bias.start * size_of::<F>()) as u64,
                None => 0,
            },
            kernels: direction.forward,
            kernels_stride: direction.stride,
            ..self.fast_job(self.values(input), result, shape, pass.images)
        };
        self.device.launch(fast.forward, grid, &job)?;
        let Some(moved) = self.moved_values(input, pass)? else { return Ok(()) };
        let job =
            FastJob { from: moved, kernels: self.pack(conv, l).forward, bias: 0, add: 1, ..job };
        self.device.launch(fast.forward, grid, &job)
    }

    pub(super) fn backward_data_fast_dot(
        &mut self,
        (name, blocks): (&'static str, &Fast),
        conv: &Conv,
        l: usize,
        pass: Pass,
        add: bool,
    ) -> Result<(), Error> {
        let layers = self.network.nodes();
        let input = layers[l].inputs[0];
        let shape = layers[input].shape;
        let grid = blocks.grid(pass.images, shape[2], self.replicas, self.device.room());
        let own = self.pack(conv, l);
        let job = FastJob {
            add: i32::from(add),
            kernels: own.backward,
            kernels_stride: own.stride,
            ..self.fast_job(self.moved_gradients(l), self.dots().of(input).u, shape, pass.images)
        };
        self.device.launch(name, grid, &job)?;
        let direction = self.pack_direction(conv, l, pass)?;
        let from = self.gradient_read_once(l);
        let job = FastJob { from, kernels: direction.backward, add: 1, ..job };
        self.device.launch(name, grid, &job)
    }

    pub(super) fn backward_weights_fast_dot(
        &mut self,
        fast: &Fast,
        conv: &Conv,
        l: usize,
        pass: Pass,
    ) -> Result<(), Error> {
        let layers = self.network.nodes();
        let (input, channels) = (layers[l].inputs[0], layers[l].shape[2]);
        let own = self.conv(conv, l, pass.images);
        let moved = self.moved_values(input, pass)?;
        // The chunks of the second sum lie behind those of the first.
        let chunks = own.chunks * if moved.is_some() { 2 } else { 1 };
        let partials = self.dots().partials.address();
        let behind = own.chunks as u64 * self.pack(conv, l).stride * size_of::<F>() as u64;
        let rows = own.inputs;
        let sizes = [rows as usize, channels];
        let (chunks_each, room) = (own.chunks as usize, self.device.room());
        let grid = fast.grid_of_weights(sizes, chunks_each, self.replicas, self.precision, room);
        let job = WeightsJob {
            input: own.input,
            output: self.moved_gradients(l),
            partials,
            images: own.images,
            chunks,
            images_per_chunk: own.images_per_chunk,
            rows,
        };
        self.device.launch(fast.weights, grid, &job)?;
        if let Some(input) = moved {
            let output = self.gradient_read_once(l);
            let job = WeightsJob { input, output, partials: partials + behind, ..job };
            self.device.launch(fast.weights, grid, &job)?;
        }
        let gradient = self.dots().product.address();
        self.finish_weights(conv, &ConvJob { gradient, partials, chunks, ..own })
    }

    /// The derivatives of a layer's gradients by its raw values, computed once before.
    fn moved_gradients(&self, l: usize) -> View {
        View { u: self.dots().of(l).u, ..self.view(l) }.as_is()
    }

    /// The direction's kernels in the order in which the fast convolutions read them.
    fn pack_direction(&mut self, conv: &Conv, l: usize, pass: Pass) -> Result<PackJob, Error> {
        let [forward, backward] = self.dots().ordered.each_ref().map(Memory::address);
        let job = PackJob { theta: pass.direction, forward, backward, ..self.pack(conv, l) };
        self.pack_kernels(&job)?;
        Ok(job)
    }
}
