//! When a run was made, how long it took, on how many threads and on which device: nothing that a result depends on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::sealed::{self, FileHash};

/// The file, in the folder of a run.
pub const FILE: &str = "timing.json";
/// Version of its layout.
pub const FORMAT: u32 = 1;

/// The time that the last call of [`train`](super::train) took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// [`FORMAT`].
    pub format: u32,
    /// Hash of `config.toml`: the run it belongs to.
    pub settings: FileHash,
    /// When it began.
    pub started_unix_seconds: u64,
    /// How long it took.
    pub seconds: f64,
    /// Steps it made.
    pub steps: usize,
    /// Threads of the CPU.
    pub threads: usize,
    /// Steps of the checkpoints at its end. The last but one lies where the run was interrupted.
    pub checkpoints: Vec<usize>,
    /// The device with its driver, where that was not the CPU.
    pub device: Option<String>,
}

impl Timing {
    /// That of a run; none where there is none, or where it was changed.
    pub fn read(folder: &Path) -> Option<Self> {
        sealed::read(&folder.join(FILE), FORMAT).ok()?.map(|(timing, _)| timing)
    }

    /// Writes it into the folder of its run.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        sealed::write(&folder.join(FILE), self).map(drop)
    }
}
