//! Why copies of a training diverge, by [`lastbit::attribution`], on vectors that Python holds.

use lastbit::attribution::{ModeStep, Parts, SpectralMeasure, StepSeen};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::thresholds::method;
use crate::vector::PyVector;

/// The growth of a difference over one step, by cause, in e-folds.
///
/// `starts` are the difference before the step: positions, and remembered steps where the optimizer has some.
/// `multiply(v)` returns the Hessian times `v` in their coordinates, times the learning rate. None where something is
/// not finite.
#[pyfunction]
#[pyo3(signature = (
    space, multiply, starts, *, products, optimizer, momentum, gain, decay, squares, preconditioner, rounding
))]
pub fn attribution<'py>(
    py: Python<'py>,
    space: Py<PyAny>,
    multiply: Py<PyAny>,
    starts: Vec<Py<PyAny>>,
    products: usize,
    optimizer: &str,
    momentum: f64,
    gain: f64,
    decay: f64,
    squares: [f64; 2],
    preconditioner: f64,
    rounding: f64,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let like = PyVector::zeros(py, space)?;
    let starts: Vec<PyVector> = starts.into_iter().map(|value| like.like(value)).collect();
    let step = ModeStep { method: method(optimizer, momentum)?, gain, decay };
    let measure = SpectralMeasure::of(&starts, products, |v: &PyVector, out: &mut PyVector| {
        // Ctrl-C between two products.
        py.check_signals()?;
        out.value = multiply.call1(py, (&v.value,))?;
        PyResult::Ok(())
    })?;
    let Some(measure) = measure else { return Ok(None) };
    let seen = StepSeen { squares, preconditioner, rounding };
    let found = seen.attributed(&measure, |lambda| step.matrix(lambda));
    let named = |parts: Parts| {
        let dict = PyDict::new(py);
        for (name, value) in Parts::NAMES.into_iter().zip(parts.values()) {
            dict.set_item(name, value)?;
        }
        PyResult::Ok(dict)
    };
    let result = PyDict::new(py);
    result.set_item("growth", found.growth)?;
    result.set_item("parts", named(found.e_folds())?)?;
    result.set_item("shares", found.shares().map(named).transpose()?)?;
    result.set_item("rounding", found.in_e_folds(found.rounding))?;
    result.set_item("split_change", found.in_e_folds(found.split_change))?;
    result.set_item("products", found.products)?;
    Ok(Some(result))
}
