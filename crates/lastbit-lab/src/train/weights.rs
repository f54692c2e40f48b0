//! Weights to start from, by PyTorch's names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lastbit::Real;
use lastbit::nn::{Network, Parameter, Role};

use crate::error::Error;
use crate::tensors::{self, Tensor, Values};

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

/// Reads the weights of a network; torchvision's names of a ResNet will do. Running statistics may be
/// missing; nothing else may, and nothing may be left over. An error lists all that does not fit.
pub fn read(path: &Path, network: &Network) -> Result<Start, Error> {
    let own = network.parameters().iter().chain(network.buffers());
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    let mut faults = Vec::new();
    let mut unexpected = Vec::new();
    let file = tensors::read(path)?.tensors;
    let names: BTreeSet<String> = file.iter().map(|tensor| tensor.name.clone()).collect();
    for tensor in file.into_iter().filter(|tensor| !tensor.name.ends_with(BATCHES_TRACKED)) {
        let is_ours = |name: &str| own.clone().any(|parameter| parameter.name == name);
        let translated = from_torchvision(&tensor.name);
        if is_ours(&tensor.name) {
            tensors.insert(tensor.name.clone(), tensor);
        } else if is_ours(&translated) && !names.contains(&translated) {
            tensors.insert(translated, tensor);
        } else {
            unexpected.push(tensor.name);
        }
    }
    let mut missing = Vec::new();
    let mut take = |parameter: &Parameter| match tensors.remove(&parameter.name) {
        Some(tensor) => numbers(tensor, &parameter.shape).map_err(|fault| faults.push(fault)).ok(),
        None if parameter.role == Role::RunningMean => Some(vec![0.0; parameter.range.len()]),
        None if parameter.role == Role::RunningVariance => Some(vec![1.0; parameter.range.len()]),
        None => {
            missing.push(parameter.name.clone());
            None
        }
    };
    let mut all = |parameters: &[Parameter]| -> Vec<f64> {
        parameters.iter().filter_map(&mut take).flatten().collect()
    };
    let start = Start { theta: all(network.parameters()), buffers: all(network.buffers()) };
    for (what, names) in [("unexpected", unexpected), ("missing", missing)] {
        if !names.is_empty() {
            faults.insert(0, format!("{what} tensors {}", names.join(", ")));
        }
    }
    if faults.is_empty() {
        return Ok(start);
    }
    Err(Error::Input {
        path: path.to_owned(),
        found: faults.join("; "),
        expected: "the tensors of the network that the section network describes".to_owned(),
    })
}

/// Our name of a tensor of torchvision's ResNets.
fn from_torchvision(name: &str) -> String {
    let name = name.replace(".downsample.", ".shortcut.");
    name.strip_prefix("fc.").map(|end| format!("linear.{end}")).unwrap_or(name)
}

/// The numbers of a tensor of this shape, or what is wrong with it.
fn numbers(tensor: Tensor, shape: &[usize]) -> Result<Vec<f64>, String> {
    let Tensor { name, shape: found, values } = tensor;
    if found != shape {
        return Err(format!("{name} of shape {found:?} instead of {shape:?}"));
    }
    let dtype = values.dtype();
    let values: Vec<f64> = match values {
        Values::F32(values) => values.into_iter().map(f64::from).collect(),
        Values::F64(values) => values,
        _ => return Err(format!("{name} of type {dtype} instead of F32 or F64")),
    };
    match values.iter().position(|value| !value.is_finite()) {
        Some(i) => Err(format!("{} in {name} at {i}", values[i])),
        None => Ok(values),
    }
}
