//! When a run was made, how long it took, on how many threads and on which device: nothing that a result depends on.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::write_atomically;

const FILE: &str = "timing.json";

/// The time that the last call of [`train`](super::train) took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// When it began.
    pub started_unix_seconds: u64,
    /// How long it took.
    pub seconds: f64,
    /// Steps it made.
    pub steps: usize,
    /// Threads of the CPU.
    pub threads: usize,
    /// The device with its driver, where that was not the CPU.
    pub device: Option<String>,
}

impl Timing {
    /// That of a run, if it is there and can be read.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(folder.join(FILE)).ok()?).ok()
    }

    /// Writes it into the folder of its run.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("plain data");
        write_atomically(&folder.join(FILE), format!("{text}\n").as_bytes())
    }
}
