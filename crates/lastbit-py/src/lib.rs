//! `lastbit._lastbit`: what the Python package calls.
//!
//! ```text
//! command        the command `lastbit`, as the wheel carries it
//! error          errors of the laboratory as Python exceptions
//! convert        names and data from Python, arrays to Python
//! work           long work on its own thread: progress, Ctrl-C, the GIL released
//! noise          the noise floor of a table of runs
//! check          envelopes of runs that differ by rounding; a run beside one
//! diff           two sets of tensors, compared
//! logged         what a training program logged
//! train          training runs
//! probe          the run directory of a training that Python makes and measures
//! edge           the edge of stability of a training
//! bounds         stability bounds from theory
//! pde            judged runs of PDEs
//! records        exhibits are run, the report is written, files are checked
//! eigenpairs     Krylov methods over vectors that Python holds (tensors on any device)
//! dynamics       any Python map as a dynamics, with its verdict
//! bits           hashes and random numbers, the same as everywhere else in lastbit
//! thresholds     stability thresholds of optimizers
//! attribution    why copies of a training diverge: overshoot, negative curvature, kinks
//! vector         vectors that Python holds
//! ```
//!
//! No mathematics of its own: it converts arguments, calls `lastbit` or `lastbit-lab`, and converts the result.

// A wrapper takes its arguments as Python passes them.
#![allow(clippy::too_many_arguments)]

mod attribution;
mod bits;
mod bounds;
mod check;
mod command;
mod convert;
mod diff;
mod dynamics;
mod edge;
mod eigenpairs;
mod error;
mod logged;
mod noise;
mod pde;
mod probe;
mod records;
mod thresholds;
mod train;
mod vector;
mod work;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _lastbit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(attribution::attribution, module)?)?;
    module.add_function(wrap_pyfunction!(bits::hash_of_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(bits::below, module)?)?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(dynamics::judge, module)?)?;
    module.add_function(wrap_pyfunction!(eigenpairs::eigenpairs, module)?)?;
    module.add_function(wrap_pyfunction!(thresholds::stability_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(diff::diff, module)?)?;
    module.add_function(wrap_pyfunction!(logged::logged, module)?)?;
    module.add_function(wrap_pyfunction!(noise::noise, module)?)?;
    module.add_function(wrap_pyfunction!(check::check, module)?)?;
    module.add_function(wrap_pyfunction!(check::envelope_of, module)?)?;
    module.add_function(wrap_pyfunction!(check::envelope_widened, module)?)?;
    module.add_function(wrap_pyfunction!(check::envelope_open, module)?)?;
    module.add_function(wrap_pyfunction!(check::envelope_save, module)?)?;
    module.add_class::<probe::ProbeRun>()?;
    module.add_function(wrap_pyfunction!(train::example_config, module)?)?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    module.add_function(wrap_pyfunction!(edge::edge, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::scheme_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::kernel_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(pde::heat, module)?)?;
    module.add_function(wrap_pyfunction!(pde::beltrami, module)?)?;
    module.add_function(wrap_pyfunction!(pde::scheme_run, module)?)?;
    module.add_function(wrap_pyfunction!(pde::kernel, module)?)?;
    module.add_function(wrap_pyfunction!(records::run, module)?)?;
    module.add_function(wrap_pyfunction!(records::report, module)?)?;
    module.add_function(wrap_pyfunction!(records::verify, module)?)?;
    Ok(())
}
