//! The device against the CPU: gradients of whole networks, trainings, bits. Where there is no
//! device, a test says that it was skipped.

use std::sync::Arc;

use lastbit::Real;
use lastbit::activation::Activation::{Relu, Swish, Tanh};
use lastbit::batches::{Augmentation, Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets as Stored};
use lastbit::hash_of_bits;
use lastbit::nn::zoo::{Shortcut, mlp, resnet};
use lastbit::nn::{Batch, Engine, Init, Loss, Network, Op};
use lastbit::objective::{Objective, OnBatches};
use lastbit::optim::direction::{Method, Optimizer};
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::{Clock, Schedule};
use lastbit::reduce::norm;
use lastbit::rng::Stream;
use lastbit::training::{Flip, Plan, Replica, Trainer, Variant};
use lastbit_cuda::{CudaTrainer, DeviceReal, Engine as CudaEngine, Precision};

use crate::common::{batch, jumps, networks, on_device, relative, single, stacks, start};

fn cpu_gradient<F: Real>(network: &Arc<Network>, loss: Loss, batch: &Batch<F>) -> (f64, Vec<F>) {
    let mut engine = Engine::new(network, loss);
    engine.set_batch(&Arc::new(batch.clone()));
    let mut gradient = vec![F::default(); network.len()];
    engine.gradient(&start(network), &mut gradient);
    (engine.last_loss(), gradient)
}

fn gpu_gradient<F: DeviceReal>(
    network: &Arc<Network>,
    loss: Loss,
    batch: &Batch<F>,
    how: Precision,
) -> Option<(f64, Vec<F>)> {
    let optimizer = Optimizer { method: Method::Sgd, alpha: 0.0 };
    let examples = batch.targets.len(network.outputs());
    let mut engine =
        on_device(CudaEngine::<F>::new(network, loss, optimizer, how, &[0, 0], examples + 3))?;
    for replica in 0..2 {
        engine.set_theta(replica, &start(network)).unwrap();
    }
    engine.set_batch(0, batch).unwrap();
    let gradients = engine.gradients(examples).unwrap();
    assert_eq!(hash_of_bits(&gradients[0]), hash_of_bits(&gradients[1]));
    let answers = engine.answers(examples).unwrap().swap_remove(1);
    let loss = answers.losses.iter().sum::<f64>() / examples as f64;
    Some((loss, gradients.into_iter().next().unwrap()))
}

#[test]
fn gradients_of_whole_networks_agree_with_the_cpu() {
    for (name, network, loss) in networks() {
        let network = Arc::new(network);
        let of = batch::<f64>(&network, loss, 37, 8);
        let Some((loss_found, found)) = gpu_gradient(&network, loss, &of, Precision::Plain) else {
            return;
        };
        let (loss_expected, expected) = cpu_gradient(&network, loss, &of);
        for parameter in network.parameters() {
            let error =
                relative(&found[parameter.range.clone()], &expected[parameter.range.clone()]);
            // Biases before a batch norm have no gradient but rounding.
            let size = norm(&expected[parameter.range.clone()]) / norm(&expected);
            assert!(error < 1e-12 || size < 1e-10, "{name}, {}: {error:e}", parameter.name);
        }
        let error = relative(&found, &expected);
        assert!(error < 1e-12, "{name}: {error:e}");
        assert!((loss_found - loss_expected).abs() < 1e-12 * loss_expected, "{name}");

        let single = single(&of);
        let Some((_, found)) = gpu_gradient(&network, loss, &single, Precision::Plain) else {
            return;
        };
        let (_, on_cpu) = cpu_gradient(&network, loss, &single);
        // Only the last layer's gradient comes from behind all jumps.
        let jumps = jumps(&network);
        let Some(Op::Conv(head)) = network.nodes().last().map(|layer| &layer.op) else { continue };
        let range = if jumps { head.weight.clone() } else { 0..network.len() };
        let error = relative(&found[range.clone()], &expected[range.clone()]);
        let bound = relative(&on_cpu[range.clone()], &expected[range]);
        println!("{name}: f32 errors {error:.2e} on the device, {bound:.2e} on the CPU");
        // The device's error is a sample of the same rounding errors as the CPU's, in sums of
        // another order. Chains on the device are up to four times as long (no 2x2 patches, no
        // chunks), which doubles the typical error; 8 leaves as much again twice.
        assert!(error < 8.0 * bound, "{name}: {error:e}, on the CPU {bound:e}");
    }
}

