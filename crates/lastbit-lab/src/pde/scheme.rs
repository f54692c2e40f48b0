//! Any explicit linear scheme on a periodic mesh.

use lastbit::pde::linear::Linear;
use lastbit::pde::scheme::Scheme;
use lastbit::signal::{blocks_and_ramp, shapes};
use lastbit::{Real, hash_of_bits};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PdeRun;
use super::figures::{over_steps, snapshots_reached, state_figure, twin_figure};
use crate::error::Error;
use crate::figure::{Axis, Figure};
use crate::input::{self, Data, Source};
use crate::number::Number;
use crate::plan::Simulation;
use crate::record::Record;
use crate::series::Field;
use crate::settings::{Given, SchemeChoice, Size};
use crate::simulate::pde::{run_pde, snapshot_name};
use crate::simulate::{Precision, rounded};
use crate::validate::{data_fit_precision, positive, within};

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct SchemeSettings {
    /// The scheme.
    #[serde(flatten)]
    pub choice: SchemeChoice,
    /// Step size.
    pub dt: f64,
    /// Initial state: on a line or in the plane; a noisy test signal or image otherwise.
    pub initial: Option<Source<Data>>,
    /// Points of that line.
    pub points: usize,
    /// Rows and columns of that image.
    pub size: Size,
    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    pub steps: usize,
    /// Precision of the state.
    pub precision: Precision,
}

impl Default for SchemeSettings {
    fn default() -> Self {
        Self {
            choice: SchemeChoice::default(),
            dt: 0.1,
            initial: None,
            points: 64,
            size: Size { height: 32, width: 32 },
            steps: 2000,
            precision: Precision::F64,
        }
    }
}

impl SchemeSettings {
    /// The run that these settings describe.
    pub fn run(self, given: Given) -> Result<PdeRun, Error> {
        positive("--dt", self.dt)?;
        within("--points", self.points, 3, 10_000_000)?;
        within("--size", self.size.height.max(self.size.width), 1, 8192)?;
        within("--steps", self.steps, 1, 1_000_000_000)?;
        let scheme = self.choice.build(given)?;
        if !scheme.is_explicit() {
            let expected = "an explicit scheme; `lastbit bounds scheme` takes implicit ones too";
            return Err(Error::setting("scheme", self.choice.name(), expected));
        }
        let (unused, cause) = match (&self.initial, scheme.dimensions()) {
            (Some(_), _) => (&["points", "size"][..], "--initial"),
            (None, 1) => (&["size"][..], "a scheme on a line"),
            (None, _) => (&["points"][..], "a scheme in the plane"),
        };
        given.refuse_unused(unused, cause)?;
        let initial = self.initial_state(scheme.dimensions())?;
        let mut settings = json!(self);
        settings["initial-hash"] = json!(hash_of_bits(initial.values()));
        let (dt, steps) = (self.dt, self.steps);
        Ok(PdeRun {
            id: "pde-scheme",
            title: format!("Scheme {}, dt = {}", self.choice.name(), dt),
            method: "The stencil on a periodic mesh, all time levels starting alike.",
            settings,
            steps,
            dt,
            dt_max: self.choice.dt_max().map(Number),
            snapshots: vec![0, steps],
            snapshot_name: |step, _| snapshot_name(step),
            headline: &[],
            simulate: match self.precision {
                Precision::F32 => simulation::<f32>(&scheme, dt, &initial, steps),
                Precision::F64 => simulation::<f64>(&scheme, dt, &initial, steps),
            },
            figures,
        })
    }

    fn initial_state(&self, dimensions: usize) -> Result<Data, Error> {
        let Some(source) = &self.initial else {
            let Size { height, width } = self.size;
            return Ok(match dimensions {
                1 => Data::Signal(blocks_and_ramp(self.points, 0.01, 1)),
                _ => Data::Image(Field { height, width, values: shapes(height, width, 0.01, 1) }),
            });
        };
        let (name, data) = (source.name("initial"), source.get(input::data)?);
        if data.dimensions() != dimensions {
            let found = match data {
                Data::Signal(_) => "a line",
                Data::Image(_) => "an image",
            };
            let expected = format!("data of {dimensions} dimensions, as the scheme has");
            return Err(input::refuse(name, found, expected));
        }
        input::all_finite(name, data.values())?;
        data_fit_precision(Some(name), data.values(), self.precision)?;
        Ok(data)
    }
}

/// The run, started at rest: all time levels alike.
fn simulation<F: Real>(scheme: &Scheme, dt: f64, initial: &Data, steps: usize) -> Simulation {
    let (height, width, values) = match initial {
        Data::Signal(values) => (1, values.len(), values),
        Data::Image(Field { height, width, values }) => (*height, *width, values),
    };
    let levels = vec![rounded::<F>(values); scheme.levels()];
    let run = Linear::new(scheme, dt, height, width, &levels);
    Box::new(move |progress| {
        let mut nothing_else = |_: usize, _: &Linear<F>| ();
        let run = run.clone();
        Ok(run_pde(run, steps, &[0, steps], snapshot_name, &mut nothing_else, progress)?.0)
    })
}

fn figures(record: &Record) -> Vec<Figure> {
    let last = record.settings["steps"].as_u64().unwrap_or(0) as usize;
    let steps = snapshots_reached(record, [0, last].into_iter());
    let names: Vec<String> = steps.into_iter().map(snapshot_name).collect();
    let size = over_steps("size", "Largest value", "curves", &["max_abs"], Axis::log("|u|"));
    vec![state_figure(record, &[], &names), size, twin_figure()]
}
