//! Records: exhibits are run, the report is written, files are checked.

use std::path::PathBuf;

use lastbit_lab::experiments::{RecordSummary, RunOptions, run_exhibits, select};
use lastbit_lab::progress::Monitor;
use lastbit_lab::record::{Record, Scale, Store};
use lastbit_lab::report::write;
use lastbit_lab::runner::Existing;
use lastbit_lab::train::Device;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::convert::named;
use crate::error::exception;
use crate::work;

/// Runs exhibits; returns a list of their records as JSON.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    ids: Vec<String>,
    scale: &str,
    device: &str,
    out: PathBuf,
    fresh: bool,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = RunOptions {
        device: named::<Device>("device", device)?,
        existing: if fresh { Existing::Discard } else { Existing::Reuse },
        ..RunOptions::all(named::<Scale>("scale", scale)?)
    };
    let exhibits = select(&ids).map_err(exception)?;
    let done = work::resumable(py, show.as_ref(), "finished cells", |monitor| {
        run_exhibits(&exhibits, &options, &out, monitor)
    })?;
    let records: Vec<Value> = done.iter().map(|(store, record)| entry(store, record)).collect();
    Ok(json!(records).to_string())
}

fn entry(store: &Store, record: &Record) -> Value {
    let figures = record.files.keys().filter(|file| file.starts_with("figures/"));
    let figures: Vec<PathBuf> = figures.map(|file| store.folder().join(&**file)).collect();
    json!({
        "summary": RecordSummary::new(store, record),
        "title": record.page.title,
        "claim": record.page.claim,
        "figures": figures,
    })
}

/// Writes the report of all records below `folder`. Returns its path, and what is wrong with the records that it does
/// not show.
#[pyfunction]
pub fn report(
    py: Python<'_>,
    folder: PathBuf,
    out: Option<PathBuf>,
) -> PyResult<(PathBuf, Vec<String>)> {
    let written = py.detach(|| write(&folder, out.as_deref())).map_err(exception)?;
    let damaged = written.damaged.iter().map(ToString::to_string).collect();
    Ok((written.path, damaged))
}

/// Checks all files below `folder`; returns what `lastbit verify --json` prints.
#[pyfunction]
pub fn verify(py: Python<'_>, folder: PathBuf, show: Option<Py<PyAny>>) -> PyResult<String> {
    let check = |monitor: &dyn Monitor| lastbit_lab::verify::verify(&folder, monitor);
    let verified = work::to_end(py, show.as_ref(), check)?;
    Ok(json!(verified).to_string())
}
