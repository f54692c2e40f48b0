//! Networks, weights and data as `reference/formulas.py` and `reference/networks_torch.py` make them.

use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::nn::zoo::{self, Cnn, Head, Pooling, Shortcut};
use lastbit::nn::{Batch, Loss, Network, Padding, Role, Targets};
use lastbit::rng::Stream;
use serde_json::Value;

pub fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array"))
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

pub fn size(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a size")) as usize
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

fn sizes(value: &Value) -> Vec<usize> {
    items(value).iter().map(size).collect()
}

fn activation(value: &Value) -> Activation {
    match value["name"].as_str() {
        // The VGGs have ReLU and no other.
        None | Some("relu") => Activation::Relu,
        Some("tanh") => Activation::Tanh,
        Some("sigmoid") => Activation::Sigmoid,
        Some("swish") => Activation::Swish { beta: number(&value["beta"]) },
        Some(other) => panic!("activation {other}"),
    }
}

pub fn network(description: &Value) -> Network {
    let input: [usize; 3] = sizes(&description["input"]).try_into().expect("three numbers");
    let outputs = size(&description["outputs"]);
    let act = activation(&description["act"]);
    match text(&description["net"]) {
        "resnet" => {
            let shortcut = match text(&description["shortcut"]) {
                "conv" => Shortcut::Conv,
                _ => Shortcut::Plain,
            };
            zoo::resnet(size(&description["depth"]), shortcut, act, input, outputs)
        }
        "vgg" => {
            let (depth, width) = (size(&description["depth"]), size(&description["width"]));
            zoo::vgg(depth, width, description["batch_norm"] == true, act, input, outputs)
        }
        "mlp" => zoo::mlp(input, &sizes(&description["hidden"]), outputs, act),
        "cnn" => Cnn {
            input,
            channels: sizes(&description["channels"]),
            kernel: size(&description["kernel"]),
            stride: size(&description["stride"]),
            padding: match text(&description["padding"]) {
                "same" => Padding::Same,
                _ => Padding::Valid,
            },
            bias: description["bias"] == true,
            batch_norm: description["batch_norm"] == true,
            activation: act,
            pooling: match text(&description["pool"]) {
                "max" => Pooling::Max,
                "avg" => Pooling::Average,
                _ => Pooling::None,
            },
            head: match text(&description["head"]) {
                "linear" => Head::Linear,
                "global-linear" => Head::GlobalLinear,
                _ => Head::Mean,
            },
            outputs,
        }
        .build(),
        other => panic!("network {other}"),
    }
}

pub fn loss(name: &Value) -> Loss {
    match text(name) {
        "cross-entropy" => Loss::CrossEntropy,
        "bce" => Loss::BinaryCrossEntropy,
        _ => Loss::HalfMse,
    }
}

/// Weights by formula, evaluated in this order.
pub fn weights(network: &Network) -> Vec<f64> {
    let each = network.parameters().iter().enumerate();
    each.flat_map(|(t, parameter)| {
        let stream = Stream::new(1, t as u64);
        let fan_in = parameter.range.len() as f64 / parameter.shape[0] as f64;
        (0..parameter.range.len() as u64).map(move |i| {
            let u = stream.uniform(i);
            match (parameter.role, parameter.shape.len()) {
                (Role::Scale, _) => 0.5 + u,
                (_, 1) => 0.2 * (u - 0.5),
                _ => (u - 0.5) * (6.0 / fan_in).sqrt(),
            }
        })
    })
    .collect()
}

/// `uniform − 1/2` for each parameter, from streams of one seed.
pub fn draws(network: &Network, seed: u64) -> Vec<f64> {
    let each = network.parameters().iter().enumerate();
    each.flat_map(|(t, parameter)| {
        let stream = Stream::new(seed, t as u64);
        (0..parameter.range.len() as u64).map(move |i| stream.uniform(i) - 0.5)
    })
    .collect()
}

/// Examples `first..first + count`.
pub fn batch(network: &Network, loss: Loss, first: usize, count: usize) -> Arc<Batch<f64>> {
    let len: usize = network.input_shape().iter().product();
    let outputs = network.outputs();
    let inputs = Stream::new(3, 0);
    let range = (first * len) as u64..((first + count) * len) as u64;
    let targets = match loss {
        Loss::HalfMse => {
            let stream = Stream::new(4, 1);
            let range = (first * outputs) as u64..((first + count) * outputs) as u64;
            Targets::Reals(range.map(|i| 2.0 * stream.uniform(i) - 1.0).collect())
        }
        _ => {
            let stream = Stream::new(4, 0);
            let classes = if loss == Loss::BinaryCrossEntropy { 2 } else { outputs as u32 };
            let range = first as u64..(first + count) as u64;
            Targets::Classes(range.map(|n| stream.block(n)[0] % classes).collect())
        }
    };
    Arc::new(Batch { inputs: range.map(|i| 2.0 * inputs.uniform(i) - 1.0).collect(), targets })
}
