//! Runs a plan: cells in parallel, each written when it is finished, finished ones never again.
//!
//! Several processes may run parts of one plan at the same time: each finished cell is a file of its
//! own, and whoever finishes one puts the record together from all there are. The last one finds all
//! of them, and adds checks and figures. Record and figures are written under one lock, so that what
//! was made of fewer cells never replaces what was made of more.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rayon::prelude::*;
use serde_json::{Value, json};

use crate::data;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::experiments::{Compute, Exhibit, Plan, Scale, Task};
use crate::figure::{Figure, draw};
use crate::lock::Lock;
use crate::progress::Progress;
use crate::record::{Cell, Check, FORMAT, Outcome, Page, Record, Store};
use crate::train::{self, Device, Training};

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of this program.
pub const COMMIT: &str = env!("LASTBIT_COMMIT");

/// What becomes of the cells that are already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Kept if their settings are those of the plan.
    Reuse,
    /// Computed again.
    Discard,
}

/// A plan with all that turns its cells into a record.
pub struct Job<'a> {
    /// Name of the record.
    pub id: &'a str,
    /// Scale, or hash of the settings.
    pub variant: &'a str,
    /// Text.
    pub page: Page,
    /// The cells.
    pub plan: Plan,
    /// Checks of a complete record.
    pub checks: &'a (dyn Fn(&Record) -> Vec<Check> + Sync),
    /// Figures of a complete record.
    pub figures: &'a (dyn Fn(&Record) -> Vec<Figure> + Sync),
    /// Whether they can be made of one that lacks some of its cells, too.
    pub shows_parts: bool,
}

/// How much of an exhibit is run, and how.
#[derive(Debug, Clone)]
pub struct Order {
    /// How large.
    pub scale: Scale,
    /// What makes the steps of its trainings.
    pub device: Device,
    /// Places in its plan of the cells that are run; all where none are named.
    pub cells: Option<Range<usize>>,
    /// What becomes of those that are there.
    pub existing: Existing,
    /// When to stop.
    pub deadline: Deadline,
}

impl Order {
    /// All of it on the CPU, except what is there.
    pub fn all(scale: Scale) -> Self {
        let deadline = Deadline::after(None);
        Self { scale, device: Device::Cpu, cells: None, existing: Existing::Reuse, deadline }
    }
}

/// Runs an exhibit.
pub fn run_exhibit(
    exhibit: &dyn Exhibit,
    order: Order,
    out: &Path,
) -> Result<(Store, Record), Error> {
    let Order { scale, device, cells, existing, deadline } = order;
    let (plan, variant) = planned(exhibit, scale, device)?;
    let job = Job {
        id: exhibit.id(),
        variant: &variant,
        page: exhibit.page(scale),
        plan,
        checks: &|record| exhibit.checks(record),
        figures: &|record| exhibit.figures(record),
        shows_parts: exhibit.shows_parts(),
    };
    let cells = cells.unwrap_or(0..job.plan.cells.len());
    run_part(job, cells, out, existing, deadline)
}

/// What will be computed, and the name of the record among those of the exhibit.
fn planned(exhibit: &dyn Exhibit, scale: Scale, device: Device) -> Result<(Plan, String), Error> {
    let on_device = match device {
        Device::Cpu => None,
        device => exhibit.plan_on(scale, device)?,
    };
    Ok(match on_device {
        Some(plan) => (plan, format!("{}-{}", scale.name(), device.name())),
        None => (exhibit.plan(scale), scale.name().to_owned()),
    })
}

/// Whether these exhibits fit the device, and whether it and all data are there: better said now
/// than after hours.
///
/// A record that has been begun may be finished but for its figures, which take no device.
pub fn require(
    exhibits: &[&dyn Exhibit],
    scale: Scale,
    device: Device,
    out: &Path,
) -> Result<(), Error> {
    let plans = exhibits.iter().map(|exhibit| planned(*exhibit, scale, device));
    let plans = plans.collect::<Result<Vec<_>, Error>>()?;
    for (exhibit, (plan, variant)) in exhibits.iter().zip(plans) {
        let is_begun = Store::is_there(out, exhibit.id(), &variant);
        for Training { found, .. } in plan.trainings() {
            data::require(&found.settings.data.name)?;
            if !is_begun {
                train::require_device(found)?;
            }
        }
    }
    Ok(())
}

/// Runs a job into its folder below `out`.
pub fn run(job: Job, out: &Path, existing: Existing) -> Result<(Store, Record), Error> {
    let all = 0..job.plan.cells.len();
    run_part(job, all, out, existing, Deadline::after(None))
}

