//! The command `lastbit`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command with its arguments, the first of which is its own name; returns the exit code.
#[pyfunction]
pub fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| lastbit_cli::main(&arguments))
}
