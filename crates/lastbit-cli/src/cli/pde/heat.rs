//! `lastbit pde heat`.

use std::path::PathBuf;

use clap::Args;
use lastbit::pde::heat::Ends;
use serde::Serialize;

use super::RunOptions;
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::pde::{HeatSettings, PdeRun};
use lastbit_lab::simulate::Precision;

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde heat --dt 0.4
  lastbit pde heat --dt 0.8 --times 0,0.8,2.4,4
  lastbit pde heat --dt 0.5 --ends neumann --initial profile.csv --precision f32
  lastbit pde heat --config heat.toml --expect stable")]
pub struct Heat {
    #[command(flatten)]
    #[serde(skip)]
    pub options: RunOptions,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = defaults().dt)]
    dt: f64,

    /// Mesh width.
    #[arg(long, default_value_t = defaults().dx)]
    dx: f64,

    /// Diffusivity.
    #[arg(long, default_value_t = defaults().kappa)]
    kappa: f64,

    /// Ends of the interval.
    #[arg(long, value_parser = choice::<Ends>(), default_value_t = defaults().ends)]
    ends: Ends,

    /// Initial profile: .csv of one column, or .npy of one dimension.
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Mesh points of the triangle taken where no profile is given.
    #[arg(long, default_value_t = defaults().points)]
    points: usize,

    /// Height of that triangle.
    #[arg(long, default_value_t = defaults().height)]
    height: f64,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = defaults().steps)]
    steps: usize,

    /// Times at which to keep the profile [default: six, evenly spaced].
    #[arg(long, value_delimiter = ',', value_name = "T,...")]
    times: Option<Vec<f64>>,

    /// Precision of the state.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t = defaults().precision)]
    precision: Precision,
}

fn defaults() -> HeatSettings {
    HeatSettings::default()
}

impl Heat {
    /// The run these settings describe.
    pub fn run(&self, called: Called) -> Result<PdeRun, Error> {
        let settings: HeatSettings = resolve(self, called, self.options.config.as_deref())?;
        called.with(|given| settings.run(given))
    }
}
