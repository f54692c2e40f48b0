//! Runs a plan: cells in parallel, each written when it is finished, finished ones never again.
//!
//! Several processes may run parts of one plan at the same time: each finished cell is a file of its
//! own, and each process puts the record together from all there are: every few seconds while it computes, and at
//! its end. The last one finds all cells, and adds checks and figures. Record and figures are written under one
//! lock, so that what was made of fewer cells never replaces what was made of more.
//!
//! A cell is read and checked once, when a process first needs it, or is known because this process wrote it. One
//! that is damaged is named, and computed again. So the work is linear in the number of cells: putting the record
//! together takes at most a tenth of the time.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rayon::prelude::*;

use crate::error::Error;
use crate::figure::Figure;
use crate::plan::{Compute, Plan, Task};
use crate::plot;
use crate::progress::{Monitor, Progress};
use crate::record::{Cell, Check, Outcome, Page, Record, SETTINGS, Scale, Store, Timing};
use crate::relative_path::RelativePath;
use crate::sealed::FileHash;

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

/// Least time from one assembly of the record to the next, while cells are computed.
const PAUSE: Duration = Duration::from_secs(2);

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
/// Each cell is saved when it is finished. Where the monitor asks to stop, the record lacks the cells that are not
/// finished; the same call resumes from there.
pub fn run_part(
    job: Job,
    part: Range<usize>,
    out: &Path,
    existing: Existing,
    monitor: &dyn Monitor,
) -> Result<(Store, Record), Error> {
    let mut runner = Runner::open(&job, out, existing, monitor)?;
    runner.compute(&job, part, existing)?;
    runner.finish(&job)
}

/// Computes cells of one record and puts it together.
pub struct Runner<'a> {
    store: Store,
    out: PathBuf,
    monitor: &'a dyn Monitor,
    settings_hash: FileHash,
    known: Mutex<Known>,
    started: (SystemTime, Instant),
    /// Cells that were asked for, and those of them that had been finished before.
    asked: usize,
    reused: usize,
}

/// What this process knows of the finished cells.
struct Known {
    /// By key, with the hash of its file.
    cells: HashMap<String, (Arc<Cell>, FileHash)>,
    /// Keys of those that were found to be damaged.
    damaged: HashSet<String>,
    /// When the record may be put together again.
    next: Instant,
}

impl<'a> Runner<'a> {
    /// Opens the folder of a job below `out`.
    pub fn open(
        job: &Job,
        out: &Path,
        existing: Existing,
        monitor: &'a dyn Monitor,
    ) -> Result<Self, Error> {
        let started = (SystemTime::now(), Instant::now());
        let store = Store::create(out, &job.record())?;
        if existing == Existing::Reuse {
            match store.check_record() {
                Err(Error::Damaged { path, message, .. }) => {
                    let line = format!("{}: damaged: {message}", path.display());
                    monitor.note(&format!("{line}; it is put together again from its cells"));
                }
                result => result?,
            }
        }
        let settings_hash = {
            let _lock = store.lock(monitor)?;
            store.save_settings(&job.plan.settings)?
        };
        let known = Mutex::new(Known {
            cells: HashMap::new(),
            damaged: HashSet::new(),
            next: Instant::now(),
        });
        let out = out.to_owned();
        Ok(Self { store, out, monitor, settings_hash, known, started, asked: 0, reused: 0 })
    }

