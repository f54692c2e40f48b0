//! Small networks in which every kernel occurs, with odd sizes, and more than one block, chunk and replica.

use std::sync::Arc;

use lastbit::activation::Activation::{self, Relu, Sigmoid, Swish, Tanh};
use lastbit::nn::zoo::mlp;
use lastbit::nn::{Builder, Loss, Network, Node, Padding};
use lastbit::rng::Stream;

/// A network with a loss, on a batch of so many images.
pub struct Case {
    pub name: String,
    pub network: Arc<Network>,
    pub loss: Loss,
    pub images: usize,
    /// Whether Hessian-vector products are tested, too.
    pub products: bool,
}

pub fn all() -> Vec<Case> {
    let mut cases = vec![
        case("matrix products of all widths", gemms_of_all_widths(), Loss::CrossEntropy, 5),
        case("pools and sums", pools_and_sums(), Loss::HalfMse, 5),
        case("four channels at a time", four_channels_at_a_time(), Loss::BinaryCrossEntropy, 4),
        case("one channel, 3x3", one_channel(3), Loss::BinaryCrossEntropy, 5),
        case("one channel, 5x5", one_channel(5), Loss::CrossEntropy, 5),
        case("one channel, 7x7", one_channel(7), Loss::HalfMse, 5),
        // More images than there are chunks.
        case("many small images", many_small_images(), Loss::BinaryCrossEntropy, 1100),
        case("many examples", mlp([1, 1, 7], &[9], 3, Tanh), Loss::CrossEntropy, 1100),
    ];
    cases.extend(conv3x3());
    cases
}

/// Networks whose 3x3 convolutions have kernels of their own.
pub fn conv3x3() -> Vec<Case> {
    vec![
        // Neither a multiple of a block's images nor of a chunk's, and more than one chunk of 12. Hessian-
        // vector products would take a naive reference too long, and use the same kernels as the others'.
        Case { products: false, ..case("residual", residual(), Loss::CrossEntropy, 13) },
        case("without norm", without_norm(), Loss::CrossEntropy, 4),
    ]
}

/// Convolutions and sums of layers before them, with norms and activations or without, all drawn at random:
/// each shares buffers of gradients in another way. Some are small, some have 3x3 convolutions with kernels
/// of their own.
pub fn at_random(seed: u64) -> Case {
    let (stream, mut draws) = (Stream::new(seed, 0), 0..);
    let mut below = |most: usize| {
        let draw = draws.next().expect("there are more");
        stream.below(draw, most as u64) as usize
    };
    let (size, channels, count) =
        if seed.is_multiple_of(4) { ([8, 8, 2], 32, 5) } else { ([5, 4, 2], [6, 8][below(2)], 7) };
    let mut net = Builder::new(size);
    let x = net.input();
    let mut layers = vec![net.conv(x, "first", channels, [3, 3], 1, Padding::Same, true)];
    let mut open = vec![true];
    for i in 0..count {
        let [a, b] = [0; 2].map(|_| layers.len() - 1 - below(layers.len().min(3)));
        let (name, size) = (format!("conv{i}"), [1, 3][below(2)]);
        open[a] = false;
        let mut x = if below(2) > 0 {
            open[b] = false;
            net.add(layers[a], layers[b])
        } else {
            net.conv(layers[a], &name, channels, [size; 2], 1, Padding::Same, below(2) > 0)
        };
        if below(2) > 0 {
            x = net.batch_norm(x, &format!("norm{i}"));
        }
        x = match below(5) {
            0 => x,
            1 => net.activation(x, Relu),
            2 => net.activation(x, Tanh),
            3 => net.activation(x, Sigmoid),
            _ => net.activation(x, Swish { beta: 1.0 }),
        };
        layers.push(x);
        open.push(true);
    }
    // Every layer is read by another.
    let unread: Vec<_> = (0..layers.len()).filter(|l| open[*l]).collect();
    let mut x = layers[unread[0]];
    for l in &unread[1..] {
        x = net.add(x, layers[*l]);
    }
    net.linear(x, "fc", 3, true);
    case(&format!("at random, {seed}"), net.build(), Loss::CrossEntropy, 3)
}

fn case(name: &str, network: Network, loss: Loss, images: usize) -> Case {
    Case { name: name.to_owned(), network: Arc::new(network), loss, images, products: true }
}

/// What follows a convolution.
enum Part {
    Bias,
    Norm,
    Act(Activation),
}
use Part::{Act, Bias, Norm};

const SWISH: Activation = Swish { beta: 1.0 };

/// A convolution with padding that keeps the size (divided by the stride), and what follows it.
fn layer(
    net: &mut Builder,
    x: Node,
    name: &str,
    channels: usize,
    (size, stride): (usize, usize),
    parts: &[Part],
) -> Node {
    let has_bias = parts.iter().any(|part| matches!(part, Bias));
    let mut x = net.conv(x, name, channels, [size; 2], stride, Padding::Same, has_bias);
    for part in parts {
        x = match part {
            Bias => x,
            Norm => net.batch_norm(x, &format!("{name}n")),
            Act(activation) => net.activation(x, *activation),
        };
    }
    x
}

/// Up to 16, 32 and 64 columns, forward and backward; strides, even kernels, each activation.
fn gemms_of_all_widths() -> Network {
    let mut net = Builder::new([7, 6, 3]);
    let x = net.input();
    let x = layer(&mut net, x, "a", 5, (3, 1), &[Bias, Act(Tanh)]);
    let x = net.conv(x, "b", 20, [3, 2], 2, Padding::Same, false);
    let x = net.batch_norm(x, "bn");
    let x = net.activation(x, Swish { beta: 1.5 });
    let x = net.conv(x, "c", 40, [2, 2], 1, Padding::Valid, true);
    let x = net.batch_norm(x, "cn");
    let x = net.activation(x, Relu);
    let x = net.conv(x, "d", 6, [1, 1], 1, Padding::Valid, true);
    let x = net.activation(x, Sigmoid);
    net.linear(x, "fc", 4, true);
    net.build()
}

