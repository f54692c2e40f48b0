//! The edge of stability of a training, by [`lastbit_lab::edge`].

use std::path::{Path, PathBuf};

use lastbit::named::Named;
use lastbit_lab::Error;
use lastbit_lab::edge::{Over, Property, Request};
use lastbit_lab::train::{ConfigSource, Device};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::convert::named;
use crate::error::exception;
use crate::work;

/// Searches; returns what `lastbit edge --json` prints.
///
/// `config` is a TOML file, `settings` are the same as JSON.
#[pyfunction]
#[pyo3(signature = (config, settings, *, over, property, from_, to, tolerance, steps, at_most, seeds, repeats, twins,
                    set, device, data, out, fresh, show))]
pub fn edge(
    py: Python<'_>,
    config: Option<PathBuf>,
    settings: Option<&str>,
    over: &str,
    property: Option<&str>,
    from_: Option<f64>,
    to: Option<f64>,
    tolerance: f64,
    steps: Option<usize>,
    at_most: Option<usize>,
    seeds: Vec<u64>,
    repeats: usize,
    twins: bool,
    set: Vec<String>,
    device: Option<&str>,
    data: Option<PathBuf>,
    out: PathBuf,
    fresh: bool,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let config = match (settings, config) {
        (Some(json), _) => ConfigSource::from_json(json, Path::new("config")),
        (None, Some(path)) => Ok(ConfigSource::File(path)),
        (None, None) => Err(Error::setting("config", "none", "a TOML file or a dictionary")),
    };
    let config = config.map_err(exception)?;
    let request = Request {
        over: parameter(over)?,
        property: property.map(|name| named::<Property>("property", name)).transpose()?,
        from: from_,
        to,
        tolerance,
        steps,
        at_most,
        seeds,
        repeats,
        twins,
        set,
        device: device.map(|name| named::<Device>("device", name)).transpose()?,
        data,
        fresh,
        ..Request::new(config)
    };
    let (ended, raised) =
        work::run(py, show.as_ref(), |monitor| match request.run(&out, monitor) {
            Err(Error::Stopped(reason)) => Ok(Err(reason)),
            ended => ended.map(Ok),
        })?;
    match (ended, raised) {
        (Err(reason), Some(raised)) if raised.is_instance_of::<PyKeyboardInterrupt>(py) => {
            Err(PyKeyboardInterrupt::new_err(format!(
                "{reason}; finished probes are saved. The same call resumes from there."
            )))
        }
        (_, Some(raised)) => Err(raised),
        (Err(reason), None) => Err(exception(Error::Stopped(reason))),
        (Ok(answers), None) => Ok(answers.to_json().to_string()),
    }
}

/// The parameter to vary: the learning rate by its name in training, too.
fn parameter(name: &str) -> PyResult<Over> {
    match Over::from_name(name) {
        Some(over) => Ok(over),
        None if name == "lr" => Ok(Over::Dt),
        None => Err(exception(Error::setting("over", name, "lr or alpha"))),
    }
}
