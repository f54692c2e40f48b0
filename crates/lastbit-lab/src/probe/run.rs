//! A run that is being written.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use super::fingerprint::{FINGERPRINTS, FingerprintRow};
use super::history::History;
use super::lines;
use super::page;
use super::row::Row;
use super::settings::Settings;
use super::summary::Summary;
use super::verify::is_left_of_probe;
use crate::error::Error;
use crate::files::{create_folder, remove, remove_unfinished, write_atomically};
use crate::lock::Lock;
use crate::progress::Monitor;
use crate::relative_path::RelativePath;
use crate::train::file_list::{FILES, FileList};
use crate::train::prefix_hash::{PrefixHash, PrefixHashes};
use crate::train::{Appended, CONFIG, METRICS, METRICS_CSV, SUMMARY, is_run};

/// Time between two writes of the page, at least; and how many times as long as the last write took.
const SAVE_EVERY: Duration = Duration::from_secs(5);
const SAVE_RATIO: u32 = 50;

/// A run in its directory, which is locked until the run is dropped.
#[derive(Debug)]
pub struct ProbeRun {
    lock: Lock,
    settings: Settings,
    history: History,
    files: Option<Files>,
    saved: Instant,
    save_again_after: Duration,
    /// The process that opened it. A fork of it must not release the lock.
    process: u32,
}

/// How long the sessions of a run took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clock {
    /// Wall time since the first step.
    pub elapsed_seconds: f64,
    /// The part of it that measurements took.
    pub measuring_seconds: f64,
}

/// The files that grow.
#[derive(Debug)]
struct Files {
    metrics: Appended,
    csv: Appended,
    fingerprints: Appended,
}

impl ProbeRun {
    /// Opens a directory for a run: a new one, or with `resume` also one that holds a run of this model. Nothing of that
    /// changes before [`resume_at`](Self::resume_at) or the first row.
    pub fn open(
        folder: &Path,
        settings: Settings,
        resume: bool,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let is_probe = is_left_of_probe(folder);
        let has_run = is_probe || is_run(folder)?;
        let refuse = |found: &str, expected: &str| Error::Input {
            path: folder.to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        };
        if has_run && !resume {
            let expected =
                "a folder without one; --resume continues this run, --out DIR starts another";
            return Err(refuse("a run", expected));
        }
        if has_run && !is_probe {
            return Err(refuse(
                "a run of `lastbit train`",
                "a run of a probe, or a folder without one",
            ));
        }
        let lock = Lock::try_now(folder, monitor)?;
        create_folder(folder)?;
        remove_unfinished(folder);
        if is_left_of_probe(folder) != has_run {
            let expected = "the same run as before; start it again";
            return Err(refuse(
                "a run that another process changed while this one started",
                expected,
            ));
        }
        let mut run = Self {
            lock,
            settings,
            history: History::default(),
            files: None,
            saved: Instant::now(),
            save_again_after: Duration::ZERO,
            process: std::process::id(),
        };
        if has_run {
            let began_with = Settings::read(folder)?;
            let differences = began_with.differences(&run.settings);
            if let Some([key, then, now]) =
                differences.into_iter().find(|[key, ..]| key.starts_with("model."))
            {
                let expected = format!(
                    "{then} as in {}; --out DIR starts another run",
                    folder.join(CONFIG).display()
                );
                return Err(Error::setting(&key, now, expected));
            }
        } else {
            run.settings.write(folder)?;
            run.files = Some(Files {
                metrics: Appended::open(folder.join(METRICS), Default::default())?,
                csv: Appended::open(folder.join(METRICS_CSV), Default::default())?,
                fingerprints: Appended::open(folder.join(FINGERPRINTS), Default::default())?,
            });
            run.files()?.csv.append(&Row::csv_header())?;
            run.save()?;
            // The first row is shown at once.
            run.save_again_after = Duration::ZERO;
        }
        Ok(run)
    }

    /// The directory.
    pub fn folder(&self) -> &Path {
        self.lock.folder()
    }

    /// The training makes this step next: rows of this step and of later ones are cut off. Says how long the sessions took
    /// to which the rest belongs.
    pub fn resume_at(&mut self, step: u64) -> Result<Clock, Error> {
        if self.files.is_none() {
            self.files = Some(self.reopen(step)?);
            self.save()?;
        }
        let clock = |row: &Row| Clock {
            elapsed_seconds: row.elapsed_seconds.0,
            measuring_seconds: row.measuring_seconds.0,
        };
        Ok(self.history.last.as_ref().map(clock).unwrap_or_default())
    }

