//! Naive twins: every op once more, written from its definition with plain loops, and compared.
//!
//! An op is tested alone, through the engine as users see it. Two tricks make what goes in and what
//! comes out visible, without rounding anything:
//!
//! ```text
//! images as parameters   Example i is a single 1 in channel i, in the middle of (2H−1)×(2W−1) zeros.
//!                        An H×W convolution makes image i of it, number by number a weight, and
//!                        the gradient by these weights is the gradient by the images.
//! a lens                 A linear layer of zeros at the end whose output j has the gradient 1 on
//!                        example j and 0 on the others: the gradient by its weights is the value
//!                        in front of it.
//! ```

mod conv;
mod linear;
mod loss;
mod norm;
mod pool;
mod read;

use std::sync::Arc;

use super::{Batch, BatchNormMode, Builder, Engine, Loss, Node, Padding, Targets};
use crate::Real;
use crate::objective::{Objective, StochasticObjective};
use crate::rng::Stream;

/// Standard normal numbers.
pub(super) fn normal<F: Real>(count: usize, seed: u64) -> Vec<F> {
    let stream = Stream::new(seed, 0);
    (0..count as u64).map(|i| F::of(stream.normal(i))).collect()
}

/// Integers from −4 to 4: sums of their products are exact.
pub(super) fn integers<F: Real>(count: usize, seed: u64) -> Vec<F> {
    let stream = Stream::new(seed, 0);
    (0..count as u64).map(|i| F::of(f64::from(stream.block(i)[0] % 9) - 4.0)).collect()
}

pub(super) fn assert_same_bits<F: Real>(what: &str, ours: &[F], twin: &[F]) {
    assert_eq!(ours.len(), twin.len(), "{what}: lengths");
    let bits = |value: F| {
        let mut bits = Vec::new();
        value.write_bits(&mut bits);
        bits
    };
    for (i, (&ours, &twin)) in ours.iter().zip(twin).enumerate() {
        assert_eq!(bits(ours), bits(twin), "{what}: {ours:e}, not {twin:e}, at {i}");
    }
}

/// `n u/(1 − n u)`: the relative error of `n` roundings, one after the other.
fn gamma(n: usize, u: f64) -> f64 {
    let n = n as f64 * u;
    n / (1.0 - n)
}

/// The gradient of the half squared error by the outputs.
fn error_gradient<F: Real>(outputs: &[F], targets: &[F], examples: usize) -> Vec<F> {
    let share = 1.0 / examples as f64;
    let each = outputs.iter().zip(targets);
    each.map(|(x, y)| F::of((x.to_f64() - y.to_f64()) * share)).collect()
}

/// Layers alone, behind images that are parameters, with the half squared error of their output.
struct Alone<F> {
    engine: Engine<F>,
    examples: usize,
    image: [usize; 3],
}

/// A gradient, or a product with the Hessian.
struct Gradient<F> {
    images: Vec<F>,
    parameters: Vec<F>,
}

impl<F: Real> Alone<F> {
    /// `layers` are put behind the images.
    fn new(
        examples: usize,
        image: [usize; 3],
        layers: impl FnOnce(&mut Builder, Node) -> Node,
    ) -> Self {
        let [height, width, channels] = image;
        let mut net = Builder::new([2 * height - 1, 2 * width - 1, examples]);
        let (input, kernel) = (net.input(), [height, width]);
        let images = net.conv(input, "images", channels, kernel, 1, Padding::Valid, false);
        layers(&mut net, images);
        Self { engine: Engine::new(&Arc::new(net.build()), Loss::HalfMse), examples, image }
    }

    /// In evaluation mode.
    fn outputs(&mut self, images: &[F], parameters: &[F]) -> Vec<F> {
        let theta = self.theta(images, parameters);
        let inputs = self.inputs();
        self.engine.outputs(&theta, &inputs)
    }

    fn gradient(&mut self, images: &[F], parameters: &[F], targets: &[F]) -> Gradient<F> {
        let theta = self.theta(images, parameters);
        self.set_targets(targets);
        let mut out = vec![F::default(); theta.len()];
        self.engine.gradient(&theta, &mut out);
        self.split(&out)
    }

