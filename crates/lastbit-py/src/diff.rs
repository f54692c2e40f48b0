//! Two sets of tensors, compared by [`lastbit_lab::diff`].

use std::path::{Path, PathBuf};

use lastbit_lab::Error;
use lastbit_lab::diff::{Only, json, of_paths, runs};
use lastbit_lab::tensors::{Dtype, Tensor, TensorFile, Values};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::error::exception;

/// A tensor: name, type as safetensors names it, shape, bytes.
type PyTensor<'py> = (String, String, Vec<usize>, PyReadonlyArray1<'py, u8>);

/// Tensors, or the file they are in.
#[derive(FromPyObject)]
pub enum Tensors<'py> {
    /// A safetensors file, a checkpoint or a run.
    File(PathBuf),
    /// Tensors by name.
    Memory(Vec<PyTensor<'py>>),
}

/// Compares tensors or runs; returns what `lastbit diff --json` prints.
#[pyfunction]
pub fn diff(
    py: Python<'_>,
    a: Tensors<'_>,
    b: Tensors<'_>,
    only: Option<&str>,
) -> PyResult<String> {
    let only = Only::parse(only).map_err(exception)?;
    if let (Tensors::File(a), Tensors::File(b)) = (&a, &b) {
        let found = py.detach(|| of_paths(a, b, &only)).map_err(exception)?;
        return Ok(found.json(a, b).to_string());
    }
    let names = [&a, &b].map(|side| match side {
        Tensors::File(path) => path.clone(),
        Tensors::Memory(_) => PathBuf::new(),
    });
    let (a, b) = (file(py, a)?, file(py, b)?);
    let found = py.detach(|| only.compare(&a, &b)).map_err(exception)?;
    Ok(json(&found, &names[0], &names[1]).to_string())
}

fn file(py: Python<'_>, side: Tensors<'_>) -> PyResult<TensorFile> {
    match side {
        Tensors::File(path) => py.detach(|| runs::load(&path)).map_err(exception),
        Tensors::Memory(all) => {
            let tensors = all.into_iter().map(tensor).collect::<PyResult<_>>()?;
            Ok(TensorFile { tensors, ..TensorFile::default() })
        }
    }
}

fn tensor((name, dtype, shape, bytes): PyTensor<'_>) -> PyResult<Tensor> {
    let refuse = |found: String, expected: &str| {
        exception(Error::Input { path: Path::new(&name).into(), found, expected: expected.into() })
    };
    let dtype: Dtype = serde_json::from_value(dtype.as_str().into())
        .map_err(|_| refuse(format!("the type {dtype}"), "floats, whole numbers or booleans"))?;
    let mut bytes = bytes.as_slice()?;
    let count = shape.iter().product();
    let values = Values::read(dtype, count, &mut bytes).map_err(|_| {
        refuse(format!("{} bytes of {dtype}", bytes.len()), "as many as the shape says")
    })?;
    Ok(Tensor { name, shape, values })
}
