//! The envelope of a configuration of `lastbit train`: its replicas, all in one run, differ in the factor k of the step.
//!
//! ```text
//! E/runs/HASH       the run, as `lastbit train` makes it, with the replicas k = 1, 3, 5, …
//! ```
//!
//! Runs without a perturbation are not repeated: the engine is bit-reproducible by construction, and its tests show it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{LEAST, MOST, Made, settings};
use crate::envelope::{self, Envelope};
use crate::error::Error;
use crate::files::remove_unfinished;
use crate::input::refuse;
use crate::logged::{self, Choice, LoggedRun};
use crate::noise::Source;
use crate::progress::{Monitor, Progress};
use crate::runner::Existing;
use crate::train::{ConfigFile, ConfigSource, Device, Prepared, Training};
use crate::validate::within;

/// An envelope of a training as it is asked for.
#[derive(Debug, Clone)]
pub struct TrainingRequest {
    /// The configuration.
    pub config: ConfigSource,
    /// Changes to it, `section.key=value`.
    pub set: Vec<String>,
    /// Device to train on.
    pub device: Option<Device>,
    /// Folder of the data sets.
    pub data: Option<PathBuf>,
    /// Replicas.
    pub runs: usize,
    /// Which metrics, over which steps.
    pub choice: Choice,
    /// What becomes of a run that is there.
    pub existing: Existing,
}

/// Trains the replicas, all at once, and makes the envelope of their metrics.
///
/// Where the monitor asks to stop, the training ends at a checkpoint, from which the same request resumes.
pub fn make(request: &TrainingRequest, out: &Path, monitor: &dyn Monitor) -> Result<Made, Error> {
    within("--runs", request.runs, LEAST, MOST)?;
    if out.join(settings::FILE).exists() {
        let expected = "a folder without one; give another with --out";
        return Err(refuse(out, "the envelope of a program", expected));
    }
    let device = request.device.map(Device::as_setting);
    let set: Vec<String> = request.set.iter().cloned().chain(device).collect();
    let command: Vec<String> =
        [request.config.name().display().to_string()].into_iter().chain(set.clone()).collect();
    let fresh = request.existing == Existing::Discard;
    let file = out.join(envelope::FILE);
    if !fresh && Envelope::read(&file)?.is_some_and(|there| there.command != command) {
        let expected = "that of the same configuration; give another folder with --out, or --fresh to replace it";
        return Err(refuse(&file, "the envelope of something else", expected));
    }
    remove_unfinished(out);
    let found = ConfigFile::parse(&request.config.read()?, request.config.name(), &set)?;
    let training = Source::LastBit.training(&found, request.runs, request.data.as_deref())?;
    let steps = Prepared::new(training.found.clone(), request.data.as_deref(), true)?.steps as u64;
    let mut made = Made {
        folder: out.to_owned(),
        file: None,
        whole: 0,
        planned: request.runs,
        reproducibility: None,
        reached: None,
        metrics: vec![],
        notes: vec![],
        stopped: None,
    };
    let progress = Progress::new(monitor, "envelope", steps);
    if training.compute(out, fresh, &progress, steps)?.is_none() {
        made.stopped = monitor.stop_requested();
        return Ok(made);
    }
    drop(progress);
    made.whole = request.runs;
    let runs = replicas(&training, &request.choice, out)?;
    let envelope = Envelope::of(&runs, command, "k".to_owned(), None)?;
    made.keep(&envelope, out, monitor)?;
    let note = "the engine is bit-reproducible, so no run without a perturbation was repeated";
    made.notes.push(note.to_owned());
    Ok(made)
}

/// Metrics that compare a replica with the first of its run, and say nothing of it alone.
const BESIDE_THE_FIRST: [&str; 5] = ["rel_l1", "max_ulps", "agreeing_bits", "distance", "growth_"];

/// The metrics of each replica, which stand as REPLICA/METRIC in those of the run.
fn replicas(
    training: &Training,
    choice: &Choice,
    out: &Path,
) -> Result<Vec<(String, LoggedRun)>, Error> {
    let metrics = choice.metrics.iter().map(|metric| format!("*/{metric}")).collect();
    let in_run = Choice { metrics, step_key: choice.step_key.clone() };
    let logged = logged::read(&out.join(&*training.folder()), &in_run)?;
    let is_left_out = |name: &str| BESIDE_THE_FIRST.iter().any(|start| name.starts_with(start));
    let mut runs: BTreeMap<String, LoggedRun> = BTreeMap::new();
    for (name, metric) in logged.metrics {
        if let Some((replica, name)) = name.split_once('/')
            && !(choice.metrics.is_empty() && is_left_out(name))
        {
            runs.entry(replica.to_owned()).or_default().metrics.insert(name.to_owned(), metric);
        }
    }
    Ok(runs.into_iter().collect())
}
