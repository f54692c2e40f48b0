//! Each kernel against its reference implementation (`crate::reference`): on a device every launch of
//! small networks in which all kernels occur; everywhere the references themselves, as the kernels of an
//! engine on the host, against `lastbit`'s engine.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;

use lastbit::Real;
use lastbit::nn::{BatchNormMode, Engine as CpuEngine, Init};
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::reduce::norm;
use lastbit::rng::Stream;

use super::super::*;
use super::networks::{Case, all, at_random, conv3x3};
use crate::reference::error_stats::{ErrorStats, KernelErrors, SharedStats};
use crate::reference::registry::kernels_with_references;
use crate::tests::common::{batch, convert, relative};

/// Two replicas with parameters and batches of their own.
const REPLICAS: usize = 2;

fn numbers<F: Real>(seed: u64, len: usize) -> Vec<F> {
    let stream = Stream::new(seed, 0);
    (0..len as u64).map(|i| F::of(stream.normal(i))).collect()
}

/// Parameters, batch and direction of a case, in the precision `F`.
struct Given<F> {
    theta: Vec<F>,
    buffers: Vec<F>,
    batch: Batch<F>,
    direction: Vec<F>,
}

impl<F: Real> Given<F> {
    fn of(case: &Case, replica: usize) -> Self {
        let (network, seed) = (&case.network, replica as u64);
        let mut theta: Vec<F> = network.initial(Init::KaimingNormal, 3 + seed);
        // Scales and shifts of batch norms begin at 1 and 0, biases at 0; here none is special.
        let off: Vec<F> = numbers(20 + seed, theta.len());
        theta.iter_mut().zip(off).for_each(|(theta, off)| *theta += off * F::of(0.03125));
        let mut buffers: Vec<F> = network.initial_buffers();
        let off: Vec<F> = numbers(30 + seed, buffers.len());
        buffers.iter_mut().zip(off).for_each(|(x, off)| *x += off.abs() * F::of(0.125));
        let batch = batch(network, case.loss, case.images, 60 + seed);
        Self { direction: numbers(70 + seed, theta.len()), theta, buffers, batch }
    }

    fn in_double(&self) -> Given<f64> {
        let doubles = |values: &[F]| values.iter().map(|x| x.to_f64()).collect();
        Given {
            theta: doubles(&self.theta),
            buffers: doubles(&self.buffers),
            batch: convert(&self.batch),
            direction: doubles(&self.direction),
        }
    }
}

/// Results of an engine for one replica: in training mode with updated running statistics, and in
/// evaluation mode.
#[derive(Default)]
struct Answer {
    losses: [f64; 2],
    gradients: [Vec<f64>; 2],
    buffers: Vec<f64>,
    products: Option<[Vec<f64>; 2]>,
}

/// All passes of an engine over a case; `read` takes the results of each.
fn run<F: DeviceReal>(
    device: Device,
    case: &Case,
    math: MathMode,
    mut read: impl FnMut(&Engine<F>, &mut [Answer], usize),
) -> Result<Vec<Answer>, Error> {
    let Case { network, loss, images, .. } = case;
    let slots: Vec<usize> = (0..REPLICAS).collect();
    let mut engine =
        Engine::<F>::on(|| Ok(device), network, *loss, NO_OPTIMIZER, math, &slots, images + 3)?;
    let given: Vec<Given<F>> = slots.iter().map(|r| Given::of(case, *r)).collect();
    for (r, given) in given.iter().enumerate() {
        engine.set_theta(r, &given.theta)?;
        engine.device.write(&mut engine.buffers, r * given.buffers.len(), &given.buffers)?;
        engine.set_batch(r, &given.batch)?;
    }
    let mut answers: Vec<Answer> = slots.iter().map(|_| Answer::default()).collect();
    let modes = [BatchNormMode::Training, BatchNormMode::Evaluation];
    for (pass, mode) in modes.into_iter().enumerate() {
        engine.take_gradient(*images, mode, true)?;
        for (r, answer) in answers.iter_mut().enumerate() {
            answer.losses[pass] = engine.mean_loss(r, *images)?;
        }
        read(&engine, &mut answers, pass);
    }
    if case.products {
        for (pass, mode) in modes.into_iter().enumerate() {
            engine.linearize(*images, mode, false)?;
            for (r, given) in given.iter().enumerate() {
                engine.product(r, &given.direction, *images)?;
            }
            read(&engine, &mut answers, 2 + pass);
        }
    }
    Ok(answers)
}