#[test]
fn fast_convolutions_agree_with_the_cpu() {
    let residual = resnet(8, Shortcut::Conv, Swish { beta: 1.0 }, [32, 32, 3], 10);
    let mut networks = vec![("a residual network".to_owned(), residual)];
    networks.extend(stacks());
    for (name, network) in networks {
        let network = Arc::new(network);
        let convolutions = network.nodes().iter().filter(|layer| match &layer.op {
            Op::Conv(conv) => conv.kernel == [3, 3],
            _ => false,
        });
        let convolutions = convolutions.count() as f64;
        // Neither a multiple of a block's images nor of a chunk's.
        let of = batch::<f64>(&network, Loss::CrossEntropy, 11, 5);
        let (_, expected) = cpu_gradient(&network, Loss::CrossEntropy, &of);
        let found = gpu_gradient(&network, Loss::CrossEntropy, &of, Precision::Plain);
        let Some((_, found)) = found else { return };
        let error = relative(&found, &expected);
        assert!(error < 1e-12, "{name}: {error:e} in double precision");
        let single = single(&of);
        let (_, on_cpu) = cpu_gradient(&network, Loss::CrossEntropy, &single);
        let bound = relative(&on_cpu, &expected);
        for how in [Precision::Plain, Precision::Tf32] {
            let found = gpu_gradient(&network, Loss::CrossEntropy, &single, how);
            let Some((_, found)) = found else { return };
            let error = relative(&found, &expected);
            println!("{name}, {how:?}: {error:.2e}, on the CPU {bound:.2e}");
            // As above; a factor of TF32 is off by up to 2^-11 instead of 2^-24: two factors to a
            // product, each layer there and back.
            let limit = match how {
                Precision::Plain => 8.0 * bound,
                Precision::Tf32 => 4.0 * convolutions * 2.0_f64.powi(-11),
            };
            assert!(error < limit, "{name}, {how:?}: {error:e}, limit {limit:e}");
        }
    }
}

/// Gradients of replicas of which every other has larger parameters.
fn gradients_of_many<F: DeviceReal>(
    network: &Arc<Network>,
    batch: &Batch<F>,
    how: Precision,
    replicas: usize,
) -> Option<Vec<Vec<F>>> {
    let optimizer = Optimizer { method: Method::Sgd, alpha: 0.0 };
    let examples = batch.targets.len(network.outputs());
    let (loss, slots) = (Loss::CrossEntropy, vec![0; replicas]);
    let engine = CudaEngine::<F>::new(network, loss, optimizer, how, &slots, examples);
    let mut engine = on_device(engine)?;
    for replica in 0..replicas {
        let size = F::of(if replica % 2 == 0 { 1.0 } else { 1.25 });
        let theta: Vec<F> = start::<F>(network).into_iter().map(|x| x * size).collect();
        engine.set_theta(replica, &theta).unwrap();
    }
    engine.set_batch(0, batch).unwrap();
    Some(engine.gradients(examples).unwrap())
}

/// A block of a fast convolution then has several parts of the results, of one replica and of the next.
#[test]
fn fast_convolutions_of_many_replicas_have_the_bits_of_one() {
    fn check<F: DeviceReal>(
        name: &str,
        network: &Arc<Network>,
        batch: &Batch<F>,
        how: Precision,
    ) -> Option<()> {
        let two = gradients_of_many(network, batch, how, 2)?;
        let many = gradients_of_many(network, batch, how, 60).unwrap();
        for (r, gradient) in many.iter().enumerate() {
            let alike = hash_of_bits(gradient) == hash_of_bits(&two[r % 2]);
            assert!(alike, "{name}, {how:?}, replica {r}");
        }
        Some(())
    }
    for (name, network) in stacks() {
        let network = Arc::new(network);
        let of = batch::<f64>(&network, Loss::CrossEntropy, 5, 8);
        if check(&name, &network, &of, Precision::Plain).is_none() {
            return;
        }
        check(&name, &network, &single(&of), Precision::Plain);
        check(&name, &network, &single(&of), Precision::Tf32);
    }
}

