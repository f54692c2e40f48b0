//! Training under the microscope: replicas of a network, what is measured of them, and all that
//! makes a run survive a kill.
//!
//! ```text
//! DIR/config.toml              the settings, complete
//!    /metrics.jsonl, .csv      one row per replica and time, appended while the run goes on
//!    /checkpoints/step-N.safetensors    all replicas with everything they remember
//!    /answers.safetensors      for each replica which test examples were answered right, last time
//!                              (REPLICA, booleans), and with which classes (REPLICA.class, I32)
//!    /final/REPLICA.safetensors         the trained networks, by PyTorch's names
//!    /density-REPLICA.csv, nodes-REPLICA.csv    spectral density at the end, if asked for
//!    /attribution.csv          why replicas diverge from the first, at chosen steps, if asked for
//!    /summary.json             how each replica ended
//!    /files.json               length and hash of each of these files, when the run has ended
//!    /record.json, series, figures      the [page] of a run of one's own, when it has ended
//!    /timing.json              when, how long, on how many threads, on which device
//!    /lock                     the process that is at work, while it is ([`crate::lock`])
//! ```
//!
//! Everything but `timing.json` depends on the settings and the program alone: a run that was
//! killed and resumed leaves the same bytes as one that was not. Rows beyond the last checkpoint
//! are cut off before a run goes on, because they will be written again.
//!
//! No file is taken on trust: a checkpoint carries its own hash and those of the metrics up to it (`resume.rs`),
//! `files.json` those of a finished run (`file_list.rs`), `timing.json` its own.

mod attribution;
mod backend;
mod board;
mod cell;
mod checkpoint;
pub(crate) mod file_list;
mod footprint;
mod measure;
mod metrics;
mod mini_batch;
mod names;
mod network;
pub mod page;
pub(crate) mod prefix_hash;
mod prepare;
mod resume;
mod run;
mod run_outcome;
mod session;
mod settings;
mod sharpness;
mod spikes;
mod subset;
mod summary;
mod tensors_of;
pub(crate) mod thinned;
mod timing;
mod variants;
mod verify;
mod weights;

pub use board::{DENSITY, EVENT_FILES, as_code, event_file, spectral_density};
pub use cell::Training;
pub use checkpoint::{Opened, checkpoints_in, is_optimizer_memory};
pub use file_list::answers;
pub(crate) use metrics::{Appended, METRICS, METRICS_CSV};
pub use metrics::{IN_EACH_ROW, Row as MetricsRow};
pub use mini_batch::MiniBatchThreshold;
pub use names::{
    BUTTERFLY, GRADIENT_FLUCTUATION, ReplicaNumber, ReplicaSeries, part_of_growth, share_of_growth,
};
pub use prepare::Prepared;
pub use resume::settings_in_checkpoints;
pub(crate) use run::CONFIG;
pub use session::{ConfigSource, Request, Session, SessionEnd, StoppedRun};
pub use settings::{Batch, ConfigFile, Device, EXAMPLE, Examples, Replicas, Schedule};
pub use sharpness::density_files;
pub use summary::RunSummary;
pub(crate) use summary::SUMMARY;
pub use variants::SourceSeeds;
pub use verify::{has_metrics_of_run, is_left_of_run, verify};

use std::path::Path;

use crate::error::Error;
use crate::lock::Lock;
use crate::progress::{Progress, StopReason};
use crate::simulate::Precision;
use backend::TrainingBackend;

/// Where a run begins.
pub enum Begin {
    /// At the first step.
    New,
    /// At the last checkpoint in its folder.
    Resume,
    /// At a checkpoint of another run.
    Fork(Box<Opened>),
}

/// How a call of [`train`] ended.
pub enum Ending {
    /// With the run; its summary.
    Finished(Box<RunSummary>),
    /// Stopped early, as its monitor asked; all steps are saved.
    Stopped {
        /// Why.
        reason: StopReason,
        /// Steps done.
        step: usize,
    },
}

/// Trains in a locked folder to the end of the run, or to a checkpoint where its monitor asks to stop. The whole run is
/// `units` of the progress.
pub fn train(
    prepared: &Prepared,
    lock: &Lock,
    begin: Begin,
    progress: &Progress,
    units: u64,
) -> Result<Ending, Error> {
    match prepared.found.settings.training.precision {
        Precision::F32 => run::run::<f32>(prepared, lock, begin, progress, units),
        Precision::F64 => run::run::<f64>(prepared, lock, begin, progress, units),
    }
}

/// Fails where there is no device that could make the steps of such a run.
pub fn require_device(found: &ConfigFile) -> Result<(), Error> {
    match found.settings.training.precision {
        Precision::F32 => TrainingBackend::<f32>::require_device(found),
        Precision::F64 => TrainingBackend::<f64>::require_device(found),
    }
}

/// Whether there is a run in a folder: its settings, or a checkpoint.
pub fn is_run(folder: &Path) -> Result<bool, Error> {
    Ok(folder.join(CONFIG).exists() || !checkpoint::steps_in(folder)?.is_empty())
}
