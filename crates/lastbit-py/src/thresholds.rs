//! Stability thresholds of optimizers, from [`lastbit::optim`].

use lastbit::optim::method::Method;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The curvature above which a step of length 1 of the optimizer is unstable on a quadratic.
#[pyfunction]
pub fn stability_threshold(optimizer: &str, momentum: f64) -> PyResult<f64> {
    Ok(method(optimizer, momentum)?.threshold(1.0))
}

/// An optimizer by its name; `momentum` is the first beta of Adam.
pub fn method(optimizer: &str, momentum: f64) -> PyResult<Method> {
    match optimizer {
        "sgd" => Ok(Method::Sgd),
        "heavy-ball" => Ok(Method::HeavyBall { mu: momentum }),
        "nesterov" => Ok(Method::Nesterov { mu: momentum }),
        "adam" => Ok(Method::Adam { beta1: momentum, beta2: 0.0, epsilon: 0.0 }),
        other => Err(PyValueError::new_err(format!(
            "optimizer: found {other}, expected sgd, heavy-ball, nesterov or adam"
        ))),
    }
}