/// Sums that share a buffer with their inputs and others, overlapping windows, pixels that no tap reaches
/// and that others reach.
fn pools_and_sums() -> Network {
    let mut net = Builder::new([9, 8, 2]);
    let x = net.input();
    let x = layer(&mut net, x, "a", 6, (3, 1), &[Norm, Act(Relu)]);
    let y = layer(&mut net, x, "b", 6, (3, 1), &[Bias, Act(Tanh)]);
    let y = layer(&mut net, y, "c", 6, (3, 1), &[Norm]);
    let sum = net.add(y, x);
    let sum = net.activation(sum, SWISH);
    let around = layer(&mut net, sum, "d", 6, (3, 1), &[Bias]);
    let sum = net.add(around, sum);
    let pooled = net.max_pool(sum, 3, 2);
    let few = net.subsample(pooled, 2, 10);
    let few = net.batch_norm(few, "fn");
    let few = net.activation(few, Sigmoid);
    let few = net.average_pool(few, 2, 1);
    let far = net.conv(pooled, "e", 10, [2, 2], 3, Padding::Valid, true);
    let sum = net.add(far, few);
    net.linear(sum, "fc", 3, true);
    net.build()
}

/// Sums and norms of `vec4.cu`, with batch norm on the first input or not; a mean at the end.
fn four_channels_at_a_time() -> Network {
    let mut net = Builder::new([10, 9, 3]);
    let x = net.input();
    let mut x = layer(&mut net, x, "a", 8, (3, 1), &[Norm, Act(Relu)]);
    for (block, part) in [("b", Norm), ("c", Bias)] {
        let y = layer(&mut net, x, &format!("{block}1"), 8, (3, 1), &[Norm, Act(SWISH)]);
        let y = layer(&mut net, y, &format!("{block}2"), 8, (3, 1), &[part]);
        x = net.add(y, x);
        x = net.activation(x, Tanh);
    }
    let x = net.average_pool(x, 2, 2);
    let x = net.batch_norm(x, "pn");
    net.mean(x);
    net.build()
}

/// From one channel to one, with and without norm and bias.
fn one_channel(size: usize) -> Network {
    let mut net = Builder::new([12, 11, 1]);
    let x = net.input();
    let x = layer(&mut net, x, "a", 1, (size, 1), &[Norm, Act(SWISH)]);
    let x = net.conv(x, "b", 1, [size; 2], 1, Padding::Valid, true);
    let x = net.activation(x, Tanh);
    net.linear(x, "fc", 3, true);
    net.build()
}

fn many_small_images() -> Network {
    let mut net = Builder::new([5, 4, 1]);
    let x = net.input();
    let x = layer(&mut net, x, "a", 1, (3, 1), &[Bias, Act(SWISH)]);
    let x = layer(&mut net, x, "b", 1, (3, 1), &[Bias, Act(Sigmoid)]);
    net.mean(x);
    net.build()
}

/// The 3x3 convolutions between images of 32x32, 16x16 and 8x8: several blocks of channels on either
/// side, gradients that are added to others, with and without a batch norm whose moments they compute;
/// and norms of layers as large as those that a thread keeps in registers.
fn residual() -> Network {
    let mut net = Builder::new([32, 32, 3]);
    let x = net.input();
    let x = layer(&mut net, x, "a", 16, (3, 1), &[Norm, Act(Relu)]);
    let y = layer(&mut net, x, "b", 16, (3, 1), &[Bias, Norm, Act(Relu)]);
    let y = layer(&mut net, y, "c", 16, (1, 1), &[Norm]);
    let x = net.add(y, x);
    let x = net.activation(x, Relu);
    let x = layer(&mut net, x, "d", 32, (3, 1), &[Bias, Act(Relu)]);
    let y = layer(&mut net, x, "e", 32, (3, 2), &[Norm, Act(Relu)]);
    let y = layer(&mut net, y, "f", 32, (3, 1), &[Norm]);
    let x = layer(&mut net, x, "g", 32, (1, 2), &[Norm]);
    let x = net.add(y, x);
    let x = net.activation(x, Relu);
    let around = layer(&mut net, x, "h", 16, (1, 1), &[Norm]);
    let around = net.average_pool(around, 2, 2);
    let around = layer(&mut net, around, "i", 64, (1, 1), &[Bias]);
    let x = layer(&mut net, x, "j", 32, (3, 2), &[Norm, Act(Relu)]);
    let x = layer(&mut net, x, "k", 64, (3, 1), &[Norm]);
    let x = net.add(x, around);
    let x = net.activation(x, Relu);
    let x = layer(&mut net, x, "l", 32, (3, 1), &[Bias, Act(Relu)]);
    let x = net.global_average(x);
    net.linear(x, "fc", 10, true);
    net.build()
}

/// The same convolutions with smooth activations, biases and no norm, on grey images.
fn without_norm() -> Network {
    let mut net = Builder::new([32, 32, 1]);
    let mut x = net.input();
    let convolutions = [(16, 1), (16, 1), (32, 2), (32, 1), (32, 2), (32, 1)];
    for (i, (channels, stride)) in convolutions.into_iter().enumerate() {
        let activation = if i % 2 == 0 { Swish { beta: 1.5 } } else { Tanh };
        x = layer(&mut net, x, &format!("c{i}"), channels, (3, stride), &[Bias, Act(activation)]);
    }
    net.linear(x, "fc", 5, true);
    net.build()
}
