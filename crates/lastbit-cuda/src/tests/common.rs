//! What the tests share: networks of every kind, data, trainers.

use std::sync::Arc;

use lastbit::Real;
use lastbit::activation::Activation::{Relu, Sigmoid, Swish, Tanh};
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{self, Dataset, Inputs};
use lastbit::nn::zoo::{Cnn, Head, Pooling, Shortcut, mlp, resnet, vgg};
use lastbit::nn::{Batch, Builder, Init, Loss, Network, Op, Padding, PoolKind, Targets};
use lastbit::reduce::{distance, norm};
use lastbit::rng::Stream;
use lastbit::training::{Plan, Replica, Variant};

use crate::{CudaTrainer, DeviceReal, MathMode};

pub fn cnn() -> Cnn {
    Cnn {
        input: [13, 11, 3],
        channels: vec![5, 7],
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
        bias: true,
        batch_norm: false,
        activation: Tanh,
        pooling: Pooling::Max,
        head: Head::Linear,
        outputs: 4,
    }
}

/// Each op, activation and loss of the zoo at least once.
pub fn networks() -> Vec<(&'static str, Network, Loss)> {
    let strided = Cnn {
        kernel: 4,
        stride: 2,
        padding: Padding::Valid,
        batch_norm: true,
        activation: Sigmoid,
        pooling: Pooling::Average,
        head: Head::GlobalLinear,
        input: [29, 33, 2],
        ..cnn()
    };
    let mean = Cnn {
        batch_norm: true,
        activation: Swish { beta: 1.5 },
        pooling: Pooling::None,
        head: Head::Mean,
        ..cnn()
    };
    let one_channel = Cnn {
        input: [14, 12, 1],
        channels: vec![1, 1],
        bias: false,
        activation: Swish { beta: 1.0 },
        pooling: Pooling::None,
        head: Head::Mean,
        outputs: 1,
        ..cnn()
    };
    let with_norm = Cnn {
        input: [22, 20, 1],
        kernel: 5,
        padding: Padding::Valid,
        batch_norm: true,
        pooling: Pooling::Average,
        head: Head::Linear,
        outputs: 3,
        ..one_channel.clone()
    };
    let large_kernel = Cnn {
        kernel: 7,
        bias: true,
        channels: vec![1, 1, 1],
        activation: Tanh,
        head: Head::Linear,
        outputs: 3,
        ..one_channel.clone()
    };
    let (relu, swish) = (Relu, Swish { beta: 1.0 });
    vec![
        ("resnet", resnet(8, Shortcut::Conv, relu, [32, 32, 3], 10), Loss::CrossEntropy),
        ("plain", resnet(14, Shortcut::Plain, swish, [16, 16, 3], 10), Loss::CrossEntropy),
        ("vgg", vgg(11, 16, true, relu, [32, 32, 3], 10), Loss::CrossEntropy),
        ("vgg without norm", vgg(11, 8, false, relu, [32, 32, 1], 5), Loss::CrossEntropy),
        ("cnn", cnn().build(), Loss::CrossEntropy),
        ("strided cnn", strided.build(), Loss::CrossEntropy),
        ("mean", mean.build(), Loss::BinaryCrossEntropy),
        ("mlp", mlp([1, 1, 20], &[30, 17], 3, Tanh), Loss::HalfMse),
        ("one channel", one_channel.build(), Loss::BinaryCrossEntropy),
        ("one channel with norm", with_norm.build(), Loss::CrossEntropy),
        ("one channel, 7x7", large_kernel.build(), Loss::HalfMse),
        ("wide mlp", mlp([8, 8, 3], &[130], 2, relu), Loss::BinaryCrossEntropy),
    ]
}

pub fn batch<F: Real>(network: &Network, loss: Loss, examples: usize, seed: u64) -> Batch<F> {
    let len: usize = network.input_shape().iter().product();
    let stream = Stream::new(seed, 0);
    let number = |i: usize| F::of(stream.normal(i as u64));
    let outputs = network.outputs();
    let targets = match loss {
        Loss::CrossEntropy => {
            let class = |i: usize| stream.below(1 << 40 | i as u64, outputs as u64) as u32;
            Targets::Classes((0..examples).map(class).collect())
        }
        Loss::BinaryCrossEntropy if outputs == 1 => {
            Targets::Classes((0..examples as u32).map(|i| i % 2).collect())
        }
        _ => {
            let number = |i: usize| F::of(Stream::new(seed, 1).uniform(i as u64));
            Targets::Reals((0..examples * outputs).map(number).collect())
        }
    };
    Batch { inputs: (0..examples * len).map(number).collect(), targets }
}