fn photographs(count: usize) -> Arc<Dataset> {
    let stream = Stream::new(77, 0);
    let byte = |i: usize| (stream.below(i as u64, 256)) as u8;
    let labels = (0..count).map(|i| stream.below(1 << 40 | i as u64, 4) as u32).collect();
    Arc::new(Dataset {
        shape: [8, 8, 3],
        inputs: Inputs::Bytes((0..count * 192).map(byte).collect()),
        targets: Stored::Classes { count: 4, labels },
    })
}

fn sources<F: Real>() -> Vec<Batches<F>> {
    let data = photographs(100);
    let source = |seed| {
        let selection = Selection { size: 16, order: Order::Shuffled { seed }, keep_last: true };
        let augmentation = Augmentation { padding: 2, flip: true, seed };
        let normalization = Normalization::per_channel(&data);
        Batches::new(data.clone(), &normalization, selection, Some(augmentation))
    };
    vec![source(1), source(2)]
}

fn plan(method: Method) -> Plan {
    let schedule = Schedule::Every { gamma: 0.5, every: 9, clock: Clock::Steps };
    Plan { optimizer: Optimizer { method, alpha: 1e-3 }, dt: 0.05, schedule }
}

fn variants() -> Vec<Variant> {
    let perturbation = Perturbation { k: 3.0, form: Form::Paper };
    vec![
        Variant::PLAIN,
        Variant { perturbation, ..Variant::PLAIN },
        Variant { source: 1, ..Variant::PLAIN },
        Variant { order: Some(5), ..Variant::PLAIN },
        Variant { flip: Some(Flip { parameter: 11, step: 2 }), ..Variant::PLAIN },
    ]
}

fn small_resnet() -> Arc<Network> {
    Arc::new(resnet(8, Shortcut::Conv, Relu, [8, 8, 3], 4))
}

fn fresh<F: Real>(network: &Network, plan: &Plan, count: usize) -> Vec<Replica<F>> {
    let replica = || {
        Replica::start(network.initial(Init::Torch, 4), network.initial_buffers(), &plan.optimizer)
    };
    (0..count).map(|_| replica()).collect()
}

/// Without batch norm no component of the gradient is rounding alone.
#[test]
fn gradients_fluctuate_as_on_the_cpu() {
    let plan = plan(Method::Sgd);
    let network = Arc::new(mlp([8, 8, 3], &[20], 4, Tanh));
    let (loss, how) = (Loss::CrossEntropy, Precision::Plain);
    let variants = variants();
    let replicas = fresh::<f64>(&network, &plan, variants.len());
    let on_gpu = CudaTrainer::new(
        &network,
        loss,
        how,
        sources(),
        plan.clone(),
        variants.clone(),
        0,
        replicas.clone(),
    );
    let Some(mut on_gpu) = on_device(on_gpu) else { return };
    let engine = Engine::new(&network, loss);
    let mut on_cpu = Trainer::new(engine, sources(), plan, variants, 0, replicas);
    let (found, expected) = (on_gpu.fluctuations(3).unwrap(), on_cpu.fluctuations(3));
    for (found, expected) in found.iter().zip(&expected) {
        let (found, expected) = (found.unwrap(), expected.unwrap());
        // A mean over M components of quotients t = |x − y|/|x|: an error of 100 u |y| in a sum of
        // a hundred numbers is one of 100 u t in t itself, and no t is larger than M times the mean.
        let limit = 100.0 * f64::UNIT_ROUNDOFF * network.len() as f64 * expected;
        assert!((found - expected).abs() < limit * expected, "{found} {expected}");
    }
}

