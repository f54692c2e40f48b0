//! Judged runs of PDEs, by [`lastbit_lab::pde`].

use std::path::PathBuf;

use lastbit::verdict::Doubt;
use lastbit_lab::Error;
use lastbit_lab::input::Data;
use lastbit_lab::pde::{
    BeltramiSettings, HeatSettings, KernelSettings, PdeResult, PdeRun, SchemeSettings, in_words,
};
use lastbit_lab::settings::{Given, from_json, not_default};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::bounds::scheme;
use crate::convert::{Values, columns, plane};
use crate::error::exception;
use crate::work;

/// Folder of the records (in memory where there is none), whether a record that is there is made anew, and the function
/// that shows progress.
type Options = (Option<PathBuf>, bool, Option<Py<PyAny>>);

/// The heat equation from an initial profile, or from a triangle.
#[pyfunction]
pub fn heat<'py>(
    py: Python<'py>,
    initial: Option<Values<'py>>,
    settings: &str,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let initial = initial.map(|values| values.line("initial")).transpose()?;
    run(py, options, || {
        let settings = HeatSettings { initial, ..from_json(settings)? };
        let is_given = not_default(&settings);
        settings.run(Given::new(&is_given))
    })
}

/// Beltrami reaction-diffusion of a signal or an image.
#[pyfunction]
pub fn beltrami<'py>(
    py: Python<'py>,
    signal: Option<Values<'py>>,
    settings: &str,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let signal = signal.map(Values::data).transpose()?;
    run(py, options, || {
        let settings = BeltramiSettings { signal, ..from_json(settings)? };
        let is_given = not_default(&settings);
        settings.run(Given::new(&is_given))
    })
}

/// A linear scheme, one of the textbook or `own` (JSON).
#[pyfunction]
pub fn scheme_run<'py>(
    py: Python<'py>,
    own: Option<&str>,
    initial: Option<Values<'py>>,
    settings: &str,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let initial = initial.map(Values::data).transpose()?;
    run(py, options, || {
        let mut settings = SchemeSettings { initial, ..from_json(settings)? };
        settings.choice.file = scheme(settings.choice.file, own)?;
        let is_given = not_default(&settings);
        settings.run(Given::new(&is_given))
    })
}

/// The kernel of a one-layer network on an image, from an initial kernel.
#[pyfunction]
pub fn kernel<'py>(
    py: Python<'py>,
    image: Option<Values<'py>>,
    initial: Option<Values<'py>>,
    settings: &str,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let image = image.map(|image| image.image("image")).transpose()?;
    let initial = initial.map(|initial| initial.image("initial")).transpose()?;
    run(py, options, || {
        let mut settings = KernelSettings { initial, ..from_json(settings)? };
        settings.network.image = image;
        let is_given = not_default(&settings);
        settings.run(Given::new(&is_given))
    })
}

/// Runs what `prepare` gives, and returns it as numbers and arrays.
fn run(
    py: Python<'_>,
    options: Options,
    prepare: impl FnOnce() -> Result<PdeRun, Error> + Send,
) -> PyResult<Bound<'_, PyDict>> {
    let (out, fresh, show) = options;
    let result = work::to_end(py, show.as_ref(), |monitor| {
        let run = prepare()?;
        match out {
            Some(out) => run.record(&out, fresh, monitor),
            None => run.compute(monitor),
        }
    })?;
    told(py, result)
}

fn told(py: Python<'_>, mut result: PdeResult) -> PyResult<Bound<'_, PyDict>> {
    let doubt = result.verdict.doubt;
    let told = json!({
        "title": result.title,
        "sentence": in_words(&result.verdict),
        "reason": doubt.map(Doubt::why),
        "remedy": doubt.map(Doubt::remedy),
        "verdict": result.verdict,
        "dt": result.dt,
        "dt_max": result.dt_max,
        "numbers": result.numbers,
        "hash": result.hash,
        "settings": result.settings,
        "folder": result.folder(),
    });
    let found = PyDict::new(py);
    found.set_item("told", told.to_string())?;
    let snapshots = PyDict::new(py);
    for snapshot in result.take_snapshots().map_err(exception)? {
        let state = match snapshot.state {
            Data::Signal(values) => values.into_pyarray(py).into_any(),
            Data::Image(field) => plane(py, field)?,
        };
        snapshots.set_item(snapshot.step, state)?;
    }
    found.set_item("snapshots", snapshots)?;
    let fields = PyDict::new(py);
    for (name, field) in result.take_other_fields().map_err(exception)? {
        fields.set_item(name, plane(py, field)?)?;
    }
    found.set_item("fields", fields)?;
    let series = PyDict::new(py);
    for (name, table) in result.series {
        series.set_item(name, columns(py, table)?)?;
    }
    found.set_item("series", series)?;
    Ok(found)
}
