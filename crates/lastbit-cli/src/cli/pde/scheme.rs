//! `lastbit pde scheme`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::RunOptions;
use crate::cli::scheme::Choice;
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::pde::{PdeRun, SchemeSettings};
use lastbit_lab::settings::Size;
use lastbit_lab::simulate::Precision;

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde scheme advection-upwind --dt 1.01
  lastbit pde scheme --file scheme.toml --dt 0.1 --initial profile.npy")]
pub struct Scheme {
    #[command(flatten)]
    #[serde(skip)]
    pub options: RunOptions,

    #[command(flatten)]
    #[serde(flatten)]
    choice: Choice,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = defaults().dt)]
    dt: f64,

    /// Initial state: a line (.csv, .npy) or an image (.png, .npy).
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Points of the line taken where no file is given.
    #[arg(long, default_value_t = defaults().points)]
    points: usize,

    /// Rows and columns of the image taken where no file is given.
    #[arg(long, value_name = "HxW", default_value_t = defaults().size)]
    size: Size,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = defaults().steps)]
    steps: usize,

    /// Precision of the state.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t = defaults().precision)]
    precision: Precision,
}

fn defaults() -> SchemeSettings {
    SchemeSettings::default()
}

impl Scheme {
    /// The run these settings describe.
    pub fn run(&self, called: Called) -> Result<PdeRun, Error> {
        let settings: SchemeSettings = resolve(self, called, self.options.config.as_deref())?;
        called.with(|given| settings.run(given))
    }
}
