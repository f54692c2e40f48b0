//! `lastbit pde scheme`.

use std::path::PathBuf;

use clap::Args;
use lastbit::pde::linear::Linear;
use lastbit::pde::scheme::Scheme as Stencil;
use lastbit::signal::{blocks_and_ramp, shapes};
use lastbit::{Real, hash_of_bits};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{OwnRun, RunOptions, Size};
use crate::cli::scheme::Choice;
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::figure::{Axis, Figure};
use lastbit_lab::input::{self, Data};
use lastbit_lab::plan::Compute;
use lastbit_lab::record::Record;
use lastbit_lab::series::Field;
use lastbit_lab::simulate::pde::{run_pde, snapshot_name};
use lastbit_lab::simulate::{Precision, rounded};
use lastbit_lab::validate::{data_fit_precision, positive, within};

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde scheme advection-upwind --dt 1.01
  lastbit pde scheme --file scheme.toml --dt 0.1 --initial profile.npy")]
pub struct Scheme {
    #[command(flatten)]
    #[serde(skip)]
    options: RunOptions,

    #[command(flatten)]
    #[serde(flatten)]
    choice: Choice,

    /// Step size.
    #[arg(long, alias = "lr", default_value_t = 0.1)]
    dt: f64,

    /// Initial state: a line (.csv, .npy) or an image (.png, .npy).
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Points of the line taken where no file is given.
    #[arg(long, default_value_t = 64)]
    points: usize,

    /// Rows and columns of the image taken where no file is given.
    #[arg(long, value_name = "HxW", default_value = "32x32")]
    size: Size,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = 2000)]
    steps: usize,

    /// Precision of the state.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "f64")]
    precision: Precision,
}

impl Scheme {
    /// The run these settings describe.
    pub fn own_run(&self, called: Called) -> Result<OwnRun<'_>, Error> {
        let settings = resolve(self, called, self.options.config.as_deref())?;
        positive("--dt", settings.dt)?;
        within("--points", settings.points, 3, 10_000_000)?;
        within("--size", settings.size.height.max(settings.size.width), 1, 8192)?;
        within("--steps", settings.steps, 1, 1_000_000_000)?;
        let scheme = settings.choice.build(called)?;
        if !scheme.is_explicit() {
            let expected = "an explicit scheme; `lastbit bounds scheme` takes implicit ones too";
            return Err(Error::setting("scheme", settings.choice.name(), expected));
        }
        let (unused, cause) = match (&settings.initial, scheme.dimensions()) {
            (Some(_), _) => (&["points", "size"][..], "--initial"),
            (None, 1) => (&["size"][..], "a scheme on a line"),
            (None, _) => (&["points"][..], "a scheme in the plane"),
        };
        called.refuse_unused(unused, cause)?;
        let initial = settings.initial_state(scheme.dimensions())?;
        data_fit_precision(settings.initial.as_deref(), initial.values(), settings.precision)?;
        let mut recorded = json!(settings);
        recorded["initial-hash"] = json!(hash_of_bits(initial.values()));
        let (dt, steps) = (settings.dt, settings.steps);
        let compute = match settings.precision {
            Precision::F32 => simulation::<f32>(scheme, dt, &initial, steps),
            Precision::F64 => simulation::<f64>(scheme, dt, &initial, steps),
        };
        Ok(OwnRun {
            id: "pde-scheme",
            title: format!("Scheme {}, dt = {}", settings.choice.name(), dt),
            method: "The stencil on a periodic mesh, all time levels starting alike.",
            settings: recorded,
            steps,
            headline: &[],
            options: &self.options,
            compute,
            figures: &figures,
        })
    }

    fn initial_state(&self, dimensions: usize) -> Result<Data, Error> {
        let Some(path) = &self.initial else {
            let Size { height, width } = self.size;
            return Ok(match dimensions {
                1 => Data::Signal(blocks_and_ramp(self.points, 0.01, 1)),
                _ => Data::Image(Field { height, width, values: shapes(height, width, 0.01, 1) }),
            });
        };
        match (dimensions, input::data(path)?) {
            (1, data @ Data::Signal(_)) | (2, data @ Data::Image(_)) => Ok(data),
            (_, data) => {
                let found = match data {
                    Data::Signal(_) => "a line",
                    Data::Image(_) => "an image",
                };
                let expected = format!("data of {dimensions} dimensions, as the scheme has");
                Err(input::refuse(path, found, expected))
            }
        }
    }
}

/// The run, started at rest: all time levels alike.
fn simulation<F: Real>(scheme: Stencil, dt: f64, initial: &Data, steps: usize) -> Compute {
    let (height, width, values) = match initial {
        Data::Signal(values) => (1, values.len(), values),
        Data::Image(Field { height, width, values }) => (*height, *width, values),
    };
    let levels = vec![rounded::<F>(values); scheme.levels()];
    let run = Linear::new(&scheme, dt, height, width, &levels);
    Compute::simulation(move |progress| {
        let mut nothing_else = |_: usize, _: &Linear<F>| ();
        let run = run.clone();
        Ok(run_pde(run, steps, &[0, steps], snapshot_name, &mut nothing_else, progress)?.0)
    })
}

fn figures(record: &Record) -> Vec<Figure> {
    let last = record.settings["steps"].as_u64().unwrap_or(0) as usize;
    let steps = super::snapshots_reached(record, [0, last].into_iter());
    let names: Vec<String> = steps.into_iter().map(snapshot_name).collect();
    let size = super::over_steps("size", "Largest value", "curves", &["max_abs"], Axis::log("|u|"));
    vec![super::state_figure(record, &[], &names), size, super::twin_figure()]
}
