//! Eigenvalues of an operator on vectors that Python holds, by [`lastbit::krylov`].
//!
//! The vectors belong to a `space`, a Python object with the operations of
//! [`KrylovVector`](lastbit::krylov::KrylovVector). For PyTorch these are tensors on the model's device: only numbers
//! cross the border. An exception in an operation ends the search and is raised as it is.

use std::sync::Arc;

use lastbit::krylov::{self, EigenOptions, Eigenpair, KrylovVector};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rayon::prelude::*;

/// A vector of a space.
struct PyVector {
    space: Arc<Py<PyAny>>,
    dimension: usize,
    value: Py<PyAny>,
}

impl PyVector {
    fn like(&self, value: Py<PyAny>) -> Self {
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

/// Value, residual and eigenvector.
type Pair = (f64, f64, Py<PyAny>);

fn pair(found: Eigenpair<PyVector>) -> Pair {
    (found.value, found.residual, found.vector.value)
}

/// The largest, the smallest, the vector to look at next time, the number of matrix-vector products.
type Pairs = (Vec<Pair>, Option<Pair>, Option<Py<PyAny>>, usize);

/// The largest eigenvalues (and the smallest) of a symmetric operator, `multiply(v)` returning `A v`.
///
/// Returns the pairs of the largest eigenvalues, that of the smallest or None, the vector to look at next time
/// besides these or None, and the number of matrix-vector products.
#[pyfunction]
#[pyo3(signature = (space, multiply, known, *, top, smallest, tolerance, max_matvecs, probe))]
pub fn eigenpairs(
    py: Python<'_>,
    space: Py<PyAny>,
    multiply: Py<PyAny>,
    known: Vec<Py<PyAny>>,
    top: usize,
    smallest: bool,
    tolerance: f64,
    max_matvecs: usize,
    probe: Option<u64>,
) -> PyResult<Pairs> {
    let dimension: usize = space.getattr(py, "dimension")?.extract(py)?;
    let zeros = space.call_method0(py, "zeros")?;
    let like = PyVector { space: Arc::new(space), dimension, value: zeros };
    let known = known.into_iter().map(|value| like.like(value)).collect();
    let options = EigenOptions { top, smallest, tolerance, max_matvecs, probe };
    let found = krylov::eigenpairs(&like, known, options, |v: &PyVector, out: &mut PyVector| {
        // Ctrl-C between two products.
        py.check_signals()?;
        out.value = multiply.call1(py, (&v.value,))?;
        Ok(())
    })?;
    let largest = found.largest.into_iter().map(pair).collect();
    let guard = found.guard.map(|vector| vector.value);
    Ok((largest, found.smallest.map(pair), guard, found.matvecs))
}
