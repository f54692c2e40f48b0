//! Forward passes: raw values, the loss, and their derivatives along a direction.

use std::mem::take;
use std::ops::Range;

use super::{BatchNormMode, Engine, Kind, Scratch, Work, grow, make_room};
use crate::Real;
use crate::nn::conv;
use crate::nn::geometry::{Geometry, Placement};
use crate::nn::kernel::Start;
use crate::nn::network::{Conv, Layer, Network, Op};
use crate::nn::op;
use crate::nn::parallel;
use crate::nn::read::{Reading, moments, moments_dot, read};
use crate::real::once_per_precision;

impl<F: Real> Engine<F> {
    /// Raw values of all layers.
    pub(super) fn forward(&mut self, theta: &[F], mode: BatchNormMode) {
        once_per_precision!(
            <'a, F> (&'a mut Engine<F>, &'a [F], BatchNormMode),
            (self, theta, mode),
            |(engine, theta, mode)| engine.run_forward(theta, mode)
        );
    }

    fn run_forward(&mut self, theta: &[F], mode: BatchNormMode) {
        let network = self.network.clone();
        for (l, layer) in network.layers.iter().enumerate() {
            if l > 0 {
                self.work.forward_layer(&network, l, theta, None, mode == BatchNormMode::Training);
            }
            let Some(norm) = &layer.norm else { continue };
            let coefficients = &mut self.work.norms[l];
            match mode {
                BatchNormMode::Training => {
                    let pixels = layer.shape[0] * layer.shape[1];
                    coefficients.use_batch(norm, theta, &self.work.sums, pixels);
                }
                BatchNormMode::Evaluation => coefficients.use_running(norm, theta, &self.buffers),
            }
        }
    }

    /// Derivatives of all raw values along `v`, beside the values at `theta`.
    pub(super) fn forward_dot(&mut self, theta: &[F], v: &[F]) {
        once_per_precision!(
            <'a, F> (&'a mut Engine<F>, &'a [F], &'a [F]),
            (self, theta, v),
            |(engine, theta, v)| engine.run_forward_dot(theta, v)
        );
    }

    fn run_forward_dot(&mut self, theta: &[F], v: &[F]) {
        let network = self.network.clone();
        let mode = self.mode;
        make_room(&mut self.work.dot.raw, &network, self.work.examples);
        for (l, layer) in network.layers.iter().enumerate().skip(1) {
            let with_sums = mode == BatchNormMode::Training;
            self.work.forward_layer(&network, l, theta, Some(v), with_sums);
            let Some(norm) = &layer.norm else { continue };
            let count = self.work.examples * layer.shape[0] * layer.shape[1];
            let sums = &self.work.sums;
            self.work.norms[l].forward_dot(norm, mode, theta, v, sums, count);
        }
    }

    /// The outputs of the last forward pass.
    pub(super) fn answers(&self) -> Vec<F> {
        let mut out = Vec::new();
        once_per_precision!(
            <'a, F> (&'a Engine<F>, &'a mut Vec<F>),
            (self, &mut out),
            |(engine, out)| *out = engine.work.last_layer(&engine.network, Reading::Value)
        );
        out
    }

    /// Losses of all examples and the gradient of their mean by the outputs.
    pub(super) fn measure(&mut self) {
        once_per_precision!(<'a, F> &'a mut Engine<F>, self, |engine| engine.run_measure());
    }

    fn run_measure(&mut self) {
        let (batch, loss) = (self.current(), self.loss);
        let answers = self.answers();
        let (outputs, share) = (self.network.outputs(), 1.0 / self.work.examples as f64);
        let mut losses = take(&mut self.work.losses);
        losses.clear();
        let last = self.network.layers.len() - 1;
        self.work.seed(&self.network, last, false, |u| {
            for (example, (x, u)) in
                answers.chunks_exact(outputs).zip(u.chunks_exact_mut(outputs)).enumerate()
            {
                losses.push(loss.example(x, batch.targets.of(example, outputs), share, u));
            }
        });
        self.work.losses = losses;
    }

    /// The derivative of that gradient.
    pub(super) fn measure_dot(&mut self) {
        once_per_precision!(<'a, F> &'a mut Engine<F>, self, |engine| engine.run_measure_dot());
    }

    fn run_measure_dot(&mut self) {
        let (loss, outputs) = (self.loss, self.network.outputs());
        let share = 1.0 / self.work.examples as f64;
        let answers = self.answers();
        let answers_dot = self.work.last_layer(&self.network, Reading::ValueDot);
        let last = self.network.layers.len() - 1;
        self.work.seed(&self.network, last, true, |u| {
            let each = answers.chunks_exact(outputs).zip(answers_dot.chunks_exact(outputs));
            for ((x, x_dot), u) in each.zip(u.chunks_exact_mut(outputs)) {
                loss.example_dot(x, x_dot, share, u);
            }
        });
    }
}

