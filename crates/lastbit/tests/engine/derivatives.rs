//! Gradients and Hessian-vector products of whole networks against differences of the loss and of
//! the gradient, in double precision.

use lastbit::activation::Activation;
use lastbit::nn::zoo::{self, Cnn, Head, Pooling, Shortcut};
use lastbit::nn::{BatchNormMode, Builder, Engine, Loss, Network, Padding};
use lastbit::objective::Objective;
use lastbit::reduce::{distance, norm};
use lastbit::signal::normal;

use crate::random::engine;

/// Small enough that no maximum changes its place on the way in the networks below.
const STEP: f64 = 1e-4;
const SWISH: Activation = Activation::Swish { beta: 1.3 };

fn gradient(engine: &mut Engine<f64>, theta: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; theta.len()];
    engine.gradient(theta, &mut out);
    out
}

fn along(theta: &[f64], v: &[f64], step: f64) -> Vec<f64> {
    theta.iter().zip(v).map(|(t, v)| t + step * v).collect()
}

/// Fourth-order differences: truncation h⁴ f⁽⁵⁾/30, rounding about 1e-15/h of the function's size.
fn slope<T>(h: f64, mut at: impl FnMut(f64) -> T, combine: impl Fn([T; 4], f64) -> T) -> T {
    combine([at(-2.0 * h), at(-h), at(h), at(2.0 * h)], h)
}

fn check(name: &str, network: Network, loss: Loss, examples: usize) {
    check_in(name, network, loss, examples, BatchNormMode::Training);
}

fn check_in(name: &str, network: Network, loss: Loss, examples: usize, mode: BatchNormMode) {
    let (mut engine, theta, _) = engine(network, loss, examples);
    engine.set_mode(mode);
    let v = normal(theta.len(), 5);
    let scale = 1.0 / norm(&v);
    let v: Vec<f64> = v.iter().map(|v| v * scale).collect();

    let g = gradient(&mut engine, &theta);
    let exact: f64 = g.iter().zip(&v).map(|(g, v)| g * v).sum();
    let measured = slope(
        STEP,
        |step| engine.loss(&along(&theta, &v, step)).unwrap(),
        |[a, b, c, d], h| (a - 8.0 * b + 8.0 * c - d) / (12.0 * h),
    );
    let error = (exact - measured).abs() / norm(&g);
    assert!(error < 1e-9, "{name}: gradient off by {error:e}");

    let mut product = vec![0.0; theta.len()];
    engine.hessian_vector(&theta, &v, &mut product);
    let measured = slope(
        STEP,
        |step| gradient(&mut engine, &along(&theta, &v, step)),
        |[a, b, c, d], h| {
            let each = a.iter().zip(&b).zip(c.iter().zip(&d));
            each.map(|((a, b), (c, d))| (a - 8.0 * b + 8.0 * c - d) / (12.0 * h)).collect()
        },
    );
    let error = distance(&product, &measured) / norm(&product);
    assert!(error < 1e-8, "{name}: Hessian-vector product off by {error:e}");

    // A second product at the same place reuses the linearization and has the same bits.
    let mut again = vec![0.0; theta.len()];
    engine.hessian_vector(&theta, &v, &mut again);
    assert_eq!(product, again, "{name}: not repeatable");
}

fn cnn(input: [usize; 3]) -> Cnn {
    Cnn {
        input,
        channels: vec![5, 7],
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
        bias: true,
        batch_norm: false,
        activation: SWISH,
        pooling: Pooling::None,
        head: Head::GlobalLinear,
        outputs: 4,
    }
}

#[test]
fn perceptrons() {
    let mlp = |activation| zoo::mlp([2, 3, 2], &[9, 17], 5, activation);
    check("tanh", mlp(Activation::Tanh), Loss::CrossEntropy, 7);
    check("sigmoid", mlp(Activation::Sigmoid), Loss::HalfMse, 70);
    check("swish", mlp(SWISH), Loss::BinaryCrossEntropy, 3);
}

#[test]
fn convolutions_of_every_kind() {
    let loss = Loss::CrossEntropy;
    for (kernel, stride, padding) in [
        (3, 1, Padding::Same),
        (3, 2, Padding::Same),
        (3, 1, Padding::Valid),
        (2, 1, Padding::Same),
        (2, 2, Padding::Valid),
        (4, 2, Padding::Same),
        (5, 2, Padding::Valid),
        (1, 2, Padding::Same),
        (3, 3, Padding::Same),
    ] {
        let mut net = Builder::new([11, 10, 3]);
        let name = format!("kernel {kernel}, stride {stride}, {padding:?}");
        let input = net.input();
        let x = net.conv(input, "a", 6, [3, 2], 1, padding, true);
        let x = net.activation(x, Activation::Tanh);
        let x = net.conv(x, "b", 18, [kernel; 2], stride, padding, stride == 1);
        let x = net.activation(x, SWISH);
        let x = net.global_average(x);
        net.linear(x, "c", 3, true);
        check(&name, net.build(), loss, 6);
    }
}

#[test]
fn pooling_and_heads() {
    for pooling in [Pooling::Max, Pooling::Average] {
        let net = Cnn { pooling, head: Head::Linear, ..cnn([9, 8, 2]) };
        check("pooling", net.build(), Loss::CrossEntropy, 5);
    }
    let net = Cnn { head: Head::Mean, channels: vec![1, 1], bias: false, ..cnn([8, 8, 1]) };
    check("mean", net.build(), Loss::BinaryCrossEntropy, 9);
    let net = Cnn { head: Head::Mean, ..cnn([8, 8, 1]) };
    check("mean of channels", net.build(), Loss::BinaryCrossEntropy, 9);
}

#[test]
fn batch_norm_in_both_modes() {
    for mode in [BatchNormMode::Training, BatchNormMode::Evaluation] {
        let net = Cnn { batch_norm: true, ..cnn([7, 9, 3]) };
        check_in("batch norm", net.build(), Loss::CrossEntropy, 6, mode);
        let net = Cnn { batch_norm: true, pooling: Pooling::Max, ..cnn([8, 8, 3]) };
        check_in("with pooling", net.build(), Loss::HalfMse, 6, mode);
    }
    // Behind the output, behind a sum and behind an activation.
    let mut net = Builder::new([4, 4, 2]);
    let input = net.input();
    let a = net.conv(input, "a", 3, [3, 3], 1, Padding::Same, false);
    let b = net.activation(a, SWISH);
    let b = net.batch_norm(b, "b");
    let sum = net.add(b, b);
    let sum = net.batch_norm(sum, "sum");
    let x = net.activation(sum, Activation::Tanh);
    let x = net.linear(x, "c", 3, false);
    net.batch_norm(x, "d");
    check("odd places", net.build(), Loss::CrossEntropy, 11);
}

#[test]
fn residual_networks() {
    for shortcut in [Shortcut::Conv, Shortcut::Plain] {
        let net = zoo::resnet(8, shortcut, SWISH, [8, 8, 3], 10);
        check("resnet", net, Loss::CrossEntropy, 6);
    }
}

#[test]
fn vgg_networks() {
    check("vgg", zoo::vgg(11, 4, true, SWISH, [32, 32, 1], 3), Loss::CrossEntropy, 5);
}
