//! Envelopes: runs that differ by rounding, by [`lastbit_lab::perturbed_runs`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use lastbit_lab::Error;
use lastbit_lab::logged::Choice;
use lastbit_lab::perturbed_runs::{self, Kind, Request, TrainingRequest};
use lastbit_lab::runner::Existing;
use lastbit_lab::train::{ConfigSource, Device};
use pyo3::prelude::*;

use crate::convert::named;
use crate::error::exception;
use crate::work;

/// Runs a program several times; returns what `lastbit envelope --json` prints.
#[pyfunction]
#[pyo3(signature = (command, *, runs, kind, launcher, files, metrics, step_key, jobs, timeout, keep_going, out, fresh,
                    show))]
pub fn envelope_of_program(
    py: Python<'_>,
    command: Vec<String>,
    runs: usize,
    kind: &str,
    launcher: bool,
    files: Vec<String>,
    metrics: Vec<String>,
    step_key: Option<String>,
    jobs: usize,
    timeout: Option<f64>,
    keep_going: bool,
    out: PathBuf,
    fresh: bool,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let limit = |seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| exception(Error::setting("timeout", seconds, "a number of seconds")))
    };
    let request = Request {
        command,
        runs,
        kind: named::<Kind>("kind", kind)?,
        launcher,
        files,
        choice: Choice { metrics, step_key },
        jobs,
        timeout: timeout.map(limit).transpose()?,
        keep_going,
        part: None,
        existing: existing(fresh),
    };
    let made = work::resumable(py, show.as_ref(), "runs that are whole", |monitor| {
        perturbed_runs::make(&request, &out, monitor)
    })?;
    Ok(serde_json::to_string(&made).expect("it is plain data"))
}

/// Trains replicas of a configuration; returns the same.
///
/// `config` is a TOML file, `settings` are the same as JSON.
#[pyfunction]
#[pyo3(signature = (config, settings, *, runs, set, device, data, metrics, step_key, out, fresh, show))]
pub fn envelope_of_training(
    py: Python<'_>,
    config: Option<PathBuf>,
    settings: Option<&str>,
    runs: usize,
    set: Vec<String>,
    device: Option<&str>,
    data: Option<PathBuf>,
    metrics: Vec<String>,
    step_key: Option<String>,
    out: PathBuf,
    fresh: bool,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let config = match (settings, config) {
        (Some(json), _) => ConfigSource::from_json(json, Path::new("config")),
        (None, Some(path)) => Ok(ConfigSource::File(path)),
        (None, None) => Err(Error::setting("config", "none", "a TOML file or a dictionary")),
    };
    let request = TrainingRequest {
        config: config.map_err(exception)?,
        set,
        device: device.map(|name| named::<Device>("device", name)).transpose()?,
        data,
        runs,
        choice: Choice { metrics, step_key },
        existing: existing(fresh),
    };
    let made = work::resumable(py, show.as_ref(), "checkpoints", |monitor| {
        perturbed_runs::of_training(&request, &out, monitor)
    })?;
    Ok(serde_json::to_string(&made).expect("it is plain data"))
}

fn existing(fresh: bool) -> Existing {
    if fresh { Existing::Discard } else { Existing::Reuse }
}
