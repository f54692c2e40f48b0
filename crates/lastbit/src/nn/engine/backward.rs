//! Backward passes: gradients by all parameters, and their derivatives along a direction.
//!
//! A layer hands its gradient to each of its inputs in turn. The first to do so writes, later ones
//! add, and the last one also adds up what the input's batch norm needs, while the numbers are still
//! in the cache.
//!
//! The gradient by the weights of a convolution is a sum for each chunk of images, and then the sum of
//! those. A layer with many weights and few pixels ([`Geometry::shares_weights`]) is different: there threads
//! share the weights, and each weight is one sum over all images. So are fully connected layers ([`super::dense`]).

use std::mem::take;
use std::ops::Range;

use super::{Engine, Scratch, Work, grow};
use crate::Real;
use crate::nn::conv;
use crate::nn::geometry::{Geometry, Placement};
use crate::nn::kernel::{Panels, Start};
use crate::nn::network::{Layer, Network, Op};
use crate::nn::norm::BatchNormMode;
use crate::nn::op;
use crate::nn::parallel;
use crate::nn::read::{Reading, Stored, gradient_sums, pixel_sums, read};
use crate::real::once_per_precision;
use crate::simd::width;

impl<F: Real> Engine<F> {
    /// The gradient, from the gradient by the outputs.
    pub(super) fn backward(&mut self, theta: &[F], out: &mut [F]) {
        self.backward_along(theta, None, out);
    }

    /// Its derivative along `v`.
    pub(super) fn backward_dot(&mut self, theta: &[F], v: &[F], out: &mut [F]) {
        self.backward_along(theta, Some(v), out);
    }

    fn backward_along(&mut self, theta: &[F], direction: Option<&[F]>, out: &mut [F]) {
        once_per_precision!(
            <'a, F> (&'a mut Engine<F>, &'a [F], Option<&'a [F]>, &'a mut [F]),
            (self, theta, direction, out),
            |(engine, theta, direction, out)| engine.run_backward(theta, direction, out)
        );
    }

    fn run_backward(&mut self, theta: &[F], direction: Option<&[F]>, out: &mut [F]) {
        assert_eq!(out.len(), self.network.len(), "room for the gradient");
        let network = self.network.clone();
        let last = network.layers.len() - 1;
        let pass = Pass { network: &network, mode: self.mode, theta, direction };
        self.work.finish(&pass, last, out);
        for l in (1..network.layers.len()).rev() {
            for (index, &input) in network.layers[l].inputs.iter().enumerate() {
                let turn = Turn::new(&network, l, index);
                self.work.backward_layer(&pass, l, input, turn, out);
                if turn.last {
                    self.work.finish(&pass, input, out);
                }
            }
        }
    }
}

/// A gradient, or its derivative along a direction, on its way back.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a, F> {
    pub network: &'a Network,
    pub mode: BatchNormMode,
    pub theta: &'a [F],
    pub direction: Option<&'a [F]>,
}

/// Whether a layer is the first or the last of those that hand their gradient to an input.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub first: bool,
    pub last: bool,
}

impl Turn {
    fn new(network: &Network, l: usize, index: usize) -> Self {
        let input = network.layers[l].inputs[index];
        let uses = |layer: &Layer| layer.inputs.contains(&input);
        let layers = &network.layers;
        let own = &layers[l].inputs;
        Self {
            first: !layers[l + 1..].iter().any(uses) && !own[..index].contains(&input),
            last: !layers[..l].iter().any(uses) && !own[index + 1..].contains(&input),
        }
    }
}

impl<F: Real> Work<F> {
    /// Writes the gradient by the outputs.
    pub(super) fn seed(
        &mut self,
        network: &Network,
        last: usize,
        dot: bool,
        write: impl FnOnce(&mut [F]),
    ) {
        let layer = &network.layers[last];
        let len = self.examples * layer.len();
        let mut u = self.take_u(last, len, dot);
        write(&mut u[..len]);
        self.put_u(last, u, dot);
        if layer.norm.is_some() {
            let mut sums = take(&mut self.sums);
            sums.clear();
            grow(&mut sums, self.examples * layer.shape[2] * if dot { 3 } else { 2 });
            let stored = self.stored(last, layer.len(), &(0..self.examples));
            gradient_sums(layer, &self.norms[last], stored, dot, &mut vec![], &mut sums);
            self.sums = sums;
        }
    }