    /// Along `direction`, images alone.
    fn product(
        &mut self,
        images: &[F],
        parameters: &[F],
        targets: &[F],
        direction: &[F],
    ) -> Gradient<F> {
        let theta = self.theta(images, parameters);
        let direction = self.theta(direction, &vec![F::default(); parameters.len()]);
        self.set_targets(targets);
        let mut out = vec![F::default(); theta.len()];
        self.engine.hessian_vector(&theta, &direction, &mut out);
        self.split(&out)
    }

    fn set_targets(&mut self, targets: &[F]) {
        let targets = Targets::Reals(targets.to_vec());
        self.engine.set_batch(&Arc::new(Batch { inputs: self.inputs(), targets }));
    }

    fn inputs(&self) -> Vec<F> {
        let ([height, width, _], examples) = (self.image, self.examples);
        let pixels = (2 * height - 1) * (2 * width - 1);
        let middle = (height - 1) * (2 * width - 1) + width - 1;
        let mut inputs = vec![F::default(); examples * pixels * examples];
        for example in 0..examples {
            inputs[(example * pixels + middle) * examples + example] = F::of(1.0);
        }
        inputs
    }

    fn theta(&self, images: &[F], parameters: &[F]) -> Vec<F> {
        let mut theta = vec![F::default(); images.len()];
        for (i, value) in images.iter().enumerate() {
            theta[self.weight_of(i)] = *value;
        }
        theta.extend_from_slice(parameters);
        theta
    }

    fn split(&self, out: &[F]) -> Gradient<F> {
        let len = self.examples * self.image.iter().product::<usize>();
        let images = (0..len).map(|i| out[self.weight_of(i)]).collect();
        Gradient { images, parameters: out[len..].to_vec() }
    }

    /// Where number `i` of the images (image, row, column, channel) lies among the weights
    /// (channel, image, row and column backwards).
    fn weight_of(&self, i: usize) -> usize {
        let [height, width, channels] = self.image;
        let (pixel, channel) = (i / channels, i % channels);
        let (image, pixel) = (pixel / (height * width), pixel % (height * width));
        (channel * self.examples + image + 1) * height * width - 1 - pixel
    }
}

/// Values behind `layers` in training mode, seen through a lens.
fn value_in_training<F: Real>(
    examples: usize,
    image: [usize; 3],
    layers: impl FnOnce(&mut Builder, Node) -> Node,
    images: &[F],
    parameters: &[F],
) -> Vec<F> {
    assert!(examples.is_power_of_two(), "the lens divides by {examples}");
    let mut shape = [0; 3];
    let mut alone = Alone::new(examples, image, |net, x| {
        let x = layers(net, x);
        shape = net.shape(x);
        net.linear(x, "lens", examples, false)
    });
    let [height, width, channels] = shape;
    let len = height * width * channels;
    let with_lens = [parameters, &vec![F::default(); examples * len]].concat();
    let mut targets = vec![F::default(); examples * examples];
    (0..examples).for_each(|i| targets[i * examples + i] = F::of(-(examples as f64)));
    let seen = alone.gradient(images, &with_lens, &targets).parameters;
    let seen = &seen[parameters.len()..];
    let place = |i: usize| {
        let (pixel, channel) = (i / channels, i % channels);
        let (image, pixel) = (pixel / (height * width), pixel % (height * width));
        seen[(image * channels + channel) * height * width + pixel]
    };
    (0..examples * len).map(place).collect()
}

#[test]
fn images_pass_as_parameters_without_rounding() {
    let (examples, image) = (4, [3, 5, 2]);
    let same = |net: &mut Builder, x: Node| net.subsample(x, 1, 2);
    let images = normal::<f32>(4 * 30, 1);
    let mut alone = Alone::new(examples, image, same);
    assert_same_bits("outputs", &alone.outputs(&images, &[]), &images);
    let targets = normal(images.len(), 2);
    let gradient = alone.gradient(&images, &[], &targets);
    assert_same_bits("gradient", &gradient.images, &error_gradient(&images, &targets, examples));
    assert_same_bits("lens", &value_in_training(examples, image, same, &images, &[]), &images);
    alone.engine.set_mode(BatchNormMode::Evaluation);
    assert_same_bits("again", &alone.gradient(&images, &[], &targets).images, &gradient.images);
}
