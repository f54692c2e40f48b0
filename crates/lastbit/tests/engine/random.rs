//! A network at a generic place, on a batch of random examples.

use std::sync::Arc;

use lastbit::nn::{Batch, Engine, Init, Loss, Network, Targets};
use lastbit::objective::StochasticObjective;
use lastbit::rng::Stream;
use lastbit::signal::normal;

pub fn engine(
    network: Network,
    loss: Loss,
    examples: usize,
) -> (Engine<f64>, Vec<f64>, Arc<Batch<f64>>) {
    let (outputs, len) = (network.outputs(), network.input_shape().iter().product::<usize>());
    let stream = Stream::new(9, 0);
    let classes = outputs.max(2) as u32;
    let targets = match loss {
        Loss::HalfMse => Targets::Reals(normal(examples * outputs, 8)),
        _ => Targets::Classes((0..examples as u64).map(|i| stream.block(i)[0] % classes).collect()),
    };
    let mut theta: Vec<f64> = network.initial(Init::Torch, 3);
    // Away from the special points 0 and 1 of shifts and scales.
    theta.iter_mut().zip(normal(network.len(), 4)).for_each(|(t, z)| *t += 0.02 * z);
    let batch = Arc::new(Batch { inputs: normal(examples * len, 7), targets });
    let mut engine = Engine::new(&Arc::new(network), loss);
    engine.set_batch(&batch);
    (engine, theta, batch)
}