fn cuda_trainer<F: DeviceReal>(plan: &Plan, variants: Vec<Variant>) -> Option<CudaTrainer<F>> {
    let network = small_resnet();
    let replicas = fresh(&network, plan, variants.len());
    on_device(CudaTrainer::new(
        &network,
        Loss::CrossEntropy,
        Precision::Plain,
        sources(),
        plan.clone(),
        variants,
        0,
        replicas,
    ))
}

fn read<F: DeviceReal>(trainer: &mut CudaTrainer<F>) -> Vec<Replica<F>> {
    trainer.read_back().unwrap();
    trainer.replicas().to_vec()
}

#[test]
fn twenty_steps_follow_the_cpu() {
    for method in [
        Method::HeavyBall { mu: 0.9 },
        Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-4 },
        Method::NesterovPde { mu: 0.5 },
    ] {
        let plan = plan(method);
        let Some(mut on_gpu) = cuda_trainer::<f64>(&plan, variants()) else { return };
        let network = small_resnet();
        let replicas = fresh::<f64>(&network, &plan, 5);
        let engine = Engine::new(&network, Loss::CrossEntropy);
        let mut on_cpu = Trainer::new(engine, sources(), plan, variants(), 0, replicas);
        for step in 0..20 {
            on_gpu.advance().unwrap();
            on_cpu.advance();
            for (found, replica) in on_gpu.replicas().iter().zip(on_cpu.replicas()) {
                let tally = found.tally;
                let (found, expected) = (tally.last_loss, replica.tally.last_loss);
                // Gradients differ by some 1e-15. A difference between replicas of such a network
                // grows by a factor of 1.5 a step at most: in twenty steps by 3e3, so that 1e-10
                // leaves a factor of thirty.
                assert!((found - expected).abs() < 1e-10, "{method:?}, {step}: {found} {expected}");
                assert_eq!(
                    (tally.right, tally.examples),
                    (replica.tally.right, replica.tally.examples)
                );
            }
        }
        let test = photographs(41);
        let selection = Selection { size: 23, order: Order::AsStored, keep_last: true };
        let mut test = Batches::new(test, &Normalization::none(), selection, None);
        let found = on_gpu.evaluate(&mut test).unwrap();
        let expected = on_cpu.evaluate(&mut test);
        for (found, expected) in found.iter().zip(&expected) {
            let (found, expected) = (found.as_ref().unwrap(), expected.as_ref().unwrap());
            assert!((found.loss - expected.loss).abs() < 1e-9 * expected.loss);
            assert_eq!(found.classes, expected.classes);
            assert_eq!(found.right, expected.right);
        }
        on_gpu.read_back().unwrap();
        for (found, expected) in on_gpu.replicas().iter().zip(on_cpu.replicas()) {
            assert!(relative(&found.theta, &expected.theta) < 1e-9);
            assert!(relative(&found.buffers, &expected.buffers) < 1e-9);
            assert_eq!(found.memory.steps, expected.memory.steps);
        }
    }
}

#[test]
fn same_bits_for_any_number_of_replicas_and_after_a_resume() {
    let plan = plan(Method::HeavyBall { mu: 0.9 });
    let Some(mut five) = cuda_trainer::<f32>(&plan, variants()) else { return };
    for _ in 0..5 {
        five.advance().unwrap();
    }
    let middle = read(&mut five);
    for _ in 0..5 {
        five.advance().unwrap();
    }
    let end = read(&mut five);
    for (i, variant) in variants().into_iter().enumerate() {
        let mut alone = cuda_trainer::<f32>(&plan, vec![variant]).unwrap();
        for _ in 0..10 {
            alone.advance().unwrap();
        }
        assert!(read(&mut alone)[0] == end[i], "replica {i} alone");
    }
    let network = small_resnet();
    let mut resumed = CudaTrainer::new(
        &network,
        Loss::CrossEntropy,
        Precision::Plain,
        sources(),
        plan,
        variants(),
        5,
        middle,
    )
    .unwrap();
    for _ in 0..5 {
        resumed.advance().unwrap();
    }
    assert!(read(&mut resumed) == end, "resumed");
    // Power-of-two twins would be equal; these are not.
    assert_ne!(hash_of_bits(&end[0].theta), hash_of_bits(&end[1].theta));
}

