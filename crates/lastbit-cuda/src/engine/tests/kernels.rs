//! Each kernel against its naive twin (`crate::twin`): on a device every launch of small networks in which all
//! kernels occur; everywhere the twins themselves, as the kernels of an engine on the host, against
//! `lastbit`'s engine.

use std::collections::BTreeSet;
use std::sync::Mutex;

use lastbit::Real;
use lastbit::nn::{Engine as CpuEngine, Init, Mode};
use lastbit::objective::{Objective, OnBatches};
use lastbit::reduce::{distance, norm};
use lastbit::rng::Stream;

use super::super::*;
use super::networks::{Case, all, at_random, fast};
use crate::twin::findings::{Asked, Finding, Findings};
use crate::twin::names::{TWINS, Twin};
use crate::twin::on_device;

/// Two replicas with parameters and batches of their own.
const REPLICAS: usize = 2;

fn numbers<F: Real>(seed: u64, len: usize) -> Vec<F> {
    let stream = Stream::new(seed, 0);
    (0..len as u64).map(|i| F::of(stream.normal(i))).collect()
}

/// Everything that a case has besides its network; numbers are those of `F`.
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
        let (inputs, outputs) =
            (network.input_shape().iter().product::<usize>(), network.outputs());
        let classes = |many: u64| {
            let class = |i: usize| Stream::new(40 + seed, 1).below(i as u64, many) as u32;
            Targets::Classes((0..case.images).map(class).collect())
        };
        let targets = match case.loss {
            Loss::CrossEntropy => classes(outputs as u64),
            Loss::BinaryCrossEntropy if outputs == 1 => classes(2),
            _ => {
                let stream = Stream::new(50 + seed, 0);
                let number = |i: usize| F::of(stream.uniform(i as u64));
                Targets::Reals((0..case.images * outputs).map(number).collect())
            }
        };
        let batch = Batch { inputs: numbers(60 + seed, case.images * inputs), targets };
        Self { direction: numbers(70 + seed, theta.len()), theta, buffers, batch }
    }

    fn in_double(&self) -> Given<f64> {
        let doubles = |values: &[F]| values.iter().map(|x| x.to_f64()).collect();
        Given {
            theta: doubles(&self.theta),
            buffers: doubles(&self.buffers),
            batch: Batch {
                inputs: doubles(&self.batch.inputs),
                targets: match &self.batch.targets {
                    Targets::Classes(classes) => Targets::Classes(classes.clone()),
                    Targets::Reals(values) => Targets::Reals(doubles(values)),
                },
            },
            direction: doubles(&self.direction),
        }
    }
}

/// What an engine answers for one replica: after a gradient that teaches, and as a finished network.
#[derive(Default)]
struct Answer {
    losses: [f64; 2],
    gradients: [Vec<f64>; 2],
    buffers: Vec<f64>,
    /// Where wanted.
    products: Option<[Vec<f64>; 2]>,
}

/// All passes of an engine over a case; `read` says what remains of them.
fn run<F: DeviceReal>(
    device: Device,
    case: &Case,
    precision: Precision,
    mut read: impl FnMut(&Engine<F>, &mut [Answer], usize),
) -> Result<Vec<Answer>, Error> {
    let Case { network, loss, images, .. } = case;
    let optimizer = Optimizer { method: Method::Sgd, alpha: 0.0 };
    let slots: Vec<usize> = (0..REPLICAS).collect();
    let mut engine =
        Engine::<F>::on(|| Ok(device), network, *loss, optimizer, precision, &slots, images + 3)?;
    let given: Vec<Given<F>> = slots.iter().map(|r| Given::of(case, *r)).collect();
    for (r, given) in given.iter().enumerate() {
        engine.set_theta(r, &given.theta)?;
        engine.device.write(&mut engine.buffers, r * given.buffers.len(), &given.buffers)?;
        engine.set_batch(r, &given.batch)?;
    }
    let mut answers: Vec<Answer> = slots.iter().map(|_| Answer::default()).collect();
    for (pass, look) in [Look::Learning, Look::Running].into_iter().enumerate() {
        engine.take_gradient(*images, look)?;
        for (r, answer) in answers.iter_mut().enumerate() {
            answer.losses[pass] = engine.mean_loss(r, *images)?;
        }
        read(&engine, &mut answers, pass);
    }
    if case.products {
        for (pass, look) in [Look::Measuring, Look::Running].into_iter().enumerate() {
            engine.linearize(*images, look)?;
            for (r, given) in given.iter().enumerate() {
                engine.product(r, &given.direction, *images)?;
            }
            read(&engine, &mut answers, 2 + pass);
        }
    }
    Ok(answers)
}

