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
use serde::Serialize;

use crate::error::Error;
use crate::figure::Figure;
use crate::lock::Lock;
use crate::plan::{Compute, Plan, Task};
use crate::plot;
use crate::progress::{Monitor, Progress};
use crate::record::{Cell, Check, Outcome, Page, Record, Scale, Store};

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
    /// The scale of an exhibit; none for a run of one's own.
    pub scale: Option<Scale>,
    /// The device of its trainings by name, where that is not the CPU.
    pub device: Option<&'a str>,
    /// Text.
    pub page: Page,
    /// The cells.
    pub plan: Plan,
    /// Why they cannot test the claim of an exhibit at this scale, where that is so; then none are made.
    pub not_tested: Option<&'a str>,
    /// Checks of a complete record.
    pub checks: &'a (dyn Fn(&Record) -> Vec<Check> + Sync),
    /// Figures of a complete record.
    pub figures: &'a (dyn Fn(&Record) -> Vec<Figure> + Sync),
    /// Whether they can be made of one that lacks some of its cells, too.
    pub shows_parts: bool,
}

impl Job<'_> {
    /// Its record, without cells.
    pub fn record(&self) -> Record {
        let (settings, planned) = (self.plan.settings.clone(), self.plan.cells.len());
        Record::new(self.id, self.scale, self.device, self.page.clone(), settings, planned)
    }
}

/// Runs a job into its folder below `out`.
pub fn run(
    job: Job,
    out: &Path,
    existing: Existing,
    monitor: &dyn Monitor,
) -> Result<(Store, Record), Error> {
    let all = 0..job.plan.cells.len();
    run_part(job, all, out, existing, monitor)
}

/// Runs the cells of these places in the plan; the record has all that are finished, by whomever.
///
/// It is saved after every cell. Where the monitor asks to stop, the record lacks the cells that are not finished;
/// the same call resumes from there.
pub fn run_part(
    job: Job,
    part: Range<usize>,
    out: &Path,
    existing: Existing,
    monitor: &dyn Monitor,
) -> Result<(Store, Record), Error> {
    let started = (SystemTime::now(), Instant::now());
    let store = Store::create(out, &job.record())?;
    let part = &job.plan.cells[part];
    {
        let _lock = store.lock(monitor)?;
        store.save_settings(&job.plan.settings)?;
        prepare_cells(&store, &job, part, existing)?;
    }
    let mut open: Vec<&Task> = Vec::new();
    for task in part {
        if finished(&store, &job, task)?.is_none() {
            open.push(task);
        }
    }
    let progress = Progress::new(monitor, job.id, open.iter().map(|task| task.steps).sum());
    let turn = Mutex::new(());
    let finish = |task: &Task, outcome: Outcome| {
        let _turn = turn.lock().expect("a cell that panicked has ended the program");
        let lock = store.lock(monitor)?;
        store.save_cell(
            &job.plan.settings,
            store.save_outcome(&task.key, &task.settings, outcome)?,
        )?;
        assemble(&store, &job, &lock).map(drop)
    };
    open.par_iter().try_for_each(|task| match &task.compute {
        Compute::Simulation(compute) if monitor.stop_requested().is_none() => {
            match compute(&progress) {
                Ok(outcome) => finish(task, outcome),
                // Nothing of it is saved.
                Err(Error::Stopped(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
        _ => Ok(()),
    })?;
    for task in &open {
        if let Compute::Training(training) = &task.compute {
            let fresh = existing == Existing::Discard;
            let outcome = training.compute(out, fresh, &progress, task.steps)?;
            outcome.map_or(Ok(()), |outcome| finish(task, outcome))?;
            if monitor.stop_requested().is_some() {
                break;
            }
        }
    }
    drop(progress);
    let record = {
        // Figures of a part, of an exhibit that shows parts, must not replace those of the whole.
        let lock = store.lock(monitor)?;
        let record = assemble(&store, &job, &lock)?;
        plot::write_figures(&store, &record)?;
        // Who only puts a record together leaves the time of those who computed it.
        if !part.is_empty() {
            lock.check()?;
            save_timing(&store, started, part.len() - open.len())?;
        }
        record
    };
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
fn assemble(store: &Store, job: &Job, lock: &Lock) -> Result<Record, Error> {
    let mut record = job.record();
    for task in &job.plan.cells {
        record.cells.extend(finished(store, job, task)?);
    }
    record.not_tested = job.not_tested.map(str::to_owned);
    if record.is_complete() && job.not_tested.is_none() {
        record.checks = (job.checks)(&record);
    }
    if record.is_complete() || job.shows_parts {
        record.figures = (job.figures)(&record);
    }
    lock.check()?;
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

fn save_timing(store: &Store, started: (SystemTime, Instant), reused: usize) -> Result<(), Error> {
    let since_epoch = started.0.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let timing = Timing {
        started_unix_seconds: since_epoch,
        seconds: started.1.elapsed().as_secs_f64(),
        threads: rayon::current_num_threads(),
        cells_reused: reused,
    };
    let text = serde_json::to_string_pretty(&timing).expect("plain data");
    store.save_file("timing.json", format!("{text}\n").as_bytes())
}

/// The time that the last call of [`run_part`] took: nothing that a result depends on.
#[derive(Serialize)]
struct Timing {
    started_unix_seconds: u64,
    seconds: f64,
    threads: usize,
    cells_reused: usize,
}
