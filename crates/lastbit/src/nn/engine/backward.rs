//! Backward passes: gradients by all parameters, and their derivatives along a direction.
//!
//! A layer hands its gradient to each of its inputs in turn. The first to do so writes, later ones
//! add, and the last one also adds up what the input's batch norm needs, while the numbers are still
//! in the cache.
//!
//! The weight gradient of a convolution is a sum for each chunk of images, and then the sum of
//! those. Layers with many weights ([`super::wide`]) and fully connected ones ([`super::dense`]) are different: there
//! threads share the weights, and each weight is one sum over all images.

use std::mem::take;
use std::ops::Range;

use super::{Engine, Kind, Scratch, Work, grow};
use crate::Real;
use crate::nn::conv;
use crate::nn::geometry::{Geometry, Placement};
use crate::nn::kernel::{Panels, Start};
use crate::nn::network::{Conv, Layer, Network, Op};
use crate::nn::norm::BatchNormMode;
use crate::nn::op;
use crate::nn::parallel;
use crate::nn::read::{Reading, Stored, gradient_sums, pixel_sums};
use crate::real::once_per_precision;

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
        let kind = self.kind(pass.network, l);
        if input == 0 && matches!(kind, Kind::Other) {
            return;
        }
        let chunk = self.chunk;
        let with_sums = turn.last && from.norm.is_some() && input > 0;
        let kinds = if with_sums { from.shape[2] * if dot { 3 } else { 2 } } else { 0 };
        let u_len = if input > 0 { from.len() } else { 0 };
        let numbers = self.examples * u_len;

        let mut u = self.take_u(input, numbers, dot);
        let mut sums = take(&mut self.sums);
        sums.clear();
        grow(&mut sums, self.examples * kinds);
        match kind {
            Kind::Dense(conv) => {
                self.backward_dense(pass, l, conv, input, turn, &mut u[..numbers], out);
            }
            Kind::Wide(conv) => {
                self.backward_wide(pass, l, conv, input, turn, &mut u[..numbers], out);
            }
            Kind::Conv(conv) => {
                let (u, sums) = (&mut u[..numbers], &mut sums[..]);
                self.backward_chunks(pass, l, conv, input, turn, u, (sums, kinds), out);
            }
            Kind::Other => {
                let parts = [(&mut u[..numbers], chunk * u_len), (&mut sums[..], chunk * kinds)];
                parallel::zipped(parts, |index, [u, sums]| {
                    let images = self.images_of(index);
                    let chunk = Chunk { work: self, pass, layer, from, l, input, turn, images };
                    self.scratch.lend(|scratch| chunk.backward_other(scratch, u, sums));
                });
            }
        }
        if kinds > 0 && matches!(kind, Kind::Dense(_) | Kind::Wide(_)) {
            let parts = [(&mut u[..numbers], chunk * u_len), (&mut sums[..], chunk * kinds)];
            parallel::zipped(parts, |index, [u, sums]| {
                let images = self.images_of(index);
                let chunk = Chunk { work: self, pass, layer, from, l, input, turn, images };
                self.scratch.lend(|scratch| chunk.sum_up(scratch, &chunk.images, u, sums));
            });
        }
        self.sums = sums;
        self.put_u(input, u, dot);
    }

    /// The images of a chunk.
    fn images_of(&self, chunk: usize) -> Range<usize> {
        let start = chunk * self.chunk;
        start..self.examples.min(start + self.chunk)
    }

    /// A convolution whose images threads share; `sums` has so many numbers for each image.
    #[expect(clippy::too_many_arguments, reason = "a layer, its input and what comes of both")]
    fn backward_chunks(
        &mut self,
        pass: &Pass<F>,
        l: usize,
        conv: &Conv,
        input: usize,
        turn: Turn,
        u: &mut [F],
        (sums, kinds): (&mut [F], usize),
        out: &mut [F],
    ) {
        let (layer, from) = (&pass.network.layers[l], &pass.network.layers[input]);
        let geometry = self.geometries[l].as_ref().expect("a convolution has one");
        if input > 0 {
            conv::pack_transposed(conv, geometry, pass.theta, &mut self.weights.transposed);
            if let Some(v) = pass.direction {
                let transposed = &mut self.weights_dot.transposed;
                conv::pack_transposed(conv, geometry, v, transposed);
            }
        }
        let chunk = self.chunk;
        let chunks = self.examples.div_ceil(chunk);
        let weights = Panels::<F>::len_of(geometry.rows(), layer.shape[2]);
        let biases = if conv.bias.is_some() { layer.shape[2] } else { 0 };
        let u_len = if input > 0 { from.len() } else { 0 };
        let mut bias_sums = take(&mut self.bias_sums);
        grow(&mut bias_sums, self.examples * biases);
        let mut partials = take(&mut self.partials);
        grow(&mut partials, chunks * weights);
        let parts = [
            (u, chunk * u_len),
            (sums, chunk * kinds),
            (&mut bias_sums[..self.examples * biases], chunk * biases),
            (&mut partials[..chunks * weights], weights),
        ];
        parallel::zipped(parts, |index, [u, sums, bias_sums, weights]| {
            let images = self.images_of(index);
            let chunk = Chunk { work: self, pass, layer, from, l, input, turn, images };
            self.scratch.lend(|scratch| {
                chunk.backward_conv(geometry, scratch, u, sums, bias_sums, weights);
            });
        });
        conv::unpack_sum(conv, geometry, &mut partials[..chunks * weights], out);
        add_biases(conv, &bias_sums[..self.examples * biases], out);
        self.partials = partials;
        self.bias_sums = bias_sums;
    }
}

