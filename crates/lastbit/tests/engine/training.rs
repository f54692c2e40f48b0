//! A residual network with batch norm in training: a replica's bits do not depend on threads, on
//! company or on stops.

use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::batches::{Augmentation, Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::zoo::{Shortcut, resnet};
use lastbit::nn::{Engine, Init, Loss, Network};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::Schedule;
use lastbit::rng::Stream;
use lastbit::training::{Plan, Replica, Trainer, Variant};
use lastbit::{Real, hash_of_bits};

const SHAPE: [usize; 3] = [8, 8, 3];
const STEPS: usize = 7;

fn network() -> Arc<Network> {
    Arc::new(resnet(8, Shortcut::Conv, Activation::Relu, SHAPE, 4))
}

/// Images of noise, brighter in one quarter: which one is the class.
fn data(count: usize) -> Arc<Dataset> {
    let stream = Stream::new(1, 0);
    let labels: Vec<u32> = (0..count as u64).map(|i| stream.below(i, 4) as u32).collect();
    let len: usize = SHAPE.iter().product();
    let pixel = |i: usize| {
        let (label, place) = (labels[i / len], i % len / SHAPE[2]);
        let quarter = 2 * (place / 8 / 4) + place % 8 / 4;
        let bright = if quarter == label as usize { 128 } else { 0 };
        bright + Stream::new(2, 0).below(i as u64, 128) as u8
    };
    let inputs = Inputs::Bytes((0..count * len).map(pixel).collect());
    Arc::new(Dataset { shape: SHAPE, inputs, targets: Targets::Classes { count: 4, labels } })
}

fn batches<F: Real>(size: usize, seed: u64) -> Batches<F> {
    let data = data(40);
    let selection = Selection { size, order: Order::Shuffled { seed }, keep_last: true };
    let augmentation = Some(Augmentation { padding: 1, flip: false, seed: 0 });
    Batches::new(data.clone(), &Normalization::per_channel(&data), selection, augmentation)
}

fn plan(dt: f64) -> Plan {
    let optimizer = Optimizer { method: Method::Nesterov { mu: 0.9 }, alpha: 5e-4 };
    Plan { optimizer, dt, schedule: Schedule::Constant }
}

fn variants() -> Vec<Variant> {
    let k =
        |k: f64| Variant { perturbation: Perturbation { k, form: Form::Paper }, ..Variant::PLAIN };
    vec![
        Variant::PLAIN,
        k(3.0),
        k(4.0),
        Variant { order: Some(1), ..Variant::PLAIN },
        Variant { source: 1, ..Variant::PLAIN },
    ]
}

fn start<F: Real>(variants: &[Variant]) -> Vec<Replica<F>> {
    let network = network();
    let theta = network.initial(Init::Torch, 0);
    vec![Replica::start(theta, network.initial_buffers(), &plan(0.05).optimizer); variants.len()]
}

fn trainer<F: Real>(
    variants: &[Variant],
    step: usize,
    replicas: Vec<Replica<F>>,
) -> Trainer<F, Engine<F>, Batches<F>> {
    let engine = Engine::new(&network(), Loss::CrossEntropy);
    let sources = vec![batches(16, 0), batches(16, 1)];
    Trainer::new(engine, sources, plan(0.05), variants.to_vec(), step, replicas)
}

fn trained<F: Real>(variants: &[Variant]) -> Vec<Replica<F>> {
    let mut trainer = trainer(variants, 0, start(variants));
    (0..STEPS).for_each(|_| trainer.advance().unwrap());
    trainer.replicas().to_vec()
}

#[test]
fn one_two_three_and_eight_threads_train_to_the_same_bits() {
    fn check<F: Real>() {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| trained::<F>(&variants()))
        };
        let one = on(1);
        for threads in [2, 3, 8] {
            assert!(on(threads) == one, "{threads} threads in {}", F::NAME);
        }
        let hashes: Vec<String> = one.iter().map(|replica| hash_of_bits(&replica.theta)).collect();
        assert_eq!(hashes[2], hashes[0], "k = 4 changes no bit");
        for other in [1, 3, 4] {
            assert_ne!(hashes[other], hashes[0], "replica {other}");
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn replicas_trained_alone_are_replicas_trained_together() {
    let together = trained::<f32>(&variants());
    for (variant, expected) in variants().into_iter().zip(together) {
        assert!(trained::<f32>(&[variant]) == [expected], "{variant:?}");
    }
}

#[test]
fn a_run_stopped_at_every_step_is_the_run() {
    let mut replicas = start::<f32>(&variants());
    for step in 0..STEPS {
        let mut trainer = trainer(&variants(), step, replicas);
        trainer.advance();
        // Looking at the network in between leaves no trace.
        trainer.evaluate(&mut batches(13, 5)).unwrap();
        trainer.fluctuations(2).unwrap();
        replicas = trainer.replicas().to_vec();
    }
    assert!(replicas == trained::<f32>(&variants()));
}

#[test]
fn it_learns_the_quarters() {
    let mut trainer = trainer::<f32>(&[Variant::PLAIN], 0, start(&[Variant::PLAIN]));
    (0..60).for_each(|_| trainer.advance().unwrap());
    let stats = trainer.replicas()[0].epoch_stats;
    // Chance is one in four; quarters of 16 pixels 64 grey levels apart can be told without error.
    assert!(stats.accuracy() > 0.9, "{stats:?}");
    let evaluation = trainer.evaluate(&mut batches(13, 5)).unwrap().remove(0).unwrap();
    assert_eq!(evaluation.right.len(), 40);
    assert_eq!(evaluation.classes.len(), 40);
    assert!(evaluation.accuracy().unwrap() > 0.9, "{}", evaluation.loss);
}
