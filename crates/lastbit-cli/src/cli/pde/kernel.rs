//! `lastbit pde kernel`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lastbit::correlate::Edges;
use lastbit::hash_of_bits;
use lastbit::optim::perturbation::Form;
use lastbit::signal::normal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{OwnRun, RunOptions, snapshots_reached, state_figure};
use crate::cli::kernel::{Network, PoolingName};
use crate::cli::settings::{Called, positive, resolve, within};
use crate::error::Error;
use crate::figure::{Axis, Figure};
use crate::input;
use crate::record::{Number, Record};
use crate::simulate::Precision;
use crate::simulate::kernel::{Equation, KernelRun, regime_pictures};

/// Where `k` stands in the perturbed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FormName {
    /// (dt/k)(k g), as printed.
    Paper,
    /// (dt k)(g/k), as in the authors' code.
    Released,
}

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  lastbit pde kernel --dt 0.05
  lastbit pde kernel --dt 0.03 --sharpness-every 5 --expect stable
  lastbit pde kernel --equation linear --a -0.5 --pooling sum --dt 1e-8 --alpha 1e8
  lastbit pde kernel --image photo.png --kernel 9x9 --initial kernel.npy --mu 0.9 --dt 0.1"
)]
pub struct Kernel {
    #[command(flatten)]
    #[serde(skip)]
    options: RunOptions,

    #[command(flatten)]
    #[serde(flatten)]
    network: Network,

    /// Equation.
    #[arg(long, value_enum, default_value = "non-linear")]
    equation: Equation,

    /// Residual a of the linear equation.
    #[arg(long, default_value_t = -0.5)]
    a: f64,

    /// Let the kernel be as large as the image, on a torus whose sides are powers of two.
    #[arg(long)]
    no_window: bool,

    /// Pooling over the positions.
    #[arg(long, value_enum, default_value = "mean")]
    pooling: PoolingName,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = 0.03)]
    dt: f64,

    /// Weight decay.
    #[arg(long, default_value_t = 20.0)]
    alpha: f64,

    /// Momentum: Nesterov's scheme instead of forward Euler.
    #[arg(long)]
    mu: Option<f64>,

    /// Factor of the twin whose rounding is perturbed at each step.
    #[arg(long, default_value_t = 3.0)]
    k: f64,

    /// Where that factor stands.
    #[arg(long, value_enum, default_value = "paper")]
    form: FormName,

    /// Initial kernel as .npy [default: normal, mean 0, variance 1].
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Seed of that normal kernel.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Steps to run; a growing run is judged up to 20 times as long.
    #[arg(long, default_value_t = 1000)]
    steps: usize,

    /// Steps between two measurements of the sharpness; 0 for none.
    #[arg(long, default_value_t = 10)]
    sharpness_every: usize,

    /// Steps at which to keep the kernel [default: five at the end].
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    snapshots: Option<Vec<usize>>,

    /// Precision of the kernel.
    #[arg(long, value_enum, default_value = "f64")]
    precision: Precision,
}

