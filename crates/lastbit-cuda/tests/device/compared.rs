//! Replicas in training beside the first, measured on the device: the bits of the CPU's, whose numbers
//! come from parameters that were read back. Where there is no device, a test says that it was skipped.

use std::sync::Arc;

use lastbit::activation::Activation::Tanh;
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::zoo::mlp;
use lastbit::nn::{Init, Loss, Network};
use lastbit::optim::direction::{Method, Optimizer};
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::Schedule;
use lastbit::rng::Stream;
use lastbit::training::{Compared, Plan, Replica, Variant};
use lastbit_cuda::{CudaTrainer, DeviceReal, Precision};

use crate::common::{networks, on_device};

fn examples<F: DeviceReal>(network: &Network) -> Vec<Batches<F>> {
    let shape = network.input_shape();
    let (count, stream) = (24, Stream::new(6, 0));
    let byte = |i: usize| stream.below(i as u64, 256) as u8;
    let labels = (0..count).map(|i| i as u32 % 2).collect();
    let data = Arc::new(Dataset {
        shape,
        inputs: Inputs::Bytes((0..count * shape.iter().product::<usize>()).map(byte).collect()),
        targets: Targets::Classes { count: 2, labels },
    });
    let selection = Selection { size: 8, order: Order::AsStored, keep_last: true };
    vec![Batches::new(data, &Normalization::none(), selection, None)]
}

fn trainer<F: DeviceReal>(
    network: &Arc<Network>,
    loss: Loss,
    step: usize,
    replicas: Vec<Replica<F>>,
) -> Option<CudaTrainer<F>> {
    let variants = (0..replicas.len()).map(|r| Variant {
        perturbation: Perturbation { k: 1.0 + 2.0 * r as f64, form: Form::Paper },
        ..Variant::PLAIN
    });
    let (plan, variants) = (plan(), variants.collect());
    let (plain, sources) = (Precision::Plain, examples(network));
    on_device(CudaTrainer::new(network, loss, plain, sources, plan, variants, step, replicas))
}

fn plan() -> Plan {
    let optimizer = Optimizer { method: Method::HeavyBall { mu: 0.9 }, alpha: 1e-3 };
    Plan { optimizer, dt: 0.01, schedule: Schedule::Constant }
}

fn replica<F: DeviceReal>(network: &Network, seed: u64) -> Replica<F> {
    let theta = network.initial(Init::Torch, seed);
    Replica::start(theta, network.initial_buffers(), &plan().optimizer)
}

/// Looks at what the device says before its parameters are read.
fn check<F: DeviceReal>(trainer: &mut CudaTrainer<F>, network: &Network, what: &str) {
    let found = trainer.compared().unwrap();
    trainer.read_back().unwrap();
    let replicas = trainer.replicas();
    assert_eq!(found.len(), replicas.len(), "{what}");
    let tensors = network.tensors();
    for (r, (found, replica)) in found.iter().zip(replicas).enumerate() {
        let expected = Compared::of(&replicas[0].theta, &replica.theta, &tensors);
        // Debug digits tell any two numbers apart, and say of NaN just that.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{what}, {}, {r}", F::NAME);
    }
}

fn every_network<F: DeviceReal>() {
    for (name, network, loss) in networks() {
        let network = Arc::new(network);
        let replicas = [1, 1, 2].map(|seed| replica::<F>(&network, seed)).to_vec();
        let Some(mut trainer) = trainer(&network, loss, 0, replicas) else { return };
        check(&mut trainer, &network, name);
        println!("{name}: {} parameters", network.len());
    }
}

#[test]
fn starts_of_every_network_are_compared_in_the_bits_of_the_cpu() {
    every_network::<f32>();
    every_network::<f64>();
}

fn after_steps<F: DeviceReal>() {
    let network = Arc::new(mlp([1, 1, 20], &[130, 17], 2, Tanh));
    let mut replicas = [1, 1, 1, 2, 1].map(|seed| replica::<F>(&network, seed)).to_vec();
    // One has ended with numbers left, one without.
    for r in [2, 4] {
        replicas[r].ended = Some(3);
    }
    let spoilt = [F::of(f64::INFINITY), F::of(-3e38)].into_iter().cycle();
    let places = replicas[4].theta.iter_mut().step_by(37);
    places.zip(spoilt).for_each(|(place, value)| *place = value);
    replicas[4].theta[5] = F::of(f64::NAN);
    let Some(mut trainer) = trainer(&network, Loss::CrossEntropy, 4, replicas) else { return };
    check(&mut trainer, &network, "before the first step");
    let mut distances = Vec::new();
    for step in 0..6 {
        trainer.advance().unwrap();
        check(&mut trainer, &network, &format!("step {step}"));
        distances.push(trainer.compared().unwrap()[1].distance.rel_l1);
    }
    let ended: Vec<_> = trainer.replicas().iter().map(|replica| replica.ended).collect();
    assert_eq!(ended, [None, None, Some(3), None, Some(3)]);
    assert!(distances[5] > 0.0, "the test needs replicas that part: {distances:?}");
}

#[test]
fn replicas_in_training_are_compared_in_the_bits_of_the_cpu() {
    after_steps::<f32>();
    after_steps::<f64>();
}
