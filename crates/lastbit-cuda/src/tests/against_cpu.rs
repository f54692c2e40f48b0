//! The device against the CPU: gradients of whole networks, and trainings.

use std::sync::Arc;

use lastbit::Real;
use lastbit::activation::Activation::{Relu, Swish, Tanh};
use lastbit::batches::{Augmentation, Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Targets as Stored};
use lastbit::hash_of_bits;
use lastbit::nn::zoo::{Shortcut, mlp, resnet};
use lastbit::nn::{Batch, Engine, Init, Loss, Network, Op};
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::{Clock, Schedule};
use lastbit::reduce::norm;
use lastbit::rng::Stream;
use lastbit::training::{Flip, Plan, Replica, Trainer, Variant};

use super::common::{
    batch, convert, cuda_trainer, dataset, in_order, jumps, networks, relative, stacks, start,
};
use crate::engine::NO_OPTIMIZER;
use crate::{CudaTrainer, DeviceReal, Engine as CudaEngine, MathMode};

fn cpu_gradient<F: Real>(network: &Arc<Network>, loss: Loss, batch: &Batch<F>) -> (f64, Vec<F>) {
    let mut engine = Engine::new(network, loss);
    engine.set_batch(&Arc::new(batch.clone()));
    let mut gradient = vec![F::default(); network.len()];
    let theta = start(network);
    engine.gradient(&theta, &mut gradient);
    (engine.last_loss(&theta).unwrap(), gradient)
}

/// An engine with these parameters for its replicas, on one batch; `spare` is unused capacity.
fn cuda_engine<F: DeviceReal>(
    (network, loss): (&Arc<Network>, Loss),
    batch: &Batch<F>,
    math: MathMode,
    thetas: &[Vec<F>],
    spare: usize,
) -> (CudaEngine<F>, usize) {
    let examples = batch.targets.len(network.outputs());
    let (slots, capacity) = (vec![0; thetas.len()], examples + spare);
    let engine = CudaEngine::new(network, loss, NO_OPTIMIZER, math, &slots, capacity);
    let mut engine = engine.unwrap();
    for (replica, theta) in thetas.iter().enumerate() {
        engine.set_theta(replica, theta).unwrap();
    }
    engine.set_batch(0, batch).unwrap();
    (engine, examples)
}

fn gpu_gradient<F: DeviceReal>(
    network: &Arc<Network>,
    loss: Loss,
    batch: &Batch<F>,
    math: MathMode,
) -> (f64, Vec<F>) {
    let thetas = [start(network), start(network)];
    let (mut engine, examples) = cuda_engine((network, loss), batch, math, &thetas, 3);
    let gradients = engine.gradients(examples).unwrap();
    assert_eq!(hash_of_bits(&gradients[0]), hash_of_bits(&gradients[1]));
    let answers = engine.answers(examples).unwrap().swap_remove(1);
    let loss = answers.losses.iter().sum::<f64>() / examples as f64;
    (loss, gradients.into_iter().next().unwrap())
}

