//! `lastbit bounds`.

mod kernel;
mod stable_dt;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lastbit::pde::scheme::Scheme as Stencil;
use lastbit::spectrum::certified::{Analysis, Stability};
use lastbit::spectrum::von_neumann::{amplification, frequencies, most_unstable, natural_dt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::CommandOutput;
use super::scheme::Choice;
use super::settings::{Called, resolve};
use lastbit_lab::Error;
use lastbit_lab::files::write_atomically;
use lastbit_lab::number::Number;
use lastbit_lab::record::to_csv;
use lastbit_lab::series::Series;
use lastbit_lab::validate::positive;

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
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
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

/// Intervals of the frequencies shown, per axis.
const SHOWN: usize = 64;

impl Scheme {
    fn answer(&self, called: Called) -> Result<CommandOutput, Error> {
        let settings = resolve(self, called, self.config.as_deref())?;
        if let Some(dt) = settings.dt {
            positive("--dt", dt)?;
        }
        let stencil = settings.choice.build(called)?;
        let analysis = Analysis::new(&stencil);
        let steps = analysis.stable_steps();
        let dt = settings
            .dt
            .or_else(|| stable_dt::last_stable(&steps))
            .unwrap_or_else(|| natural_dt(&stencil).unwrap_or(1.0));
        let stability = analysis.at(dt);
        let worst = match (&stability, most_unstable(&stencil, dt)) {
            // Where the excess is below the last digit, the frequency that was shown to be amplified.
            (Stability::CertainlyUnstable(mode), most) if most.amplification <= 1.0 + 1e-12 => {
                mode.clone()
            }
            (_, most) => most,
        };
        let curve = curve(&stencil, dt);
        if let Some(path) = &self.csv {
            write_atomically(path, to_csv(&curve).as_bytes())
                .map_err(|error| error.of_flag("--csv"))?;
        }
        let (word, is_stable) = match &stability {
            Stability::CertainlyStable => ("stable".to_owned(), json!(true)),
            Stability::CertainlyUnstable(_) => ("unstable".to_owned(), json!(false)),
            Stability::Undecided(why) => (format!("undecided ({why})"), json!(null)),
        };
        let text = format!(
            "{}: {}\nAt dt = {} it is {word}: the most amplified frequency is omega = {} (radians per \
             point), by a factor of {} per step.\n",
            settings.choice.name(),
            stable_dt::in_words(&stencil, &steps),
            stable_dt::eleven_digits(dt),
            stable_dt::frequency(&worst.omega),
            Number(worst.amplification),
        );
        let json = json!({
            "scheme": settings.choice.name(),
            "settings": settings,
            "stable_dt": stable_dt::to_json(&stencil, &steps),
            "dt": dt,
            "stable": is_stable,
            "most_unstable": stable_dt::mode_json(&worst),
            "amplification": curve.to_json(),
        });
        Ok(CommandOutput::new(text, json))
    }
}

/// The amplification over the frequencies.
fn curve(stencil: &Stencil, dt: f64) -> Series {
    let omegas = frequencies(stencil.dimensions(), SHOWN);
    let names = ["omega", "omega_2"];
    let mut columns: Vec<(String, Vec<f64>)> = (0..stencil.dimensions())
        .map(|axis| (names[axis].to_owned(), omegas.iter().map(|omega| omega[axis]).collect()))
        .collect();
    let values = omegas.iter().map(|omega| amplification(stencil, dt, omega)).collect();
    columns.push(("amplification".to_owned(), values));
    Series { columns }
}
