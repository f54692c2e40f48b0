//! Training runs, by [`lastbit_lab::train`].

use std::path::{Path, PathBuf};

use lastbit_lab::Error;
use lastbit_lab::train::{ConfigSource, Device, EXAMPLE, Request, SessionEnd, StoppedRun};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::convert::named;
use crate::error::exception;
use crate::work;

/// A commented configuration (TOML).
#[pyfunction]
pub fn example_config() -> &'static str {
    EXAMPLE
}

/// Trains; returns the folder of the run and its summary as JSON.
///
/// `config` is a TOML file, `settings` are the same as JSON.
#[pyfunction]
#[pyo3(signature = (config, settings, *, out, resume, fork, set, device, data, show))]
pub fn train(
    py: Python<'_>,
    config: Option<PathBuf>,
    settings: Option<&str>,
    out: Option<PathBuf>,
    resume: bool,
    fork: Option<PathBuf>,
    set: Vec<String>,
    device: Option<&str>,
    data: Option<PathBuf>,
    show: Option<Py<PyAny>>,
) -> PyResult<(PathBuf, String)> {
    let config = match settings {
        Some(json) => Some(ConfigSource::from_json(json, Path::new("config")).map_err(exception)?),
        None => config.map(ConfigSource::File),
    };
    let device = device.map(|name| named::<Device>("device", name)).transpose()?;
    let request = Request { config, resume, fork, set, device, data };
    let (folder, given) = (out.clone().unwrap_or("lastbit-out".into()), out.is_some());
    let ((folder, end), raised) = work::run(py, show.as_ref(), |monitor| {
        let session = request.prepare(&folder, given)?;
        let folder = session.folder.clone();
        Ok((folder, session.run(monitor)?))
    })?;
    match (end, raised) {
        // A run that finished before it could stop is finished; the interruption still counts.
        (SessionEnd::Finished(_), Some(raised)) => Err(raised),
        (SessionEnd::Finished(summary), None) => {
            let json = serde_json::to_string(&summary).expect("a summary is plain data");
            Ok((folder, json))
        }
        (SessionEnd::Stopped(run), Some(raised))
            if raised.is_instance_of::<PyKeyboardInterrupt>(py) =>
        {
            Err(PyKeyboardInterrupt::new_err(stopped(&run)))
        }
        (SessionEnd::Stopped(_), Some(raised)) => Err(raised),
        (SessionEnd::Stopped(run), None) => Err(exception(Error::Stopped(run.reason))),
    }
}

fn stopped(run: &StoppedRun) -> String {
    let StoppedRun { reason, step, steps, folder } = run;
    format!(
        "{reason} after step {step} of {steps}, saved; lastbit.train(out={folder:?}, resume=True) resumes from there"
    )
}
