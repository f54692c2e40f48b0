//! Beltrami reaction-diffusion of a signal or an image.

use lastbit::hash_of_bits;
use lastbit::pde::beltrami::{Beltrami, UnstableShare};
use lastbit::signal::{blocks_and_ramp, shapes};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PdeRun;
use super::figures::{over_steps, snapshots_reached, state_figure, twin_figure};
use crate::error::Error;
use crate::figure::{Axis, Figure};
use crate::input::{self, Data, Source};
use crate::number::Number;
use crate::record::Record;
use crate::series::Field;
use crate::settings::{Given, Size};
use crate::simulate::Precision;
use crate::simulate::beltrami::BeltramiRun;
use crate::simulate::pde::snapshot_name;
use crate::validate::{data_fit_precision, fits_precision, not_negative, positive, within};

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct BeltramiSettings {
    /// Time step as a multiple of the sharp bound 2/(lambda + 4 d/(delta dx^2)); 10 where no `dt` is given.
    pub overdrive: Option<f64>,
    /// Time step.
    pub dt: Option<f64>,
    /// Mesh width.
    pub dx: f64,
    /// Gradient below which the diffusion is linear.
    pub delta: f64,
    /// Weight of the data term.
    pub lambda: f64,
    /// The data; a noisy test signal or image otherwise.
    pub signal: Option<Source<Data>>,
    /// 1 for that signal, 2 for that image.
    pub dimensions: usize,
    /// Points of that signal.
    pub points: usize,
    /// Rows and columns of that image.
    pub size: Size,
    /// Standard deviation of the noise on it.
    pub noise: f64,
    /// Seed of that noise.
    pub seed: u64,
    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    pub steps: usize,
    /// Steps at which to keep the state; two, late in the run, otherwise.
    pub snapshots: Option<Vec<usize>>,
    /// Precision of the state.
    pub precision: Precision,
}

impl Default for BeltramiSettings {
    fn default() -> Self {
        Self {
            overdrive: None,
            dt: None,
            dx: 1.0,
            delta: 0.01,
            lambda: 1.0,
            signal: None,
            dimensions: 1,
            points: 256,
            size: Size { height: 64, width: 64 },
            noise: 0.05,
            seed: 1,
            steps: 4000,
            snapshots: None,
            precision: Precision::F64,
        }
    }
}

impl BeltramiSettings {
    /// The run that these settings describe.
    pub fn run(mut self, given: Given) -> Result<PdeRun, Error> {
        // Either says what the step is; a flag wins over the other one in a file.
        match (given.has("overdrive"), given.has("dt")) {
            (true, false) => self.dt = None,
            (false, true) => self.overdrive = None,
            _ => {}
        }
        self.check()?;
        let (unused, cause) = match (&self.signal, self.dimensions) {
            (Some(_), _) => (&["dimensions", "points", "size", "noise", "seed"][..], "--signal"),
            (None, 1) => (&["size"][..], "--dimensions 1"),
            (None, _) => (&["points"][..], "--dimensions 2"),
        };
        given.refuse_unused(unused, cause)?;
        let data = self.data()?;
        let dimensions = data.dimensions();
        let unit = Beltrami { dt: 1.0, dx: self.dx, delta: self.delta, lambda: self.lambda };
        let sharp = unit.dt_sharp(dimensions);
        let dt = match (self.dt, self.overdrive) {
            (Some(dt), None) => dt,
            (None, overdrive) => overdrive.unwrap_or(10.0) * sharp,
            (Some(_), Some(factor)) => {
                let expected = "either a step size or an overdrive, not both";
                return Err(Error::setting("dt and overdrive", factor, expected));
            }
        };
        positive("the step size that follows", dt)?;
        fits_precision("the step size that follows", dt, self.precision)?;
        let late = [BeltramiRun::earlier(self.steps), self.steps];
        let run = BeltramiRun {
            parameters: Beltrami { dt, ..unit },
            precision: self.precision,
            steps: self.steps,
            snapshots: self.snapshots.clone().unwrap_or(late.to_vec()),
            data,
        };
        (self.dt, self.overdrive) = (Some(dt), None);
        let mut settings = json!(self);
        settings["dimensions"] = json!(dimensions);
        settings["snapshots"] = json!(run.snapshots);
        settings["signal-hash"] = json!(hash_of_bits(run.data.values()));
        Ok(PdeRun {
            id: "pde-beltrami",
            title: format!(
                "Beltrami equation in {dimensions}-D, {} times the sharp bound",
                Number(dt / sharp)
            ),
            method: "Explicit Euler in time; fluxes at half points, none through the ends.",
            settings,
            steps: run.steps,
            dt,
            dt_max: Some(Number(sharp)),
            snapshots: run.snapshots.clone(),
            snapshot_name: |step, _| snapshot_name(step),
            headline: &[],
            simulate: Box::new(move |progress| run.run(progress)),
            figures,
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
        let Some(source) = &self.signal else {
            let Size { height, width } = self.size;
            return Ok(match self.dimensions {
                1 => Data::Signal(blocks_and_ramp(self.points, self.noise, self.seed)),
                _ => {
                    let values = shapes(height, width, self.noise, self.seed);
                    Data::Image(Field { height, width, values })
                }
            });
        };
        let (name, data) = (source.name("signal"), source.get(input::data)?);
        input::all_finite(name, data.values())?;
        let (found, large_enough) = match &data {
            Data::Signal(values) => (format!("{} values", values.len()), values.len() >= 2),
            Data::Image(Field { height, width, .. }) => {
                (format!("{height} x {width} pixels"), *height >= 2 && *width >= 2)
            }
        };
        if !large_enough {
            return Err(input::refuse(name, found, "at least 2 values, or 2 x 2 pixels"));
        }
        data_fit_precision(Some(name), data.values(), self.precision)?;
        Ok(data)
    }
}

fn figures(record: &Record) -> Vec<Figure> {
    let wanted = record.settings["snapshots"].as_array().into_iter().flatten();
    let wanted = wanted.filter_map(serde_json::Value::as_u64).map(|step| step as usize);
    let steps = snapshots_reached(record, wanted);
    let names: Vec<String> = steps.into_iter().map(snapshot_name).collect();
    let shares = [UnstableShare::BY_KAPPA, UnstableShare::BY_LINEARIZATION];
    vec![
        state_figure(record, &["signal"], &names),
        over_steps("energy", "Energy", "curves", &["energy"], Axis::log("E")),
        over_steps(
            "unstable-share",
            "Share of places that are locally unstable",
            "curves",
            &shares,
            Axis::linear("share"),
        ),
        twin_figure(),
    ]
}
