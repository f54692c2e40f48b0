//! `lastbit pde beltrami`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::RunOptions;
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::pde::{BeltramiSettings, PdeRun};
use lastbit_lab::settings::Size;
use lastbit_lab::simulate::Precision;

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde beltrami --overdrive 0.9
  lastbit pde beltrami --overdrive 1000 --lambda 0.05
  lastbit pde beltrami --dimensions 2 --size 128x128 --overdrive 10
  lastbit pde beltrami --signal photo.png --dt 0.01 --steps 3000")]
pub struct Beltrami {
    #[command(flatten)]
    #[serde(skip)]
    pub options: RunOptions,

    /// Time step as a multiple of the sharp bound 2/(lambda + 4 d/(delta dx^2)) [default: 10].
    #[arg(long, conflicts_with = "dt")]
    overdrive: Option<f64>,

    /// Time step.
    #[arg(long, alias = "lr")]
    dt: Option<f64>,

    /// Mesh width.
    #[arg(long, default_value_t = defaults().dx)]
    dx: f64,

    /// Gradient below which the diffusion is linear.
    #[arg(long, default_value_t = defaults().delta)]
    delta: f64,

    /// Weight of the data term.
    #[arg(long, default_value_t = defaults().lambda)]
    lambda: f64,

    /// The data: a signal (.csv, .npy) or an image (.png, .npy).
    #[arg(long, value_name = "FILE")]
    signal: Option<PathBuf>,

    /// 1 for a signal, 2 for an image, where no file is given.
    #[arg(long, default_value_t = defaults().dimensions)]
    dimensions: usize,

    /// Points of that signal.
    #[arg(long, default_value_t = defaults().points)]
    points: usize,

    /// Rows and columns of that image.
    #[arg(long, value_name = "HxW", default_value_t = defaults().size)]
    size: Size,

    /// Standard deviation of the noise on it.
    #[arg(long, default_value_t = defaults().noise)]
    noise: f64,

    /// Seed of that noise.
    #[arg(long, default_value_t = defaults().seed)]
    seed: u64,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = defaults().steps)]
    steps: usize,

    /// Steps at which to keep the state [default: two, late in the run].
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    snapshots: Option<Vec<usize>>,

    /// Precision of the state.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t = defaults().precision)]
    precision: Precision,
}

fn defaults() -> BeltramiSettings {
    BeltramiSettings::default()
}

impl Beltrami {
    /// The run these settings describe.
    pub fn run(&self, called: Called) -> Result<PdeRun, Error> {
        let settings: BeltramiSettings = resolve(self, called, self.options.config.as_deref())?;
        called.with(|given| settings.run(given))
    }
}
