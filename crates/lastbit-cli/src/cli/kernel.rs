//! Flags that describe a one-layer network on an image, shared by `bounds`, `pde` and `edge`.

use std::path::PathBuf;

use clap::Args;
use lastbit::activation::ActivationKind;
use lastbit::correlate::Edges;
use lastbit::hash_of_bits;
use lastbit::optim::perturbation::Form;
use lastbit::pde::one_layer::{Pooling, Settings};
use lastbit::signal::{checkerboard, normal};
use serde::{Deserialize, Serialize};

use super::pde::Size;
use super::settings::Called;
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::input;
use lastbit_lab::series::Field;
use lastbit_lab::simulate::Precision;
use lastbit_lab::simulate::kernel::{Equation, KernelRun};
use lastbit_lab::validate::{not_negative, positive, within};

/// The network and its image.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Network {
    /// The image: .png or .npy [default: a checkerboard of +1 and -1].
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,

    /// Rows and columns of that checkerboard.
    #[arg(long, value_name = "HxW", default_value = "256x256")]
    pub size: Size,

    /// Rows and columns of the kernel.
    #[arg(long, value_name = "HxW", default_value = "32x32")]
    pub kernel: Size,

    /// Pooling over the positions: `mean` as in global average pooling, `sum` as in the paper's linear
    /// equations.
    #[arg(long, value_parser = choice::<Pooling>(), default_value = "mean")]
    pub pooling: Pooling,

    /// Activation.
    #[arg(long, value_parser = choice::<ActivationKind>(), default_value = "swish")]
    pub activation: ActivationKind,

    /// Steepness of Swish.
    #[arg(long, default_value_t = 1.0)]
    pub beta: f64,

    /// Label of the image, 0 or 1.
    #[arg(long, default_value_t = 1.0)]
    pub label: f64,

    /// Bias of the sigmoid.
    #[arg(long, default_value_t = 0.0)]
    pub bias: f64,
}

impl Network {
    /// Checks the flags and reads the image.
    pub fn image(&self, called: Called) -> Result<Field, Error> {
        if self.image.is_some() {
            called.refuse_unused(&["size"], "--image")?;
        }
        if self.activation != ActivationKind::Swish {
            called.refuse_unused(&["beta"], &format!("--activation {}", self.activation))?;
        }
        positive("--beta", self.beta)?;
        if self.label != 0.0 && self.label != 1.0 {
            return Err(Error::setting("--label", self.label, "0 or 1"));
        }
        if !self.bias.is_finite() {
            return Err(Error::setting("--bias", self.bias, "a finite number"));
        }
        let Size { height, width } = self.size;
        within("--size", height.max(width), 1, 8192)?;
        let (image, name) = match &self.image {
            Some(path) => (input::image(path)?, path.display().to_string()),
            None => {
                let values = checkerboard(height, width);
                (Field { height, width, values }, "the checkerboard".to_owned())
            }
        };
        let fits = |kernel: usize, image: usize| (1..=image).contains(&kernel);
        if fits(self.kernel.height, image.height) && fits(self.kernel.width, image.width) {
            return Ok(image);
        }
        let expected = format!("from 1x1 to {}x{}, the size of {name}", image.height, image.width);
        Err(Error::setting("--kernel", String::from(self.kernel), expected))
    }

    /// Rows and columns of the kernel.
    pub fn window(&self) -> (usize, usize) {
        (self.kernel.height, self.kernel.width)
    }

    /// The network with this weight decay.
    pub fn settings(&self, alpha: f64) -> Result<Settings, Error> {
        not_negative("--alpha", alpha)?;
        Ok(Settings {
            activation: self.activation.with_beta(self.beta),
            pooling: self.pooling,
            label: self.label,
            bias: self.bias,
            alpha,
        })
    }

    /// Hash of the image, so that a record tells images of one name apart.
    pub fn image_hash(image: &Field) -> String {
        hash_of_bits(&image.values)
    }
}

/// The equation and how it is stepped.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flow {
    /// Equation.
    #[arg(long, value_parser = choice::<Equation>(), default_value = "non-linear")]
    pub equation: Equation,

    /// Residual a of the linear equation.
    #[arg(long, default_value_t = -0.5)]
    pub a: f64,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = 0.03)]
    pub dt: f64,

    /// Weight decay.
    #[arg(long, default_value_t = 20.0)]
    pub alpha: f64,

    /// Momentum: Nesterov's scheme instead of forward Euler.
    #[arg(long)]
    pub mu: Option<f64>,

    /// Seed of the normal initial kernel.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Precision of the kernel.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "f64")]
    pub precision: Precision,
}

impl Flow {
    /// A run of this equation on the network's image, from a normal kernel, with nothing measured
    /// beside it.
    pub fn run(&self, called: Called, network: &Network, steps: usize) -> Result<KernelRun, Error> {
        if self.equation != Equation::Linear {
            called.refuse_unused(&["a"], &format!("--equation {}", self.equation))?;
        }
        positive("--dt", self.dt)?;
        within("--steps", steps, 1, 1_000_000_000)?;
        if !self.a.is_finite() {
            return Err(Error::setting("--a", self.a, "a finite number"));
        }
        if let Some(mu) = self.mu.filter(|mu| !(0.0..1.0).contains(mu)) {
            return Err(Error::setting("--mu", mu, "a number from 0 to below 1"));
        }
        let linear = matches!(self.equation, Equation::Linear | Equation::LinearResidual);
        if linear && network.activation != ActivationKind::Swish {
            let expected = "swish: the linear equation is that of Swish at 0";
            return Err(Error::setting("--activation", "another activation", expected));
        }
        let window = network.window();
        Ok(KernelRun {
            image: network.image(called)?,
            edges: Edges::Valid,
            window,
            equation: self.equation,
            a: self.a,
            network: network.settings(self.alpha)?,
            dt: self.dt,
            mu: self.mu,
            k: 1.0,
            form: Form::Paper,
            precision: self.precision,
            steps,
            sharpness_every: 0,
            snapshots: vec![],
            initial: normal(window.0 * window.1, self.seed),
        })
    }
}
