//! From the section `network` to a network that fits the data.

use lastbit::activation::Activation;
use lastbit::nn::zoo::{self, Cnn, Head, Pooling, Shortcut};
use lastbit::nn::{Network, Padding};
use serde::{Deserialize, Serialize};

use super::settings::ConfigFile;
use crate::error::Error;

/// Layers wider or deeper than these are misprints, and so are kernels.
const WIDEST: usize = 1 << 16;
const LARGEST_KERNEL: usize = 1 << 8;
const DEEPEST: usize = 1 << 12;
/// Four thousand million bytes in single precision, for each replica and all that it remembers.
const MOST_PARAMETERS: usize = 1_000_000_000;

/// The layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Kind {
    /// Residual network for small images.
    Resnet {
        /// 6n + 2 layers.
        depth: usize,
        /// How a block's input gets around it.
        #[serde(default)]
        shortcut: Shortcut,
        /// Behind each sum.
        #[serde(default)]
        activation: Activation,
    },
    /// VGG for small images.
    Vgg {
        /// 11, 13, 16 or 19 layers.
        depth: usize,
        /// Channels of the first stage.
        #[serde(default = "sixty_four")]
        width: usize,
        /// Behind each convolution.
        #[serde(default = "yes")]
        batch_norm: bool,
        /// Behind each of these.
        #[serde(default)]
        activation: Activation,
    },
    /// Plain convolutional network.
    Cnn {
        /// Channels of each convolution.
        channels: Vec<usize>,
        /// Height and width of the kernels.
        #[serde(default = "three")]
        kernel: usize,
        /// Of all convolutions.
        #[serde(default = "one")]
        stride: usize,
        /// Of all convolutions.
        #[serde(default)]
        padding: Padding,
        /// Of all convolutions.
        #[serde(default = "yes")]
        bias: bool,
        /// Behind each convolution.
        #[serde(default)]
        batch_norm: bool,
        /// Behind each of these.
        #[serde(default)]
        activation: Activation,
        /// Behind each of these.
        #[serde(default)]
        pooling: Pooling,
        /// At the end.
        #[serde(default)]
        head: Head,
    },
    /// Fully connected network.
    Mlp {
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
        /// Behind each of them.
        #[serde(default)]
        activation: Activation,
    },
}

impl Kind {
    /// Its activation.
    pub fn activation(&self) -> Activation {
        match self {
            Self::Resnet { activation, .. }
            | Self::Vgg { activation, .. }
            | Self::Cnn { activation, .. }
            | Self::Mlp { activation, .. } => *activation,
        }
    }

    /// As the key `kind` names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resnet { .. } => "resnet",
            Self::Vgg { .. } => "vgg",
            Self::Cnn { .. } => "cnn",
            Self::Mlp { .. } => "mlp",
        }
    }
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn three() -> usize {
    3
}

fn sixty_four() -> usize {
    64
}

/// Builds the network of the settings for inputs of this shape.
pub fn build(found: &ConfigFile, input: [usize; 3], outputs: usize) -> Result<Network, Error> {
    let network = build_layers(found, input, outputs)?;
    if network.len() > MOST_PARAMETERS {
        let shown = format!("{} parameters", network.len());
        return Err(found.refuse("network", shown, format!("at most {MOST_PARAMETERS}")));
    }
    Ok(network)
}

fn build_layers(found: &ConfigFile, input: [usize; 3], outputs: usize) -> Result<Network, Error> {
    match &found.settings.network.kind {
        Kind::Resnet { depth, shortcut, activation } => {
            if *depth < 8 || depth % 6 != 2 || *depth > DEEPEST {
                return Err(found.refuse("network.depth", depth, "8, 14, 20, 26, … (6n + 2)"));
            }
            Ok(zoo::resnet(*depth, *shortcut, *activation, input, outputs))
        }
        Kind::Vgg { depth, width, batch_norm, activation } => {
            if ![11, 13, 16, 19].contains(depth) {
                return Err(found.refuse("network.depth", depth, "11, 13, 16 or 19"));
            }
            check_widths(found, "network.width", &[*width])?;
            if input[0] < 32 || input[1] < 32 {
                let shown = format!("images of {}x{}", input[0], input[1]);
                let expected = "at least 32x32: it halves them five times; try kind = \"cnn\"";
                return Err(found.refuse("network.kind = \"vgg\"", shown, expected));
            }
            Ok(zoo::vgg(*depth, *width, *batch_norm, *activation, input, outputs))
        }
        Kind::Cnn { .. } => build_cnn(found, input, outputs),
        Kind::Mlp { hidden, activation } => {
            check_widths(found, "network.hidden", hidden)?;
            Ok(zoo::mlp(input, hidden, outputs, *activation))
        }
    }
}

fn build_cnn(found: &ConfigFile, input: [usize; 3], outputs: usize) -> Result<Network, Error> {
    let Kind::Cnn {
        channels,
        kernel,
        stride,
        padding,
        bias,
        batch_norm,
        activation,
        pooling,
        head,
    } = &found.settings.network.kind
    else {
        unreachable!("called for plain networks only")
    };
    check_widths(found, "network.channels", channels)?;
    if !(1..=LARGEST_KERNEL).contains(kernel) {
        let expected = format!("a whole number from 1 to {LARGEST_KERNEL}");
        return Err(found.refuse("network.kernel", kernel, expected));
    }
    check_widths(found, "network.stride", &[*stride])?;
    if channels.is_empty() {
        return Err(found.refuse("network.channels", "[]", "at least one layer"));
    }
    if *head == Head::Mean && outputs != 1 {
        let expected = "\"linear\" or \"global-linear\"; \"mean\" has one output";
        let shown = format!("\"mean\" for {outputs} outputs");
        return Err(found.refuse("network.head", shown, expected));
    }
    // Does every layer get a pixel?
    let mut size = [input[0], input[1]];
    for layer in 1..=channels.len() {
        let shown = format!("{}x{} pixels in layer {layer}", size[0], size[1]);
        if *padding == Padding::Valid && size.iter().any(|n| n < kernel) {
            let expected =
                format!("at least {kernel}x{kernel} for the kernel; or padding = \"same\"");
            return Err(found.refuse("network.kernel", shown, expected));
        }
        let covered = if *padding == Padding::Valid { *kernel } else { 1 };
        size = size.map(|n| (n - covered) / stride + 1);
        if *pooling != Pooling::None {
            if size.iter().any(|n| *n < 2) {
                let shown = format!("{}x{} pixels in layer {layer}", size[0], size[1]);
                let expected = "at least 2x2 to pool; fewer layers or pooling = \"none\"";
                return Err(found.refuse("network.pooling", shown, expected));
            }
            size = size.map(|n| n / 2);
        }
    }
    let cnn = Cnn {
        input,
        channels: channels.clone(),
        kernel: *kernel,
        stride: *stride,
        padding: *padding,
        bias: *bias,
        batch_norm: *batch_norm,
        activation: *activation,
        pooling: *pooling,
        head: *head,
        outputs,
    };
    Ok(cnn.build())
}

fn check_widths(found: &ConfigFile, key: &str, widths: &[usize]) -> Result<(), Error> {
    match widths.iter().find(|width| !(1..=WIDEST).contains(*width)) {
        Some(width) => Err(found.refuse(key, width, format!("whole numbers from 1 to {WIDEST}"))),
        None => Ok(()),
    }
}
