//! Curvature on the device against the CPU: Hessian-vector products of whole networks, eigenvalues, runs.

use std::fmt::Debug;
use std::sync::Arc;

use lastbit::activation::Activation::Swish;
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::curvature::empirical_risk::{EmpiricalRisk, WeightedBatches};
use lastbit::krylov::{EigenOptions, eigenpairs, infallible};
use lastbit::nn::zoo::{Cnn, Head, Pooling, Shortcut, resnet};
use lastbit::nn::{Batch, BatchNormMode, Builder, Engine, Init, Loss, Network, Padding};
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::schedule::Schedule;
use lastbit::reduce::{norm, sum_by};
use lastbit::rng::Stream;
use lastbit::training::{GradientDescent, Plan, Replica, Trainer, Variant};
use lastbit::{Dynamics, Real, hash_of_bits};

use super::common::{
    batch, cnn, convert, dataset, in_order, jumps, networks, relative, stacks, start,
};
use crate::engine::NO_OPTIMIZER;
use crate::{CudaModel, DeviceReal, Engine as CudaEngine, MathMode};

fn direction<F: Real>(len: usize, seed: u64) -> Vec<F> {
    let stream = Stream::new(seed, 7);
    (0..len as u64).map(|i| F::of(stream.normal(i))).collect()
}

fn model<F: DeviceReal>(network: &Arc<Network>, loss: Loss) -> CudaModel<F> {
    CudaModel::new(network, loss, MathMode::Fma, 5).unwrap()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    sum_by(a.len(), |i| a[i] * b[i])
}

fn product<F: Real>(
    objective: &mut impl Objective<F, Error: Debug>,
    theta: &[F],
    v: &[F],
) -> Vec<F> {
    let mut out = vec![F::default(); theta.len()];
    objective.hessian_vector(theta, v, &mut out).unwrap();
    out
}

fn cpu_product<F: Real>(
    network: &Arc<Network>,
    loss: Loss,
    of: &Batch<F>,
    mode: BatchNormMode,
) -> Vec<F> {
    let mut engine = Engine::new(network, loss);
    engine.set_mode(mode);
    engine.set_batch(&Arc::new(of.clone()));
    product(&mut engine, &start(network), &direction(network.len(), 5))
}

