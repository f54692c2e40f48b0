//! The paper's networks, with PyTorch's names.

use super::network::{Builder, Network, Padding};
use crate::activation::Activation;

crate::named_enum! {
    /// How a residual block's input reaches its end where the shape changes.
    pub enum Shortcut, default Conv {
        /// A 1×1 convolution of the block's stride, with batch norm (option B; the authors' code).
        Conv = "conv",
        /// Every second pixel, zero channels around: no parameters (option A).
        Plain = "plain",
    }
}

/// The residual network for CIFAR of He et al. 2016: `depth = 6n + 2`, widths 16, 32, 64.
///
/// Names: `conv1`, `bn1`, `layer1.0.conv1`, `layer1.0.bn1`, …, `layer2.0.shortcut.0`, `linear`.
///
/// # Panics
///
/// If the depth is none of 8, 14, 20, ….
pub fn resnet(
    depth: usize,
    shortcut: Shortcut,
    activation: Activation,
    input: [usize; 3],
    classes: usize,
) -> Network {
    assert!(depth >= 8 && depth % 6 == 2, "depth = {depth}, need 6n + 2");
    residual(&[16, 32, 64], (depth - 2) / 6, shortcut, activation, input, classes)
}

/// Residual networks for small images: a 3×3 convolution, one stage of `blocks` blocks for each of the
/// widths, each but the first at half the resolution, the mean over pixels, one linear layer. Widths
/// 64, 128, 256, 512 with two blocks each are ResNet-18 in its form for CIFAR.
///
/// Names as for [`resnet`].
///
/// # Panics
///
/// If there is no width or no block.
pub fn residual(
    widths: &[usize],
    blocks: usize,
    shortcut: Shortcut,
    activation: Activation,
    input: [usize; 3],
    classes: usize,
) -> Network {
    assert!(!widths.is_empty() && blocks > 0, "widths {widths:?}, {blocks} blocks each");
    let mut net = Builder::new(input);
    let normed = |net: &mut Builder, from, conv: &str, bn: &str, channels, kernel, stride| {
        let node = net.conv(from, conv, channels, [kernel; 2], stride, Padding::Same, false);
        net.batch_norm(node, bn)
    };
    let input = net.input();
    let mut x = normed(&mut net, input, "conv1", "bn1", widths[0], 3, 1);
    x = net.activation(x, activation);
    for (stage, &width) in widths.iter().enumerate() {
        for block in 0..blocks {
            let name = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let start = x;
            let inner = normed(&mut net, start, &name("conv1"), &name("bn1"), width, 3, stride);
            let inner = net.activation(inner, activation);
            let inner = normed(&mut net, inner, &name("conv2"), &name("bn2"), width, 3, 1);
            let around = if stride == 1 {
                start
            } else {
                match shortcut {
                    Shortcut::Plain => net.subsample(start, 2, width),
                    Shortcut::Conv => {
                        let (conv, bn) = (name("shortcut.0"), name("shortcut.1"));
                        normed(&mut net, start, &conv, &bn, width, 1, stride)
                    }
                }
            };
            let sum = net.add(inner, around);
            x = net.activation(sum, activation);
        }
    }
    let pooled = net.global_average(x);
    net.linear(pooled, "linear", classes, true);
    net.build()
}

