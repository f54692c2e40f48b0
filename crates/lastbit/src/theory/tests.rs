//! The theory against the engine, against definitions and against closed forms.

use std::sync::Arc;

use super::observed::{Model, Observed};
use super::*;
use crate::activation::Activation;
use crate::krylov::{EigenOptions, eigenpairs};
use crate::nn::zoo::{self, Cnn, Head};
use crate::nn::{Batch, Engine, Init, Loss, Padding, Targets};
use crate::objective::{Objective, StochasticObjective};
use crate::optim::direction::Optimizer;
use crate::pde::one_layer::Pooling;
use crate::reduce::{max_abs, norm, sum_by};
use crate::rng::Stream;
use crate::signal::checkerboard;
use crate::training::GradientDescent;
use crate::verdict::{Horizon, Verdict, judge};

const SWISH: Activation = Activation::Swish { beta: 1.0 };

/// A stack on random images of 9 x 8 pixels, with both labels, and the engine that is the same.
struct Case {
    stack: Stack,
    theta: Vec<f64>,
    images: Vec<Vec<f64>>,
    labels: Vec<u32>,
    engine: Engine<f64>,
}

const ALPHA: f64 = 0.01;

impl Case {
    fn new(channels: &[usize], input_channels: usize, padding: Padding, seed: u64) -> Self {
        let (height, width) = (9, 8);
        let network = Arc::new(
            Cnn {
                input: [height, width, input_channels],
                channels: channels.to_vec(),
                kernel: 3,
                stride: 1,
                padding,
                bias: false,
                batch_norm: false,
                activation: SWISH,
                pooling: zoo::Pooling::None,
                head: Head::Mean,
                outputs: 1,
            }
            .build(),
        );
        let input = [input_channels, height, width];
        let mut stack = Stack::new(input, channels, [3, 3], padding, SWISH, Pooling::Mean);
        stack.alpha = ALPHA;
        let theta = network.initial(Init::Normal { sigma: 0.7 }, seed);
        let pixels = input.iter().product::<usize>() as u64;
        let image = |n: u64| {
            let stream = Stream::new(seed, 100 + n);
            (0..pixels).map(|i| stream.uniform(i)).collect()
        };
        let images: Vec<Vec<f64>> = (0..6).map(image).collect();
        let labels = vec![0, 1, 1, 0, 1, 0];
        let mut engine = Engine::new(&network, Loss::BinaryCrossEntropy);
        let interleaved = |image: &Vec<f64>| {
            let plane = height * width;
            let pixel = move |i: usize, image: &[f64]| {
                image[i % input_channels * plane + i / input_channels]
            };
            (0..image.len()).map(|i| pixel(i, image)).collect::<Vec<f64>>()
        };
        let inputs = images.iter().flat_map(interleaved).collect();
        engine.set_batch(&Arc::new(Batch { inputs, targets: Targets::Classes(labels.clone()) }));
        Self { stack, theta, images, labels, engine }
    }

    fn all() -> impl Iterator<Item = Self> {
        let shapes: [(&[usize], usize); 5] =
            [(&[1], 1), (&[1, 1], 1), (&[1, 1, 1], 1), (&[2, 3], 2), (&[3, 1, 2], 1)];
        shapes.into_iter().zip(1..).flat_map(|((channels, inputs), seed)| {
            [Padding::Valid, Padding::Same]
                .map(|padding| Self::new(channels, inputs, padding, seed))
        })
    }

    fn examples(&self) -> Vec<Example<'_>> {
        let pairs = self.images.iter().zip(&self.labels);
        pairs.map(|(image, label)| Example { image, label: f64::from(*label) }).collect()
    }

    fn restricted(&self, i: usize) -> Restricted<f64, Engine<f64>> {
        Restricted::new(self.engine.clone(), self.theta.clone(), self.stack.range(i), ALPHA)
    }
}

fn direction(len: usize) -> Vec<f64> {
    let stream = Stream::new(5, 5);
    (0..len as u64).map(|i| stream.normal(i)).collect()
}

/// Numbers below about 1, formed by sums of some hundred terms in another order and with a fused
/// multiply-add: 1e-12 is 40 times their rounding.
const CLOSE: f64 = 1e-12;

fn assert_close(ours: &[f64], theirs: &[f64], what: &str) {
    let apart: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
    let scale = norm(theirs).max(1e-3);
    assert!(norm(&apart) <= CLOSE * scale, "{what}: {:e} of {scale:e}", norm(&apart));
}

#[test]
fn the_theorem_is_the_gradient_of_the_engine() {
    for mut case in Case::all() {
        let ours = case.stack.gradient(&case.theta, &case.examples());
        let mut theirs = vec![0.0; case.theta.len()];
        case.engine.gradient(&case.theta, &mut theirs);
        theirs.iter_mut().zip(&case.theta).for_each(|(g, k)| *g += ALPHA * k);
        assert_close(&ours, &theirs, &format!("{:?}", case.stack.layers));
    }
}