/// Runs the cells of these places in the plan; the record has all that are finished, by whomever.
///
/// It is saved after every cell, so a run that is killed goes on where it stopped.
fn run_part(
    job: Job,
    part: Range<usize>,
    out: &Path,
    existing: Existing,
    deadline: Deadline,
) -> Result<(Store, Record), Error> {
    let started = (SystemTime::now(), Instant::now());
    let store = Store::create(out, job.id, job.variant)?;
    store.save_settings(&job.plan.settings)?;
    let part = &job.plan.cells[part];
    prepare_cells(&store, &job, part, existing)?;
    let mut open: Vec<&Task> = Vec::new();
    for task in part {
        if finished(&store, &job, task)?.is_none() {
            open.push(task);
        }
    }
    let progress = Progress::new(job.id, open.iter().map(|task| task.steps).sum());
    let turn = Mutex::new(());
    let finish = |task: &Task, outcome: Outcome| {
        store
            .save_cell(&job.plan.settings, to_cell(&store, &task.key, &task.settings, outcome)?)?;
        let _turn = turn.lock().expect("a cell that panicked has ended the program");
        assemble(&store, &job, &store.lock()?).map(drop)
    };
    open.par_iter().try_for_each(|task| match &task.compute {
        Compute::Simulation(compute) if !deadline.has_passed() => finish(task, compute(&progress)),
        _ => Ok(()),
    })?;
    for task in &open {
        if let Compute::Training(training) = &task.compute {
            let fresh = existing == Existing::Discard;
            let outcome = training.compute(out, fresh, deadline, &progress, task.steps)?;
            outcome.map_or(Ok(()), |outcome| finish(task, outcome))?;
            if deadline.has_passed() {
                break;
            }
        }
    }
    drop(progress);
    let record = {
        // Figures of a part, of an exhibit that shows parts, must not replace those of the whole.
        let lock = store.lock()?;
        let record = assemble(&store, &job, &lock)?;
        draw::write_figures(&store, &record)?;
        record
    };
    // Who only puts a record together leaves the time of those who computed it.
    if !part.is_empty() {
        save_timing(&store, started, part.len() - open.len())?;
    }
    Ok((store, record))
}

/// Makes room for the cells of this part, and forgets those that are not wanted.
fn prepare_cells(store: &Store, job: &Job, part: &[Task], existing: Existing) -> Result<(), Error> {
    if existing == Existing::Reuse {
        return store.adopt_cells();
    }
    // Where all is computed again, nothing of the old record has to be understood.
    if part.len() == job.plan.cells.len() { store.create_cells() } else { store.adopt_cells() }?;
    part.iter().try_for_each(|task| store.remove_cell(&task.key))
}

/// Puts the record together from all finished cells and saves it, while its lock is held.
fn assemble(store: &Store, job: &Job, _held: &Lock) -> Result<Record, Error> {
    let mut record = Record {
        format: FORMAT,
        id: job.id.to_owned(),
        variant: job.variant.to_owned(),
        page: job.page.clone(),
        settings: job.plan.settings.clone(),
        planned: job.plan.cells.len(),
        cells: Vec::new(),
        checks: Vec::new(),
        figures: Vec::new(),
    };
    for task in &job.plan.cells {
        record.cells.extend(finished(store, job, task)?);
    }
    if record.is_complete() {
        record.checks = (job.checks)(&record);
    }
    if record.is_complete() || job.shows_parts {
        record.figures = (job.figures)(&record);
    }
    store.save(&record)?;
    Ok(record)
}

/// The finished cell of a task: one of its settings, with all its files.
fn finished(store: &Store, job: &Job, task: &Task) -> Result<Option<Cell>, Error> {
    let cell = store.load_cell(&job.plan.settings, &task.key)?;
    Ok(cell.filter(|cell| {
        let mut files = cell.series.values().chain(cell.fields.values());
        cell.settings == task.settings && files.all(|file| store.folder().join(file).exists())
    }))
}

/// The cell of an outcome, its curves and images written.
pub fn to_cell(
    store: &Store,
    key: &str,
    settings: &Value,
    outcome: Outcome,
) -> Result<Cell, Error> {
    let mut cell = Cell {
        key: key.to_owned(),
        settings: settings.clone(),
        version: VERSION.to_owned(),
        commit: outcome.commit.unwrap_or_else(|| COMMIT.to_owned()),
        verdict: outcome.verdict,
        hash: outcome.hash,
        run: outcome.run,
        device: outcome.device,
        hashes: outcome.hashes,
        numbers: outcome.numbers,
        series: Default::default(),
        fields: Default::default(),
    };
    for (name, series) in &outcome.series {
        cell.series.insert(name.clone(), store.save_series(key, name, series)?);
    }
    for (name, field) in &outcome.fields {
        cell.fields.insert(name.clone(), store.save_field(key, name, field)?);
    }
    Ok(cell)
}

fn save_timing(store: &Store, started: (SystemTime, Instant), reused: usize) -> Result<(), Error> {
    let since_epoch = started.0.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let timing = json!({
        "started_unix_seconds": since_epoch,
        "seconds": started.1.elapsed().as_secs_f64(),
        "threads": rayon::current_num_threads(),
        "cells_reused": reused,
    });
    store.save_file("timing.json", format!("{timing:#}\n").as_bytes())
}