/// A Hessian-vector product on the device and on the CPU, in both modes and precisions.
fn compare(name: &str, network: Network, loss: Loss, examples: usize) {
    let network = Arc::new(network);
    let of = batch::<f64>(&network, loss, examples, 8);
    let small = convert::<_, f32>(&of);
    let mut in_double = model::<f64>(&network, loss);
    let mut in_single = model::<f32>(&network, loss);
    in_double.set_batch(&Arc::new(of.clone()));
    in_single.set_batch(&Arc::new(small.clone()));
    for mode in [BatchNormMode::Training, BatchNormMode::Evaluation] {
        if mode == BatchNormMode::Evaluation && network.buffers().is_empty() {
            continue;
        }
        let expected = cpu_product(&network, loss, &of, mode);
        in_double.set_mode(mode);
        let v = direction(network.len(), 5);
        let found = product(&mut in_double, &start(&network), &v);
        let error = relative(&found, &expected);
        println!("{name}, {mode:?}: f64 error {error:.2e}");
        // Gradients of these networks agree to 1e-12. A product sums twice as many terms through
        // twice the depth, and batch norm's derivative divides by the deviation once more: 1e-11.
        assert!(error < 1e-11, "{name}, {mode:?}: {error:e}");
        if jumps(&network) {
            continue;
        }
        in_single.set_mode(mode);
        let found = product(&mut in_single, &start(&network), &direction(network.len(), 5));
        let error = relative(&found, &expected);
        let bound = relative(&cpu_product(&network, loss, &small, mode), &expected);
        println!("{name}, {mode:?}: f32 errors {error:.2e} on the device, {bound:.2e} on the CPU");
        // As for gradients: a sample of the same rounding errors, in sums of another order.
        assert!(error < 8.0 * bound, "{name}, {mode:?}: {error:e}, on the CPU {bound:e}");
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn products_of_whole_networks_agree_with_the_cpu() {
    for (name, network, loss) in networks() {
        compare(name, network, loss, 37);
    }
    // All of its 3x3 convolutions have kernels of their own.
    let smooth = resnet(8, Shortcut::Conv, Swish { beta: 1.0 }, [32, 32, 3], 10);
    compare("smooth resnet", smooth, Loss::CrossEntropy, 11);
    for (name, network) in stacks() {
        compare(&name, network, Loss::CrossEntropy, 11);
    }
}

fn one_channel() -> Network {
    let (input, channels, activation) = ([12, 10, 1], vec![1, 1], Swish { beta: 1.0 });
    let (pooling, head, outputs) = (Pooling::None, Head::Mean, 1);
    Cnn { input, channels, activation, pooling, head, outputs, ..cnn() }.build()
}

/// Enough images that each chunk has several, and losses and biases are summed by whole blocks.
#[test]
#[ignore = "needs a CUDA device"]
fn full_batches_of_thousands_of_images_agree_with_the_cpu() {
    compare("thousands of images", one_channel(), Loss::BinaryCrossEntropy, 2100);
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_hessian_is_symmetric() {
    let network = Arc::new(resnet(8, Shortcut::Conv, Swish { beta: 1.0 }, [16, 16, 3], 10));
    let mut model = model::<f64>(&network, Loss::CrossEntropy);
    model.set_batch(&Arc::new(batch(&network, Loss::CrossEntropy, 20, 3)));
    let (u, v) = (direction::<f64>(network.len(), 1), direction(network.len(), 2));
    for mode in [BatchNormMode::Training, BatchNormMode::Evaluation] {
        model.set_mode(mode);
        let theta = start(&network);
        let (hu, hv) = (product(&mut model, &theta, &u), product(&mut model, &theta, &v));
        let (there, back) = (dot(&u, &hv), dot(&v, &hu));
        // Each product is good to 1e-11 of its length.
        let limit = 1e-11 * (norm(&u) * norm(&hv) + norm(&v) * norm(&hu));
        assert!((there - back).abs() < limit, "{mode:?}: {there} {back}");
    }
}

/// Clones share an engine; the results of one do not depend on the others.
#[test]
#[ignore = "needs a CUDA device"]
fn results_are_bit_identical_whatever_a_clone_does_in_between() {
    let network = Arc::new(resnet(8, Shortcut::Conv, Swish { beta: 1.0 }, [32, 32, 3], 10));
    let mut model = model::<f32>(&network, Loss::CrossEntropy);
    model.set_batch(&Arc::new(batch(&network, Loss::CrossEntropy, 20, 3)));
    let (theta, v) = (start::<f32>(&network), direction(network.len(), 2));
    let mut gradient = vec![0.0; theta.len()];
    let bits = |model: &mut CudaModel<f32>, gradient: &[f32]| {
        (hash_of_bits(gradient), model.last_loss(&theta).unwrap().to_bits())
    };
    model.gradient(&theta, &mut gradient).unwrap();
    let plain = bits(&mut model, &gradient);
    model.linearize(&theta, &mut gradient).unwrap();
    assert_eq!(bits(&mut model, &gradient), plain, "linearized");
    let first = hash_of_bits(&product(&mut model, &theta, &v));
    assert_eq!(hash_of_bits(&product(&mut model, &theta, &v)), first);

    let mut other = model.clone();
    other.set_batch(&Arc::new(batch(&network, Loss::CrossEntropy, 33, 4)));
    let elsewhere: Vec<f32> = theta.iter().map(|x| 1.5 * x).collect();
    other.gradient(&elsewhere, &mut gradient).unwrap();
    assert_eq!(hash_of_bits(&product(&mut model, &theta, &v)), first, "after a clone");
    model.gradient(&theta, &mut gradient).unwrap();
    assert_eq!(bits(&mut model, &gradient), plain, "after a clone");
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_gradient_is_that_of_the_engine() {
    let network = Arc::new(resnet(8, Shortcut::Conv, Swish { beta: 1.0 }, [32, 32, 3], 10));
    let loss = Loss::CrossEntropy;
    let mut model = model::<f32>(&network, loss);
    let of = batch::<f32>(&network, loss, 20, 3);
    let mut engine =
        CudaEngine::new(&network, loss, NO_OPTIMIZER, MathMode::Fma, &[0], 20).unwrap();
    engine.set_theta(0, &start(&network)).unwrap();
    engine.set_batch(0, &of).unwrap();
    let expected = engine.gradients(20).unwrap().swap_remove(0);
    model.set_batch(&Arc::new(of));
    let mut found = vec![0.0; network.len()];
    model.gradient(&start(&network), &mut found).unwrap();
    assert_eq!(hash_of_bits(&found), hash_of_bits(&expected));
}

#[test]
#[ignore = "needs a CUDA device"]
fn buffers_answers_and_evaluations_are_those_of_the_cpu() {
    let network = Arc::new(resnet(8, Shortcut::Conv, Swish { beta: 1.0 }, [16, 16, 3], 10));
    let loss = Loss::CrossEntropy;
    let mut on_gpu = model::<f64>(&network, loss);
    let mut on_cpu = Engine::new(&network, loss);
    let of = Arc::new(batch(&network, loss, 20, 3));
    let theta = start::<f64>(&network);
    let mut gradient = vec![0.0; theta.len()];
    on_cpu.set_batch(&of);
    on_gpu.set_batch(&of);
    for _ in 0..2 {
        on_cpu.gradient(&theta, &mut gradient);
        on_cpu.update_running_stats();
        on_gpu.gradient(&theta, &mut gradient).unwrap();
        on_gpu.update_running_stats();
    }
    // Sums of numbers of one size: as good as the gradient.
    assert!(relative(on_gpu.buffers(), on_cpu.buffers()) < 1e-12);
    let assert_close = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-12 * expected, "{found} {expected}");
    };
    assert_close(on_gpu.last_loss(&theta).unwrap(), on_cpu.last_loss(&theta).unwrap());
    assert_close(on_gpu.loss(&theta).unwrap(), on_cpu.loss(&theta).unwrap());
    assert_eq!(on_gpu.right_answers(), on_cpu.right_answers());
    // More examples than are evaluated together.
    let test = Arc::new(batch(&network, loss, 1203, 9));
    let found = on_gpu.evaluate(&theta, &test).unwrap();
    let expected = on_cpu.evaluate(&theta, &test);
    assert_close(found.loss, expected.loss);
    assert_eq!((found.right, found.classes), (expected.right, expected.classes));
    // The batch is still the one that was set.
    assert_close(on_gpu.loss(&theta).unwrap(), on_cpu.loss(&theta).unwrap());
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_largest_eigenvalue_is_that_of_the_cpu() {
    let network = Arc::new(one_channel());
    let loss = Loss::BinaryCrossEntropy;
    let mut on_gpu = model::<f64>(&network, loss);
    let mut on_cpu = Engine::new(&network, loss);
    let set = WeightedBatches::new(vec![(Arc::new(batch(&network, loss, 200, 3)), 200)]);
    let theta = start::<f64>(&network);
    let options = EigenOptions { probe: Some(0), ..EigenOptions::largest(1e-8, 1000) };
    let largest = |hessian: &mut dyn FnMut(&[f64], &mut [f64])| {
        let Ok(found) = eigenpairs(&theta, vec![], options, infallible(hessian));
        found.lambda_max()
    };
    let mut mean = EmpiricalRisk::new(&mut on_cpu, &set, 0.1);
    let expected = largest(&mut |v, out| mean.hessian_vector(&theta, v, out).unwrap());
    let mut mean = EmpiricalRisk::new(&mut on_gpu, &set, 0.1);
    let found = largest(&mut |v, out| mean.hessian_vector(&theta, v, out).unwrap());
    // A residual of 1e-8 leaves an error of its square; products differ by 1e-11 of the largest.
    assert!((found - expected).abs() < 1e-10 * expected.abs(), "{found} {expected}");
}

/// A run and its clone follow the CPU.
#[test]
#[ignore = "needs a CUDA device"]
fn a_run_follows_the_cpu() {
    let network = Arc::new(one_channel());
    let loss = Loss::BinaryCrossEntropy;
    let on_gpu = model::<f64>(&network, loss);
    let batches = in_order(dataset([12, 10, 1], 90, 2, 77), 90);
    let optimizer = Optimizer { method: Method::HeavyBall { mu: 0.5 }, alpha: 1e-3 };
    let theta = start::<f64>(&network);
    let on_cpu = Engine::new(&network, loss);
    let mut expected = GradientDescent::new(on_cpu, batches.clone(), optimizer, 0.1, theta.clone());
    let mut found = GradientDescent::new(on_gpu, batches, optimizer, 0.1, theta);
    let mut reference = found.clone();
    for _ in 0..20 {
        expected.step();
        found.step().unwrap();
        reference.step().unwrap();
    }
    assert_eq!(hash_of_bits(found.state()), hash_of_bits(reference.state()));
    // Twenty gradients that agree to 1e-13, none of which is amplified: the step is far below the edge.
    assert!(relative(found.state(), expected.state()) < 1e-11);
    let Ok(expected) = expected.loss();
    assert!((found.loss().unwrap() - expected).abs() < 1e-11 * expected);
}

/// Replicas whose steps need Hessian-vector products share an engine, from several threads.
#[test]
#[ignore = "needs a CUDA device"]
fn replicas_of_the_cfl_step_do_not_affect_each_other() {
    let mut net = Builder::new([6, 6, 3]);
    let x = net.input();
    let x = net.conv(x, "a", 5, [3, 3], 1, Padding::Same, false);
    let x = net.batch_norm(x, "an");
    let x = net.activation(x, Swish { beta: 1.0 });
    net.linear(x, "fc", 3, true);
    let network = Arc::new(net.build());
    let data = dataset([6, 6, 3], 24, 3, 7);
    let method = Method::Cfl { by_layer: true, every: 1, safety: 0.5 };
    let optimizer = Optimizer { method, alpha: 0.0 };
    let plan = Plan { optimizer, dt: 0.1, schedule: Schedule::Constant };
    let trained = |seeds: &[u64]| {
        let model = model::<f32>(&network, Loss::CrossEntropy);
        let selection = Selection { size: 8, order: Order::AsStored, keep_last: true };
        let source =
            Batches::new(data.clone(), &Normalization::per_channel(&data), selection, None);
        let start = |seed: &u64| {
            let theta = network.initial(Init::Torch, *seed);
            Replica::start(theta, network.initial_buffers(), &plan.optimizer)
        };
        let (replicas, variants) =
            (seeds.iter().map(start).collect(), vec![Variant::PLAIN; seeds.len()]);
        let mut trainer = Trainer::new(model, vec![source], plan.clone(), variants, 0, replicas);
        for _ in 0..3 {
            trainer.advance().unwrap();
        }
        trainer.replicas().to_vec()
    };
    let together = trained(&[0, 1, 2, 3]);
    for (seed, replica) in together.iter().enumerate() {
        let alone = trained(&[seed as u64]);
        assert!(*replica == alone[0], "replica {seed}");
    }
}
