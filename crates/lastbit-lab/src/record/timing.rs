//! When a record was computed, how long it took and on how many threads: nothing that a result depends on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{RECORD, Record, SETTINGS};
use crate::error::Error;
use crate::relative_path::RelativePath;
use crate::sealed::{self, FileHash, damaged};

const FILE: &str = "timing.json";
const FORMAT: u32 = 1;

/// The time that the last run took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    format: u32,
    /// Hash of `settings.toml`: the record it belongs to.
    settings: FileHash,
    started_unix_seconds: u64,
    seconds: f64,
    threads: usize,
    cells_reused: usize,
}

impl Timing {
    /// Of a run that began at a time in seconds since 1970.
    pub fn new(settings: FileHash, started: u64, seconds: f64, cells_reused: usize) -> Self {
        let threads = rayon::current_num_threads();
        Self {
            format: FORMAT,
            settings,
            started_unix_seconds: started,
            seconds,
            threads,
            cells_reused,
        }
    }

    /// Writes it into the folder of its record.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        sealed::write(&folder.join(FILE), self).map(drop)
    }

    /// Fails where that of a complete record is missing, damaged or another's.
    pub(super) fn check(folder: &Path, record: &Record) -> Result<(), Error> {
        let path = RelativePath::new(FILE).below(folder)?;
        let settings = record.files.get(&RelativePath::new(SETTINGS));
        match sealed::read::<Self>(&path, FORMAT)? {
            None if record.is_complete() => Err(damaged(&path, "the file is missing")),
            Some((timing, _)) if settings != Some(&timing.settings) => {
                Err(damaged(&path, format!("it belongs to another {RECORD}")))
            }
            _ => Ok(()),
        }
    }
}