/// What the twins compute on the host.
fn on_host<F: DeviceReal>(case: &Case, precision: Precision, asked: &Asked) -> Vec<Answer> {
    let device = Device::host::<F>(precision, asked);
    let len = case.network.len();
    let read = |engine: &Engine<F>, answers: &mut [Answer], pass: usize| {
        for (r, answer) in answers.iter_mut().enumerate() {
            let all = |memory: &Memory<F>, len| engine.device.read_doubles(memory, r * len, len);
            if pass < 2 {
                answer.gradients[pass] = all(&engine.gradient, len);
                let statistics = engine.buffers.len() / REPLICAS;
                answer.buffers = all(&engine.buffers, statistics);
            } else {
                let dots = engine.dots.as_ref().expect("a product was taken");
                answer.products.get_or_insert_default()[pass - 2] = all(&dots.product, len);
            }
        }
    };
    run(device, case, precision, read).expect("the host has no errors")
}

/// What `lastbit`'s engine computes, in double precision.
fn on_cpu(case: &Case, given: &Given<f64>) -> Answer {
    let mut engine = CpuEngine::<f64>::new(&case.network, case.loss);
    engine.load_buffers(&given.buffers);
    engine.set_batch(&Arc::new(given.batch.clone()));
    let mut answer = Answer::default();
    let len = case.network.len();
    let mut out = vec![0.0; len];
    for (pass, mode) in [Mode::Training, Mode::Evaluation].into_iter().enumerate() {
        engine.set_mode(mode);
        engine.gradient(&given.theta, &mut out);
        answer.losses[pass] = engine.last_loss();
        answer.gradients[pass].clone_from(&out);
        if mode == Mode::Training {
            engine.settle();
            answer.buffers = engine.buffers().to_vec();
        }
        if case.products {
            engine.hessian_vector(&given.theta, &given.direction, &mut out);
            answer.products.get_or_insert_default()[pass].clone_from(&out);
        }
    }
    answer
}

fn relative(found: &[f64], expected: &[f64]) -> f64 {
    distance(found, expected) / norm(expected)
}

/// How far two double computations of the same sums in another order are from each other at most, as between the
/// device and the CPU in `tests/device/against_cpu.rs`.
const MOST: f64 = 1e-12;

/// The twins, as the kernels of an engine, give what `lastbit`'s engine gives.
fn twins_agree_with_the_cpu<F: DeviceReal>(
    case: &Case,
    precision: Precision,
    asked: &Asked,
    most: f64,
) {
    let answers = on_host::<F>(case, precision, asked);
    for (r, found) in answers.iter().enumerate() {
        let name = format!("{}, {}, {precision:?}, replica {r}", case.name, F::NAME);
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
            // deviation once more, as in `tests/device/curvature.rs`.
            let error = relative(found, expected);
            assert!(error < 10.0 * most, "{name}: product off by {error:e}");
        }
    }
}

/// Kernels with twins; those of 3x3 convolutions alone, or all.
fn names(of_3x3_alone: bool) -> BTreeSet<&'static str> {
    let is_of_3x3 = |twin: Twin| matches!(twin, Twin::Fast(_) | Twin::Pack(_) | Twin::Weights(_));
    let wanted = |(_, twin): &&(&'static str, Twin)| !of_3x3_alone || is_of_3x3(*twin);
    TWINS.iter().filter(wanted).map(|(name, _)| *name).collect()
}

fn launched(asked: &Asked) -> BTreeSet<&'static str> {
    asked.lock().expect("no panic while comparing").kernels.keys().copied().collect()
}

