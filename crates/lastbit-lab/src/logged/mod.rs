//! What a training program logged: metrics over steps, read from the files that trainers write.
//!
//! ```text
//! file or folder -> logs -> rows -> metrics over steps -> union of the logs -> the metrics that were chosen
//! ```
//!
//! **Steps.** The step of a row stands under the first of these keys that the file has: `step`, `global_step`,
//! `iteration`, `iter`, `_step`, `epoch`, also in capitals, and does not begin below the first metrics; [`Choice::step_key`]
//! names another. A row without it belongs to the step of the row above. Where no key will do, rows are numbered from 1,
//! and a note says so.
//!
//! **Resumed runs.** Where a metric goes back to an earlier step (`seams`), the training was resumed: what all metrics had
//! from that step on is dropped, as its checkpoint knows nothing of it.
//!
//! **Replicas.** Rows of our own run directories name their replica. The metrics of several replicas are called
//! `REPLICA/METRIC`, those of one just `METRIC`.
//!
//! **Several logs** in a folder (`folder`) are one run. Where a metric is in several, text counts, since event files round to 32
//! bits; what several logs of the same kind call the same, such as `train.csv` and `eval.csv`, gets their names.
//!
//! **Wall time** differs between any two runs, so its metrics are left out unless they are [chosen](Choice::metrics) by name:
//! [`WALL_TIME`].

mod choose;
mod folder;
mod lines;
mod rows;
mod seams;
mod source;
mod steps;
#[cfg(test)]
mod tests;
mod union;

pub use choose::{WALL_TIME, matching};

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::input::refuse;

/// The metrics of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoggedRun {
    /// Values over steps, by the name of the metric, such as `loss` or `eval/accuracy`.
    pub metrics: BTreeMap<String, Metric>,
    /// The files that they were read from.
    pub files: Vec<PathBuf>,
    /// What the reader should know, such as an unfinished last line of a file that still grows.
    pub notes: Vec<String>,
}

/// A metric over steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metric {
    /// Steps, increasing.
    pub steps: Vec<u64>,
    /// The value at each step; it may be infinite or NaN.
    pub values: Vec<f64>,
}

/// Which metrics are read, and at which steps they were measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// Names of metrics, in which `*` stands for any characters and `?` for one; empty for all but [`WALL_TIME`].
    pub metrics: Vec<String>,
    /// The name under which rows have their step; else the first that is known.
    pub step_key: Option<String>,
}

/// Reads the metrics of a run from a file or a folder.
pub fn read(path: &Path, choice: &Choice) -> Result<LoggedRun, Error> {
    let step_key = choice.step_key.as_deref();
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let is_folder = fs::metadata(path).map_err(unreadable)?.is_dir();
    let (logs, mut notes) = if is_folder {
        folder::logs(path, step_key)?
    } else {
        (vec![source::Log::of_file(path)?], Vec::new())
    };
    let mut read = Vec::new();
    for log in &logs {
        read.push((log, log.read(step_key)?));
    }
    let (metrics, more) = union::union(read);
    if metrics.is_empty() {
        return Err(refuse(path, "no metrics", "numbers over steps"));
    }
    notes.extend(more);
    let files = logs.iter().flat_map(source::Log::files).cloned().collect();
    choose::choose(LoggedRun { metrics, files, notes }, path, &choice.metrics)
}
