//! A run that can start.

use std::path::Path;

use serde_json::Value;

use super::PdeResult;
use crate::error::Error;
use crate::figure::Figure;
use crate::number::Number;
use crate::plan::{Compute, Plan, Simulation, Task};
use crate::progress::{Monitor, Progress};
use crate::record::{Page, Record};
use crate::runner::{Existing, Job, run};

/// Key of the one cell of the record.
pub const CELL: &str = "run";

/// A run of a PDE: one cell, in a record named by the hash of its settings.
pub struct PdeRun {
    /// Name of the record.
    pub id: &'static str,
    /// One line about it.
    pub title: String,
    /// How it is computed, in words.
    pub method: &'static str,
    /// Resolved settings, with the hash of the data.
    pub settings: Value,
    /// Steps.
    pub steps: usize,
    /// Step size.
    pub dt: f64,
    /// Largest stable step size in closed form, where there is one.
    pub dt_max: Option<Number>,
    /// Steps at which the state is kept.
    pub snapshots: Vec<usize>,
    /// Name of the column or field of a snapshot, from its step and the step size.
    pub(super) snapshot_name: fn(usize, f64) -> String,
    pub(super) headline: &'static [&'static str],
    pub(super) simulate: Simulation,
    pub(super) figures: fn(&Record) -> Vec<Figure>,
}

impl PdeRun {
    /// Runs it in memory; nothing is written.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if its monitor asked to stop.
    pub fn compute(self, monitor: &dyn Monitor) -> Result<PdeResult, Error> {
        let progress = Progress::new(monitor, self.id, self.steps as u64);
        let outcome = (self.simulate)(&progress)?;
        Ok(PdeResult::computed(self.about(), outcome))
    }

    /// Runs it into a record below `out`, or takes what is there unless it is to be `fresh`.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if its monitor asked to stop: an unfinished run is not saved.
    pub fn record(
        self,
        out: &Path,
        fresh: bool,
        monitor: &dyn Monitor,
    ) -> Result<PdeResult, Error> {
        let about = self.about();
        let task = Task {
            key: CELL.to_owned(),
            settings: self.settings.clone(),
            steps: self.steps as u64,
            compute: Compute::Simulation(self.simulate),
        };
        let page = Page {
            title: self.title,
            claim: "A run of one's own.".to_owned(),
            method: self.method.to_owned(),
            reference: String::new(),
            differences: vec![],
        };
        let job = Job {
            id: self.id,
            scale: None,
            device: None,
            page,
            plan: Plan { settings: self.settings, cells: vec![task] },
            not_tested: None,
            checks: &|_| vec![],
            figures: &self.figures,
            shows_parts: false,
        };
        let existing = if fresh { Existing::Discard } else { Existing::Reuse };
        let (store, record) = run(job, out, existing, monitor)?;
        match record.cell(CELL) {
            Some(cell) => PdeResult::recorded(about, store, cell.clone()),
            None => Err(monitor.stop_requested().expect("finished unless stopped").into()),
        }
    }

    fn about(&self) -> About {
        let mut snapshots = self.snapshots.clone();
        snapshots.sort_unstable();
        snapshots.dedup();
        About {
            id: self.id,
            title: self.title.clone(),
            settings: self.settings.clone(),
            dt: self.dt,
            dt_max: self.dt_max,
            snapshots,
            snapshot_name: self.snapshot_name,
            headline: self.headline,
        }
    }
}

/// What a result takes over from its run.
pub struct About {
    pub id: &'static str,
    pub title: String,
    pub settings: Value,
    pub dt: f64,
    pub dt_max: Option<Number>,
    /// In order.
    pub snapshots: Vec<usize>,
    pub snapshot_name: fn(usize, f64) -> String,
    pub headline: &'static [&'static str],
}