impl<F: Real> Work<F> {
    fn last_layer(&self, network: &Network, reading: Reading) -> Vec<F> {
        let last = network.layers.len() - 1;
        let layer = &network.layers[last];
        let mut out = vec![F::default(); self.examples * layer.len()];
        let stored = self.stored(last, layer.len(), &(0..self.examples));
        read(reading, layer, &self.norms[last], stored, Placement::dense(layer), &mut out);
        out
    }

    /// One layer, chunk by chunk; with `with_sums` also what its batch norm needs of the images.
    fn forward_layer(
        &mut self,
        network: &Network,
        l: usize,
        theta: &[F],
        direction: Option<&[F]>,
        with_sums: bool,
    ) {
        let layer = &network.layers[l];
        let dot = direction.is_some();
        let kind = self.kind(network, l);
        if let (Kind::Conv(conv), Some(geometry)) = (&kind, &self.geometries[l]) {
            conv::pack(conv, geometry, theta, &mut self.weights.forward);
            if let Some(v) = direction {
                conv::pack(conv, geometry, v, &mut self.weights_dot.forward);
            }
        }
        let kinds = if with_sums && layer.norm.is_some() { 2 * layer.shape[2] } else { 0 };
        let mut sums = take(&mut self.sums);
        sums.clear();
        grow(&mut sums, self.examples * kinds);
        let part = if dot { &mut self.dot } else { &mut self.value };
        let mut raw = take(&mut part.raw[l]);
        let out = &mut raw[..self.examples * layer.len()];
        let (chunk, len) = (self.chunk, layer.len());
        // These compute all images before the sums.
        let is_whole = match kind {
            Kind::Dense(conv) => {
                self.forward_dense(network, l, conv, theta, direction, out);
                true
            }
            Kind::Wide(conv) => {
                self.forward_wide(network, l, conv, theta, direction, out);
                true
            }
            Kind::Conv(_) | Kind::Other => false,
        };
        if !is_whole || kinds > 0 {
            let parts = [(out, chunk * len), (&mut sums[..], chunk * kinds)];
            parallel::zipped(parts, |index, [out, sums]| {
                let images = index * chunk..index * chunk + out.len() / len;
                let chunk = Chunk { work: self, network, layer, l, direction, images };
                self.scratch.lend(|scratch| {
                    if !is_whole {
                        chunk.forward(theta, scratch, out, sums);
                    } else {
                        chunk.sum_up(scratch, chunk.images.clone(), out, sums);
                    }
                });
            });
        }
        let part = if dot { &mut self.dot } else { &mut self.value };
        part.raw[l] = raw;
        self.sums = sums;
    }
}

/// Some images on their way through a layer.
struct Chunk<'a, F> {
    work: &'a Work<F>,
    network: &'a Network,
    layer: &'a Layer,
    l: usize,
    direction: Option<&'a [F]>,
    images: Range<usize>,
}