#[test]
#[ignore = "needs a CUDA device"]
fn gradients_of_whole_networks_agree_with_the_cpu() {
    for (name, network, loss) in networks() {
        let network = Arc::new(network);
        let of = batch::<f64>(&network, loss, 37, 8);
        let (loss_found, found) = gpu_gradient(&network, loss, &of, MathMode::Fma);
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

        let single = convert::<_, f32>(&of);
        let (_, found) = gpu_gradient(&network, loss, &single, MathMode::Fma);
        let (_, on_cpu) = cpu_gradient(&network, loss, &single);
        // Only the last layer's gradient depends on no jump.
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
#[ignore = "needs a CUDA device"]
fn convolutions_3x3_agree_with_the_cpu() {
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
        let found = gpu_gradient(&network, Loss::CrossEntropy, &of, MathMode::Fma);
        let (_, found) = found;
        let error = relative(&found, &expected);
        assert!(error < 1e-12, "{name}: {error:e} in double precision");
        let single = convert::<_, f32>(&of);
        let (_, on_cpu) = cpu_gradient(&network, Loss::CrossEntropy, &single);
        let bound = relative(&on_cpu, &expected);
        for math in [MathMode::Fma, MathMode::Tf32] {
            let found = gpu_gradient(&network, Loss::CrossEntropy, &single, math);
            let (_, found) = found;
            let error = relative(&found, &expected);
            println!("{name}, {math:?}: {error:.2e}, on the CPU {bound:.2e}");
            // As above; a factor of TF32 is off by up to 2^-11 instead of 2^-24: two factors to a
            // product, each layer there and back.
            let limit = match math {
                MathMode::Fma => 8.0 * bound,
                MathMode::Tf32 => 4.0 * convolutions * 2.0_f64.powi(-11),
            };
            assert!(error < limit, "{name}, {math:?}: {error:e}, limit {limit:e}");
        }
    }
}

/// Gradients of replicas of which every other has larger parameters.
fn gradients_of_many<F: DeviceReal>(
    network: &Arc<Network>,
    batch: &Batch<F>,
    math: MathMode,
    replicas: usize,
) -> Vec<Vec<F>> {
    let theta = |replica: usize| {
        let size = F::of(if replica.is_multiple_of(2) { 1.0 } else { 1.25 });
        start::<F>(network).into_iter().map(|x| x * size).collect()
    };
    let thetas: Vec<Vec<F>> = (0..replicas).map(theta).collect();
    let model = (network, Loss::CrossEntropy);
    let (mut engine, examples) = cuda_engine(model, batch, math, &thetas, 0);
    engine.gradients(examples).unwrap()
}

/// A block of a 3x3 convolution then computes several parts of the results, of one replica and of the next.
#[test]
#[ignore = "needs a CUDA device"]
fn convolutions_3x3_do_not_depend_on_the_number_of_replicas() {
    fn check<F: DeviceReal>(name: &str, network: &Arc<Network>, batch: &Batch<F>, math: MathMode) {
        let two = gradients_of_many(network, batch, math, 2);
        let many = gradients_of_many(network, batch, math, 60);
        for (r, gradient) in many.iter().enumerate() {
            let alike = hash_of_bits(gradient) == hash_of_bits(&two[r % 2]);
            assert!(alike, "{name}, {math:?}, replica {r}");
        }
    }
    for (name, network) in stacks() {
        let network = Arc::new(network);
        let of = batch::<f64>(&network, Loss::CrossEntropy, 5, 8);
        check(&name, &network, &of, MathMode::Fma);
        check(&name, &network, &convert::<_, f32>(&of), MathMode::Fma);
        check(&name, &network, &convert::<_, f32>(&of), MathMode::Tf32);
    }
}

fn photographs(count: usize) -> Arc<Dataset> {
    let (stream, data) = (Stream::new(77, 0), dataset([8, 8, 3], count, 4, 77));
    let labels = (0..count).map(|i| stream.below(1 << 40 | i as u64, 4) as u32).collect();
    Arc::new(Dataset { targets: Stored::Classes { count: 4, labels }, ..(*data).clone() })
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
#[ignore = "needs a CUDA device"]
fn gradients_fluctuate_as_on_the_cpu() {
    let plan = plan(Method::Sgd);
    let network = Arc::new(mlp([8, 8, 3], &[20], 4, Tanh));
    let (loss, variants) = (Loss::CrossEntropy, variants());
    let replicas = fresh::<f64>(&network, &plan, variants.len());
    let on_gpu = cuda_trainer((&network, loss), sources(), &plan, &variants, 0, &replicas);
    let mut on_gpu = on_gpu;
    let engine = Engine::new(&network, loss);
    let mut on_cpu = Trainer::new(engine, sources(), plan, variants, 0, replicas);
    let (found, expected) = (on_gpu.fluctuations(3).unwrap(), on_cpu.fluctuations(3).unwrap());
    for (found, expected) in found.iter().zip(&expected) {
        let (found, expected) = (found.unwrap(), expected.unwrap());
        // A mean over M components of quotients t = |x − y|/|x|: an error of 100 u |y| in a sum of
        // a hundred numbers is one of 100 u t in t itself, and no t is larger than M times the mean.
        let limit = 100.0 * f64::UNIT_ROUNDOFF * network.len() as f64 * expected;
        assert!((found - expected).abs() < limit * expected, "{found} {expected}");
    }
}

fn resnet_trainer<F: DeviceReal>(plan: &Plan, variants: &[Variant]) -> CudaTrainer<F> {
    let network = small_resnet();
    let replicas = fresh(&network, plan, variants.len());
    cuda_trainer((&network, Loss::CrossEntropy), sources(), plan, variants, 0, &replicas)
}

fn read<F: DeviceReal>(trainer: &mut CudaTrainer<F>) -> Vec<Replica<F>> {
    trainer.read_back().unwrap();
    trainer.replicas().to_vec()
}

#[test]
#[ignore = "needs a CUDA device"]
fn twenty_steps_follow_the_cpu() {
    for method in [
        Method::HeavyBall { mu: 0.9 },
        Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-4 },
        Method::NesterovPde { mu: 0.5 },
    ] {
        let plan = plan(method);
        let mut on_gpu = resnet_trainer::<f64>(&plan, &variants());
        let network = small_resnet();
        let replicas = fresh::<f64>(&network, &plan, 5);
        let engine = Engine::new(&network, Loss::CrossEntropy);
        let mut on_cpu = Trainer::new(engine, sources(), plan, variants(), 0, replicas);
        for step in 0..20 {
            on_gpu.advance().unwrap();
            on_cpu.advance();
            for (found, replica) in on_gpu.replicas().iter().zip(on_cpu.replicas()) {
                let stats = found.epoch_stats;
                let (found, expected) = (stats.last_loss, replica.epoch_stats.last_loss);
                // Gradients differ by some 1e-15. A difference between replicas of such a network
                // grows by a factor of 1.5 a step at most: in twenty steps by 3e3, so that 1e-10
                // leaves a factor of thirty.
                assert!((found - expected).abs() < 1e-10, "{method:?}, {step}: {found} {expected}");
                assert_eq!(
                    (stats.right, stats.examples),
                    (replica.epoch_stats.right, replica.epoch_stats.examples)
                );
            }
        }
        let mut test = in_order(photographs(41), 23);
        let found = on_gpu.evaluate(&mut test).unwrap();
        let expected = on_cpu.evaluate(&mut test).unwrap();
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
#[ignore = "needs a CUDA device"]
fn runs_are_bit_identical_for_any_number_of_replicas_and_after_a_resume() {
    let plan = plan(Method::HeavyBall { mu: 0.9 });
    let mut five = resnet_trainer::<f32>(&plan, &variants());
    for _ in 0..5 {
        five.advance().unwrap();
    }
    let middle = read(&mut five);
    for _ in 0..5 {
        five.advance().unwrap();
    }
    let end = read(&mut five);
    for (i, variant) in variants().into_iter().enumerate() {
        let mut alone = resnet_trainer::<f32>(&plan, &[variant]);
        for _ in 0..10 {
            alone.advance().unwrap();
        }
        assert!(read(&mut alone)[0] == end[i], "replica {i} alone");
    }
    let network = small_resnet();
    let model = (&network, Loss::CrossEntropy);
    let mut resumed = cuda_trainer(model, sources(), &plan, &variants(), 5, &middle);
    for _ in 0..5 {
        resumed.advance().unwrap();
    }
    assert!(read(&mut resumed) == end, "resumed");
    // A perturbation by a power of two would change nothing; this one does.
    assert_ne!(hash_of_bits(&end[0].theta), hash_of_bits(&end[1].theta));
}

/// All images at every step, in their order and in another.
fn whole_sources<F: Real>() -> Vec<Batches<F>> {
    let data = photographs(23);
    vec![Batches::new(data.clone(), &Normalization::none(), Selection::full(&data), None)]
}

/// A fixed batch on the device is overwritten by an evaluation, and formed again.
#[test]
#[ignore = "needs a CUDA device"]
fn measurements_do_not_affect_the_steps() {
    let plan = plan(Method::HeavyBall { mu: 0.9 });
    let network = Arc::new(mlp([8, 8, 3], &[20], 4, Tanh));
    let variants = vec![Variant::PLAIN, Variant { order: Some(5), ..Variant::PLAIN }];
    let loss = Loss::CrossEntropy;
    for make in [whole_sources::<f64> as fn() -> _, sources::<f64>] {
        let replicas = fresh::<f64>(&network, &plan, variants.len());
        let trainer = || cuda_trainer((&network, loss), make(), &plan, &variants, 0, &replicas);
        let mut measured = trainer();
        let mut undisturbed = trainer();
        let engine = Engine::new(&network, loss);
        let mut on_cpu = Trainer::new(engine, make(), plan.clone(), variants.clone(), 0, replicas);
        let tests = [41, 30].map(|count| in_order(photographs(count), 19));
        for step in 0..6 {
            measured.advance().unwrap();
            undisturbed.advance().unwrap();
            on_cpu.advance();
            // In turn, so that the data set that was evaluated last changes and comes back.
            let test = &mut tests[step % 2].clone();
            let (found, expected) =
                (measured.evaluate(test).unwrap(), on_cpu.evaluate(test).unwrap());
            for (found, expected) in found.iter().zip(&expected) {
                let (found, expected) = (found.as_ref().unwrap(), expected.as_ref().unwrap());
                assert!((found.loss - expected.loss).abs() < 1e-10 * expected.loss, "step {step}");
                assert_eq!(found.classes, expected.classes);
            }
            measured.fluctuations(2).unwrap();
            measured.compared().unwrap();
        }
        assert!(read(&mut measured) == read(&mut undisturbed), "after measurements");
        let stats = |replica: &Replica<f64>| replica.epoch_stats.last_loss;
        for (found, expected) in measured.replicas().iter().zip(on_cpu.replicas()) {
            assert!((stats(found) - stats(expected)).abs() < 1e-10, "{found:?}");
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_replica_that_diverges_ends_at_the_step_of_the_cpu() {
    let plan = Plan { dt: 1e4, ..plan(Method::Sgd) };
    let mut on_gpu = resnet_trainer::<f64>(&plan, &[Variant::PLAIN]);
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