/// The results of the references on the host.
fn on_host<F: DeviceReal>(case: &Case, math: MathMode, stats: &SharedStats) -> Vec<Answer> {
    let device = Device::host::<F>(math, stats);
    let len = case.network.len();
    let read = |engine: &Engine<F>, answers: &mut [Answer], pass: usize| {
        for (r, answer) in answers.iter_mut().enumerate() {
            let all = |memory: &Memory<F>, len| engine.device.read_doubles(memory, r * len, len);
            if pass < 2 {
                answer.gradients[pass] = all(&engine.gradient, len);
                let statistics = engine.buffers.len() / REPLICAS;
                answer.buffers = all(&engine.buffers, statistics);
            } else {
                let dots = engine.tangents.as_ref().expect("a product was taken");
                answer.products.get_or_insert_default()[pass - 2] = all(&dots.product, len);
            }
        }
    };
    run(device, case, math, read).expect("the host has no errors")
}

/// The results of `lastbit`'s engine, in double precision.
fn on_cpu(case: &Case, given: &Given<f64>) -> Answer {
    let mut engine = CpuEngine::<f64>::new(&case.network, case.loss);
    engine.load_buffers(&given.buffers);
    engine.set_batch(&Arc::new(given.batch.clone()));
    let mut answer = Answer::default();
    let len = case.network.len();
    let mut out = vec![0.0; len];
    let modes = [BatchNormMode::Training, BatchNormMode::Evaluation];
    for (pass, mode) in modes.into_iter().enumerate() {
        engine.set_mode(mode);
        engine.gradient(&given.theta, &mut out);
        answer.losses[pass] = engine.last_loss(&given.theta).unwrap();
        answer.gradients[pass].clone_from(&out);
        if mode == BatchNormMode::Training {
            engine.update_running_stats();
            answer.buffers = engine.buffers().to_vec();
        }
        if case.products {
            engine.hessian_vector(&given.theta, &given.direction, &mut out);
            answer.products.get_or_insert_default()[pass].clone_from(&out);
        }
    }
    answer
}

/// Bound of the relative difference between two computations of the same sums in double precision, in
/// different orders, as between device and CPU in `tests/against_cpu.rs`.
const MOST: f64 = 1e-12;

/// The references, as the kernels of an engine, agree with `lastbit`'s engine.
fn references_agree_with_the_cpu<F: DeviceReal>(
    case: &Case,
    math: MathMode,
    stats: &SharedStats,
    most: f64,
) {
    let answers = on_host::<F>(case, math, stats);
    for (r, found) in answers.iter().enumerate() {
        let name = format!("{}, {}, {math:?}, replica {r}", case.name, F::NAME);
        let expected = on_cpu(case, &Given::<F>::of(case, r).in_double());
        for pass in 0..2 {
            let off = (found.losses[pass] - expected.losses[pass]).abs();
            assert!(off < most * expected.losses[pass], "{name}: loss off by {off:e}");
            let [found, expected] = [found, &expected].map(|answer| &answer.gradients[pass]);
            for parameter in case.network.parameters() {
                let range = parameter.range.clone();
                let error = relative(&found[range.clone()], &expected[range.clone()]);
                // A bias before a batch norm has no gradient but rounding.
                let size = norm(&expected[range]) / norm(expected);
                assert!(error < most || size < 1e-10, "{name}, {}: {error:e}", parameter.name);
            }
        }
        if !expected.buffers.is_empty() {
            assert!(relative(&found.buffers, &expected.buffers) < most, "{name}: buffers");
        }
        let (found, expected) = (&found.products, &expected.products);
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            // Twice the terms through twice the depth, and batch norm's derivative divides by the
            // deviation once more, as in `tests/curvature.rs`.
            let error = relative(found, expected);
            assert!(error < 10.0 * most, "{name}: product off by {error:e}");
        }
    }
}

/// The kernels of `conv3x3.cu` and `weights3x3.cu`.
fn kernels_of_3x3() -> BTreeSet<String> {
    let is_of_3x3 = |name: &String| name.contains("3x3") || name == "pack_kernels";
    kernels_with_references().into_iter().filter(is_of_3x3).collect()
}

fn launched(stats: &SharedStats) -> BTreeSet<String> {
    let stats = stats.lock().expect("no panic while comparing");
    stats.kernels.keys().map(ToString::to_string).collect()
}

