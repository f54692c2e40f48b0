//! Stability thresholds of optimizers, from [`lastbit::optim`].

use lastbit::optim::method::Method;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The curvature above which a step of length 1 of the optimizer is unstable on a quadratic.
#[pyfunction]
pub fn stability_threshold(optimizer: &str, momentum: f64) -> PyResult<f64> {
    let method = match optimizer {
        "sgd" => Method::Sgd,
        "heavy-ball" => Method::HeavyBall { mu: momentum },
        "nesterov" => Method::Nesterov { mu: momentum },
        "adam" => Method::Adam { beta1: momentum, beta2: 0.0, epsilon: 0.0 },
        other => {
            let message =
                format!("optimizer: found {other}, expected sgd, heavy-ball, nesterov or adam");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(method.threshold(1.0))
}