/// Images of random bytes, with classes in turn.
pub fn dataset(shape: [usize; 3], count: usize, classes: usize, seed: u64) -> Arc<Dataset> {
    let stream = Stream::new(seed, 0);
    let len = count * shape.iter().product::<usize>();
    let labels = (0..count).map(|i| (i % classes) as u32).collect();
    Arc::new(Dataset {
        shape,
        inputs: Inputs::Bytes((0..len as u64).map(|i| stream.below(i, 256) as u8).collect()),
        targets: data::Targets::Classes { count: classes, labels },
    })
}

/// Batches of so many examples in stored order, not normalized.
pub fn in_order<F: Real>(data: Arc<Dataset>, size: usize) -> Batches<F> {
    let selection = Selection { size, order: Order::AsStored, keep_last: true };
    Batches::new(data, &Normalization::none(), selection, None)
}

/// A trainer on the device, in full precision.
pub fn cuda_trainer<F: DeviceReal>(
    (network, loss): (&Arc<Network>, Loss),
    sources: Vec<Batches<F>>,
    plan: &Plan,
    variants: &[Variant],
    step: usize,
    replicas: &[Replica<F>],
) -> CudaTrainer<F> {
    let (plan, variants, replicas) = (plan.clone(), variants.to_vec(), replicas.to_vec());
    let fma = MathMode::Fma;
    CudaTrainer::new(network, loss, fma, sources, plan, variants, step, replicas).unwrap()
}

/// Weights whose signals neither vanish nor explode.
pub fn start<F: Real>(network: &Network) -> Vec<F> {
    network.initial(Init::KaimingNormal, 3)
}

pub fn relative<F: Real>(found: &[F], expected: &[f64]) -> f64 {
    let found: Vec<f64> = found.iter().map(|x| x.to_f64()).collect();
    distance(&found, expected) / norm(expected)
}

/// A batch in another precision.
pub fn convert<F: Real, G: Real>(batch: &Batch<F>) -> Batch<G> {
    let converted = |values: &[F]| values.iter().map(|x| G::of(x.to_f64())).collect();
    Batch {
        inputs: converted(&batch.inputs),
        targets: match &batch.targets {
            Targets::Classes(classes) => Targets::Classes(classes.clone()),
            Targets::Reals(values) => Targets::Reals(converted(values)),
        },
    }
}

/// Whether the derivative of a network jumps, as that of ReLU and of a maximum does: where two numbers
/// are nearly equal, rounding decides.
pub fn jumps(network: &Network) -> bool {
    network.nodes().iter().any(|layer| match &layer.op {
        Op::Pool(pool) => pool.kind == PoolKind::Max,
        _ => layer.activation == Some(Relu),
    })
}

/// A stack of 3x3 convolutions that all have kernels of their own, on images of one size.
fn stack(size: usize, channels: usize) -> Network {
    let mut net = Builder::new([size, size, channels]);
    let mut x = net.input();
    for name in ["a", "b"] {
        x = net.conv(x, name, channels, [3, 3], 1, Padding::Same, name == "b");
        x = net.batch_norm(x, &format!("{name}n"));
        x = net.activation(x, Swish { beta: 1.0 });
    }
    let around = net.conv(x, "c", channels, [3, 3], 1, Padding::Same, false);
    let sum = net.add(around, x);
    let pooled = net.global_average(sum);
    net.linear(pooled, "fc", 10, true);
    net.build()
}

/// Such stacks of every size, with as many channels as a block computes and with more.
pub fn stacks() -> Vec<(String, Network)> {
    let sizes = [(32, 16), (16, 32), (8, 64), (32, 32), (8, 128)];
    let named =
        |(size, channels)| (format!("{channels} channels of {size}x{size}"), stack(size, channels));
    sizes.map(named).into()
}
