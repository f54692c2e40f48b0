//! Time of a gradient and of a Hessian-vector product, including the transfers of parameters and result.
//!
//! `cargo bench -p lastbit-cuda --bench gpu_curvature` prints one line of JSON for each network; with the
//! word `kernels` (`... -- kernels`) also the device time of each kernel of one gradient and one product.

use std::sync::Arc;
use std::time::Instant;

use lastbit::activation::Activation::{Relu, Swish, Tanh};
use lastbit::nn::zoo::{Cnn, Head, Pooling, Shortcut, mlp, resnet};
use lastbit::nn::{Batch, Init, Loss, Network, Padding, Targets};
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::rng::Stream;
use lastbit::{Real, hash_of_bits};
use lastbit_cuda::{CudaModel, DeviceReal, Error, MathMode};

const REPEATS: usize = 20;

fn main() {
    let kernels = std::env::args().any(|word| word == "kernels");
    let one_channel = Cnn {
        input: [28, 28, 1],
        channels: vec![1, 1],
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
        bias: false,
        batch_norm: false,
        activation: Swish { beta: 1.0 },
        pooling: Pooling::None,
        head: Head::Mean,
        outputs: 1,
    };
    let full = Arc::new(one_channel.build());
    let connected = Arc::new(mlp([32, 32, 3], &[200; 4], 10, Tanh));
    let residual = Arc::new(resnet(56, Shortcut::Conv, Relu, [32, 32, 3], 10));
    let done = time::<f64>("one channel, 2 layers", &full, 12_665, kernels)
        .and_then(|()| time::<f64>("mlp 3072-200x4-10", &connected, 5000, kernels))
        .and_then(|()| time::<f32>("mlp 3072-200x4-10", &connected, 5000, kernels))
        .and_then(|()| time::<f32>("resnet-56", &residual, 128, kernels));
    if let Err(error) = done {
        eprintln!("{error}");
        std::process::exit(2);
    }
}

fn time<F: DeviceReal>(
    name: &str,
    network: &Arc<Network>,
    examples: usize,
    kernels: bool,
) -> Result<(), Error> {
    let loss = if network.outputs() == 1 { Loss::BinaryCrossEntropy } else { Loss::CrossEntropy };
    let mut model = CudaModel::<F>::new(network, loss, MathMode::Fma, examples)?;
    model.set_batch(&Arc::new(batch(network, examples)));
    let theta: Vec<F> = network.initial(Init::Torch, 1);
    let mut out = vec![F::default(); theta.len()];
    let gradient = milliseconds(|| model.gradient(&theta, &mut out))?;
    let hash = hash_of_bits(&out);
    model.linearize(&theta, &mut out)?;
    let v = out.clone();
    let product = milliseconds(|| model.hessian_vector(&theta, &v, &mut out))?;
    println!(
        "{{\"network\": \"{name}\", \"precision\": \"{}\", \"examples\": {examples}, \
         \"ms_gradient\": {gradient:.3}, \"ms_product\": {product:.3}, \"loss\": {:?}, \
         \"gradient_hash\": \"{hash}\", \"product_hash\": \"{}\"}}",
        F::NAME,
        model.last_loss(&theta)?,
        hash_of_bits(&out)
    );
    if kernels {
        let times = [
            model.profile(|model| model.linearize(&theta, &mut out))?,
            model.profile(|model| model.hessian_vector(&theta, &v, &mut out))?,
        ];
        for (what, times) in ["gradient", "product"].iter().zip(times) {
            let mut times: Vec<_> = times.into_iter().collect();
            times.sort_by(|a, b| b.1.milliseconds.total_cmp(&a.1.milliseconds));
            for (name, time) in times {
                let (launches, ms) = (time.launches, time.milliseconds);
                println!("  {what} {name:24} {launches:4} launches {ms:8.4} ms");
            }
        }
    }
    Ok(())
}

/// The shortest of several times: disturbances only add.
fn milliseconds(mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut shortest = f64::INFINITY;
    for _ in 0..REPEATS {
        let start = Instant::now();
        work()?;
        shortest = shortest.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(shortest)
}

/// Random numbers; the time does not depend on them.
fn batch<F: Real>(network: &Network, examples: usize) -> Batch<F> {
    let len: usize = network.input_shape().iter().product();
    let stream = Stream::new(1, 0);
    let inputs = (0..(examples * len) as u64).map(|i| F::of(stream.uniform(i))).collect();
    let classes = network.outputs().max(2) as u64;
    let labels = (0..examples as u64).map(|i| stream.below(1 << 40 | i, classes) as u32);
    Batch { inputs, targets: Targets::Classes(labels.collect()) }
}
