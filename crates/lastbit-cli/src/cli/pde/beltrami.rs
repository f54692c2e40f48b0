//! `lastbit pde beltrami`.

use std::path::PathBuf;

use clap::Args;
use lastbit::hash_of_bits;
use lastbit::pde::beltrami::{Beltrami as Parameters, UnstableShare};
use lastbit::signal::{blocks_and_ramp, shapes};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{OwnRun, RunOptions, Size};
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::figure::{Axis, Figure};
use lastbit_lab::input::{self, Data};
use lastbit_lab::number::Number;
use lastbit_lab::plan::Compute;
use lastbit_lab::record::Record;
use lastbit_lab::series::Field;
use lastbit_lab::simulate::Precision;
use lastbit_lab::simulate::beltrami::BeltramiRun;
use lastbit_lab::simulate::pde::snapshot_name;
use lastbit_lab::validate::{data_fit_precision, fits_precision, not_negative, positive, within};

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde beltrami --overdrive 0.9
  lastbit pde beltrami --overdrive 1000 --lambda 0.05
  lastbit pde beltrami --dimensions 2 --size 128x128 --overdrive 10
  lastbit pde beltrami --signal photo.png --dt 0.01 --steps 3000")]
pub struct Beltrami {
    #[command(flatten)]
    #[serde(skip)]
    options: RunOptions,

    /// Time step as a multiple of the sharp bound 2/(lambda + 4 d/(delta dx^2)) [default: 10].
    #[arg(long, conflicts_with = "dt")]
    overdrive: Option<f64>,

    /// Time step.
    #[arg(long, alias = "lr")]
    dt: Option<f64>,

    /// Mesh width.
    #[arg(long, default_value_t = 1.0)]
    dx: f64,

    /// Gradient below which the diffusion is linear.
    #[arg(long, default_value_t = 0.01)]
    delta: f64,

    /// Weight of the data term.
    #[arg(long, default_value_t = 1.0)]
    lambda: f64,

    /// The data: a signal (.csv, .npy) or an image (.png, .npy).
    #[arg(long, value_name = "FILE")]
    signal: Option<PathBuf>,

    /// 1 for a signal, 2 for an image, where no file is given.
    #[arg(long, default_value_t = 1)]
    dimensions: usize,

    /// Points of that signal.
    #[arg(long, default_value_t = 256)]
    points: usize,

    /// Rows and columns of that image.
    #[arg(long, value_name = "HxW", default_value = "64x64")]
    size: Size,

    /// Standard deviation of the noise on it.
    #[arg(long, default_value_t = 0.05)]
    noise: f64,

    /// Seed of that noise.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = 4000)]
    steps: usize,

    /// Steps at which to keep the state [default: two, late in the run].
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    snapshots: Option<Vec<usize>>,

    /// Precision of the state.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "f64")]
    precision: Precision,
}