    /// Computes those cells of these places in the plan that are not finished, or all of them.
    pub fn compute(
        &mut self,
        job: &Job,
        part: Range<usize>,
        existing: Existing,
    ) -> Result<(), Error> {
        let part = &job.plan.cells[part];
        let mut open: Vec<&Task> = Vec::new();
        let discards = existing == Existing::Discard;
        let lock = discards.then(|| self.store.lock(self.monitor)).transpose()?;
        for task in part {
            match existing {
                Existing::Discard => self.store.remove_cell(&task.key)?,
                Existing::Reuse if self.known().find(&self.store, job, task, self.monitor)? => {
                    continue;
                }
                Existing::Reuse => {}
            }
            open.push(task);
        }
        drop(lock);
        self.asked += part.len();
        self.reused += part.len() - open.len();
        let monitor = self.monitor;
        let progress = Progress::new(monitor, job.id, open.iter().map(|task| task.steps).sum());
        open.par_iter().try_for_each(|task| match &task.compute {
            Compute::Simulation(compute) if monitor.stop_requested().is_none() => {
                match compute(&progress) {
                    Ok(outcome) => self.save(job, task, outcome),
                    // Nothing of it is saved.
                    Err(Error::Stopped(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(()),
        })?;
        for task in &open {
            if let Compute::Training(training) = &task.compute {
                let outcome = training.compute(&self.out, discards, &progress, task.steps)?;
                outcome.map_or(Ok(()), |outcome| self.save(job, task, outcome))?;
                if monitor.stop_requested().is_some() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A finished cell, as [`Runner::compute`] left or found it.
    pub fn cell(&mut self, key: &str) -> Option<&Cell> {
        let known = self.known.get_mut().expect(UNPOISONED);
        known.cells.get(key).map(|known| &*known.0)
    }

    /// Puts the record together for good, with its figures.
    pub fn finish(self, job: &Job) -> Result<(Store, Record), Error> {
        // Figures of a part, of an exhibit that shows parts, must not replace those of the whole.
        let lock = self.store.lock(self.monitor)?;
        // Who only puts a record together leaves the time of those who computed it.
        if self.asked > 0 {
            self.save_timing()?;
        }
        let mut record = self.assemble(job, &mut self.known())?;
        lock.check()?;
        self.store.save(&record)?;
        let figures = plot::write_figures(&self.store, &record)?;
        if !figures.is_empty() {
            record.files.extend(figures);
            lock.check()?;
            self.store.save(&record)?;
        }
        drop(lock);
        Ok((self.store, record))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect(UNPOISONED)
    }

    /// Saves a finished cell, and the record where it is time.
    fn save(&self, job: &Job, task: &Task, outcome: Outcome) -> Result<(), Error> {
        let mut known = self.known();
        let lock = self.store.lock(self.monitor)?;
        let cell = self.store.save_outcome(&task.key, &task.settings, outcome)?;
        let hash = self.store.save_cell(&job.plan.settings, &cell)?;
        known.cells.insert(task.key.clone(), (Arc::new(cell), hash));
        let now = Instant::now();
        if now < known.next {
            return Ok(());
        }
        let record = self.assemble(job, &mut known)?;
        lock.check()?;
        self.store.save(&record)?;
        // A tenth of the time at most, however many cells there are.
        known.next = Instant::now() + PAUSE.max(10 * now.elapsed());
        Ok(())
    }

    /// Puts the record together from all finished cells, while its lock is held.
    fn assemble(&self, job: &Job, known: &mut Known) -> Result<Record, Error> {
        let mut record = job.record();
        record.files.insert(RelativePath::new(SETTINGS), self.settings_hash);
        for task in &job.plan.cells {
            if known.find(&self.store, job, task, self.monitor)?
                && let Some((cell, hash)) = known.cells.get(&task.key)
            {
                record.files.insert(Cell::file(&task.key), *hash);
                record.cells.push(Arc::clone(cell));
            }
        }
        record.not_tested = job.not_tested.map(str::to_owned);
        if record.is_complete() && job.not_tested.is_none() {
            record.checks = (job.checks)(&record);
        }
        if record.is_complete() || job.shows_parts {
            record.figures = (job.figures)(&record);
        }
        Ok(record)
    }

    fn save_timing(&self) -> Result<(), Error> {
        let (time, clock) = self.started;
        let since_epoch = time.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        let seconds = clock.elapsed().as_secs_f64();
        let timing = Timing::new(self.settings_hash, since_epoch, seconds, self.reused);
        timing.write(self.store.folder())
    }
}

const UNPOISONED: &str = "a cell that panicked has ended the program";

impl Known {
    /// Whether the cell of a task is finished: one of its settings, with all its files. It is looked for on the disk
    /// where this process does not know it.
    fn find(
        &mut self,
        store: &Store,
        job: &Job,
        task: &Task,
        monitor: &dyn Monitor,
    ) -> Result<bool, Error> {
        if self.cells.contains_key(&task.key) {
            return Ok(true);
        }
        let found = store.load_cell(&job.plan.settings, &task.key).and_then(|found| {
            let found = found.filter(|(cell, _)| cell.settings == task.settings);
            found.iter().try_for_each(|(cell, _)| store.check_files(cell))?;
            Ok(found)
        });
        match found {
            Ok(None) => Ok(false),
            Ok(Some((cell, hash))) => {
                self.cells.insert(task.key.clone(), (Arc::new(cell), hash));
                Ok(true)
            }
            Err(Error::Damaged { path, message, .. }) => {
                // Once, however often it is looked at.
                if self.damaged.insert(task.key.clone()) {
                    let line = format!("{}: damaged: {message}", path.display());
                    monitor.note(&format!("{line}; this cell has to be computed again"));
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
