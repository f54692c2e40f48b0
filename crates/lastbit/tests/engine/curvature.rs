//! Hessians of the engine against closed forms, and what is measured of them against dense matrices.

use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::batches::{Batches, Normalization, Selection};
use lastbit::curvature::empirical_risk::{EmpiricalRisk, WeightedBatches};
use lastbit::curvature::stochastic::{batch_sharpness, density};
use lastbit::data::{Dataset, Inputs, Targets as StoredTargets};
use lastbit::krylov::{EigenOptions, EigenResult, block, eigenpairs};
use lastbit::nn::zoo::{self, Cnn, Head, Pooling};
use lastbit::nn::{Batch, Engine, Init, Loss, Network, Padding, Targets};
use lastbit::objective::{Objective, StochasticObjective};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::schedule::Schedule;
use lastbit::reduce::norm;
use lastbit::rng::Stream;
use lastbit::signal::normal;
use lastbit::training::{Plan, Replica, Trainer, Variant};

use crate::random::engine;

type Matrix = Vec<Vec<f64>>;

/// The Hessian, column by column.
fn dense(n: usize, mut multiply: impl FnMut(&[f64], &mut [f64])) -> Matrix {
    let column = |j: usize| {
        let (mut unit, mut out) = (vec![0.0; n], vec![0.0; n]);
        unit[j] = 1.0;
        multiply(&unit, &mut out);
        out
    };
    (0..n).map(column).collect()
}

fn dense_of(engine: &mut Engine<f64>, theta: &[f64]) -> Matrix {
    dense(theta.len(), |v, out| engine.hessian_vector(theta, v, out).unwrap())
}

