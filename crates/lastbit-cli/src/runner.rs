//! Runs a plan: cells in parallel, each written when it is finished, finished ones never again.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rayon::prelude::*;
use serde_json::json;

use crate::error::Error;
use crate::experiments::{Compute, Exhibit, Plan, Scale, Task};
use crate::figure::{Figure, draw};
use crate::progress::Progress;
use crate::record::{Cell, Check, FORMAT, Outcome, Page, Record, Store, remove_folder};

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
}

/// Runs an exhibit.
pub fn run_exhibit(
    exhibit: &dyn Exhibit,
    scale: Scale,
    out: &Path,
    existing: Existing,
) -> Result<(Store, Record), Error> {
    let job = Job {
        id: exhibit.id(),
        variant: scale.name(),
        page: exhibit.page(scale),
        plan: exhibit.plan(scale),
        checks: &|record| exhibit.checks(record),
        figures: &|record| exhibit.figures(record),
    };
    run(job, out, existing)
}

/// Runs a job into its folder below `out`.
///
/// The record is saved after every cell, so a run that is killed goes on where it stopped.
pub fn run(job: Job, out: &Path, existing: Existing) -> Result<(Store, Record), Error> {
    let started = (SystemTime::now(), Instant::now());
    let store = Store::create(out, job.id, job.variant)?;
    store.save_settings(&job.plan.settings)?;
    let finished = match existing {
        Existing::Reuse => reusable(&store, &job)?,
        Existing::Discard => Vec::new(),
    };
    let reused = finished.len();
    let record = Record {
        format: FORMAT,
        id: job.id.to_owned(),
        variant: job.variant.to_owned(),
        page: job.page,
        settings: job.plan.settings,
        planned: job.plan.cells.len(),
        cells: finished,
        checks: Vec::new(),
        figures: Vec::new(),
    };
    let open: Vec<&Task> =
        job.plan.cells.iter().filter(|task| record.cell(&task.key).is_none()).collect();
    let order: Vec<&str> = job.plan.cells.iter().map(|task| task.key.as_str()).collect();
    let progress = Progress::new(job.id, open.iter().map(|task| task.steps).sum());
    let record = Mutex::new(record);
    let finish = |task: &Task, outcome: Outcome| {
        let cell = save_cell(&store, task, outcome)?;
        let mut record = record.lock().expect("a cell that panicked has ended the program");
        record.cells.push(cell);
        record.cells.sort_by_key(|cell| order.iter().position(|key| *key == cell.key));
        store.save(&record)
    };
    open.par_iter().try_for_each(|task| match &task.compute {
        Compute::Simulation(compute) => finish(task, compute(&progress)),
        Compute::Training(_) => Ok(()),
    })?;
    for task in open {
        if let Compute::Training(training) = &task.compute {
            if existing == Existing::Discard {
                remove_folder(&out.join(training.folder()))?;
            }
            finish(task, training.compute(out, &progress, task.steps)?)?;
        }
    }
    drop(progress);
    let mut record = record.into_inner().expect("a cell that panicked has ended the program");
    record.checks = (job.checks)(&record);
    record.figures = (job.figures)(&record);
    store.save(&record)?;
    draw::write_figures(&store, &record)?;
    save_timing(&store, started, reused)?;
    Ok((store, record))
}

/// The cells already there whose key and settings are those of the plan, in its order.
fn reusable(store: &Store, job: &Job) -> Result<Vec<Cell>, Error> {
    let Some(old) = store.load()? else { return Ok(Vec::new()) };
    let fits = |task: &Task| {
        old.cell(&task.key).filter(|cell| {
            let files = cell.series.values().chain(cell.fields.values());
            cell.settings == task.settings
                && old.settings == job.plan.settings
                && files.into_iter().all(|file| store.folder().join(file).exists())
        })
    };
    Ok(job.plan.cells.iter().filter_map(fits).cloned().collect())
}

fn save_cell(store: &Store, task: &Task, outcome: Outcome) -> Result<Cell, Error> {
    let mut cell = Cell {
        key: task.key.clone(),
        settings: task.settings.clone(),
        version: VERSION.to_owned(),
        commit: COMMIT.to_owned(),
        verdict: outcome.verdict,
        hash: outcome.hash,
        run: outcome.run,
        hashes: outcome.hashes,
        numbers: outcome.numbers,
        series: Default::default(),
        fields: Default::default(),
    };
    for (name, series) in &outcome.series {
        cell.series.insert(name.clone(), store.save_series(&task.key, name, series)?);
    }
    for (name, field) in &outcome.fields {
        cell.fields.insert(name.clone(), store.save_field(&task.key, name, field)?);
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
