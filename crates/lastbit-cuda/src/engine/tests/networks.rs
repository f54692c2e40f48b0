//! Small networks in which every kernel occurs, with odd sizes, and more than one block, chunk and replica.

use std::sync::Arc;

use lastbit::activation::Activation::{Relu, Sigmoid, Swish, Tanh};
use lastbit::nn::zoo::mlp;
use lastbit::nn::{Builder, Loss, Network, Padding};
use lastbit::rng::Stream;

/// A network with a loss, on so many images.
pub struct Case {
    pub name: String,
    pub network: Arc<Network>,
    pub loss: Loss,
    pub images: usize,
    /// Whether products with the Hessian are taken, too.
    pub products: bool,
}

pub fn all() -> Vec<Case> {
    let mut cases = vec![
        case("products of all widths", products_of_all_widths(), Loss::CrossEntropy, 5),
        case("pools and sums", pools_and_sums(), Loss::HalfMse, 5),
        case("four channels at a time", four_channels_at_a_time(), Loss::BinaryCrossEntropy, 4),
        case("one channel, 3x3", one_channel(3), Loss::BinaryCrossEntropy, 5),
        case("one channel, 5x5", one_channel(5), Loss::CrossEntropy, 5),
        case("one channel, 7x7", one_channel(7), Loss::HalfMse, 5),
        // More images than there are chunks.
        case("many small images", many_small_images(), Loss::BinaryCrossEntropy, 1100),
        case("many examples", mlp([1, 1, 7], &[9], 3, Tanh), Loss::CrossEntropy, 1100),
    ];
    cases.extend(fast());
    cases
}

/// Those whose convolutions have kernels of their own.
pub fn fast() -> Vec<Case> {
    vec![
        // Neither a multiple of a block's images nor of a chunk's, and more than one chunk of 12; products
        // with the Hessian would take a naive twin too long, and go by the same kernels as the others'.
        Case { products: false, ..case("residual", residual(), Loss::CrossEntropy, 13) },
        case("without norm", without_norm(), Loss::CrossEntropy, 4),
    ]
}

/// Convolutions and sums of layers before them, with norms and activations or without, all drawn at random: who
/// has its gradient where, and who has used it by then, is another question in each. Some are small, some have
/// convolutions with kernels of their own.
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
    // Every layer is read by someone.
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

