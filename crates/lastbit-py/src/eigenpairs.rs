//! Eigenvalues of an operator on vectors that Python holds, by [`lastbit::krylov`].
//!
//! An exception in an operation of a vector ends the search and is raised as it is.

use lastbit::krylov::{self, EigenOptions, Eigenpair};
use pyo3::prelude::*;

use crate::vector::PyVector;

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
    let like = PyVector::zeros(py, space)?;
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
