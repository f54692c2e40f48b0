//! What a training program logged, read by [`lastbit_lab::logged`].

use std::path::PathBuf;

use lastbit_lab::logged::{Choice, Metric, read};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::error::exception;

/// A metric: its name, steps and values.
type PyMetric<'py> = (String, Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<f64>>);

/// The metrics of a run, the files they were read from, and what the reader should know.
#[pyfunction]
pub fn logged<'py>(
    py: Python<'py>,
    path: PathBuf,
    metric: Vec<String>,
    step_key: Option<String>,
) -> PyResult<(Vec<PyMetric<'py>>, Vec<PathBuf>, Vec<String>)> {
    let choice = Choice { metrics: metric, step_key };
    let run = py.detach(|| read(&path, &choice)).map_err(exception)?;
    let metrics = run.metrics.into_iter().map(|(name, Metric { steps, values })| {
        (name, steps.into_pyarray(py), values.into_pyarray(py))
    });
    Ok((metrics.collect(), run.files, run.notes))
}
