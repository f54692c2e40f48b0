//! The passes over a network: forward, backward, and the derivative of both along a direction.
//!
//! A Hessian-vector product is the derivative of the gradient along `v` (forward over reverse): the
//! forward pass carries `ż`, the backward pass `u̇`, next to the `z` and `u` of a gradient at the
//! same `θ`. Those are kept from one product to the next as long as `θ` stays, so that an iteration
//! of Lanczos pays for the derivatives only.

mod backward;
mod dense;
mod forward;
mod wide;

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use self::dense::Gathered;
use super::conv::Workspace;
use super::geometry::{Geometry, Placement};
use super::kernel::Panels;
use super::loss::{Batch, Loss};
use super::network::{Conv, Network, Op};
pub use super::norm::BatchNormMode;
use super::norm::Coefficients;
use super::parallel::Pool;
use super::read::{Reading, Stored, read, read_both};
use crate::Real;
use crate::objective::{Evaluation, Objective, StochasticObjective, TrainableModel};

/// A batch has at most this many chunks, each of at least [`SMALLEST_CHUNK`] examples.
const CHUNKS: usize = 16;
const SMALLEST_CHUNK: usize = 4;
/// Examples that an evaluation passes through the network at a time.
const EVALUATED_TOGETHER: usize = 64;

/// A network with a loss, on a batch: the engine behind the seam.
#[derive(Debug, Clone)]
pub struct Engine<F> {
    network: Arc<Network>,
    loss: Loss,
    mode: BatchNormMode,
    batch: Option<Arc<Batch<F>>>,
    buffers: Vec<F>,
    work: Work<F>,
    /// Whether the last thing computed is a gradient in training mode.
    fresh_gradient: bool,
    /// The parameters whose gradient is kept with all its parts.
    linearized: Option<Vec<F>>,
}

/// Everything that is computed for a batch.
#[derive(Debug, Clone)]
struct Work<F> {
    examples: usize,
    chunk: usize,
    /// Of convolutions; fully connected layers have none.
    geometries: Vec<Option<Geometry>>,
    value: Part<F>,
    dot: Part<F>,
    norms: Vec<Coefficients<F>>,
    losses: Vec<f64>,
    /// Sums per image of the layer in work, and of its bias.
    sums: Vec<F>,
    bias_sums: Vec<F>,
    weights: Weights<F>,
    weights_dot: Weights<F>,
    partials: Vec<F>,
    gathered: Gathered<F>,
    scratch: Pool<Scratch<F>>,
    /// For each layer the place of `u` where it is given up as soon as it is used.
    recycled: Vec<usize>,
    /// Whether the value's `u` are all kept instead.
    keep: bool,
}

