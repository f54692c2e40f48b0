//! Time of a step of the optimizer `cfl` over that of plain gradient descent.
//!
//! ```text
//! cargo bench -p lastbit --bench cfl
//! ```
//!
//! Both in turns, 32 steps each on one thread, two of them with a product; the median over seven rounds
//! of the quotient.

use std::sync::Arc;
use std::time::Instant;

use lastbit::activation::Activation;
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::zoo::{self, Shortcut};
use lastbit::nn::{Engine, Init, Loss, Network};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::schedule::Schedule;
use lastbit::rng::Stream;
use lastbit::training::{Plan, Replica, Trainer, Variant};

const EVERY: u64 = 16;
const STEPS: usize = 32;

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("first pool");
    let cifar = [32, 32, 3];
    let swish = Activation::Swish { beta: 1.0 };
    let networks = [
        ("mlp, 4 x 200, tanh", zoo::mlp(cifar, &[200; 4], 10, Activation::Tanh), 256),
        ("ResNet-8, ReLU", zoo::resnet(8, Shortcut::Conv, Activation::Relu, cifar, 10), 32),
        ("ResNet-20, Swish", zoo::resnet(20, Shortcut::Conv, swish, cifar, 10), 32),
    ];
    for (name, network, batch) in networks {
        let network = Arc::new(network);
        let cfl = Method::Cfl { every: EVERY, safety: 0.9, by_layer: true };
        let mut trainers = [Method::Sgd, cfl].map(|method| trainer(&network, batch, method));
        // Beyond the dense start of the products.
        trainers.iter_mut().for_each(|trainer| advance(trainer, 8 * EVERY as usize));
        let mut rounds: Vec<[f64; 2]> = (0..7).map(|_| trainers.each_mut().map(timed)).collect();
        rounds.sort_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])));
        let [sgd, cfl] = rounds[3].map(|seconds| 1e3 * seconds / STEPS as f64);
        println!("{name}, batch {batch}: {sgd:.2} ms, with cfl {cfl:.2} ms: {:.3}", cfl / sgd);
    }
}

fn trainer(
    network: &Arc<Network>,
    batch: usize,
    method: Method,
) -> Trainer<f32, Engine<f32>, Batches<f32>> {
    let stream = Stream::new(1, 0);
    let shape = network.input_shape();
    let numbers = 2 * batch * shape.iter().product::<usize>();
    let data = Arc::new(Dataset {
        shape,
        inputs: Inputs::Reals((0..numbers as u64).map(|i| stream.normal(i)).collect()),
        targets: Targets::Classes {
            count: 10,
            labels: (0..2 * batch as u32).map(|i| i % 10).collect(),
        },
    });
    let selection = Selection { size: batch, order: Order::AsStored, keep_last: false };
    let batches = Batches::new(data.clone(), &Normalization::per_channel(&data), selection, None);
    let optimizer = Optimizer { method, alpha: 0.0 };
    let start =
        Replica::start(network.initial(Init::Torch, 0), network.initial_buffers(), &optimizer);
    let engine = Engine::new(network, Loss::CrossEntropy);
    let plan = Plan { optimizer, dt: 0.01, schedule: Schedule::Constant };
    Trainer::new(engine, vec![batches], plan, vec![Variant::PLAIN], 0, vec![start])
}

fn advance(trainer: &mut Trainer<f32, Engine<f32>, Batches<f32>>, steps: usize) {
    (0..steps).for_each(|_| trainer.advance().unwrap());
}

fn timed(trainer: &mut Trainer<f32, Engine<f32>, Batches<f32>>) -> f64 {
    let start = Instant::now();
    advance(trainer, STEPS);
    start.elapsed().as_secs_f64()
}
