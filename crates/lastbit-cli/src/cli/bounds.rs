//! `lastbit bounds`.

mod kernel;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::CommandOutput;
use super::scheme::Choice;
use super::settings::{Called, resolve};
use lastbit_lab::Error;
use lastbit_lab::bounds::SchemeBoundsSettings;
use lastbit_lab::files::write_atomically;
use lastbit_lab::record::to_csv;

/// Stability bounds from theory.
#[derive(Debug, Subcommand)]
pub enum Bounds {
    /// Von Neumann analysis of a linear scheme: all stable time steps, certified.
    Scheme(Scheme),
    /// A one-layer network on an image: stable weight decays, for an image-sized kernel and the actual kernel size.
    Kernel(kernel::Kernel),
}

impl Bounds {
    /// The bounds.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        match self {
            Self::Scheme(scheme) => scheme.answer(called),
            Self::Kernel(kernel) => kernel.answer(called, out),
        }
    }
}

/// Settings of an analysis.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit bounds scheme heat --kappa 2 --dx 0.1
  lastbit bounds scheme advection-diffusion-2d --speed 1 --speed-y 0.2 --kappa 0.1
  lastbit bounds scheme nesterov --z 1.4286e8 --mu 0.9
  lastbit bounds scheme advection-lax-wendroff --dt 0.9 --csv amplification.csv
  lastbit bounds scheme --file scheme.toml --json

A file for forward Euler of u_t = u_xx:
  dimensions = 1
  term = [
    { level = 0, offset = [-1], coefficient = [0, 1] },
    { level = 0, offset = [0], coefficient = [1, -2] },
    { level = 0, offset = [1], coefficient = [0, 1] },
  ]

The range of dt is subdivided until each interval is proven stable (at all frequencies) or unstable
(at one). An edge is given as a bracket: the largest step shown to be stable and the smallest shown to
be unstable. Coefficients are assumed exact to 8 ulps; a quantity smaller than the resulting error
counts as zero.")]
pub struct Scheme {
    /// Settings from a TOML file with the names of the flags; flags win over it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    choice: Choice,

    /// Step size at which to show the amplification [default: the largest stable one].
    #[arg(long, alias = "lr")]
    dt: Option<f64>,

    /// Write the amplification over the frequencies to this file.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    csv: Option<PathBuf>,
}

impl Scheme {
    fn answer(&self, called: Called) -> Result<CommandOutput, Error> {
        let settings: SchemeBoundsSettings = resolve(self, called, self.config.as_deref())?;
        let bounds = called.with(|given| settings.bounds(given))?;
        if let Some(path) = &self.csv {
            write_atomically(path, to_csv(&bounds.amplification).as_bytes())
                .map_err(|error| error.of_flag("--csv"))?;
        }
        Ok(CommandOutput::new(format!("{}\n", bounds.in_words), json!(bounds)))
    }
}
