//! Any Python map as a [`Dynamics`], judged by [`lastbit::verdict`].

use std::sync::Arc;

use lastbit::verdict::{self, Horizon, Judgement, Verdict};
use lastbit::{Dynamics, Real, hash_of_bits};
use numpy::{Element, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// `x_{n+1} = step(x_n, n)`.
#[derive(Clone)]
struct PyMap<F> {
    step: Arc<Py<PyAny>>,
    energy: Option<Arc<Py<PyAny>>>,
    is_linear: bool,
    dt: f64,
    scale: f64,
    linear_range: f64,
    state: Vec<F>,
    steps: u64,
}

impl<F: Real + Element> Dynamics for PyMap<F> {
    type Scalar = F;
    type Error = PyErr;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.state
    }

    fn load(&mut self, state: &[F]) {
        self.state.copy_from_slice(state);
    }

    fn step(&mut self) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let before = PyArray1::from_slice(py, &self.state);
            let after = self.step.call1(py, (before, self.steps))?;
            let after: PyReadonlyArray1<'_, F> = after.extract(py).map_err(|_| {
                let dtype = F::get_dtype(py);
                let found = after.bind(py).get_type();
                PyValueError::new_err(format!(
                    "step: found {found} as its result, expected a numpy array of one dimension and dtype {dtype}"
                ))
            })?;
            let after = after.as_slice()?;
            if after.len() != self.state.len() {
                let (found, expected) = (after.len(), self.state.len());
                let message =
                    format!("step: found {found} values as its result, expected {expected}");
                return Err(PyValueError::new_err(message));
            }
            self.state.copy_from_slice(after);
            self.steps += 1;
            Ok(())
        })
    }

    fn energy(&self) -> PyResult<Option<f64>> {
        let Some(energy) = &self.energy else { return Ok(None) };
        Python::attach(|py| {
            let state = PyArray1::from_slice(py, &self.state);
            Ok(Some(energy.call1(py, (state,))?.extract(py)?))
        })
    }

    fn is_linear(&self) -> bool {
        self.is_linear
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    fn linear_range(&self) -> f64 {
        self.linear_range
    }
}

/// Judges a map: runs it beside a perturbed copy. Returns the verdict and its evidence as a dictionary.
#[pyfunction]
#[pyo3(signature = (step, x0, *, steps, at_most, dt, energy, is_linear, scale, linear_range))]
pub fn judge<'py>(
    py: Python<'py>,
    step: Py<PyAny>,
    x0: &Bound<'py, PyAny>,
    steps: usize,
    at_most: usize,
    dt: f64,
    energy: Option<Py<PyAny>>,
    is_linear: bool,
    scale: f64,
    linear_range: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let (step, energy) = (Arc::new(step), energy.map(Arc::new));
    let horizon = Horizon { steps, at_most, tells_divergence: true };
    if let Ok(state) = x0.cast::<PyArray1<f64>>() {
        let state = state.to_vec()?;
        return judged(
            py,
            PyMap { step, energy, is_linear, dt, scale, linear_range, state, steps: 0 },
            horizon,
        );
    }
    if let Ok(state) = x0.cast::<PyArray1<f32>>() {
        let state = state.to_vec()?;
        return judged(
            py,
            PyMap { step, energy, is_linear, dt, scale, linear_range, state, steps: 0 },
            horizon,
        );
    }
    let message = "x0: expected a numpy array of one dimension and dtype float64 or float32";
    Err(PyValueError::new_err(message))
}

fn judged<F: Real + Element>(
    py: Python<'_>,
    mut map: PyMap<F>,
    horizon: Horizon,
) -> PyResult<Bound<'_, PyDict>> {
    let judgement = verdict::judge(&mut map, horizon, &mut [])?;
    let result = evidence(py, &judgement)?;
    result.set_item("hash", hash_of_bits(map.state()))?;
    result.set_item("x", PyArray1::from_vec(py, map.state))?;
    Ok(result)
}

/// The fields of a judgement.
fn evidence<'py>(py: Python<'py>, judgement: &Judgement) -> PyResult<Bound<'py, PyDict>> {
    let Judgement { verdict, growth, unstable_share, resolution, steps } = judgement;
    let result = PyDict::new(py);
    result.set_item("verdict", verdict.kind().name())?;
    let (step, doubt) = match verdict {
        Verdict::Diverged { step } => (Some(step), None),
        Verdict::Undecided(doubt) => (None, Some(doubt)),
        Verdict::Stable | Verdict::Restrained => (None, None),
    };
    result.set_item("diverged_at", step)?;
    result.set_item("reason", doubt.map(|doubt| doubt.why()))?;
    result.set_item("remedy", doubt.map(|doubt| doubt.remedy()))?;
    result.set_item("growth_per_step", growth.per_step)?;
    result.set_item("standard_error", growth.standard_error)?;
    result.set_item("window", growth.steps)?;
    result.set_item("resolution", resolution)?;
    result.set_item("unstable_share", unstable_share)?;
    result.set_item("steps", steps)?;
    Ok(result)
}