    fn take_u(&mut self, layer: usize, len: usize, dot: bool) -> Vec<F> {
        let place = self.place(layer, dot);
        let list = if dot { &mut self.dot.u } else { &mut self.value.u };
        if list.len() <= place {
            list.resize(place + 1, Vec::new());
        }
        let mut u = take(&mut list[place]);
        grow(&mut u, len);
        u
    }

    fn put_u(&mut self, layer: usize, u: Vec<F>, dot: bool) {
        let place = self.place(layer, dot);
        let list = if dot { &mut self.dot.u } else { &mut self.value.u };
        list[place] = u;
    }

    /// Batch norm's part of the gradient of a layer whose `u` is complete.
    fn finish(&mut self, pass: &Pass<F>, l: usize, out: &mut [F]) {
        let layer = &pass.network.layers[l];
        let Some(norm) = &layer.norm else { return };
        let count = self.examples * layer.shape[0] * layer.shape[1];
        let (mode, theta, sums) = (pass.mode, pass.theta, &self.sums);
        match pass.direction {
            None => self.norms[l].backward(norm, mode, theta, sums, count, out),
            Some(v) => self.norms[l].backward_dot(norm, mode, theta, v, sums, count, out),
        }
    }

    fn backward_layer(
        &mut self,
        pass: &Pass<F>,
        l: usize,
        input: usize,
        turn: Turn,
        out: &mut [F],
    ) {
        let (layer, from) = (&pass.network.layers[l], &pass.network.layers[input]);
        let dot = pass.direction.is_some();
        let conv = match (&layer.op, &self.geometries[l]) {
            (Op::Conv(conv), Some(geometry)) => Some((conv, geometry)),
            _ => None,
        };
        let dense = match &layer.op {
            Op::Conv(dense) if conv.is_none() => Some(dense),
            _ => None,
        };
        if input == 0 && conv.is_none() && dense.is_none() {
            return;
        }
        if let Some((conv, geometry)) = conv
            && input > 0
        {
            let transposed = &mut self.weights.transposed;
            conv::pack_transposed(conv, geometry, pass.theta, transposed);
            if let Some(v) = pass.direction {
                let transposed = &mut self.weights_dot.transposed;
                conv::pack_transposed(conv, geometry, v, transposed);
            }
        }
        let chunk = self.chunk;
        let is_single = conv.is_some_and(|(_, geometry)| geometry.is_single());
        let chunks = if is_single { 1 } else { self.examples.div_ceil(chunk) };
        let weights =
            conv.map_or(0, |(_, geometry)| Panels::<F>::len_of(geometry.rows(), layer.shape[2]));
        let weights_of_chunk = if is_single { 0 } else { weights };
        let with_bias = conv.is_some_and(|(conv, _)| conv.bias.is_some());
        let biases = if with_bias { layer.shape[2] } else { 0 };
        let with_sums = turn.last && from.norm.is_some() && input > 0;
        let kinds = if with_sums { from.shape[2] * if dot { 3 } else { 2 } } else { 0 };
        let u_len = if input > 0 { from.len() } else { 0 };

        let mut u = self.take_u(input, self.examples * u_len, dot);
        let mut sums = take(&mut self.sums);
        sums.clear();
        grow(&mut sums, self.examples * kinds);
        if let Some(dense) = dense {
            let numbers = self.examples * u_len;
            self.backward_dense(pass, l, dense, input, turn, &mut u[..numbers], out);
            if kinds > 0 {
                let parts = [(&mut u[..numbers], chunk * u_len), (&mut sums[..], chunk * kinds)];
                parallel::zipped(parts, |index, [u, sums]| {
                    let start = index * chunk;
                    let images = start..self.examples.min(start + chunk);
                    let chunk = Chunk { work: self, pass, layer, from, l, input, turn, images };
                    self.scratch.lend(|scratch| chunk.sum_up(scratch, &chunk.images, u, sums));
                });
            }
            self.sums = sums;
            self.put_u(input, u, dot);
            return;
        }
        let mut bias_sums = take(&mut self.bias_sums);
        grow(&mut bias_sums, self.examples * biases);
        let mut partials = take(&mut self.partials);
        grow(&mut partials, chunks * weights);
        let parts = [
            (&mut u[..self.examples * u_len], chunk * u_len),
            (&mut sums[..], chunk * kinds),
            (&mut bias_sums[..self.examples * biases], chunk * biases),
            (&mut partials[..chunks * weights_of_chunk], weights_of_chunk),
        ];
        parallel::zipped(parts, |index, [u, sums, bias_sums, weights]| {
            let start = index * chunk;
            let images = start..self.examples.min(start + chunk);
            let chunk = Chunk { work: self, pass, layer, from, l, input, turn, images };
            self.scratch.lend(|scratch| match &self.geometries[l] {
                Some(geometry) => {
                    chunk.backward_conv(geometry, scratch, u, sums, bias_sums, weights);
                }
                None => chunk.backward_other(scratch, u, sums),
            });
        });
        if let (Some(geometry), true) = (&self.geometries[l], is_single) {
            let panel = geometry.rows() * width::<F>();
            let panels = (weights / panel).div_ceil(rayon::current_num_threads());
            let parts = [(&mut partials[..weights], panels * panel)];
            parallel::zipped(parts, |index, [weights]| {
                let images = 0..self.examples;
                let chunk = Chunk { work: self, pass, layer, from, l, input, turn, images };
                self.scratch.lend(|scratch| {
                    chunk.weights_of_panels(geometry, scratch, index * panels, weights);
                });
            });
        }
        if let Op::Conv(conv) = &layer.op {
            let geometry = self.geometries[l].as_ref().expect("a convolution has one");
            conv::unpack_sum(conv, geometry, &mut partials[..chunks * weights], out);
            if let Some(range) = &conv.bias {
                for (channel, out) in out[range.clone()].iter_mut().enumerate() {
                    let each = bias_sums[..self.examples * biases].chunks_exact(biases);
                    *out = F::of(each.map(|image| image[channel].to_f64()).sum());
                }
            }
        }
        self.partials = partials;
        self.bias_sums = bias_sums;
        self.sums = sums;
        self.put_u(input, u, dot);
    }
}