/// How a layer is computed.
#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    /// All images at once, by [`dense`].
    Dense(&'a Conv),
    /// All images at once, by [`wide`].
    Wide(&'a Conv),
    /// Image by image.
    Conv(&'a Conv),
    /// The same.
    Other,
}

/// Raw values by layer and gradients by place.
#[derive(Debug, Clone, Default)]
struct Part<F> {
    raw: Vec<Vec<F>>,
    u: Vec<Vec<F>>,
}

#[derive(Debug, Clone, Default)]
struct Weights<F> {
    forward: Panels<F>,
    transposed: Vec<Panels<F>>,
}

/// Work space of a thread.
#[derive(Debug, Default)]
struct Scratch<F> {
    x: Copies<F>,
    x_dot: Copies<F>,
    d: Copies<F>,
    d_dot: Copies<F>,
    rows: Vec<F>,
    work: Workspace<F>,
}

impl<F: Real> Scratch<F> {
    /// Room for the inputs of a convolution (with `dot` also for their derivatives), zeros around.
    fn prepare_inputs(&mut self, geometry: &Geometry, dot: bool) {
        let Geometry { group, input, .. } = *geometry;
        self.x.prepare(group, input);
        if dot {
            self.x_dot.prepare(group, input);
        }
    }

    /// The same for the gradients of its outputs.
    fn prepare_outputs(&mut self, geometry: &Geometry, dot: bool) {
        let Geometry { group, output, .. } = *geometry;
        self.d.prepare(group, output);
        if dot {
            self.d_dot.prepare(group, output);
        }
    }
}

/// Padded copies of some images. Whoever fills them leaves the zeros around as they are, so that
/// these need not be written again while the shape stays.
#[derive(Debug, Clone)]
struct Copies<F> {
    values: Vec<F>,
    shape: Option<(usize, Placement)>,
}

impl<F> Default for Copies<F> {
    fn default() -> Self {
        Self { values: vec![], shape: None }
    }
}

impl<F: Real> Copies<F> {
    fn prepare(&mut self, group: usize, place: Placement) {
        if self.shape != Some((group, place)) {
            if place.is_padded {
                self.values.clear();
            }
            grow(&mut self.values, group * place.image);
            self.shape = Some((group, place));
        }
    }

    /// The first `count` images.
    fn images(&mut self, count: usize, place: Placement) -> &mut [F] {
        &mut self.values[..count * place.image]
    }

    /// One image without padding.
    fn dense(&mut self, len: usize) -> &mut [F] {
        self.shape = None;
        grow(&mut self.values, len);
        &mut self.values[..len]
    }
}

impl<F: Real> Engine<F> {
    /// An engine in training mode, without a batch yet.
    pub fn new(network: &Arc<Network>, loss: Loss) -> Self {
        Self {
            network: Arc::clone(network),
            loss,
            mode: BatchNormMode::Training,
            batch: None,
            buffers: network.initial_buffers(),
            work: Work::new(network),
            fresh_gradient: false,
            linearized: None,
        }
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Whether loss, gradient and products look at the batch's statistics or at the running ones.
    pub fn set_mode(&mut self, mode: BatchNormMode) {
        self.mode = mode;
        self.forget();
    }

    /// Outputs in evaluation mode, one example after the other.
    pub fn outputs(&mut self, theta: &[F], inputs: &[F]) -> Vec<F> {
        self.forget();
        let len: usize = self.network.input_shape().iter().product();
        assert_eq!(inputs.len() % len, 0, "inputs of {len} numbers each");
        let together = self.work.examples.max(EVALUATED_TOGETHER) * len;
        let mut outputs = Vec::new();
        for inputs in inputs.chunks(together) {
            self.work.resize(&self.network, inputs.len() / len);
            self.work.value.raw[0][..inputs.len()].copy_from_slice(inputs);
            self.forward(theta, BatchNormMode::Evaluation);
            outputs.extend_from_slice(&self.answers());
        }
        self.reload();
        outputs
    }

    /// Loss and right answers in evaluation mode.
    pub fn evaluate(&mut self, theta: &[F], batch: &Batch<F>) -> Evaluation {
        let outputs = self.network.outputs();
        let answers = self.outputs(theta, &batch.inputs);
        let examples = answers.len() / outputs;
        let mut unused = vec![F::default(); outputs];
        let mut total = 0.0;
        let (mut right, mut classes) = (Vec::new(), Vec::new());
        for (example, answer) in answers.chunks_exact(outputs).enumerate() {
            let target = batch.targets.of(example, outputs);
            total += self.loss.example(answer, target, 1.0, &mut unused);
            if let Some(is_right) = self.loss.is_right(answer, target) {
                right.push(is_right);
                classes.push(self.loss.class_of_answer(answer) as u32);
            }
        }
        Evaluation { loss: total / examples as f64, right, classes }
    }

    /// For each example of the batch whether the last loss or gradient found its class; empty where
    /// targets are no classes.
    pub fn right_answers(&self) -> Vec<bool> {
        let batch = self.current();
        let outputs = self.network.outputs();
        let answers = self.answers();
        let each = answers.chunks_exact(outputs).enumerate();
        each.filter_map(|(i, x)| self.loss.is_right(x, batch.targets.of(i, outputs))).collect()
    }

    /// The loss that the last gradient or loss belongs to.
    fn batch_loss(&self) -> f64 {
        self.work.losses.iter().sum::<f64>() / self.work.losses.len() as f64
    }

    /// Puts the batch's inputs back where an evaluation has been.
    fn reload(&mut self) {
        let Some(batch) = &self.batch else { return };
        self.work.resize(&self.network, batch.targets.len(self.network.outputs()));
        self.work.value.raw[0][..batch.inputs.len()].copy_from_slice(&batch.inputs);
    }

    fn forget(&mut self) {
        self.fresh_gradient = false;
        self.linearized = None;
    }

    fn current(&self) -> Arc<Batch<F>> {
        Arc::clone(self.batch.as_ref().expect("a batch is set before it is used"))
    }
}

impl<F: Real> Objective<F> for Engine<F> {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.network.len()
    }

    fn loss(&mut self, theta: &[F]) -> Result<f64, Infallible> {
        self.forget();
        self.forward(theta, self.mode);
        self.measure();
        Ok(self.batch_loss())
    }

    fn gradient(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Infallible> {
        self.forget();
        self.work.keep = false;
        self.forward(theta, self.mode);
        self.measure();
        self.backward(theta, out);
        self.fresh_gradient = self.mode == BatchNormMode::Training;
        Ok(())
    }

    fn linearize(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Infallible> {
        self.forget();
        self.work.keep = true;
        self.forward(theta, self.mode);
        self.measure();
        self.backward(theta, out);
        self.linearized = Some(theta.to_vec());
        self.fresh_gradient = self.mode == BatchNormMode::Training;
        Ok(())
    }

    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]) -> Result<(), Infallible> {
        if self.linearized.as_deref() != Some(theta) {
            self.linearize(theta, out)?;
            // A product leaves no trace.
            self.fresh_gradient = false;
        }
        self.forward_dot(theta, v);
        self.measure_dot();
        self.backward_dot(theta, v, out);
        Ok(())
    }

    fn is_quadratic(&self) -> bool {
        self.network.is_quadratic(self.loss)
    }
}

impl<F: Real> StochasticObjective<F> for Engine<F> {
    type Batch = Batch<F>;

    /// # Panics
    ///
    /// If inputs or targets do not fit the network.
    fn set_batch(&mut self, batch: &Arc<Batch<F>>) {
        self.network.check_batch(batch);
        self.forget();
        // The same batch at every step need not be copied again.
        if self.batch.as_ref().is_none_or(|own| !Arc::ptr_eq(own, batch)) {
            self.batch = Some(Arc::clone(batch));
            self.reload();
        }
    }

    fn buffers(&self) -> &[F] {
        &self.buffers
    }

    fn load_buffers(&mut self, buffers: &[F]) {
        self.forget();
        self.buffers.copy_from_slice(buffers);
    }

    fn update_running_stats(&mut self) {
        if self.buffers.is_empty() {
            return;
        }
        assert!(self.fresh_gradient, "running statistics follow a gradient in training mode");
        self.fresh_gradient = false;
        for (layer, coefficients) in self.network.layers.iter().zip(&self.work.norms) {
            if let Some(norm) = &layer.norm {
                let count = self.work.examples * layer.shape[0] * layer.shape[1];
                coefficients.update_running_stats(norm, count, &mut self.buffers);
            }
        }
    }
}

impl<F: Real> TrainableModel<F> for Engine<F> {
    fn last_loss(&mut self, _: &[F]) -> Result<f64, Infallible> {
        Ok(self.batch_loss())
    }

    fn right_answers(&self) -> Vec<bool> {
        self.right_answers()
    }

    fn layers(&self) -> Vec<Range<usize>> {
        self.network().layers()
    }

    fn evaluate(&mut self, theta: &[F], batch: &Arc<Batch<F>>) -> Result<Evaluation, Infallible> {
        Ok(self.evaluate(theta, batch))
    }
}

impl<F: Real> Work<F> {
    fn new(network: &Network) -> Self {
        Self {
            examples: 0,
            chunk: 0,
            geometries: vec![],
            value: Part::default(),
            dot: Part::default(),
            norms: network.layers.iter().map(Coefficients::new).collect(),
            losses: vec![],
            sums: vec![],
            bias_sums: vec![],
            weights: Weights::default(),
            weights_dot: Weights::default(),
            partials: vec![],
            gathered: Gathered::default(),
            scratch: Pool::default(),
            recycled: recycled_places(network),
            keep: false,
        }
    }

    /// Makes room for a batch of another size.
    fn resize(&mut self, network: &Network, examples: usize) {
        if self.examples == examples {
            return;
        }
        self.examples = examples;
        self.chunk = examples.div_ceil(CHUNKS).max(SMALLEST_CHUNK);
        let layers = &network.layers;
        self.geometries = layers
            .iter()
            .map(|layer| match &layer.op {
                Op::Conv(conv) if !conv.is_dense(&layers[layer.inputs[0]], layer) => {
                    let from = &layers[layer.inputs[0]];
                    Some(Geometry::new::<F>(conv, from, layer, self.chunk.min(examples), examples))
                }
                _ => None,
            })
            .collect();
        make_room(&mut self.value.raw, network, examples);
    }

    fn kind<'a>(&self, network: &'a Network, l: usize) -> Kind<'a> {
        match (&network.layers[l].op, &self.geometries[l]) {
            (Op::Conv(conv), None) => Kind::Dense(conv),
            (Op::Conv(conv), Some(geometry)) if geometry.shares_weights => Kind::Wide(conv),
            (Op::Conv(conv), Some(_)) => Kind::Conv(conv),
            _ => Kind::Other,
        }
    }

    /// Where `u` of a layer lies, or with `dot` its derivative, which is never kept.
    fn place(&self, layer: usize, dot: bool) -> usize {
        if self.keep && !dot { layer } else { self.recycled[layer] }
    }

    /// Reads images of a layer into padded copies.
    fn read(
        &self,
        network: &Network,
        reading: Reading,
        layer: usize,
        images: &Range<usize>,
        place: Placement,
        out: &mut [F],
    ) {
        let of = &network.layers[layer];
        read(reading, of, &self.norms[layer], self.stored(layer, of.len(), images), place, out);
    }

    /// Reads values of a layer and their derivatives, or gradients and theirs, into padded copies.
    fn read_both(
        &self,
        network: &Network,
        reading: Reading,
        layer: usize,
        images: &Range<usize>,
        place: Placement,
        outs: [&mut [F]; 2],
    ) {
        let of = &network.layers[layer];
        let stored = self.stored(layer, of.len(), images);
        read_both(reading, of, &self.norms[layer], stored, place, outs);
    }

    /// What is stored of some images of a layer that has `len` numbers an image.
    fn stored(&self, layer: usize, len: usize, images: &Range<usize>) -> Stored<'_, F> {
        let images = images.start * len..images.end * len;
        let (u, u_dot) = (self.place(layer, false), self.place(layer, true));
        Stored {
            z: cut(&self.value.raw, layer, &images),
            z_dot: cut(&self.dot.raw, layer, &images),
            u: cut(&self.value.u, u, &images),
            u_dot: cut(&self.dot.u, u_dot, &images),
        }
    }
}

