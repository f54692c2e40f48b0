//! A one-layer network on an image, and the equation of its kernel.

use lastbit::activation::ActivationKind;
use lastbit::correlate::Edges;
use lastbit::hash_of_bits;
use lastbit::optim::perturbation::Form;
use lastbit::pde::one_layer::{Pooling, Settings};
use lastbit::signal::{checkerboard, normal};
use serde::{Deserialize, Serialize};

use super::{Given, Size};
use crate::error::Error;
use crate::input::{self, Source};
use crate::series::Field;
use crate::simulate::Precision;
use crate::simulate::kernel::{Equation, KernelRun};
use crate::validate::{not_negative, positive, within};

/// The network and its image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Network {
    /// The image; a checkerboard of +1 and -1 otherwise.
    pub image: Option<Source<Field>>,
    /// Rows and columns of that checkerboard.
    pub size: Size,
    /// Rows and columns of the kernel.
    pub kernel: Size,
    /// Pooling over the positions.
    pub pooling: Pooling,
    /// Activation.
    pub activation: ActivationKind,
    /// Steepness of Swish.
    pub beta: f64,
    /// Label of the image, 0 or 1.
    pub label: f64,
    /// Bias of the sigmoid.
    pub bias: f64,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            image: None,
            size: Size { height: 256, width: 256 },
            kernel: Size { height: 32, width: 32 },
            pooling: Pooling::Mean,
            activation: ActivationKind::Swish,
            beta: 1.0,
            label: 1.0,
            bias: 0.0,
        }
    }
}

impl Network {
    /// Checks the settings and reads the image.
    pub fn image(&self, given: Given) -> Result<Field, Error> {
        if self.image.is_some() {
            given.refuse_unused(&["size"], "--image")?;
        }
        if self.activation != ActivationKind::Swish {
            given.refuse_unused(&["beta"], &format!("--activation {}", self.activation))?;
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
            Some(source) => {
                let name = source.name("image");
                let image = source.get(input::image)?;
                input::all_finite(name, &image.values)?;
                (image, name.display().to_string())
            }
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
        Err(Error::setting("--kernel", self.kernel, expected))
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Flow {
    /// Equation.
    pub equation: Equation,
    /// Residual a of the linear equation.
    pub a: f64,
    /// Step size.
    pub dt: f64,
    /// Weight decay.
    pub alpha: f64,
    /// Momentum: Nesterov's scheme instead of forward Euler.
    pub mu: Option<f64>,
    /// Seed of the normal initial kernel.
    pub seed: u64,
    /// Precision of the kernel.
    pub precision: Precision,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            equation: Equation::NonLinear,
            a: -0.5,
            dt: 0.03,
            alpha: 20.0,
            mu: None,
            seed: 1,
            precision: Precision::F64,
        }
    }
}

impl Flow {
    /// A run of this equation on the network's image, from a normal kernel, with nothing measured
    /// beside it.
    pub fn run(&self, given: Given, network: &Network, steps: usize) -> Result<KernelRun, Error> {
        if self.equation != Equation::Linear {
            given.refuse_unused(&["a"], &format!("--equation {}", self.equation))?;
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
            image: network.image(given)?,
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
