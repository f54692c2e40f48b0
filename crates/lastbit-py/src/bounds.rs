//! Stability bounds from theory, by [`lastbit_lab::bounds`].

use lastbit_lab::Error;
use lastbit_lab::bounds::{KernelBoundsSettings, SchemeBoundsSettings};
use lastbit_lab::input::Source;
use lastbit_lab::settings::{Given, SchemeFile, from_json, not_default};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::convert::{Values, columns, plane};
use crate::error::exception;

/// Analyses a linear scheme, one of the textbook or `own` (JSON). Returns the bounds as JSON, with a sentence, and the
/// amplification over the frequencies.
#[pyfunction]
#[pyo3(signature = (settings, own))]
pub fn scheme_bounds<'py>(
    py: Python<'py>,
    settings: &str,
    own: Option<&str>,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let bounds = py.detach(|| {
        let mut settings: SchemeBoundsSettings = from_json(settings)?;
        settings.choice.file = scheme(settings.choice.file, own)?;
        let is_given = not_default(&settings);
        settings.bounds(Given::new(&is_given))
    });
    let mut bounds = bounds.map_err(exception)?;
    let amplification = columns(py, std::mem::take(&mut bounds.amplification))?;
    let told = json!({"bounds": bounds, "sentence": bounds.in_words});
    Ok((told.to_string(), amplification))
}

/// The scheme of the user's own: in a file, or as JSON.
pub fn scheme(
    file: Option<Source<SchemeFile>>,
    own: Option<&str>,
) -> Result<Option<Source<SchemeFile>>, Error> {
    let own = own.map(|text| SchemeFile::from_json(text, "scheme")).transpose()?;
    Ok(own.map(Source::Memory).or(file))
}

/// Bounds the weight decay of a one-layer network. Returns the bounds as JSON, and the amplification over the frequencies
/// of the image.
#[pyfunction]
#[pyo3(signature = (image, settings))]
pub fn kernel_bounds<'py>(
    py: Python<'py>,
    image: Option<Values<'py>>,
    settings: &str,
) -> PyResult<(String, Bound<'py, PyAny>)> {
    let image = image.map(|image| image.image("image")).transpose()?;
    let bounds = py.detach(|| {
        let mut settings: KernelBoundsSettings = from_json(settings)?;
        settings.network.image = image;
        let is_given = not_default(&settings);
        settings.bounds(Given::new(&is_given))
    });
    let bounds = bounds.map_err(exception)?;
    let told = json!({"bounds": bounds, "schemes": bounds.schemes});
    Ok((told.to_string(), plane(py, bounds.amplification)?))
}
