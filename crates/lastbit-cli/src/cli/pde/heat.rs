//! `lastbit pde heat`.

use std::path::PathBuf;

use clap::Args;
use lastbit::hash_of_bits;
use lastbit::signal::triangle;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{OwnRun, RunOptions};
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit::pde::heat::Ends;
use lastbit_lab::Error;
use lastbit_lab::figure::{Axis, Figure};
use lastbit_lab::input;
use lastbit_lab::number::significant;
use lastbit_lab::plan::Compute;
use lastbit_lab::record::Record;
use lastbit_lab::simulate::Precision;
use lastbit_lab::simulate::heat::HeatRun;
use lastbit_lab::validate::{data_fit_precision, fits_precision, positive, within};

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde heat --dt 0.4
  lastbit pde heat --dt 0.8 --times 0,0.8,2.4,4
  lastbit pde heat --dt 0.5 --ends neumann --initial profile.csv --precision f32
  lastbit pde heat --config heat.toml --expect stable")]
pub struct Heat {
    #[command(flatten)]
    #[serde(skip)]
    options: RunOptions,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = 0.4)]
    dt: f64,

    /// Mesh width.
    #[arg(long, default_value_t = 1.0)]
    dx: f64,

    /// Diffusivity.
    #[arg(long, default_value_t = 1.0)]
    kappa: f64,

    /// Ends of the interval.
    #[arg(long, value_parser = choice::<Ends>(), default_value = "dirichlet")]
    ends: Ends,

    /// Initial profile: .csv of one column, or .npy of one dimension.
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Mesh points of the triangle taken where no profile is given.
    #[arg(long, default_value_t = 31)]
    points: usize,

    /// Height of that triangle.
    #[arg(long, default_value_t = 1.5)]
    height: f64,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = 2000)]
    steps: usize,

    /// Times at which to keep the profile [default: six, evenly spaced].
    #[arg(long, value_delimiter = ',', value_name = "T,...")]
    times: Option<Vec<f64>>,

    /// Precision of the state.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "f64")]
    precision: Precision,
}

impl Heat {
    /// The run these settings describe.
    pub fn own_run(&self, called: Called) -> Result<OwnRun<'_>, Error> {
        let settings = resolve(self, called, self.options.config.as_deref())?;
        settings.check()?;
        let initial = match &settings.initial {
            Some(path) => {
                called.refuse_unused(&["points", "height"], "--initial")?;
                input::signal(path)?
            }
            None => triangle(settings.points, settings.height),
        };
        if let (Some(path), true) = (&settings.initial, initial.len() < 3) {
            return Err(input::refuse(path, format!("{} values", initial.len()), "at least 3"));
        }
        data_fit_precision(settings.initial.as_deref(), &initial, settings.precision)?;
        let end = settings.steps as f64 * settings.dt;
        let evenly = || (0..6).map(|i| end * f64::from(i) / 5.0).collect();
        let run = HeatRun {
            dt: settings.dt,
            dx: settings.dx,
            kappa: settings.kappa,
            ends: settings.ends,
            precision: settings.precision,
            steps: settings.steps,
            times: settings.times.clone().unwrap_or_else(evenly),
            initial,
        };
        let mut recorded = json!(settings);
        recorded["times"] = json!(run.times);
        recorded["initial-hash"] = json!(hash_of_bits(&run.initial));
        Ok(OwnRun {
            id: "pde-heat",
            title: format!("Heat equation, dt = {}", run.dt),
            method: "Explicit Euler in time, three-point stencil in space.",
            settings: recorded,
            steps: run.steps,
            headline: &[],
            options: &self.options,
            compute: Compute::simulation(move |progress| run.run(progress)),
            figures: &figures,
        })
    }

    fn check(&self) -> Result<(), Error> {
        positive("--dt", self.dt)?;
        positive("--dx", self.dx)?;
        positive("--kappa", self.kappa)?;
        for (flag, value) in [("--dt", self.dt), ("--dx", self.dx), ("--kappa", self.kappa)] {
            fits_precision(flag, value, self.precision)?;
        }
        within("--points", self.points, 3, 10_000_000)?;
        within("--steps", self.steps, 1, 1_000_000_000)?;
        if !self.height.is_finite() {
            return Err(Error::setting("--height", self.height, "a finite number"));
        }
        let end = self.steps as f64 * self.dt;
        for time in self.times.iter().flatten() {
            if !(0.0..=end).contains(time) {
                let expected = format!("times from 0 to steps x dt = {}", significant(end, 12));
                return Err(Error::setting("--times", time, expected));
            }
        }
        Ok(())
    }
}

fn figures(record: &Record) -> Vec<Figure> {
    let (Some(times), Some(dt)) =
        (record.settings["times"].as_array(), record.settings["dt"].as_f64())
    else {
        return vec![];
    };
    let wanted =
        times.iter().filter_map(serde_json::Value::as_f64).map(|t| (t / dt).round() as usize);
    let steps = super::snapshots_reached(record, wanted);
    let names: Vec<String> = steps.iter().map(|step| HeatRun::profile_name(*step, dt)).collect();
    vec![
        super::state_figure(record, &[], &names),
        super::over_steps("energy", "Energy", "curves", &["energy"], Axis::log("E")),
        super::twin_figure(),
    ]
}