#[test]
fn references_of_all_kernels_agree_with_the_cpu() {
    let [double, single, tensor] = [(); 3].map(|()| SharedStats::default());
    for case in all() {
        references_agree_with_the_cpu::<f64>(&case, MathMode::Fma, &double, MOST);
    }
    for case in conv3x3() {
        references_agree_with_the_cpu::<f32>(&case, MathMode::Fma, &single, MOST);
        // The same references, with weights packed for tensor cores: few images suffice.
        let case = Case { images: 3, ..case };
        references_agree_with_the_cpu::<f32>(&case, MathMode::Tf32, &tensor, MOST);
    }
    // The networks launch every kernel.
    let of_3x3 = kernels_of_3x3();
    assert_eq!(launched(&double), kernels_with_references());
    for stats in [&single, &tensor] {
        let missing: Vec<_> = of_3x3.difference(&launched(stats)).cloned().collect();
        assert!(missing.is_empty(), "no network launches {missing:?}");
    }
    // A bound as large as its number would say nothing. In double precision they are below 1e-12, except for
    // the longest sums, by weights of 3x3 convolutions over the pixels of three images of 32x32: n = 3072
    // products of either sign, whose absolute values sum to some sqrt(n) times their sum; of that, n u (u =
    // 2^-22 on tensor cores) and the errors of the factors (2^-11 each on tensor cores).
    let n = 3072.0_f64;
    let share = |unit: f64, factors: f64| n.sqrt() * (n * unit + factors);
    let of_single = share(f32::UNIT_ROUNDOFF, 0.0);
    let of_tensor = share(1.0 / f64::from(1 << 22), 2.0 / f64::from(1 << 11));
    let of_double = share(f64::UNIT_ROUNDOFF, 0.0);
    for (stats, longest, others) in
        [(double, of_double, 1e-12), (single, of_single, of_single), (tensor, of_tensor, of_tensor)]
    {
        for (name, errors) in &stats.lock().expect("no panic while comparing").kernels {
            let most = if name.starts_with("weights3x3") { longest } else { others };
            assert!(errors.width < most, "{name}: {:e}, at most {most:e}", errors.width);
        }
    }
}

fn references_agree_on_random_networks(seeds: Range<u64>) {
    // A batch norm over 60 pixels divides by their deviation, and up to seven of them in sequence amplify
    // errors. A gradient in the wrong buffer is wrong in its first digit.
    let most = 1e-9;
    for seed in seeds {
        let (case, stats) = (at_random(seed), SharedStats::default());
        references_agree_with_the_cpu::<f64>(&case, MathMode::Fma, &stats, most);
    }
}

#[test]
fn references_agree_with_the_cpu_on_random_networks() {
    references_agree_on_random_networks(0..16);
}

/// `cargo test --release -p lastbit-cuda --lib a_hundred_random_networks -- --ignored`
#[test]
#[ignore = "a hundred networks"]
fn references_agree_with_the_cpu_on_a_hundred_random_networks() {
    references_agree_on_random_networks(0..100);
}

/// Compares every launch of all cases with its reference; returns the kernels launched.
fn compare<F: DeviceReal>(cases: &[Case], math: MathMode) -> BTreeSet<String> {
    let stats = Arc::new(Mutex::new(ErrorStats::default()));
    for case in cases {
        let device = Device::checked::<F>(math, &stats).unwrap();
        run::<F>(device, case, math, |_, _, _| {}).unwrap();
    }
    let error_stats = stats.lock().expect("no panic while comparing");
    println!("{}, {math:?}: error as a share of its bound, and of the numbers", F::NAME);
    for (name, errors) in &error_stats.kernels {
        let KernelErrors { launches, numbers, share, error, .. } = errors;
        println!("{name:28} {share:8.4} {error:8.1e}   {launches} launches, {numbers} numbers");
    }
    let far = |error: f64| F::KERNEL_NAME == f64::KERNEL_NAME && error > 1e-12;
    let wrong: Vec<_> = error_stats.kernels.iter().filter(|(_, found)| far(found.error)).collect();
    assert!(wrong.is_empty(), "beyond 1e-12: {wrong:#?}");
    let wrong: Vec<_> = error_stats.kernels.iter().filter(|(_, found)| found.share > 1.0).collect();
    assert!(wrong.is_empty(), "{}, {math:?}: beyond the bound: {wrong:#?}", F::NAME);
    error_stats.kernels.keys().map(ToString::to_string).collect()
}

#[test]
#[ignore = "needs a CUDA device"]
fn every_kernel_is_within_its_bound_in_double_precision() {
    let found = compare::<f64>(&all(), MathMode::Fma);
    assert_eq!(found, kernels_with_references());
}

#[test]
#[ignore = "needs a CUDA device"]
fn every_kernel_is_within_its_bound_in_single_precision() {
    let found = compare::<f32>(&all(), MathMode::Fma);
    assert_eq!(found, kernels_with_references());
}

#[test]
#[ignore = "needs a CUDA device"]
fn every_kernel_of_tensor_cores_is_within_its_bound() {
    let found = compare::<f32>(&conv3x3(), MathMode::Tf32);
    let missing: Vec<_> = kernels_of_3x3().difference(&found).cloned().collect();
    assert!(missing.is_empty(), "no network launches {missing:?}");
}