/// Some images on their way back from a layer to one of its inputs.
struct Chunk<'a, F> {
    work: &'a Work<F>,
    pass: &'a Pass<'a, F>,
    layer: &'a Layer,
    from: &'a Layer,
    l: usize,
    input: usize,
    turn: Turn,
    images: Range<usize>,
}

impl<F: Real> Chunk<'_, F> {
    fn backward_conv(
        &self,
        geometry: &Geometry,
        scratch: &mut Scratch<F>,
        u: &mut [F],
        sums: &mut [F],
        bias_sums: &mut [F],
        weights: &mut [F],
    ) {
        let dot = self.pass.direction.is_some();
        let (group, channels) = (geometry.group, self.layer.shape[2]);
        let per_image = |slice: &[F]| slice.len() / self.images.len();
        let (u_len, sums_len, bias_len) = (per_image(u), per_image(sums), per_image(bias_sums));
        scratch.prepare_inputs(geometry, dot);
        scratch.prepare_outputs(geometry, dot);
        weights.fill(F::default());
        for first in (0..self.images.len()).step_by(group) {
            let count = group.min(self.images.len() - first);
            let images = self.images.start + first..self.images.start + first + count;
            self.read_group(geometry, scratch, &images, !weights.is_empty());
            let Scratch { x, x_dot, d, d_dot, patches, .. } = scratch;
            let (place, out) = (geometry.input, geometry.output);
            let (d, d_dot) =
                (&*d.images(count, out), &*d_dot.images(if dot { count } else { 0 }, out));
            // The derivative of d along the direction, or d itself.
            let d_now = if dot { d_dot } else { d };
            if !weights.is_empty() {
                geometry.outer(count, x.images(count, place), d_now, weights, patches);
                if dot && self.input > 0 {
                    geometry.outer(count, x_dot.images(count, place), d, weights, patches);
                }
            }
            if bias_len > 0 {
                let out = &mut bias_sums[first * bias_len..(first + count) * bias_len];
                pixel_sums(channels, geometry.output, d_now, &mut scratch.rows, out);
            }
            if self.input == 0 {
                continue;
            }
            let u = &mut u[first * u_len..(first + count) * u_len];
            let untouched = geometry.classes.iter().any(|class| class.pixels.is_empty());
            if self.turn.first && untouched {
                u.fill(F::default());
            }
            let start = if self.turn.first && !untouched { Start::Zero } else { Start::Out };
            let w = &self.work.weights.transposed;
            geometry.transpose(count, d_now, w, start, u, patches);
            if dot {
                let w_dot = &self.work.weights_dot.transposed;
                geometry.transpose(count, d, w_dot, Start::Out, u, patches);
            }
            let sums = &mut sums[first * sums_len..(first + count) * sums_len];
            self.sum_up(scratch, &images, u, sums);
        }
    }

    /// The gradient by some of the weights of a fully connected layer, over all images.
    fn weights_of_panels(
        &self,
        geometry: &Geometry,
        scratch: &mut Scratch<F>,
        first: usize,
        weights: &mut [F],
    ) {
        let dot = self.pass.direction.is_some();
        scratch.prepare_inputs(geometry, dot);
        scratch.prepare_outputs(geometry, dot);
        weights.fill(F::default());
        for start in self.images.clone().step_by(geometry.group) {
            let images = start..self.images.end.min(start + geometry.group);
            let count = images.len();
            self.read_group(geometry, scratch, &images, true);
            let (place, out) = (geometry.input, geometry.output);
            let d = scratch.d.images(count, out);
            let x = scratch.x.images(count, place);
            if dot {
                let d_dot = scratch.d_dot.images(count, out);
                geometry.outer_panels(count, x, d_dot, first, weights);
                if self.input > 0 {
                    let x_dot = scratch.x_dot.images(count, place);
                    geometry.outer_panels(count, x_dot, d, first, weights);
                }
            } else {
                geometry.outer_panels(count, x, d, first, weights);
            }
        }
    }

    /// Reads what the gradients of a group of images need: of the outputs, and `with_inputs` of the
    /// inputs.
    fn read_group(
        &self,
        geometry: &Geometry,
        scratch: &mut Scratch<F>,
        images: &Range<usize>,
        with_inputs: bool,
    ) {
        let dot = self.pass.direction.is_some();
        let (place, out, count) = (geometry.input, geometry.output, images.len());
        self.read(Reading::Gradient, self.l, images, out, scratch.d.images(count, out));
        if dot {
            let d_dot = scratch.d_dot.images(count, out);
            self.read(Reading::GradientDot, self.l, images, out, d_dot);
        }
        if with_inputs {
            self.read(Reading::Value, self.input, images, place, scratch.x.images(count, place));
        }
        if with_inputs && dot && self.input > 0 {
            let x_dot = scratch.x_dot.images(count, place);
            self.read(Reading::ValueDot, self.input, images, place, x_dot);
        }
    }

    fn backward_other(&self, scratch: &mut Scratch<F>, u: &mut [F], sums: &mut [F]) {
        let dot = self.pass.direction.is_some();
        let reading = if dot { Reading::GradientDot } else { Reading::Gradient };
        let (own, theirs) = (self.layer.len(), self.from.len());
        let sums_len = sums.len() / self.images.len();
        for (image, u) in u.chunks_exact_mut(theirs).enumerate() {
            let images = self.images.start + image..self.images.start + image + 1;
            let is_sum = matches!(self.layer.op, Op::Add);
            if is_sum && self.turn.first {
                self.read(reading, self.l, &images, Placement::dense(self.layer), u);
            } else {
                let d = scratch.d.dense(own);
                self.read(reading, self.l, &images, Placement::dense(self.layer), d);
                let dx = if is_sum {
                    &*d
                } else {
                    let x = scratch.x.dense(theirs);
                    if op::selects(&self.layer.op) {
                        let place = Placement::dense(self.from);
                        self.read(Reading::Value, self.input, &images, place, x);
                    }
                    let dx = scratch.x_dot.dense(theirs);
                    op::apply_transposed(&self.layer.op, self.from, self.layer, x, d, dx);
                    &*dx
                };
                if self.turn.first {
                    u.copy_from_slice(dx);
                } else {
                    u.iter_mut().zip(dx).for_each(|(u, dx)| *u += *dx);
                }
            }
            let sums = &mut sums[image * sums_len..(image + 1) * sums_len];
            self.sum_up(scratch, &images, u, sums);
        }
    }

    fn read(
        &self,
        reading: Reading,
        layer: usize,
        images: &Range<usize>,
        place: Placement,
        out: &mut [F],
    ) {
        let of = &self.pass.network.layers[layer];
        let stored = self.work.stored(layer, of.len(), images);
        read(reading, of, &self.work.norms[layer], stored, place, out);
    }

    /// What the input's batch norm needs to know of some images whose `u` is complete.
    fn sum_up(&self, scratch: &mut Scratch<F>, images: &Range<usize>, u: &[F], sums: &mut [F]) {
        if sums.is_empty() {
            return;
        }
        let dot = self.pass.direction.is_some();
        let stored = self.work.stored(self.input, self.from.len(), images);
        let stored = if dot { Stored { u_dot: u, ..stored } } else { Stored { u, ..stored } };
        let norm = &self.work.norms[self.input];
        gradient_sums(self.from, norm, stored, dot, &mut scratch.rows, sums);
    }
}