/// The gradient by the bias, from each image's sums over its pixels.
pub(super) fn add_biases<F: Real>(conv: &Conv, sums: &[F], out: &mut [F]) {
    let Some(range) = &conv.bias else { return };
    for (channel, out) in out[range.clone()].iter_mut().enumerate() {
        let each = sums.chunks_exact(range.len());
        *out = F::of(each.map(|image| image[channel].to_f64()).sum());
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
            self.read_group(geometry, scratch, &images);
            let Scratch { x, x_dot, d, d_dot, rows, work } = scratch;
            let (place, out) = (geometry.input, geometry.output);
            let (x, d) = (&*x.images(count, place), &*d.images(count, out));
            // Derivatives along the direction; not there without one.
            let x_dot = &*x_dot.images(if dot { count } else { 0 }, place);
            let d_dot = &*d_dot.images(if dot { count } else { 0 }, out);
            let d_now = if dot { d_dot } else { d };
            match dot && self.input > 0 {
                false => geometry.outer(count, &[(x, d_now)], weights, work),
                true => geometry.outer(count, &[(x, d_dot), (x_dot, d)], weights, work),
            }
            if bias_len > 0 {
                let out = &mut bias_sums[first * bias_len..(first + count) * bias_len];
                pixel_sums(channels, geometry.output, d_now, rows, out);
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
            let w = &self.work.weights.transposed[..];
            let w_dot = &self.work.weights_dot.transposed[..];
            match dot {
                false => geometry.transpose(count, &[(d, w)], start, u, work),
                true => geometry.transpose(count, &[(d_dot, w), (d, w_dot)], start, u, work),
            }
            let sums = &mut sums[first * sums_len..(first + count) * sums_len];
            self.sum_up(scratch, &images, u, sums);
        }
    }

    /// Reads what the gradients of a group of images need.
    fn read_group(&self, geometry: &Geometry, scratch: &mut Scratch<F>, images: &Range<usize>) {
        let (place, out, count) = (geometry.input, geometry.output, images.len());
        let (x, d) = (scratch.x.images(count, place), scratch.d.images(count, out));
        if self.pass.direction.is_none() {
            self.read(Reading::Gradient, self.l, images, out, d);
            self.read(Reading::Value, self.input, images, place, x);
            return;
        }
        let network = self.pass.network;
        let outs = [d, scratch.d_dot.images(count, out)];
        self.work.read_both(network, Reading::Gradient, self.l, images, out, outs);
        if self.input == 0 {
            self.read(Reading::Value, self.input, images, place, x);
        } else {
            let outs = [x, scratch.x_dot.images(count, place)];
            self.work.read_both(network, Reading::Value, self.input, images, place, outs);
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
                if is_sum {
                    u.iter_mut().zip(&*d).for_each(|(u, d)| *u += *d);
                } else {
                    let x = scratch.x.dense(theirs);
                    if op::selects(&self.layer.op) {
                        let place = Placement::dense(self.from);
                        self.read(Reading::Value, self.input, &images, place, x);
                    }
                    if self.turn.first {
                        op::apply_transposed(&self.layer.op, self.from, self.layer, x, d, u);
                    } else {
                        let dx = scratch.x_dot.dense(theirs);
                        op::apply_transposed(&self.layer.op, self.from, self.layer, x, d, dx);
                        u.iter_mut().zip(&*dx).for_each(|(u, dx)| *u += *dx);
                    }
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
        self.work.read(self.pass.network, reading, layer, images, place, out);
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