/// The VGG network for CIFAR: 3×3 convolutions with bias, halved by max pooling, one linear layer.
///
/// `width` is the first stage's (64 in the original). Names: `features.0`, `features.1`, …,
/// `classifier`, numbered as in `nn.Sequential(Conv2d, BatchNorm2d, ReLU, …, MaxPool2d)`.
///
/// # Panics
///
/// If the depth is none of 11, 13, 16, 19, or the input is too small for five halvings.
pub fn vgg(
    depth: usize,
    width: usize,
    batch_norm: bool,
    activation: Activation,
    input: [usize; 3],
    classes: usize,
) -> Network {
    let convs = match depth {
        11 => [1, 1, 2, 2, 2],
        13 => [2, 2, 2, 2, 2],
        16 => [2, 2, 3, 3, 3],
        19 => [2, 2, 4, 4, 4],
        _ => panic!("depth = {depth}, need 11, 13, 16 or 19"),
    };
    let mut net = Builder::new(input);
    let mut x = net.input();
    let mut module = 0;
    for (stage, count) in convs.into_iter().enumerate() {
        for _ in 0..count {
            let channels = width << stage.min(3);
            let name = format!("features.{module}");
            x = net.conv(x, &name, channels, [3, 3], 1, Padding::Same, true);
            if batch_norm {
                x = net.batch_norm(x, &format!("features.{}", module + 1));
            }
            x = net.activation(x, activation);
            module += if batch_norm { 3 } else { 2 };
        }
        x = net.max_pool(x, 2, 2);
        module += 1;
    }
    net.linear(x, "classifier", classes, true);
    net.build()
}

crate::named_enum! {
    /// What follows each convolution of a plain CNN.
    pub enum Pooling, default Max {
        /// 2×2 maxima.
        Max = "max",
        /// 2×2 means.
        Average = "average",
        /// Nothing.
        None = "none",
    }
}

crate::named_enum! {
    /// How a plain CNN ends.
    pub enum Head, default Linear {
        /// A linear layer `fc` over all numbers.
        Linear = "linear",
        /// The mean over pixels, then a linear layer `fc`.
        GlobalLinear = "global-linear",
        /// The mean over pixels and channels: one output, no parameters.
        Mean = "mean",
    }
}

/// A plain convolutional network: convolution, batch norm, activation, pooling, again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Cnn {
    /// Height, width and channels of the input.
    pub input: [usize; 3],
    /// Channels of each convolution.
    pub channels: Vec<usize>,
    /// Height and width of the kernels.
    pub kernel: usize,
    /// Of all convolutions.
    pub stride: usize,
    /// Of all convolutions.
    pub padding: Padding,
    /// Of all convolutions.
    pub bias: bool,
    /// Behind each convolution.
    pub batch_norm: bool,
    /// Behind each of these.
    pub activation: Activation,
    /// Behind each of these.
    pub pooling: Pooling,
    /// At the end.
    pub head: Head,
    /// Outputs of a linear head.
    pub outputs: usize,
}

impl Cnn {
    /// Names: `conv1`, `bn1`, `conv2`, …, `fc`.
    pub fn build(&self) -> Network {
        let mut net = Builder::new(self.input);
        let mut x = net.input();
        for (layer, &channels) in (1..).zip(&self.channels) {
            let (kernel, name) = ([self.kernel; 2], format!("conv{layer}"));
            x = net.conv(x, &name, channels, kernel, self.stride, self.padding, self.bias);
            if self.batch_norm {
                x = net.batch_norm(x, &format!("bn{layer}"));
            }
            x = net.activation(x, self.activation);
            x = match self.pooling {
                Pooling::None => x,
                Pooling::Max => net.max_pool(x, 2, 2),
                Pooling::Average => net.average_pool(x, 2, 2),
            };
        }
        match self.head {
            Head::Linear => net.linear(x, "fc", self.outputs, true),
            Head::GlobalLinear => {
                let pooled = net.global_average(x);
                net.linear(pooled, "fc", self.outputs, true)
            }
            Head::Mean => net.mean(x),
        };
        net.build()
    }
}

/// A multi-layer perceptron: `widths` are the hidden layers'; the activation follows each of them.
///
/// Names: `fc1`, `fc2`, ….
pub fn mlp(input: [usize; 3], widths: &[usize], outputs: usize, activation: Activation) -> Network {
    let mut net = Builder::new(input);
    let mut x = net.input();
    for (layer, &width) in (1..).zip(widths) {
        x = net.linear(x, &format!("fc{layer}"), width, true);
        x = net.activation(x, activation);
    }
    net.linear(x, &format!("fc{}", widths.len() + 1), outputs, true);
    net.build()
}