impl Beltrami {
    /// The run these settings describe.
    pub fn own_run(&self, called: Called) -> Result<OwnRun<'_>, Error> {
        let mut settings: Self = resolve(self, called, self.options.config.as_deref())?;
        // Either says what the step is; a flag wins over the other one in a file.
        if called.is_given("overdrive") {
            settings.dt = None;
        } else if called.is_given("dt") {
            settings.overdrive = None;
        }
        settings.check()?;
        let (unused, cause) = match (&settings.signal, settings.dimensions) {
            (Some(_), _) => (&["dimensions", "points", "size", "noise", "seed"][..], "--signal"),
            (None, 1) => (&["size"][..], "--dimensions 1"),
            (None, _) => (&["points"][..], "--dimensions 2"),
        };
        called.refuse_unused(unused, cause)?;
        let data = settings.data()?;
        data_fit_precision(settings.signal.as_deref(), data.values(), settings.precision)?;
        let dimensions = BeltramiRun::dimensions(&data);
        let unit =
            Parameters { dt: 1.0, dx: settings.dx, delta: settings.delta, lambda: settings.lambda };
        let dt = match (settings.dt, settings.overdrive) {
            (Some(dt), None) => dt,
            (None, overdrive) => overdrive.unwrap_or(10.0) * unit.dt_sharp(dimensions),
            (Some(_), Some(factor)) => {
                let expected = "either a step size or an overdrive, not both";
                return Err(Error::setting("dt and overdrive", factor, expected));
            }
        };
        positive("the step size that follows", dt)?;
        fits_precision("the step size that follows", dt, settings.precision)?;
        let late = [BeltramiRun::earlier(settings.steps), settings.steps];
        let run = BeltramiRun {
            parameters: Parameters { dt, ..unit },
            precision: settings.precision,
            steps: settings.steps,
            snapshots: settings.snapshots.clone().unwrap_or(late.to_vec()),
            data,
        };
        (settings.dt, settings.overdrive) = (Some(dt), None);
        let mut recorded = json!(settings);
        recorded["dimensions"] = json!(dimensions);
        recorded["snapshots"] = json!(run.snapshots);
        recorded["signal-hash"] = json!(hash_of_bits(run.data.values()));
        Ok(OwnRun {
            id: "pde-beltrami",
            title: format!(
                "Beltrami equation in {dimensions}-D, {} times the sharp bound",
                Number(dt / unit.dt_sharp(dimensions))
            ),
            method: "Explicit Euler in time; fluxes at half points, none through the ends.",
            settings: recorded,
            steps: run.steps,
            headline: &[],
            options: &self.options,
            compute: Compute::simulation(move |progress| run.run(progress)),
            figures: &figures,
        })
    }

    fn check(&self) -> Result<(), Error> {
        for (flag, value) in [
            ("--overdrive", self.overdrive),
            ("--dt", self.dt),
            ("--dx", Some(self.dx)),
            ("--delta", Some(self.delta)),
        ] {
            value.map_or(Ok(()), |value| positive(flag, value))?;
        }
        not_negative("--lambda", self.lambda)?;
        not_negative("--noise", self.noise)?;
        within("--dimensions", self.dimensions, 1, 2)?;
        for (flag, value) in [("--dx", self.dx), ("--delta", self.delta), ("--lambda", self.lambda)]
        {
            fits_precision(flag, value, self.precision)?;
        }
        within("--points", self.points, 2, 10_000_000)?;
        within("--size", self.size.height.min(self.size.width), 2, 8192)?;
        within("--size", self.size.height.max(self.size.width), 2, 8192)?;
        within("--steps", self.steps, 1, 1_000_000_000)?;
        for step in self.snapshots.iter().flatten() {
            within("--snapshots", *step, 0, self.steps)?;
        }
        Ok(())
    }

    fn data(&self) -> Result<Data, Error> {
        let Some(path) = &self.signal else {
            let Size { height, width } = self.size;
            return Ok(match self.dimensions {
                1 => Data::Signal(blocks_and_ramp(self.points, self.noise, self.seed)),
                _ => {
                    let values = shapes(height, width, self.noise, self.seed);
                    Data::Image(Field { height, width, values })
                }
            });
        };
        let data = input::data(path)?;
        let (found, large_enough) = match &data {
            Data::Signal(values) => (format!("{} values", values.len()), values.len() >= 2),
            Data::Image(Field { height, width, .. }) => {
                (format!("{height} x {width} pixels"), *height >= 2 && *width >= 2)
            }
        };
        if large_enough {
            return Ok(data);
        }
        Err(input::refuse(path, found, "at least 2 values, or 2 x 2 pixels"))
    }
}

fn figures(record: &Record) -> Vec<Figure> {
    let wanted = record.settings["snapshots"].as_array().into_iter().flatten();
    let wanted = wanted.filter_map(serde_json::Value::as_u64).map(|step| step as usize);
    let steps = super::snapshots_reached(record, wanted);
    let names: Vec<String> = steps.into_iter().map(snapshot_name).collect();
    let shares = [UnstableShare::BY_KAPPA, UnstableShare::BY_LINEARIZATION];
    vec![
        super::state_figure(record, &["signal"], &names),
        super::over_steps("energy", "Energy", "curves", &["energy"], Axis::log("E")),
        super::over_steps(
            "unstable-share",
            "Share of places that are locally unstable",
            "curves",
            &shares,
            Axis::linear("share"),
        ),
        super::twin_figure(),
    ]
}