    /// Reads the rows before a step and cuts off the others.
    fn reopen(&mut self, step: u64) -> Result<Files, Error> {
        let folder = self.lock.folder().to_owned();
        self.check_beginnings(&folder)?;
        let mut csv = Row::csv_header();
        let mut rows = Vec::new();
        let metrics = lines::read(&folder.join(METRICS), |line| {
            let row = Row::parse(line)?;
            if row.step >= step {
                return Ok(ControlFlow::Break(()));
            }
            csv += &row.to_csv();
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        })?;
        let last = rows.last().map(|row: &Row| row.step);
        // A fingerprint is written before its row.
        let fingerprints = lines::read(&folder.join(FINGERPRINTS), |line| {
            let is_kept = Some(FingerprintRow::parse(line)?.step) <= last;
            Ok(if is_kept { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        self.lock.check()?;
        // From here on files change: first what says that the run has ended.
        remove(&folder.join(FILES))?;
        remove(&folder.join(SUMMARY))?;
        write_atomically(&folder.join(METRICS_CSV), csv.as_bytes())?;
        let began_with = Settings::read(&folder)?;
        for [key, then, now] in began_with.differences(&self.settings) {
            if key == "optimizer.lr" {
                // Rows have the learning rate of their step.
                continue;
            }
            let note = format!("resumed with {key} = {now}; the run began with {then}");
            self.history.notes.push(super::Note { step, note });
        }
        self.settings = began_with;
        rows.into_iter().for_each(|row| self.history.add(row));
        let csv = lines::read(&folder.join(METRICS_CSV), |_| Ok(ControlFlow::Continue(())))?;
        Ok(Files {
            metrics: Appended::open(folder.join(METRICS), metrics.hash)?,
            csv: Appended::open(folder.join(METRICS_CSV), csv.hash)?,
            fingerprints: Appended::open(folder.join(FINGERPRINTS), fingerprints.hash)?,
        })
    }

    /// What is under a hash must be whole before it is continued.
    fn check_beginnings(&self, folder: &Path) -> Result<(), Error> {
        let Some(list) = FileList::read(folder)? else { return Ok(()) };
        for file in [METRICS, FINGERPRINTS] {
            if let Some(noted) = list.get(file) {
                noted.check_beginning(&folder.join(file)).map_err(|damage| {
                    Error::NotResumable {
                        message: damage.to_string(),
                        advice: "put the file back, or start another run with --out DIR".to_owned(),
                    }
                })?;
            }
        }
        Ok(())
    }

    fn files(&mut self) -> Result<&mut Files, Error> {
        Ok(self.files.as_mut().expect("a run is open before it is written"))
    }

    /// Appends a row and the fingerprint of its step; both are on the disk when this returns.
    pub fn append(&mut self, row: Row, fingerprint: Option<&FingerprintRow>) -> Result<(), Error> {
        self.resume_at(row.step)?;
        if let Some(last) = self.history.last.as_ref().filter(|last| row.step <= last.step) {
            let expected = format!("a step after {}, which has a row", last.step);
            return Err(Error::setting("step", row.step, expected));
        }
        self.lock.check()?;
        let files = self.files()?;
        if let Some(fingerprint) = fingerprint {
            files.fingerprints.append(&fingerprint.to_json())?;
            files.fingerprints.settle()?;
        }
        files.metrics.append(&row.to_json())?;
        files.metrics.settle()?;
        files.csv.append(&row.to_csv())?;
        self.history.add(row);
        if self.saved.elapsed() >= self.save_again_after {
            self.save()?;
        }
        Ok(())
    }

    /// Writes the page and the hashes of all rows so far.
    pub fn save(&mut self) -> Result<(), Error> {
        if self.files.is_none() {
            return Ok(());
        }
        let began = Instant::now();
        let summary = self.summary(self.clock_of_last_row());
        page::write(&self.lock, &self.settings, &self.history, &summary, false)?;
        self.write_file_list(&[])?;
        self.saved = Instant::now();
        self.save_again_after = SAVE_EVERY.max(SAVE_RATIO * began.elapsed());
        Ok(())
    }

    /// Ends the run, which took so long.
    pub fn finish(&mut self, clock: Clock) -> Result<Summary, Error> {
        self.resume_at(u64::MAX)?;
        let summary = self.summary(clock);
        page::write(&self.lock, &self.settings, &self.history, &summary, true)?;
        summary.write(self.lock.folder())?;
        self.write_file_list(&[SUMMARY])?;
        Ok(summary)
    }

    fn clock_of_last_row(&self) -> Clock {
        self.history.last.as_ref().map_or_else(Clock::default, |row| Clock {
            elapsed_seconds: row.elapsed_seconds.0,
            measuring_seconds: row.measuring_seconds.0,
        })
    }

    fn summary(&self, clock: Clock) -> Summary {
        Summary::of(&self.settings, &self.history, clock.elapsed_seconds, clock.measuring_seconds)
    }

    fn write_file_list(&mut self, more: &[&str]) -> Result<(), Error> {
        let folder = self.lock.folder().to_owned();
        self.lock.check()?;
        let files = self.files()?;
        let mut list: PrefixHashes = [
            (RelativePath::new(METRICS), files.metrics.settle()?),
            (RelativePath::new(METRICS_CSV), files.csv.settle()?),
            (RelativePath::new(FINGERPRINTS), files.fingerprints.settle()?),
        ]
        .into();
        for name in [CONFIG].iter().chain(more) {
            list.insert(RelativePath::new(*name), PrefixHash::of(&folder.join(name))?);
        }
        FileList::write(&folder, list, &[])
    }
}

impl Drop for ProbeRun {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // A fork of the process (a worker that loads data) has the object and not the run. Its memory ends with it.
            self.lock.abandon();
        }
    }
}