/// Up to 16, 32 and 64 columns, forward and back; strides, even kernels, each activation.
fn products_of_all_widths() -> Network {
    let mut net = Builder::new([7, 6, 3]);
    let x = net.input();
    let x = net.conv(x, "a", 5, [3, 3], 1, Padding::Same, true);
    let x = net.activation(x, Tanh);
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

/// Sums in the place of their inputs and others, overlapping windows, pixels that no tap reaches and
/// that others reach.
fn pools_and_sums() -> Network {
    let mut net = Builder::new([9, 8, 2]);
    let x = net.input();
    let x = net.conv(x, "a", 6, [3, 3], 1, Padding::Same, false);
    let x = net.batch_norm(x, "an");
    let x = net.activation(x, Relu);
    let y = net.conv(x, "b", 6, [3, 3], 1, Padding::Same, true);
    let y = net.activation(y, Tanh);
    let y = net.conv(y, "c", 6, [3, 3], 1, Padding::Same, false);
    let y = net.batch_norm(y, "cn");
    let sum = net.add(y, x);
    let sum = net.activation(sum, Swish { beta: 1.0 });
    let around = net.conv(sum, "d", 6, [3, 3], 1, Padding::Same, true);
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

/// Sums and norms by fours, with batch norm on the first input or not; a mean at the end.
fn four_channels_at_a_time() -> Network {
    let mut net = Builder::new([10, 9, 3]);
    let x = net.input();
    let mut x = net.conv(x, "a", 8, [3, 3], 1, Padding::Same, false);
    x = net.batch_norm(x, "an");
    x = net.activation(x, Relu);
    for (block, has_norm) in [("b", true), ("c", false)] {
        let y = net.conv(x, &format!("{block}1"), 8, [3, 3], 1, Padding::Same, false);
        let y = net.batch_norm(y, &format!("{block}1n"));
        let y = net.activation(y, Swish { beta: 1.0 });
        let mut y = net.conv(y, &format!("{block}2"), 8, [3, 3], 1, Padding::Same, !has_norm);
        if has_norm {
            y = net.batch_norm(y, &format!("{block}2n"));
        }
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
    let x = net.conv(x, "a", 1, [size; 2], 1, Padding::Same, false);
    let x = net.batch_norm(x, "an");
    let x = net.activation(x, Swish { beta: 1.0 });
    let x = net.conv(x, "b", 1, [size; 2], 1, Padding::Valid, true);
    let x = net.activation(x, Tanh);
    net.linear(x, "fc", 3, true);
    net.build()
}

fn many_small_images() -> Network {
    let mut net = Builder::new([5, 4, 1]);
    let x = net.input();
    let x = net.conv(x, "a", 1, [3, 3], 1, Padding::Same, true);
    let x = net.activation(x, Swish { beta: 1.0 });
    let x = net.conv(x, "b", 1, [3, 3], 1, Padding::Same, true);
    let x = net.activation(x, Sigmoid);
    net.mean(x);
    net.build()
}

/// The 3x3 convolutions between images of 32x32, 16x16 and 8x8: several blocks of channels on either
/// side, gradients that are added to others, batch norm whose moments they make and none; and norms of
/// layers as large as those that a thread keeps in registers.
fn residual() -> Network {
    let mut net = Builder::new([32, 32, 3]);
    let image = net.input();
    let norm = |net: &mut Builder, x, name: &str| net.batch_norm(x, &format!("{name}n"));
    let x = net.conv(image, "a", 16, [3, 3], 1, Padding::Same, false);
    let x = norm(&mut net, x, "a");
    let x = net.activation(x, Relu);
    let y = net.conv(x, "b", 16, [3, 3], 1, Padding::Same, true);
    let y = norm(&mut net, y, "b");
    let y = net.activation(y, Relu);
    let y = net.conv(y, "c", 16, [1, 1], 1, Padding::Same, false);
    let y = norm(&mut net, y, "c");
    let x = net.add(y, x);
    let x = net.activation(x, Relu);
    let x = net.conv(x, "d", 32, [3, 3], 1, Padding::Same, true);
    let x = net.activation(x, Relu);
    let y = net.conv(x, "e", 32, [3, 3], 2, Padding::Same, false);
    let y = norm(&mut net, y, "e");
    let y = net.activation(y, Relu);
    let y = net.conv(y, "f", 32, [3, 3], 1, Padding::Same, false);
    let y = norm(&mut net, y, "f");
    let x = net.conv(x, "g", 32, [1, 1], 2, Padding::Same, false);
    let x = norm(&mut net, x, "g");
    let x = net.add(y, x);
    let x = net.activation(x, Relu);
    let around = net.conv(x, "h", 16, [1, 1], 1, Padding::Same, false);
    let around = norm(&mut net, around, "h");
    let around = net.average_pool(around, 2, 2);
    let around = net.conv(around, "i", 64, [1, 1], 1, Padding::Same, true);
    let x = net.conv(x, "j", 32, [3, 3], 2, Padding::Same, false);
    let x = norm(&mut net, x, "j");
    let x = net.activation(x, Relu);
    let x = net.conv(x, "k", 64, [3, 3], 1, Padding::Same, false);
    let x = norm(&mut net, x, "k");
    let x = net.add(x, around);
    let x = net.activation(x, Relu);
    let x = net.conv(x, "l", 32, [3, 3], 1, Padding::Same, true);
    let x = net.activation(x, Relu);
    let x = net.global_average(x);
    net.linear(x, "fc", 10, true);
    net.build()
}

/// The same convolutions with activations that have a formula, biases and no norm, on grey images.
fn without_norm() -> Network {
    let mut net = Builder::new([32, 32, 1]);
    let mut x = net.input();
    let convolutions = [(16, 1), (16, 1), (32, 2), (32, 1), (32, 2), (32, 1)];
    for (i, (channels, stride)) in convolutions.into_iter().enumerate() {
        x = net.conv(x, &format!("c{i}"), channels, [3, 3], stride, Padding::Same, true);
        x = net.activation(x, if i % 2 == 0 { Swish { beta: 1.5 } } else { Tanh });
    }
    net.linear(x, "fc", 5, true);
    net.build()
}
