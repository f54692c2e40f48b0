//! The heat equation on an interval.

use lastbit::hash_of_bits;
use lastbit::pde::heat::{Ends, dt_max};
use lastbit::signal::triangle;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PdeRun;
use super::figures::{over_steps, snapshots_reached, state_figure, twin_figure};
use crate::error::Error;
use crate::figure::{Axis, Figure};
use crate::input::{self, Source};
use crate::number::{Number, significant};
use crate::record::Record;
use crate::settings::Given;
use crate::simulate::Precision;
use crate::simulate::heat::HeatRun;
use crate::validate::{data_fit_precision, fits_precision, positive, within};

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct HeatSettings {
    /// Step size.
    pub dt: f64,
    /// Mesh width.
    pub dx: f64,
    /// Diffusivity.
    pub kappa: f64,
    /// Ends of the interval.
    pub ends: Ends,
    /// Initial profile; a triangle otherwise.
    pub initial: Option<Source<Vec<f64>>>,
    /// Mesh points of that triangle.
    pub points: usize,
    /// Its height.
    pub height: f64,
    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    pub steps: usize,
    /// Times at which to keep the profile; six, evenly spaced, otherwise.
    pub times: Option<Vec<f64>>,
    /// Precision of the state.
    pub precision: Precision,
}

impl Default for HeatSettings {
    fn default() -> Self {
        Self {
            dt: 0.4,
            dx: 1.0,
            kappa: 1.0,
            ends: Ends::Dirichlet,
            initial: None,
            points: 31,
            height: 1.5,
            steps: 2000,
            times: None,
            precision: Precision::F64,
        }
    }
}

impl HeatSettings {
    /// The run that these settings describe.
    pub fn run(self, given: Given) -> Result<PdeRun, Error> {
        self.check()?;
        let initial = match &self.initial {
            Some(source) => {
                given.refuse_unused(&["points", "height"], "--initial")?;
                let (name, initial) = (source.name("initial"), source.get(input::signal)?);
                input::all_finite(name, &initial)?;
                if initial.len() < 3 {
                    let found = format!("{} values", initial.len());
                    return Err(input::refuse(name, found, "at least 3"));
                }
                data_fit_precision(Some(name), &initial, self.precision)?;
                initial
            }
            None => triangle(self.points, self.height),
        };
        let end = self.steps as f64 * self.dt;
        let evenly = || (0..6).map(|i| end * f64::from(i) / 5.0).collect();
        let run = HeatRun {
            dt: self.dt,
            dx: self.dx,
            kappa: self.kappa,
            ends: self.ends,
            precision: self.precision,
            steps: self.steps,
            times: self.times.clone().unwrap_or_else(evenly),
            initial,
        };
        let mut settings = json!(self);
        settings["times"] = json!(run.times);
        settings["initial-hash"] = json!(hash_of_bits(&run.initial));
        Ok(PdeRun {
            id: "pde-heat",
            title: format!("Heat equation, dt = {}", run.dt),
            method: "Explicit Euler in time, three-point stencil in space.",
            settings,
            steps: run.steps,
            dt: run.dt,
            dt_max: Some(Number(dt_max(run.dx, run.kappa))),
            snapshots: run.profile_steps(),
            snapshot_name: HeatRun::profile_name,
            headline: &[],
            simulate: Box::new(move |progress| run.run(progress)),
            figures,
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
    let steps = snapshots_reached(record, wanted);
    let names: Vec<String> = steps.iter().map(|step| HeatRun::profile_name(*step, dt)).collect();
    vec![
        state_figure(record, &[], &names),
        over_steps("energy", "Energy", "curves", &["energy"], Axis::log("E")),
        twin_figure(),
    ]
}
