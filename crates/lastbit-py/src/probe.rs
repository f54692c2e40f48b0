//! The run directory of a training that Python makes and measures, by [`lastbit_lab::probe`].

use std::path::PathBuf;

use lastbit_lab::Error;
use lastbit_lab::probe::{Clock, FingerprintRow, ProbeRun as Run, Row, Settings};
use lastbit_lab::progress::Silent;
use pyo3::prelude::*;

use crate::error::exception;

/// A run that is being written; its directory is locked until the object is gone or [`close`](Self::close)d.
#[pyclass(module = "lastbit._lastbit")]
pub struct ProbeRun {
    run: Option<Run>,
}

#[pymethods]
impl ProbeRun {
    /// Opens the directory `out`; settings are tables in JSON.
    #[new]
    #[pyo3(signature = (out, settings, *, resume))]
    fn new(py: Python<'_>, out: PathBuf, settings: &str, resume: bool) -> PyResult<Self> {
        let open = || Run::open(&out, Settings::from_json(settings)?, resume, &Silent);
        py.detach(open).map(|run| Self { run: Some(run) }).map_err(exception)
    }

    /// The next step of the training; returns elapsed and measuring seconds of the sessions before.
    fn resume_at(&mut self, py: Python<'_>, step: u64) -> PyResult<(f64, f64)> {
        let clock = self.with(py, |run| run.resume_at(step))?;
        Ok((clock.elapsed_seconds, clock.measuring_seconds))
    }

    /// Appends a row and the fingerprint of its step, both in JSON.
    #[pyo3(signature = (row, fingerprint))]
    fn append(&mut self, py: Python<'_>, row: &str, fingerprint: Option<&str>) -> PyResult<()> {
        let refuse = |message: String| exception(Error::setting("row", message, "numbers by name"));
        let row = Row::parse(row).map_err(refuse)?;
        let fingerprint = fingerprint.map(FingerprintRow::parse).transpose().map_err(refuse)?;
        self.with(py, |run| run.append(row, fingerprint.as_ref()))
    }

    /// Ends the run; returns its summary in JSON.
    fn finish(&mut self, py: Python<'_>, elapsed: f64, measuring: f64) -> PyResult<String> {
        let clock = Clock { elapsed_seconds: elapsed, measuring_seconds: measuring };
        let summary = self.with(py, |run| run.finish(clock))?;
        self.run = None;
        Ok(serde_json::to_string(&summary).expect("a summary is plain data"))
    }

    /// Writes the page of the rows so far and leaves the directory; the run has not ended.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.run.take() {
            Some(mut run) => py.detach(|| run.save()).map_err(exception),
            None => Ok(()),
        }
    }
}

impl ProbeRun {
    fn with<T: Send>(
        &mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut Run) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let run = self.run.as_mut();
        let Some(run) = run else {
            return Err(exception(Error::setting("probe", "one that was closed", "an open one")));
        };
        py.detach(|| work(run)).map_err(exception)
    }
}
