//! `lastbit pde kernel`.

use std::path::PathBuf;

use clap::Args;
use lastbit::optim::perturbation::Form;
use serde::Serialize;

use super::RunOptions;
use crate::cli::kernel::{Flow, Network};
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::pde::{KernelSettings, PdeRun};

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde kernel --dt 0.05
  lastbit pde kernel --dt 0.03 --sharpness-every 5 --expect stable
  lastbit pde kernel --equation linear --a -0.5 --pooling sum --dt 1e-8 --alpha 1e8
  lastbit pde kernel --image photo.png --kernel 9x9 --initial kernel.npy --mu 0.9 --dt 0.1")]
pub struct Kernel {
    #[command(flatten)]
    #[serde(skip)]
    pub options: RunOptions,

    #[command(flatten)]
    #[serde(flatten)]
    network: Network,

    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,

    /// Kernel as large as the image, periodic, with sides that are powers of two.
    #[arg(long)]
    no_window: bool,

    /// Factor k of the perturbed copy, whose steps are rounded as (dt/k)(k g).
    #[arg(long, default_value_t = defaults().k)]
    k: f64,

    /// Where k stands.
    #[arg(long, value_parser = choice::<Form>(), default_value_t = defaults().form)]
    form: Form,

    /// Initial kernel as .npy [default: normal, mean 0, variance 1].
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = defaults().steps)]
    steps: usize,

    /// Steps between two measurements of the sharpness; 0 for none.
    #[arg(long, default_value_t = defaults().sharpness_every)]
    sharpness_every: usize,

    /// Steps at which to keep the kernel [default: five at the end].
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    snapshots: Option<Vec<usize>>,
}

fn defaults() -> KernelSettings {
    KernelSettings::default()
}

impl Kernel {
    /// The run these settings describe.
    pub fn run(&self, called: Called) -> Result<PdeRun, Error> {
        let settings: KernelSettings = resolve(self, called, self.options.config.as_deref())?;
        called.with(|given| settings.run(given))
    }
}