#[test]
fn a_bracket_is_how_the_output_moves_with_a_value_inside() {
    let case = Case::new(&[1, 1, 1], 1, Padding::Same, 3);
    let example = case.examples()[0];
    let pass = case.stack.pass(&case.theta, example);
    // The layers behind the first, as a stack of their own that reads its output.
    let mut behind = case.stack.clone();
    behind.layers.remove(0);
    let theta = &case.theta[case.stack.range(1).start..];
    let inside = &pass.inputs[1];
    let output = |values: &[f64]| {
        let pass = behind.pass(theta, Example { image: values, label: 0.0 });
        pass.maps[1].iter().map(|c| SWISH.at(*c)[0]).sum::<f64>()
    };
    for x in [0, 7, 30, 71] {
        let h = 1e-5;
        let moved = |h: f64| {
            let mut values = inside.clone();
            values[x] += h;
            output(&values)
        };
        let slope = (moved(h) - moved(-h)) / (2.0 * h);
        // Truncation h²/6 times a third derivative of some tens, rounding 72 u/h.
        assert!((slope - pass.brackets[0][x]).abs() < 1e-8, "{slope} {}", pass.brackets[0][x]);
    }
}

#[test]
fn the_three_parts_and_the_decay_are_the_block_of_the_hessian() {
    for case in Case::all() {
        for i in 0..case.stack.layers.len() {
            let v = direction(case.stack.layers[i].weights());
            let parts = case.stack.second_derivative(&case.theta, &case.examples(), i, &v);
            let sum =
                |k: usize| parts.gauss_newton[k] + parts.own[k] + parts.later[k] + ALPHA * v[k];
            let ours: Vec<f64> = (0..v.len()).map(sum).collect();
            let mut block = case.restricted(i);
            let mut theirs = vec![0.0; v.len()];
            let start = block.start().to_vec();
            block.hessian_vector(&start, &v, &mut theirs);
            assert_close(&ours, &theirs, &format!("layer {i} of {:?}", case.stack.layers));
            // Nothing bends behind the last layer.
            let is_last = i + 1 == case.stack.layers.len();
            assert_eq!(is_last, norm(&parts.later) == 0.0);
        }
    }
}

#[test]
fn the_complete_models_are_the_parts() {
    for case in Case::all() {
        for i in 0..case.stack.layers.len() {
            let v = direction(case.stack.layers[i].weights());
            let parts = case.stack.second_derivative(&case.theta, &case.examples(), i, &v);
            let observed = Observed::new(&case.stack, &case.theta, i, &case.examples());
            let mut found = vec![0.0; v.len()];
            observed.multiply(Model::OwnLayer, &v, &mut found);
            assert_close(&found, &parts.own, "own");
            observed.multiply(Model::GaussNewton, &v, &mut found);
            assert_close(&found, &parts.gauss_newton, "Gauss-Newton");
            let both: Vec<f64> =
                parts.own.iter().zip(&parts.gauss_newton).map(|(a, b)| a + b).collect();
            observed.multiply(Model::AllButLater, &v, &mut found);
            assert_close(&found, &both, "both");
        }
    }
}

#[test]
fn at_kernels_of_zero_the_theory_is_exact_in_the_last_layer() {
    // c = 0 everywhere: r' = 1/2 and r'' = β/2 are no approximation, and B = 1 behind the last layer.
    let case = Case::new(&[1], 1, Padding::Same, 4);
    let theta = vec![0.0; case.theta.len()];
    let observed = Observed::new(&case.stack, &theta, 0, &case.examples());
    let mut restricted = Restricted::new(case.engine.clone(), theta.clone(), 0..9, ALPHA);
    let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| restricted.hessian_vector(&theta, v, out);
    let options = EigenOptions::both_ends(1e-13, 9);
    let Ok(block) = eigenpairs(&vec![0.0; 9], vec![], options, multiply);
    let moving = observed.predict(Model::MovingResidual);
    assert!((moving.z.max - block.lambda_max()).abs() < CLOSE, "{moving:?}");
    assert!((moving.z.min - block.lambda_min()).abs() < CLOSE, "{moving:?}");
    let [theory, own] = [Model::PerImage, Model::OwnLayer].map(|m| observed.predict(m).z);
    assert!((theory.max - own.max).abs() < CLOSE && (theory.min - own.min).abs() < CLOSE);
    assert_eq!((observed.gamma().mean, observed.gamma().std), (1.0, 0.0));
}