/// All images at every step, in their order and in another.
fn whole_sources<F: Real>() -> Vec<Batches<F>> {
    let data = photographs(23);
    vec![Batches::new(data.clone(), &Normalization::none(), Selection::full(&data), None)]
}

/// A batch that stays on the device is written over by an examination, and formed again.
#[test]
fn what_is_measured_in_between_is_not_seen_by_the_steps() {
    let plan = plan(Method::HeavyBall { mu: 0.9 });
    let network = Arc::new(mlp([8, 8, 3], &[20], 4, Tanh));
    let variants = vec![Variant::PLAIN, Variant { order: Some(5), ..Variant::PLAIN }];
    let (loss, how) = (Loss::CrossEntropy, Precision::Plain);
    for make in [whole_sources::<f64> as fn() -> _, sources::<f64>] {
        let replicas = fresh::<f64>(&network, &plan, variants.len());
        let trainer = || {
            let (plan, variants, replicas) = (plan.clone(), variants.clone(), replicas.clone());
            CudaTrainer::new(&network, loss, how, make(), plan, variants, 0, replicas)
        };
        let Some(mut measured) = on_device(trainer()) else { return };
        let mut undisturbed = trainer().unwrap();
        let engine = Engine::new(&network, loss);
        let mut on_cpu = Trainer::new(engine, make(), plan.clone(), variants.clone(), 0, replicas);
        let data = [photographs(41), photographs(30)];
        let tests = data.map(|data| {
            let selection = Selection { size: 19, order: Order::AsStored, keep_last: true };
            Batches::new(data, &Normalization::none(), selection, None)
        });
        for step in 0..6 {
            measured.advance().unwrap();
            undisturbed.advance().unwrap();
            on_cpu.advance();
            // One after the other, so that the data set that was examined last changes and comes back.
            let test = &mut tests[step % 2].clone();
            let (found, expected) = (measured.evaluate(test).unwrap(), on_cpu.evaluate(test));
            for (found, expected) in found.iter().zip(&expected) {
                let (found, expected) = (found.as_ref().unwrap(), expected.as_ref().unwrap());
                assert!((found.loss - expected.loss).abs() < 1e-10 * expected.loss, "step {step}");
                assert_eq!(found.classes, expected.classes);
            }
            measured.fluctuations(2).unwrap();
            measured.compared().unwrap();
        }
        assert!(read(&mut measured) == read(&mut undisturbed), "after measurements");
        let tally = |replica: &Replica<f64>| replica.tally.last_loss;
        for (found, expected) in measured.replicas().iter().zip(on_cpu.replicas()) {
            assert!((tally(found) - tally(expected)).abs() < 1e-10, "{found:?}");
        }
    }
}

#[test]
fn a_replica_that_diverges_ends_at_the_step_of_the_cpu() {
    let plan = Plan { dt: 1e4, ..plan(Method::Sgd) };
    let Some(mut on_gpu) = cuda_trainer::<f64>(&plan, vec![Variant::PLAIN]) else { return };
    let network = small_resnet();
    let replicas = fresh::<f64>(&network, &plan, 1);
    let engine = Engine::new(&network, Loss::CrossEntropy);
    let mut on_cpu = Trainer::new(engine, sources(), plan, vec![Variant::PLAIN], 0, replicas);
    for _ in 0..6 {
        on_gpu.advance().unwrap();
        on_cpu.advance();
        assert_eq!(on_gpu.replicas()[0].ended, on_cpu.replicas()[0].ended);
    }
    assert!(on_cpu.replicas()[0].ended.is_some(), "the test needs a divergence");
}
