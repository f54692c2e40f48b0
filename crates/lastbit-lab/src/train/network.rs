//! From the section `network` to a network that fits the data.

use lastbit::activation::Activation as Function;
use lastbit::nn::zoo::{self, Cnn};
use lastbit::nn::{Network, Padding as Edge};
use serde::{Deserialize, Serialize};
use toml::Value;

use super::settings::Found;
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

/// Names of [`zoo::Shortcut`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shortcut {
    /// A 1x1 convolution.
    #[default]
    Conv,
    /// Without parameters.
    Plain,
}

/// Names of [`Edge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// Zeros around, the size stays.
    #[default]
    Same,
    /// Only where the kernel fits.
    Valid,
}

/// Names of [`zoo::Pooling`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// 2x2 maxima.
    #[default]
    Max,
    /// 2x2 means.
    Average,
    /// Nothing.
    None,
}

/// Names of [`zoo::Head`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// A linear layer over everything.
    #[default]
    Linear,
    /// The mean over pixels, then a linear layer.
    GlobalLinear,
    /// The mean over everything.
    Mean,
}

/// `"relu"`, `"tanh"`, `"sigmoid"` or `{ swish = beta }`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// 1/(1 + e^-x).
    Sigmoid,
    /// x/(1 + e^(-beta x)).
    Swish(f64),
}

impl TryFrom<Value> for Activation {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let refuse = || {
            let expected = "\"relu\", \"tanh\", \"sigmoid\" or { swish = BETA } with BETA > 0";
            format!("found {value}, expected {expected}")
        };
        match &value {
            Value::String(word) => match word.as_str() {
                "relu" => Ok(Self::Relu),
                "tanh" => Ok(Self::Tanh),
                "sigmoid" => Ok(Self::Sigmoid),
                _ => Err(refuse()),
            },
            Value::Table(table) if table.len() == 1 => {
                let beta = table.get("swish").ok_or_else(refuse)?;
                let beta = beta.as_float().or(beta.as_integer().map(|beta| beta as f64));
                beta.filter(|beta| (1e-6..=1e6).contains(beta)).map(Self::Swish).ok_or_else(refuse)
            }
            _ => Err(refuse()),
        }
    }
}

impl From<Activation> for Value {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Relu => "relu".into(),
            Activation::Tanh => "tanh".into(),
            Activation::Sigmoid => "sigmoid".into(),
            Activation::Swish(beta) => {
                toml::Table::from_iter([("swish".to_owned(), beta.into())]).into()
            }
        }
    }
}

impl Activation {
    fn function(self) -> Function {
        match self {
            Self::Relu => Function::Relu,
            Self::Tanh => Function::Tanh,
            Self::Sigmoid => Function::Sigmoid,
            Self::Swish(beta) => Function::Swish { beta },
        }
    }
}

/// Builds the network of the settings for inputs of this shape.
pub fn build(found: &Found, input: [usize; 3], outputs: usize) -> Result<Network, Error> {
    let network = build_layers(found, input, outputs)?;
    if network.len() > MOST_PARAMETERS {
        let shown = format!("{} parameters", network.len());
        return Err(found.refuse("network", shown, format!("at most {MOST_PARAMETERS}")));
    }
    Ok(network)
}

fn build_layers(found: &Found, input: [usize; 3], outputs: usize) -> Result<Network, Error> {
    match &found.settings.network.kind {
        Kind::Resnet { depth, shortcut, activation } => {
            if *depth < 8 || depth % 6 != 2 || *depth > DEEPEST {
                return Err(found.refuse("network.depth", depth, "8, 14, 20, 26, … (6n + 2)"));
            }
            let shortcut = match shortcut {
                Shortcut::Conv => zoo::Shortcut::Conv,
                Shortcut::Plain => zoo::Shortcut::Plain,
            };
            Ok(zoo::resnet(*depth, shortcut, activation.function(), input, outputs))
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
            Ok(zoo::vgg(*depth, *width, *batch_norm, activation.function(), input, outputs))
        }
        Kind::Cnn { .. } => build_cnn(found, input, outputs),
        Kind::Mlp { hidden, activation } => {
            check_widths(found, "network.hidden", hidden)?;
            Ok(zoo::mlp(input, hidden, outputs, activation.function()))
        }
    }
}

fn build_cnn(found: &Found, input: [usize; 3], outputs: usize) -> Result<Network, Error> {
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
        padding: if *padding == Padding::Same { Edge::Same } else { Edge::Valid },
        bias: *bias,
        batch_norm: *batch_norm,
        activation: activation.function(),
        pooling: match pooling {
            Pooling::Max => zoo::Pooling::Max,
            Pooling::Average => zoo::Pooling::Average,
            Pooling::None => zoo::Pooling::None,
        },
        head: match head {
            Head::Linear => zoo::Head::Linear,
            Head::GlobalLinear => zoo::Head::GlobalLinear,
            Head::Mean => zoo::Head::Mean,
        },
        outputs,
    };
    Ok(cnn.build())
}

fn check_widths(found: &Found, key: &str, widths: &[usize]) -> Result<(), Error> {
    match widths.iter().find(|width| !(1..=WIDEST).contains(*width)) {
        Some(width) => Err(found.refuse(key, width, format!("whole numbers from 1 to {WIDEST}"))),
        None => Ok(()),
    }
}