/// Eigenvalues by Jacobi's rotations, descending: nothing in common with what is tested.
fn jacobi(matrix: &Matrix) -> Vec<f64> {
    let (mut a, n) = (matrix.clone(), matrix.len());
    let size: f64 = (0..n).map(|i| a[i][i].abs()).sum();
    loop {
        let mut rotated = false;
        for (p, q) in (0..n).flat_map(|p| (p + 1..n).map(move |q| (p, q))) {
            // What is left moves no eigenvalue by more than n times this.
            if a[p][q].abs() <= 1e-16 * size {
                continue;
            }
            rotated = true;
            let ratio = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
            let t = 1.0_f64.copysign(ratio) / (ratio.abs() + (ratio * ratio + 1.0).sqrt());
            let c = 1.0 / (t * t + 1.0).sqrt();
            let s = t * c;
            for row in &mut a {
                (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
            }
            let (above, below) = a.split_at_mut(q);
            for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
            }
        }
        if !rotated {
            break;
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values
}

#[track_caller]
fn assert_close(name: &str, found: &Matrix, expected: &Matrix) {
    let largest = expected.iter().flatten().fold(0.0_f64, |most, x| most.max(x.abs()));
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        // Sums of a few dozen products on both sides: far below the eight digits asked for.
        assert!((found - expected).abs() <= 1e-12 * largest, "{name}: {found} {expected}");
    }
}

#[test]
fn hessians_of_linear_logistic_and_softmax_regression_have_their_closed_forms() {
    let (inputs, examples) = (5, 23);
    let regression = |outputs| zoo::mlp([1, 1, inputs], &[], outputs, Activation::Tanh);
    // Rows x̃ = (x, 1); parameters are the weights, output by output, and then the biases.
    let rows = |batch: &Batch<f64>| -> Matrix {
        batch.inputs.chunks(inputs).map(|x| [x, &[1.0]].concat()).collect()
    };
    let place = |output: usize, i: usize, outputs: usize| {
        if i < inputs { output * inputs + i } else { outputs * inputs + output }
    };
    // 1/n Σ_e s_e(a, b) x̃_e x̃_eᵀ for the outputs a and b.
    let assemble = |rows: &Matrix, outputs: usize, share: &dyn Fn(usize, usize, usize) -> f64| {
        let n = outputs * (inputs + 1);
        let mut sum = vec![vec![0.0; n]; n];
        for (e, x) in rows.iter().enumerate() {
            for (a, b) in (0..outputs).flat_map(|a| (0..outputs).map(move |b| (a, b))) {
                for (i, j) in (0..=inputs).flat_map(|i| (0..=inputs).map(move |j| (i, j))) {
                    sum[place(a, i, outputs)][place(b, j, outputs)] +=
                        share(e, a, b) * x[i] * x[j] / examples as f64;
                }
            }
        }
        sum
    };
    let scores = |theta: &[f64], x: &[f64], outputs: usize| -> Vec<f64> {
        let score = |a: usize| (0..=inputs).map(|i| theta[place(a, i, outputs)] * x[i]).sum();
        (0..outputs).map(score).collect()
    };
    for outputs in [1, 3] {
        let (mut engine, theta, batch) = engine(regression(outputs), Loss::HalfMse, examples);
        let expected = assemble(&rows(&batch), outputs, &|_, a, b| f64::from(u8::from(a == b)));
        assert_close("XᵀX/n", &dense_of(&mut engine, &theta), &expected);
    }

    let (mut logistic, theta, batch) = engine(regression(1), Loss::BinaryCrossEntropy, examples);
    let x = rows(&batch);
    let expected = assemble(&x, 1, &|e, _, _| {
        let p = 1.0 / (1.0 + libm::exp(-scores(&theta, &x[e], 1)[0]));
        p * (1.0 - p)
    });
    assert_close("XᵀDX/n", &dense_of(&mut logistic, &theta), &expected);

    let (mut softmax, theta, batch) = engine(regression(4), Loss::CrossEntropy, examples);
    let x = rows(&batch);
    let expected = assemble(&x, 4, &|e, a, b| {
        let powers: Vec<f64> = scores(&theta, &x[e], 4).into_iter().map(libm::exp).collect();
        let total: f64 = powers.iter().sum();
        powers[a] / total * (f64::from(u8::from(a == b)) - powers[b] / total)
    });
    assert_close("softmax", &dense_of(&mut softmax, &theta), &expected);
}

fn networks() -> Vec<(&'static str, Network, Loss)> {
    let cnn = |batch_norm: bool, pooling| Cnn {
        input: [6, 6, 2],
        channels: vec![3, 4],
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
        bias: !batch_norm,
        batch_norm,
        activation: Activation::Swish { beta: 1.3 },
        pooling,
        head: Head::GlobalLinear,
        outputs: 3,
    };
    vec![
        ("mlp", zoo::mlp([1, 1, 4], &[9, 7], 3, Activation::Tanh), Loss::CrossEntropy),
        ("regression", zoo::mlp([1, 1, 1], &[12, 8], 1, Activation::Tanh), Loss::HalfMse),
        ("cnn", cnn(false, Pooling::Max).build(), Loss::CrossEntropy),
        ("cnn with batch norm", cnn(true, Pooling::None).build(), Loss::CrossEntropy),
    ]
}

#[test]
fn eigenvalues_of_small_networks_are_those_of_their_dense_hessians() {
    for (name, network, loss) in networks() {
        let parameters = network.parameters().to_vec();
        let (mut engine, theta, batch) = engine(network, loss, 21);
        let n = theta.len();
        let hessian = dense_of(&mut engine, &theta);
        let exact = jacobi(&hessian);
        let set = WeightedBatches::new(vec![(batch, 21)]);
        let mut mean = EmpiricalRisk::new(&mut engine, &set, 0.25);
        let mut multiply = |v: &Vec<f64>, out: &mut Vec<f64>| mean.hessian_vector(&theta, v, out);
        let (tolerance, max_matvecs, probe) = (1e-8, 2000, Some(0));
        let options = EigenOptions { top: 5, smallest: true, tolerance, max_matvecs, probe };
        let Ok(found) = eigenpairs(&theta, vec![], options, &mut multiply);
        let expected = exact[..5].iter().chain(exact.last()).map(|value| value + 0.25);
        for (pair, expected) in found.largest.iter().chain(&found.smallest).zip(expected) {
            let off = (pair.value - expected).abs() / exact[0];
            assert!(off < 1e-10, "{name}: {} against {expected}", pair.value);
        }
        // Blocks of the diagonal, the trace and the first moments of the density.
        for parameter in &parameters {
            let range = parameter.range.clone();
            let part: Matrix = range.clone().map(|i| hessian[i][range.clone()].to_vec()).collect();
            let expected = jacobi(&part)[0] + 0.25;
            let options = EigenOptions { top: 1, smallest: false, ..options };
            let (zeros, part) = (vec![0.0; range.len()], block(n, range, &mut multiply));
            let Ok(found) = eigenpairs(&zeros, vec![], options, part);
            let off = (found.lambda_max() - expected).abs() / exact[0];
            assert!(off < 1e-10, "{name}, {}: off by {off:e}", parameter.name);
        }
        let Ok(found) = density(&theta, 30, 10, 0, &mut multiply);
        let found = found.expect("finite products");
        let trace: f64 = exact.iter().sum::<f64>() + 0.25 * n as f64;
        let estimate = found.trace();
        let off = (estimate.mean - trace).abs();
        // Four standard errors of thirty probes.
        assert!(off < 4.0 * estimate.standard_error, "{name}: {estimate:?} against {trace}");
    }
}

#[test]
fn a_set_in_batches_is_the_weighted_mean_of_their_hessians() {
    for (name, network, loss) in networks() {
        let (mut engine, theta, batch) = engine(network, loss, 21);
        let len = batch.inputs.len() / 21;
        let outputs = engine.network().outputs();
        let cut = |from: usize, to: usize| {
            let targets = match &batch.targets {
                Targets::Classes(classes) => Targets::Classes(classes[from..to].to_vec()),
                Targets::Reals(values) => {
                    Targets::Reals(values[from * outputs..to * outputs].to_vec())
                }
            };
            Arc::new(Batch { inputs: batch.inputs[from * len..to * len].to_vec(), targets })
        };
        let parts = [(cut(0, 8), 8), (cut(8, 16), 8), (cut(16, 21), 5)];
        let v = normal(theta.len(), 5);
        let mut expected = vec![0.0; theta.len()];
        let mut product = vec![0.0; theta.len()];
        for (part, examples) in &parts {
            engine.set_batch(part);
            engine.hessian_vector(&theta, &v, &mut product);
            let share = *examples as f64 / 21.0;
            expected.iter_mut().zip(&product).for_each(|(sum, x)| *sum += share * x);
        }
        let set = WeightedBatches::new(parts.to_vec());
        let mut mean = EmpiricalRisk::new(&mut engine, &set, 0.0);
        mean.hessian_vector(&theta, &v, &mut product);
        assert_eq!(product, expected, "{name}: the order of the module doc");
        let (in_parts, mut g) = (mean.loss(&theta).unwrap(), vec![0.0; theta.len()]);
        mean.gradient(&theta, &mut g);

        let whole = WeightedBatches::new(vec![(batch.clone(), 21)]);
        let mut mean = EmpiricalRisk::new(&mut engine, &whole, 0.0);
        let mut at_once = vec![0.0; theta.len()];
        mean.hessian_vector(&theta, &v, &mut at_once);
        let off = |a: &[f64], b: &[f64]| {
            let gap: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
            norm(&gap) / norm(b)
        };
        // Batch norm sees other statistics in other batches; without it the cut is rounding.
        if name == "cnn with batch norm" {
            assert!(off(&product, &at_once) > 1e-3, "{name}");
            assert_ne!(in_parts, mean.loss(&theta).unwrap());
        } else {
            assert!(off(&product, &at_once) < 1e-13, "{name}");
            assert!((in_parts - mean.loss(&theta).unwrap()).abs() < 1e-14, "{name}");
            mean.gradient(&theta, &mut at_once);
            assert!(off(&g, &at_once) < 1e-13, "{name}");
        }
    }
}

#[test]
fn decay_stands_in_loss_gradient_and_batch_sharpness() {
    let (mut engine, theta, batch) =
        engine(zoo::mlp([1, 1, 4], &[6], 3, Activation::Tanh), Loss::CrossEntropy, 15);
    let plain = engine.loss(&theta).unwrap();
    let (n, alpha) = (theta.len(), 0.3);
    let mut g = vec![0.0; n];
    engine.gradient(&theta, &mut g);
    g.iter_mut().zip(&theta).for_each(|(g, t)| *g += alpha * t);
    let set = WeightedBatches::new(vec![(batch.clone(), 15)]);
    let mut mean = EmpiricalRisk::new(&mut engine, &set, alpha);
    // Two summands of order 1.
    assert!(
        (mean.loss(&theta).unwrap() - plain - alpha / 2.0 * norm(&theta).powi(2)).abs()
            < 1e-15 * 4.0
    );
    let mut out = vec![0.0; n];
    mean.gradient(&theta, &mut out);
    assert_eq!(out, g);
    // Of two equal batches: g·Hg/|g|², twice.
    mean.hessian_vector(&theta, &g, &mut out);
    let expected = g.iter().zip(&out).map(|(g, x)| g * x).sum::<f64>() / norm(&g).powi(2);
    let Ok(found) = batch_sharpness(&mut engine, &theta, &[batch.clone(), batch], alpha);
    assert!((found.mean / expected - 1.0).abs() < 1e-13, "{found:?} {expected}");
    assert_eq!(found.standard_error, 0.0);
}

/// Full-batch training of a small network, and its sharpness at every step.
fn along_a_run(dt: f64, steps: usize, options: EigenOptions) -> Vec<(usize, EigenResult)> {
    let network = Arc::new(zoo::mlp([1, 1, 8], &[24, 24], 3, Activation::Tanh));
    let data = Arc::new(Dataset {
        shape: [1, 1, 8],
        inputs: Inputs::Reals(normal(100 * 8, 1)),
        targets: StoredTargets::Classes {
            count: 3,
            labels: (0..100).map(|i| Stream::new(2, 0).block(i)[0] % 3).collect(),
        },
    });
    let batches = Batches::new(data.clone(), &Normalization::none(), Selection::full(&data), None);
    let set = WeightedBatches::new(vec![(batches.clone().batch(0), 100)]);
    let optimizer = Optimizer { method: Method::Sgd, alpha: 0.0 };
    let replica = Replica::start(network.initial(Init::Torch, 0), vec![], &optimizer);
    let plan = Plan { optimizer, dt, schedule: Schedule::Constant };
    let mut engine = Engine::<f64>::new(&network, Loss::CrossEntropy);
    let mut trainer =
        Trainer::new(engine.clone(), vec![batches], plan, vec![Variant::PLAIN], 0, vec![replica]);
    let mut vectors: Vec<Vec<f64>> = Vec::new();
    let mut measure = |step: usize, trainer: &Trainer<f64, Engine<f64>, Batches<f64>>| {
        let theta = &trainer.replicas()[0].theta;
        let mut mean = EmpiricalRisk::new(&mut engine, &set, 0.0);
        let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| mean.hessian_vector(theta, v, out);
        let options = EigenOptions { probe: Some(step as u64), ..options };
        let Ok(found) = eigenpairs(theta, std::mem::take(&mut vectors), options, multiply);
        vectors = found.clone().into_vectors();
        (step, found)
    };
    let mut all = vec![measure(0, &trainer)];
    for step in 1..=steps {
        trainer.advance();
        all.push(measure(step, &trainer));
    }
    all
}

#[test]
fn warm_sharpness_of_a_slow_run_needs_at_most_ten_products() {
    let options = EigenOptions::largest(1e-3, 500);
    let found = along_a_run(0.02, 30, options);
    let products: Vec<usize> = found.iter().map(|(_, found)| found.matvecs).collect();
    assert!(products[1..].iter().all(|count| *count <= 10), "{products:?}");
    // Pinned: eleven cold, then two vectors known, one residual and the probe.
    assert_eq!(products, [&[11][..], &[6; 30]].concat());
    // They are the eigenvalues of a cold search to more digits.
    let exact = along_a_run(0.02, 30, EigenOptions { tolerance: 1e-10, ..options });
    for ((step, found), (_, exact)) in found.iter().zip(&exact) {
        let (found, exact) = (&found.largest[0], exact.lambda_max());
        assert!((found.value - exact).abs() <= found.residual, "step {step}");
        assert!(found.residual <= 1e-3 * exact, "step {step}");
    }
}

#[test]
fn same_bits_on_any_number_of_threads() {
    let options = EigenOptions { top: 3, ..EigenOptions::both_ends(1e-6, 500) };
    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| along_a_run(0.5, 3, options));
        let pairs = found.iter().flat_map(|(_, found)| found.largest.iter().chain(&found.smallest));
        pairs.flat_map(|pair| [pair.value.to_bits(), pair.residual.to_bits()]).collect::<Vec<u64>>()
    };
    let one = bits(1);
    assert_eq!(one.len(), 4 * 4 * 2);
    for threads in [2, 7] {
        assert_eq!(bits(threads), one, "{threads} threads");
    }
}