/// Room for the raw values of a batch; it only grows.
fn make_room<F: Real>(raw: &mut Vec<Vec<F>>, network: &Network, examples: usize) {
    raw.resize(network.layers.len(), Vec::new());
    for (raw, layer) in raw.iter_mut().zip(&network.layers) {
        grow(raw, examples * layer.len());
    }
}

/// Makes a vector at least so long.
fn grow<F: Real>(values: &mut Vec<F>, len: usize) {
    if values.len() < len {
        values.resize(len, F::default());
    }
}

/// A part of one of several vectors; nothing where it is not there.
fn cut<'a, F>(list: &'a [Vec<F>], at: usize, range: &Range<usize>) -> &'a [F] {
    list.get(at).and_then(|values| values.get(range.clone())).unwrap_or_default()
}

/// For each layer a place for its `u`, given up once the layer's own backward pass is done.
fn recycled_places(network: &Network) -> Vec<usize> {
    let layers = &network.layers;
    let mut places = vec![usize::MAX; layers.len()];
    let mut free: Vec<usize> = Vec::new();
    let mut count = 0;
    for layer in (0..layers.len()).rev() {
        for node in std::iter::once(layer).chain(layers[layer].inputs.iter().copied()) {
            if places[node] == usize::MAX {
                places[node] = free.pop().unwrap_or_else(|| {
                    count += 1;
                    count - 1
                });
            }
        }
        free.push(places[layer]);
    }
    places
}
