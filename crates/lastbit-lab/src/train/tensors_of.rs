//! Between a network's flat vectors and named tensors.

use lastbit::nn::{Network, Parameter};
use lastbit_cuda::DeviceReal;

use crate::tensors::{Tensor, Values};

/// Precisions that files hold.
pub trait Stored: DeviceReal {
    /// As values of a tensor.
    fn wrap(values: Vec<Self>) -> Values;

    /// Back, if they are of this precision.
    fn unwrap(values: Values) -> Option<Vec<Self>>;
}

impl Stored for f32 {
    fn wrap(values: Vec<Self>) -> Values {
        Values::F32(values)
    }

    fn unwrap(values: Values) -> Option<Vec<Self>> {
        if let Values::F32(values) = values { Some(values) } else { None }
    }
}

impl Stored for f64 {
    fn wrap(values: Vec<Self>) -> Values {
        Values::F64(values)
    }

    fn unwrap(values: Values) -> Option<Vec<Self>> {
        if let Values::F64(values) = values { Some(values) } else { None }
    }
}

/// Parameters and buffers as named tensors.
pub fn state_dict<F: Stored>(network: &Network, theta: &[F], buffers: &[F]) -> Vec<Tensor> {
    let named = |flat: &[F], parameter: &Parameter| Tensor {
        name: parameter.name.clone(),
        shape: parameter.shape.clone(),
        values: F::wrap(flat[parameter.range.clone()].to_vec()),
    };
    let parameters = network.parameters().iter().map(|parameter| named(theta, parameter));
    parameters.chain(network.buffers().iter().map(|buffer| named(buffers, buffer))).collect()
}
