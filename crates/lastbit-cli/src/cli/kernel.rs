//! Flags that describe a one-layer network on an image, shared by `bounds`, `pde` and `edge`.

use std::path::PathBuf;

use clap::Args;
use lastbit::activation::ActivationKind;
use lastbit::pde::one_layer::Pooling;
use serde::Serialize;

use crate::cli::values::choice;
use lastbit_lab::settings::{self, Size};
use lastbit_lab::simulate::Precision;
use lastbit_lab::simulate::kernel::Equation;

fn network() -> settings::Network {
    settings::Network::default()
}

fn flow() -> settings::Flow {
    settings::Flow::default()
}

/// The network and its image.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Network {
    /// The image: .png or .npy [default: a checkerboard of +1 and -1].
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// Rows and columns of that checkerboard.
    #[arg(long, value_name = "HxW", default_value_t = network().size)]
    size: Size,

    /// Rows and columns of the kernel.
    #[arg(long, value_name = "HxW", default_value_t = network().kernel)]
    kernel: Size,

    /// Pooling over the positions: `mean` as in global average pooling, `sum` as in the paper's linear
    /// equations.
    #[arg(long, value_parser = choice::<Pooling>(), default_value_t = network().pooling)]
    pooling: Pooling,

    /// Activation.
    #[arg(long, value_parser = choice::<ActivationKind>(), default_value_t = network().activation)]
    activation: ActivationKind,

    /// Steepness of Swish.
    #[arg(long, default_value_t = network().beta)]
    beta: f64,

    /// Label of the image, 0 or 1.
    #[arg(long, default_value_t = network().label)]
    label: f64,

    /// Bias of the sigmoid.
    #[arg(long, default_value_t = network().bias)]
    bias: f64,
}

/// The equation and how it is stepped.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flow {
    /// Equation.
    #[arg(long, value_parser = choice::<Equation>(), default_value_t = flow().equation)]
    equation: Equation,

    /// Residual a of the linear equation.
    #[arg(long, default_value_t = flow().a)]
    a: f64,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = flow().dt)]
    dt: f64,

    /// Weight decay.
    #[arg(long, default_value_t = flow().alpha)]
    alpha: f64,

    /// Momentum: Nesterov's scheme instead of forward Euler.
    #[arg(long)]
    mu: Option<f64>,

    /// Seed of the normal initial kernel.
    #[arg(long, default_value_t = flow().seed)]
    seed: u64,

    /// Precision of the kernel.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t = flow().precision)]
    precision: Precision,
}