#[test]
fn with_constants_throughout_later_layers_add_gamma_squared() {
    // Kernels of one pixel, an image of one brightness, a first kernel so small that every activation
    // is at zero: then γ = K_2/2, Γ = γ + γ², and the second derivative by K_1 is a p (β/2) Γ e with
    // e = Σ I², plus the Gauss-Newton part.
    let theta = [1e-5, -3.0];
    let image = [0.5; 12];
    let stack = Stack::new([1, 3, 4], &[1, 1], [1, 1], Padding::Valid, SWISH, Pooling::Mean);
    let examples = [Example { image: &image, label: 0.0 }];
    let gamma = theta[1] / 2.0;
    let observed = Observed::new(&stack, &theta, 0, &examples);
    let a = stack.pass(&theta, examples[0]).residual;
    let parts = stack.second_derivative(&theta, &examples, 0, &[1.0]);
    let expected = |gamma: f64| a / 12.0 * 0.5 * gamma * 12.0 * 0.25;
    // r' moves by c/2 and r'' by c²/4 (r''' vanishes at 0); c is below 2e-5.
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-4 * expected.abs();
    assert!(near(observed.gamma().mean, gamma));
    assert!(near(parts.own[0], expected(gamma)), "{parts:?}");
    assert!(near(parts.later[0], expected(gamma * gamma)), "{parts:?}");
    let mut found = [0.0];
    observed.multiply(Model::LaterLayers, &[1.0], &mut found);
    let whole = parts.own[0] + parts.later[0] + parts.gauss_newton[0];
    assert!(near(found[0], whole), "{found:?} {whole}");
}

#[test]
fn one_layer_on_a_checkerboard_has_the_bounds_of_the_window() {
    // eig_max of a 3 x 3 window on n pixels a side is (3 (n − 2))², pooled by the sum; a = ŷ − 1.
    let (n, theta) = (16, [0.0; 9]);
    let image = checkerboard(n, n);
    let input = [1, n, n];
    let stack = Stack::new(input, &[1], [3, 3], Padding::Valid, SWISH, Pooling::Sum);
    let examples = [Example { image: &image, label: 1.0 }];
    let eig = ((3 * (n - 2)) as f64).powi(2);
    let found = Observed::new(&stack, &theta, 0, &examples).predict(Model::PerImage);
    // ŷ = 1/2 at K = 0, so q = a β/2 = −1/4.
    assert!((found.alpha_min / (0.25 * eig) - 1.0).abs() < 1e-12, "{found:?}");
    assert_eq!(found.dt, None);
    let strong = Stack { alpha: eig, ..stack };
    let found = Observed::new(&strong, &theta, 0, &examples).predict(Model::PerImage);
    // The modes without a share of the image have z = α.
    assert!((found.dt.unwrap() / (2.0 / eig) - 1.0).abs() < 1e-12, "{found:?}");
    let ones = [Example { label: 0.0, ..examples[0] }];
    let found = Observed::new(&strong, &theta, 0, &ones).predict(Model::PerImage);
    assert!((found.dt.unwrap() / (2.0 / (1.25 * eig)) - 1.0).abs() < 1e-12, "{found:?}");
}

#[test]
fn the_most_stringent_constant_bounds_what_the_layer_itself_bends() {
    for case in Case::all() {
        for i in 0..case.stack.layers.len() {
            let observed = Observed::new(&case.stack, &case.theta, i, &case.examples());
            let [bound, own] = [Model::Stringent, Model::OwnLayer].map(|m| observed.predict(m).z);
            assert!(bound.max >= own.max, "layer {i}: {bound:?} {own:?}");
        }
    }
}

#[test]
fn a_layer_with_decay_is_stable_up_to_two_over_the_curvature_of_its_minimum() {
    let case = Case::new(&[1, 1], 1, Padding::Same, 2);
    for i in 0..2 {
        let mut layer = case.restricted(i);
        let start = layer.start().to_vec();
        // Long enough for the slowest mode, whose curvature is at least about α.
        let mut run =
            GradientDescent::full_batch(layer.clone(), Optimizer::SGD, 1.0, start.clone());
        for _ in 0..5000 {
            crate::Dynamics::step(&mut run).unwrap();
        }
        let minimum = crate::Dynamics::state(&run).to_vec();
        let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| layer.hessian_vector(&minimum, v, out);
        let options = EigenOptions::both_ends(1e-12, 9);
        let Ok(block) = eigenpairs(&vec![0.0; 9], vec![], options, multiply);
        assert!(block.lambda_min() > 0.0);
        let edge = 2.0 / block.lambda_max();
        for (factor, expected) in [(0.98, true), (1.02, false)] {
            let dt = factor * edge;
            let mut run =
                GradientDescent::full_batch(layer.clone(), Optimizer::SGD, dt, start.clone())
                    .with_scale(max_abs(&start));
            let Ok(judged) = judge(&mut run, Horizon::of(1000), &mut []);
            assert_eq!(
                judged.verdict == Verdict::Stable,
                expected,
                "layer {i}, {factor}: {judged:?}"
            );
        }
        // The others did not move.
        let other = case.stack.range(1 - i);
        assert_eq!(layer.with(&minimum)[other.clone()], case.theta[other]);
        let square = sum_by(9, |k| minimum[k] * minimum[k]);
        assert!(
            (layer.loss(&minimum).unwrap()
                - case.engine.clone().loss(&layer.with(&minimum)).unwrap()
                - 0.5 * ALPHA * square)
                .abs()
                < 1e-15
        );
    }
}
