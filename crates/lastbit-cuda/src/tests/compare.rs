//! Replicas in training compared with the first on the device: bit-identical to the CPU, which compares
//! parameters that were read back.

use std::sync::Arc;

use lastbit::activation::Activation::Tanh;
use lastbit::nn::zoo::mlp;
use lastbit::nn::{Init, Loss, Network};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::Schedule;
use lastbit::training::{Compared, Plan, Replica, Variant};

use super::common::{cuda_trainer, dataset, in_order};
use crate::{CudaTrainer, DeviceReal};

fn trainer<F: DeviceReal>(
    network: &Arc<Network>,
    loss: Loss,
    step: usize,
    replicas: &[Replica<F>],
) -> CudaTrainer<F> {
    let variant = |r: usize| Variant {
        perturbation: Perturbation { k: 1.0 + 2.0 * r as f64, form: Form::Paper },
        ..Variant::PLAIN
    };
    let variants: Vec<Variant> = (0..replicas.len()).map(variant).collect();
    let sources = vec![in_order(dataset(network.input_shape(), 24, 2, 6), 8)];
    cuda_trainer((network, loss), sources, &plan(), &variants, step, replicas)
}

fn plan() -> Plan {
    let optimizer = Optimizer { method: Method::HeavyBall { mu: 0.9 }, alpha: 1e-3 };
    Plan { optimizer, dt: 0.01, schedule: Schedule::Constant }
}

fn replica<F: DeviceReal>(network: &Network, seed: u64) -> Replica<F> {
    let theta = network.initial(Init::Torch, seed);
    Replica::start(theta, network.initial_buffers(), &plan().optimizer)
}

/// Compares on the device before parameters are read.
fn check<F: DeviceReal>(trainer: &mut CudaTrainer<F>, network: &Network, what: &str) {
    let found = trainer.compared().unwrap();
    trainer.read_back().unwrap();
    let replicas = trainer.replicas();
    assert_eq!(found.len(), replicas.len(), "{what}");
    let tensors = network.tensors();
    for (r, (found, replica)) in found.iter().zip(replicas).enumerate() {
        let expected = Compared::of(&replicas[0].theta, &replica.theta, &tensors);
        // The debug format distinguishes any two numbers, and all NaN are the same.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{what}, {}, {r}", F::NAME);
    }
}

fn after_steps<F: DeviceReal>() {
    let network = Arc::new(mlp([1, 1, 20], &[130, 17], 2, Tanh));
    let mut replicas = [1, 1, 1, 2, 1].map(|seed| replica::<F>(&network, seed)).to_vec();
    // One has ended with finite parameters, one without.
    for r in [2, 4] {
        replicas[r].ended = Some(3);
    }
    let spoilt = [F::of(f64::INFINITY), F::of(-3e38)].into_iter().cycle();
    let some = replicas[4].theta.iter_mut().step_by(37);
    some.zip(spoilt).for_each(|(parameter, value)| *parameter = value);
    replicas[4].theta[5] = F::of(f64::NAN);
    let mut trainer = trainer(&network, Loss::CrossEntropy, 4, &replicas);
    check(&mut trainer, &network, "before the first step");
    let mut distances = Vec::new();
    for step in 0..6 {
        trainer.advance().unwrap();
        check(&mut trainer, &network, &format!("step {step}"));
        distances.push(trainer.compared().unwrap()[1].distance.rel_l1);
    }
    let ended: Vec<_> = trainer.replicas().iter().map(|replica| replica.ended).collect();
    assert_eq!(ended, [None, None, Some(3), None, Some(3)]);
    assert!(distances[5] > 0.0, "the test needs replicas that diverge: {distances:?}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn comparisons_during_training_are_bit_identical_to_the_cpu() {
    after_steps::<f32>();
    after_steps::<f64>();
}
