//! Envelopes and checks of runs, by [`lastbit_lab::envelope`]. An envelope travels as the JSON of its file.

use std::path::PathBuf;

use lastbit_lab::Error;
use lastbit_lab::envelope::{self, Envelope, Settings};
use lastbit_lab::logged::{self, Choice, LoggedRun, Metric};
use pyo3::prelude::*;

use crate::error::exception;

/// A run: the file or folder it logged to, or the steps and values of each metric.
#[derive(FromPyObject)]
pub enum Run {
    /// A file or a folder.
    File(PathBuf),
    /// Metrics by name.
    Memory(Vec<(String, Vec<u64>, Vec<f64>)>),
}

impl Run {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Memory(_) => "run".to_owned(),
        }
    }

    fn read(self, choice: &Choice) -> Result<LoggedRun, Error> {
        let metrics = match self {
            Self::File(path) => return logged::read(&path, choice),
            Self::Memory(metrics) => metrics,
        };
        let mut run = LoggedRun::default();
        for (name, steps, values) in metrics {
            if steps.len() != values.len() {
                let found = format!("{} steps and {} values", steps.len(), values.len());
                return Err(Error::setting(&name, found, "a value for each step"));
            }
            if !steps.is_sorted_by(|a, b| a < b) {
                return Err(Error::setting(
                    &name,
                    "steps that do not increase",
                    "increasing steps",
                ));
            }
            run.metrics.insert(name, Metric { steps, values });
        }
        if !choice.metrics.is_empty() {
            run.metrics = logged::matching(run.metrics, "the run", &choice.metrics)?;
        }
        Ok(run)
    }
}

fn read_all(runs: Vec<(String, Run)>, choice: &Choice) -> Result<Vec<(String, LoggedRun)>, Error> {
    runs.into_iter().map(|(name, run)| Ok((name, run.read(choice)?))).collect()
}

fn text(envelope: &Envelope) -> String {
    serde_json::to_string(envelope).expect("an envelope is plain data")
}

fn parsed(envelope: &str) -> PyResult<Envelope> {
    let refuse = |error: serde_json::Error| {
        let expected = "the JSON of an envelope";
        exception(Error::setting("envelope", error.to_string(), expected))
    };
    serde_json::from_str(envelope).map_err(refuse)
}

/// The envelope of runs, as JSON.
#[pyfunction]
pub fn envelope_of(
    py: Python<'_>,
    runs: Vec<(String, Run)>,
    metrics: Vec<String>,
    step_key: Option<String>,
    perturbation: String,
) -> PyResult<String> {
    let choice = Choice { metrics, step_key };
    let made =
        py.detach(|| Envelope::of(&read_all(runs, &choice)?, Vec::new(), perturbation, None));
    Ok(text(&made.map_err(exception)?))
}

/// The envelope with more runs, as JSON.
#[pyfunction]
pub fn envelope_widened(
    py: Python<'_>,
    envelope: &str,
    runs: Vec<(String, Run)>,
) -> PyResult<String> {
    let envelope = parsed(envelope)?;
    let wide = py.detach(|| envelope.widened(&read_all(runs, &Choice::default())?));
    Ok(text(&wide.map_err(exception)?))
}

/// The envelope of a file or a folder, as JSON.
#[pyfunction]
pub fn envelope_open(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| envelope::open(&path)).map(|found| text(&found)).map_err(exception)
}

/// Writes an envelope to a file.
#[pyfunction]
pub fn envelope_save(py: Python<'_>, envelope: &str, path: PathBuf) -> PyResult<()> {
    let envelope = parsed(envelope)?;
    py.detach(|| envelope.write(&path)).map_err(exception)
}

/// Compares a run with an envelope; returns the result as JSON.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    run: Run,
    envelope: &str,
    level: f64,
    metrics: Vec<String>,
    step_key: Option<String>,
) -> PyResult<String> {
    let envelope = parsed(envelope)?;
    let choice = Choice { metrics, step_key };
    let found = py.detach(|| {
        let envelope = envelope.chosen(&choice.metrics)?;
        let run = (run.name(), run.read(&choice)?);
        envelope::check_all(&envelope, &[run], Settings { level })
    });
    let found = found.map_err(exception)?;
    Ok(serde_json::to_string(&found[0]).expect("a result is plain data"))
}
