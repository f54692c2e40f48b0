//! `summary.json`: how a run ended, in numbers and in a sentence.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::answer;
use super::history::History;
use super::row::Row;
use super::settings::Settings;
use crate::error::Error;
use crate::files::write_atomically;
use crate::number::Number;
use crate::origin::{COMMIT, VERSION};
use crate::train::SUMMARY;

/// What `summary.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// What the measurements say of the training.
    pub answer: String,
    /// Hash of `config.toml`.
    pub settings_hash: String,
    /// Measured steps.
    pub rows: usize,
    /// The last row.
    pub last: Option<Row>,
    /// The edge ratio along the run, where it was measured.
    pub edge: Option<EdgeSummary>,
    /// Wall time from the first step to the last row.
    pub elapsed_seconds: Number,
    /// The part of it that measurements took.
    pub measuring_seconds: Number,
    /// That part as a share of 1.
    pub measuring_share: Number,
    /// What could not be measured, and why.
    pub notes: Vec<Note>,
    /// Version of this program.
    pub version: String,
    /// Its commit.
    pub commit: String,
}

/// The edge ratio along a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EdgeSummary {
    /// How often it was measured.
    pub measurements: usize,
    /// The last one.
    pub last: Number,
    /// Its step.
    pub last_step: u64,
    /// The largest one.
    pub max: Number,
    /// Its step.
    pub max_step: u64,
    /// The first step at which it was at least 1.
    pub first_step_at_edge: Option<u64>,
    /// Median of the last quarter of the measurements.
    pub late_median: Number,
    /// Where that quarter begins.
    pub late_from_step: u64,
    /// Measurements in it.
    pub late_measurements: usize,
}

/// What could not be measured, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The step.
    pub step: u64,
    /// What and why.
    pub note: String,
}

impl Summary {
    /// That of a run which took and measured so long.
    pub fn of(settings: &Settings, history: &History, elapsed: f64, measuring: f64) -> Self {
        let share = if elapsed > 0.0 { measuring / elapsed } else { 0.0 };
        Self {
            answer: answer::sentences(settings, history, share),
            settings_hash: blake3::hash(settings.to_toml().as_bytes()).to_hex()[..32].to_owned(),
            rows: history.count(),
            last: history.last.clone(),
            edge: history.edge(),
            elapsed_seconds: Number(elapsed),
            measuring_seconds: Number(measuring),
            measuring_share: Number(share),
            notes: history.notes.clone(),
            version: VERSION.to_owned(),
            commit: COMMIT.to_owned(),
        }
    }

    /// Writes it into the directory of its run.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("a summary is plain data");
        write_atomically(&folder.join(SUMMARY), format!("{text}\n").as_bytes())
    }
}
