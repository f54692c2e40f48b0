//! `lastbit bounds`.

mod kernel;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lastbit::pde::scheme::Scheme as Stencil;
use lastbit::spectrum::von_neumann::{
    StableDt, amplification, frequencies, is_stable, largest_dt, most_unstable, natural_dt,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::CommandOutput;
use super::scheme::Choice;
use super::settings::{Called, resolve};
use lastbit_lab::Error;
use lastbit_lab::files::write_atomically;
use lastbit_lab::number::{Number, significant};
use lastbit_lab::record::to_csv;
use lastbit_lab::series::Series;
use lastbit_lab::validate::positive;

/// Stability bounds from theory.
#[derive(Debug, Subcommand)]
pub enum Bounds {
    /// Von Neumann analysis of a linear scheme: largest stable time step.
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
  lastbit bounds scheme nesterov --z 1.4286e8 --mu 0.9
  lastbit bounds scheme advection-lax-wendroff --dt 0.9 --csv amplification.csv
  lastbit bounds scheme --file scheme.toml --json

A file for forward Euler of u_t = u_xx:
  dimensions = 1
  term = [
    { level = 0, offset = [-1], coefficient = [0, 1] },
    { level = 0, offset = [0], coefficient = [1, -2] },
    { level = 0, offset = [1], coefficient = [0, 1] },
  ]")]
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
        let stable = largest_dt(&stencil);
        let dt = settings.dt.unwrap_or(match stable {
            StableDt::UpTo(dt) => dt,
            StableDt::Never | StableDt::Always => natural_dt(&stencil).unwrap_or(1.0),
        });
        let worst = most_unstable(&stencil, dt);
        let curve = curve(&stencil, dt);
        if let Some(path) = &self.csv {
            write_atomically(path, to_csv(&curve).as_bytes())
                .map_err(|error| error.of_flag("--csv"))?;
        }
        let omegas: Vec<Number> = worst.omega.iter().map(|omega| Number(*omega)).collect();
        let in_words = match stable {
            StableDt::UpTo(edge) => format!("stable for dt up to {}", eleven_digits(edge)),
            StableDt::Never => "stable for no dt, however small".to_owned(),
            StableDt::Always => "stable for every dt".to_owned(),
        };
        let shown: Vec<String> = omegas.iter().map(ToString::to_string).collect();
        // A scheme that is never stable may exceed 1 by less than can be computed.
        let is_stable = stable != StableDt::Never && is_stable(&stencil, dt);
        let text = format!(
            "{}: {in_words}.\nAt dt = {} it is {}: the most amplified frequency is omega = {} \
             (radians per point), by a factor of {} per step.\n",
            settings.choice.name(),
            eleven_digits(dt),
            if is_stable { "stable" } else { "unstable" },
            shown.join(", "),
            Number(worst.amplification),
        );
        let json = json!({
            "scheme": settings.choice.name(),
            "settings": settings,
            "stable_dt": stable_dt(stable),
            "dt": dt,
            "stable": is_stable,
            "most_unstable": {"omega": omegas, "amplification": Number(worst.amplification)},
            "amplification": curve.to_json(),
        });
        Ok(CommandOutput::new(text, json))
    }
}

/// As exactly as edges are located.
fn eleven_digits(x: f64) -> f64 {
    significant(x, 11)
}

fn stable_dt(stable: StableDt) -> Value {
    match stable {
        StableDt::UpTo(dt) => json!({"kind": "up-to", "dt": dt}),
        StableDt::Never => json!({"kind": "never", "dt": 0.0}),
        StableDt::Always => json!({"kind": "always", "dt": null}),
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