impl Kernel {
    /// The run these settings describe.
    pub fn own_run(&self, called: Called) -> Result<OwnRun<'_>, Error> {
        let settings = resolve(self, called, self.options.config.as_deref())?;
        settings.check()?;
        let run = settings.kernel_run()?;
        let mut recorded = json!(settings);
        recorded["snapshots"] = json!(run.snapshots);
        recorded["image-hash"] = json!(Network::image_hash(&run.image));
        recorded["initial-hash"] = json!(hash_of_bits(&run.initial));
        Ok(OwnRun {
            id: "pde-kernel",
            title: format!("One-layer network, dt = {}, alpha = {}", run.dt, settings.alpha),
            method: "Gradient descent on the kernel of a one-layer network, beside a twin whose \
                     rounding is perturbed at each step.",
            settings: recorded,
            steps: run.steps,
            options: &self.options,
            compute: Box::new(move |progress| run.run(progress)),
            figures: &figures,
        })
    }

    fn check(&self) -> Result<(), Error> {
        positive("--dt", self.dt)?;
        positive("--k", self.k)?;
        within("--steps", self.steps, 1, 1_000_000_000)?;
        if !self.a.is_finite() {
            return Err(Error::setting("--a", self.a, "a finite number"));
        }
        if let Some(mu) = self.mu.filter(|mu| !(0.0..1.0).contains(mu)) {
            return Err(Error::setting("--mu", mu, "a number from 0 to below 1"));
        }
        let linear = matches!(self.equation, Equation::Linear | Equation::LinearResidual);
        if linear && self.network.activation != crate::cli::kernel::ActivationName::Swish {
            let expected = "swish: the linear equation is that of Swish at 0";
            return Err(Error::setting("--activation", "another activation", expected));
        }
        for step in self.snapshots.iter().flatten() {
            within("--snapshots", *step, 0, self.steps)?;
        }
        Ok(())
    }

    fn kernel_run(&self) -> Result<KernelRun, Error> {
        let image = self.network.image()?;
        let (edges, window) = if self.no_window {
            let (height, width) = (image.height, image.width);
            if !(height.is_power_of_two() && width.is_power_of_two() && height.min(width) > 1) {
                let expected = "sides that are powers of two with --no-window";
                return Err(Error::setting("--image", format!("{height}x{width}"), expected));
            }
            (Edges::Periodic, (height, width))
        } else {
            (Edges::Valid, self.network.window())
        };
        let initial = match &self.initial {
            Some(path) => {
                let field = input::image(path)?;
                if (field.height, field.width) != window {
                    return Err(Error::Input {
                        path: path.clone(),
                        found: format!("{} x {} values", field.height, field.width),
                        expected: format!("{} x {}, the size of the kernel", window.0, window.1),
                    });
                }
                field.values
            }
            None => normal(window.0 * window.1, self.seed),
        };
        let late: Vec<usize> = (self.steps.saturating_sub(4)..=self.steps).collect();
        Ok(KernelRun {
            image,
            edges,
            window,
            equation: self.equation,
            a: self.a,
            network: self.network.settings(self.pooling, self.alpha)?,
            dt: self.dt,
            mu: self.mu,
            k: self.k,
            form: match self.form {
                FormName::Paper => Form::Paper,
                FormName::Released => Form::Released,
            },
            precision: self.precision,
            steps: self.steps,
            sharpness_every: self.sharpness_every,
            snapshots: self.snapshots.clone().unwrap_or(late),
            initial,
        })
    }
}

fn figures(record: &Record) -> Vec<Figure> {
    let wanted = record.settings["snapshots"].as_array().into_iter().flatten();
    let wanted = wanted.filter_map(serde_json::Value::as_u64).map(|step| step as usize);
    let steps = snapshots_reached(record, wanted);
    let names: Vec<String> = steps.into_iter().map(KernelRun::snapshot_name).collect();
    let regimes = ["activated", "transitioning", "not_activated", "changed"];
    let over_steps = super::over_steps;
    let mut figures = vec![
        state_figure(record, &[], &names),
        over_steps("loss", "Loss", "curves", &["loss"], Axis::log("L")),
        over_steps(
            "rel-l1",
            "RelL1 of the perturbed twin",
            "curves",
            &["rel_l1"],
            Axis::log("RelL1"),
        ),
        over_steps("regimes", "Positions by regime", "curves", &regimes, Axis::linear("share")),
    ];
    if record.cell(super::OWN).is_some_and(|cell| cell.fields.contains_key(KernelRun::REGIMES)) {
        figures.push(regime_pictures("regime-map", &[(super::OWN, "at the end".to_owned())]));
    }
    if record.cell(super::OWN).is_some_and(|cell| cell.series.contains_key("sharpness")) {
        let axis = Axis::linear("unstable above 2");
        let title = "Sharpness, normalized";
        figures.push(over_steps("sharpness", title, "sharpness", &["normalized"], axis));
    }
    figures
}

/// Top-level numbers of the JSON answer, beside those of every run.
pub fn headline(record: &Record) -> Vec<(&'static str, Number)> {
    ["loss", "lambda_max", "rel_l1"]
        .map(|name| (name, Number(record.number(super::OWN, name))))
        .to_vec()
}