#[test]
fn twins_of_all_kernels_agree_with_the_cpu() {
    let [double, single, tensor] = [(); 3].map(|()| Asked::default());
    for case in all() {
        twins_agree_with_the_cpu::<f64>(&case, Precision::Plain, &double, MOST);
    }
    for case in fast() {
        twins_agree_with_the_cpu::<f32>(&case, Precision::Plain, &single, MOST);
        // The same twins, with kernels packed as tensor cores take them: few images will do.
        let case = Case { images: 3, ..case };
        twins_agree_with_the_cpu::<f32>(&case, Precision::Tf32, &tensor, MOST);
    }
    // The networks have every kernel.
    let of_3x3 = names(true);
    assert_eq!(launched(&double), names(false));
    for asked in [&single, &tensor] {
        let missing: Vec<_> = of_3x3.difference(&launched(asked)).copied().collect();
        assert!(missing.is_empty(), "no network has {missing:?}");
    }
    // A bound that is as large as its number would say nothing. In double precision they are to be within
    // 1e-12, but for the longest sums, by weights of 3x3 convolutions over the pixels of three images of 32x32:
    // n = 3072 products of either sign, so that their sizes sum up to some sqrt(n) times their sum; of that, n u
    // (2^-22 on tensor cores) and what the factors are off (2^-11 each for tensor cores).
    let n = 3072.0_f64;
    let share = |unit: f64, factors: f64| n.sqrt() * (n * unit + factors);
    let of_single = share(f32::UNIT_ROUNDOFF, 0.0);
    let of_tensor = share(1.0 / f64::from(1 << 22), 2.0 / f64::from(1 << 11));
    let of_double = share(f64::UNIT_ROUNDOFF, 0.0);
    for (asked, longest, others) in
        [(double, of_double, 1e-12), (single, of_single, of_single), (tensor, of_tensor, of_tensor)]
    {
        for (name, finding) in &asked.lock().expect("no panic while comparing").kernels {
            let most = if name.starts_with("weights3x3") { longest } else { others };
            assert!(finding.width < most, "{name}: {:e}, at most {most:e}", finding.width);
        }
    }
}

#[test]
fn twins_agree_with_the_cpu_on_networks_at_random() {
    // A batch norm over 60 pixels divides by their deviation: up to seven of them, one after the other,
    // make errors larger. What is wrong in its order is wrong in its first digit.
    let most = 1e-9;
    for seed in 0..100 {
        let (case, asked) = (at_random(seed), Asked::default());
        twins_agree_with_the_cpu::<f64>(&case, Precision::Plain, &asked, most);
    }
}

/// Compares every launch of all cases with its twin; none without a device.
fn compare<F: DeviceReal>(cases: &[Case], precision: Precision) -> Option<BTreeSet<&'static str>> {
    let asked = Arc::new(Mutex::new(Findings::default()));
    for case in cases {
        let device = on_device(Device::checked::<F>(precision, &asked))?;
        run::<F>(device, case, precision, |_, _, _| {}).unwrap();
    }
    let findings = asked.lock().expect("no panic while comparing");
    println!("{}, {precision:?}: error as a share of its bound, and of the numbers", F::NAME);
    for (name, finding) in &findings.kernels {
        let Finding { launches, numbers, share, error, .. } = finding;
        println!("{name:28} {share:8.4} {error:8.1e}   {launches} launches, {numbers} numbers");
    }
    let far = |error: f64| F::KERNEL_NAME == f64::KERNEL_NAME && error > 1e-12;
    let wrong: Vec<_> = findings.kernels.iter().filter(|(_, found)| far(found.error)).collect();
    assert!(wrong.is_empty(), "beyond 1e-12: {wrong:#?}");
    let wrong: Vec<_> = findings.kernels.iter().filter(|(_, found)| found.share > 1.0).collect();
    assert!(wrong.is_empty(), "{}, {precision:?}: beyond the bound: {wrong:#?}", F::NAME);
    Some(findings.kernels.keys().copied().collect())
}

#[test]
fn every_kernel_is_within_its_bound_in_double_precision() {
    let Some(found) = compare::<f64>(&all(), Precision::Plain) else { return };
    assert_eq!(found, names(false));
}

#[test]
fn every_kernel_is_within_its_bound_in_single_precision() {
    let Some(found) = compare::<f32>(&all(), Precision::Plain) else { return };
    assert_eq!(found, names(false));
}

#[test]
fn every_kernel_of_tensor_cores_is_within_its_bound() {
    let Some(found) = compare::<f32>(&fast(), Precision::Tf32) else { return };
    let missing: Vec<_> = names(true).difference(&found).copied().collect();
    assert!(missing.is_empty(), "no network has {missing:?}");
}
