//! Vectors that Python holds, for the Krylov methods of lastbit.
//!
//! They belong to a `space`, a Python object with the operations of [`KrylovVector`]. For PyTorch these are tensors on the
//! model's device: only numbers cross the border.

use std::sync::Arc;

use lastbit::krylov::KrylovVector;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rayon::prelude::*;

/// A vector of a space.
pub struct PyVector {
    space: Arc<Py<PyAny>>,
    dimension: usize,
    /// What Python holds.
    pub value: Py<PyAny>,
}

impl PyVector {
    /// A vector of zeros.
    pub fn zeros(py: Python<'_>, space: Py<PyAny>) -> PyResult<Self> {
        let dimension: usize = space.getattr(py, "dimension")?.extract(py)?;
        let value = space.call_method0(py, "zeros")?;
        Ok(Self { space: Arc::new(space), dimension, value })
    }

    /// Another vector of the same space.
    pub fn like(&self, value: Py<PyAny>) -> Self {
        Self { space: self.space.clone(), dimension: self.dimension, value }
    }
}

/// Python's own list of vectors.
fn list<'py>(py: Python<'py>, vectors: &[PyVector]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, vectors.iter().map(|vector| &vector.value))
}

impl KrylovVector<PyErr> for PyVector {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn zeros_like(&self) -> PyResult<Self> {
        Python::attach(|py| Ok(self.like(self.space.call_method0(py, "zeros")?)))
    }

    fn copy(&self) -> PyResult<Self> {
        Python::attach(|py| Ok(self.like(self.space.call_method1(py, "copy", (&self.value,))?)))
    }

    fn fill_by(&mut self, value: impl Fn(u64) -> f64 + Sync) -> PyResult<()> {
        Python::attach(|py| {
            let n = self.dimension as u64;
            let values: Vec<f64> = (0..n).into_par_iter().map(&value).collect();
            let values = PyArray1::from_vec(py, values);
            self.space.call_method1(py, "assign", (&self.value, values))?;
            Ok(())
        })
    }

    fn dot(&self, y: &Self) -> PyResult<f64> {
        Python::attach(|py| {
            self.space.call_method1(py, "dot", (&self.value, &y.value))?.extract(py)
        })
    }

    fn axpy(&mut self, a: f64, y: &Self) -> PyResult<()> {
        Python::attach(|py| {
            self.space.call_method1(py, "axpy", (&self.value, a, &y.value))?;
            Ok(())
        })
    }

    fn divide(&mut self, divisor: f64) -> PyResult<()> {
        Python::attach(|py| {
            self.space.call_method1(py, "divide", (&self.value, divisor))?;
            Ok(())
        })
    }

    fn project(&self, vectors: &[Self]) -> PyResult<Vec<f64>> {
        Python::attach(|py| {
            let vectors = list(py, vectors)?;
            self.space.call_method1(py, "project", (&self.value, vectors))?.extract(py)
        })
    }

    fn add_combination(&mut self, vectors: &[Self], y: &[f64]) -> PyResult<()> {
        Python::attach(|py| {
            let vectors = list(py, vectors)?;
            self.space.call_method1(py, "add_combination", (&self.value, vectors, y))?;
            Ok(())
        })
    }
}