impl<F: Real> Chunk<'_, F> {
    fn forward(&self, theta: &[F], scratch: &mut Scratch<F>, out: &mut [F], sums: &mut [F]) {
        match (&self.layer.op, &self.work.geometries[self.l]) {
            (Op::Conv(conv), Some(geometry)) => {
                self.forward_conv(conv, geometry, theta, scratch, out, sums);
            }
            (Op::Add, _) => {
                self.forward_add(scratch, out);
                self.sum_up(scratch, self.images.clone(), out, sums);
            }
            _ => {
                self.forward_other(scratch, out);
                self.sum_up(scratch, self.images.clone(), out, sums);
            }
        }
    }

    fn forward_conv(
        &self,
        conv: &Conv,
        geometry: &Geometry,
        theta: &[F],
        scratch: &mut Scratch<F>,
        out: &mut [F],
        sums: &mut [F],
    ) {
        let len = self.layer.len();
        let input = self.layer.inputs[0];
        let group = geometry.group;
        let sums_len = sums.len() / self.images.len();
        scratch.prepare_inputs(geometry, self.direction.is_some());
        let parameters = self.direction.unwrap_or(theta);
        let start = match &conv.bias {
            Some(range) => Start::Bias(&parameters[range.clone()]),
            None => Start::Zero,
        };
        for first in (0..self.images.len()).step_by(group) {
            let count = group.min(self.images.len() - first);
            let images = self.images.start + first..self.images.start + first + count;
            let Scratch { x, x_dot, work, .. } = scratch;
            let out = &mut out[first * len..(first + count) * len];
            let place = geometry.input;
            let x = x.images(count, place);
            let (w, w_dot) = (&self.work.weights.forward, &self.work.weights_dot.forward);
            if self.direction.is_some() && input > 0 {
                let x_dot = x_dot.images(count, place);
                let outs = [&mut *x, &mut *x_dot];
                self.work.read_both(self.network, Reading::Value, input, &images, place, outs);
                geometry.convolve(count, &[(x, w_dot), (x_dot, w)], start, out, work);
            } else {
                self.read(Reading::Value, input, &images, place, x);
                let w = if self.direction.is_some() { w_dot } else { w };
                geometry.convolve(count, &[(x, w)], start, out, work);
            }
            let sums = &mut sums[first * sums_len..(first + count) * sums_len];
            self.sum_up(scratch, images, out, sums);
        }
    }

    /// Values of an input layer, or their derivatives.
    fn read(
        &self,
        reading: Reading,
        input: usize,
        images: &Range<usize>,
        place: Placement,
        out: &mut [F],
    ) {
        self.work.read(self.network, reading, input, images, place, out);
    }

    fn reading(&self) -> Reading {
        if self.direction.is_some() { Reading::ValueDot } else { Reading::Value }
    }

    fn forward_add(&self, scratch: &mut Scratch<F>, out: &mut [F]) {
        out.fill(F::default());
        let place = Placement::dense(self.layer);
        for (term, &input) in self.layer.inputs.iter().enumerate() {
            if self.direction.is_some() && input == 0 {
                continue;
            }
            for (image, out) in self.images.clone().zip(out.chunks_exact_mut(self.layer.len())) {
                let image = image..image + 1;
                if term == 0 {
                    self.read(self.reading(), input, &image, place, out);
                } else {
                    let x = scratch.x.dense(self.layer.len());
                    self.read(self.reading(), input, &image, place, x);
                    out.iter_mut().zip(x).for_each(|(out, x)| *out += *x);
                }
            }
        }
    }

    fn forward_other(&self, scratch: &mut Scratch<F>, out: &mut [F]) {
        let input = self.layer.inputs[0];
        let from = &self.network.layers[input];
        let place = Placement::dense(from);
        if self.direction.is_some() && input == 0 {
            out.fill(F::default());
            return;
        }
        for (image, out) in self.images.clone().zip(out.chunks_exact_mut(self.layer.len())) {
            let image = image..image + 1;
            let x = scratch.x.dense(from.len());
            self.read(Reading::Value, input, &image, place, x);
            if self.direction.is_some() {
                let x_dot = scratch.x_dot.dense(from.len());
                self.read(Reading::ValueDot, input, &image, place, x_dot);
                op::apply(&self.layer.op, from, self.layer, x, x_dot, out);
            } else {
                op::apply(&self.layer.op, from, self.layer, x, x, out);
            }
        }
    }

    /// What the layer's batch norm needs to know of some images whose raw values are in `out`.
    fn sum_up(&self, scratch: &mut Scratch<F>, images: Range<usize>, out: &[F], sums: &mut [F]) {
        if sums.is_empty() {
            return;
        }
        if self.direction.is_none() {
            moments(self.layer, out, &mut scratch.rows, sums);
        } else {
            let len = self.layer.len();
            let z = &self.work.value.raw[self.l][images.start * len..images.end * len];
            let norm = &self.work.norms[self.l];
            moments_dot(self.layer, norm, z, out, &mut scratch.rows, sums);
        }
    }
}
