//! Weights to start from, by PyTorch's names.

use std::collections::BTreeMap;
use std::path::Path;

use lastbit::Real;
use lastbit::nn::{Network, Parameter, Role};

use crate::error::Error;
use crate::tensors::{self, Values};

/// How many batches a batch norm has seen: PyTorch keeps it, and nothing depends on it.
pub const BATCHES_TRACKED: &str = "num_batches_tracked";

/// Parameters and buffers, exact.
#[derive(Debug)]
pub struct Start {
    theta: Vec<f64>,
    buffers: Vec<f64>,
}

impl Start {
    /// In a precision; numbers of a file in f64 are rounded to f32 where that is asked for.
    pub fn rounded<F: Real>(&self) -> (Vec<F>, Vec<F>) {
        let round = |values: &[f64]| values.iter().map(|value| F::of(*value)).collect();
        (round(&self.theta), round(&self.buffers))
    }
}

/// Reads the weights of a network. Running statistics may be missing; nothing else may, and nothing
/// may be left over.
pub fn read(path: &Path, network: &Network) -> Result<Start, Error> {
    let refuse = |found: String, expected: String| Error::Input {
        path: path.to_owned(),
        found,
        expected: expected + ", as the section network says",
    };
    let file = tensors::read(path)?;
    let there = listed(file.tensors.iter().map(|tensor| tensor.name.as_str()));
    let mut tensors: BTreeMap<String, (Vec<usize>, Values)> = file
        .tensors
        .into_iter()
        .filter(|tensor| !tensor.name.ends_with(BATCHES_TRACKED))
        .map(|tensor| (tensor.name, (tensor.shape, tensor.values)))
        .collect();
    let mut take = |parameter: &Parameter| -> Result<Option<Vec<f64>>, Error> {
        let Parameter { name, shape, .. } = parameter;
        let Some((found, values)) = tensors.remove(name) else { return Ok(None) };
        if found != *shape {
            return Err(refuse(format!("{name} of shape {found:?}"), format!("shape {shape:?}")));
        }
        let dtype = values.dtype();
        let values: Vec<f64> = match values {
            Values::F32(values) => values.into_iter().map(f64::from).collect(),
            Values::F64(values) => values,
            _ => return Err(refuse(format!("{name} of type {dtype}"), "F32 or F64".to_owned())),
        };
        match values.iter().position(|value| !value.is_finite()) {
            Some(i) => Err(refuse(format!("{} in {name} at {i}", values[i]), "numbers".to_owned())),
            None => Ok(Some(values)),
        }
    };
    let (mut theta, mut buffers) = (Vec::new(), Vec::new());
    for parameter in network.parameters() {
        let missing = || {
            let names = listed(network.parameters().iter().map(|own| own.name.as_str()));
            refuse(
                format!("no tensor {} among {there}", parameter.name),
                format!("tensors {names}"),
            )
        };
        theta.extend(take(parameter)?.ok_or_else(missing)?);
    }
    for buffer in network.buffers() {
        let start = if buffer.role == Role::RunningVariance { 1.0 } else { 0.0 };
        buffers.extend(take(buffer)?.unwrap_or_else(|| vec![start; buffer.range.len()]));
    }
    match tensors.keys().next() {
        Some(name) => Err(refuse(format!("a tensor {name}"), "no such tensor".to_owned())),
        None => Ok(Start { theta, buffers }),
    }
}

/// The first names of a list.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 8;
    let mut names: Vec<&str> = names.take(MOST + 1).collect();
    if names.len() > MOST {
        names[MOST] = "…";
    }
    names.join(", ")
}
