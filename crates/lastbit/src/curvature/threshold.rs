//! The curvature beyond which an optimizer is unstable.
//!
//! On a quadratic of curvature `λ` a step multiplies what the optimizer remembers by a matrix whose
//! eigenvalues `x` must lie inside the unit circle. For all methods here the first to leave it, as
//! `λ` grows, does so at `x = −1`, an oscillation from step to step:
//!
//! ```text
//! SGD            x = 1 − dt λ                                            λ < 2/dt
//! heavy ball     x² − (1 + mu − dt λ) x + mu                             λ < (2 + 2 mu)/dt
//! Nesterov       x² − (1 + mu)(1 − dt λ) x + mu (1 − dt λ)               λ < (2 + 2 mu)/((1 + 2 mu) dt)
//! Nesterov (PDE) the same with dt² (1 + mu)/2 for dt                     λ < 4/((1 + 2 mu) dt²)
//! Adam           x² − (1 + β₁ − (1 − β₁) dt λ) x + β₁                    λ < (2 + 2 β₁)/((1 − β₁) dt)
//! ```
//!
//! (put `x = −1` and solve for `λ`; the product of the roots stays below 1 until then). PyTorch's form
//! of Nesterov's momentum has that polynomial: its `θ` is the point where the gradient is taken.
//!
//! Adam's `λ` is that of the **preconditioned** Hessian. While `v` changes slowly, a step is heavy ball
//! with mean instead of sum, in the coordinates `P^{1/2} θ`:
//!
//! ```text
//! P = (1 − β₁ⁿ) diag( √(v/(1 − β₂ⁿ)) + ε ),      H → P^{−1/2} H P^{−1/2}
//! ```
//!
//! with both bias corrections, as the optimizer has them after `n` steps. With `β₁ = 0.9` the limit
//! is 38/dt.
//!
//! The CFL step of a layer is shorter than `dt` by a factor `s`: `dt` sees `S^{1/2} H S^{1/2}`, `S` the
//! factors.
//!
//! Two ways to state how near the edge is, with `λ` the largest eigenvalue: the *edge ratio*
//! `λ/threshold`, 1 at the edge, and the *normalized sharpness* `2 λ/threshold`, which is `dt λ` for
//! gradient descent and 2 at the edge.
//!
//! References: Cohen et al., *Gradient descent on neural networks typically occurs at the edge of
//! stability*, ICLR 2021; *Adaptive gradient methods at the edge of stability*, 2022.

use crate::Real;
use crate::optim::cfl::factor;
use crate::optim::direction::{Memory, Method, Optimizer};

/// The curvature at which a step of length `dt` becomes unstable.
pub fn threshold(method: Method, dt: f64) -> f64 {
    match method {
        Method::Sgd | Method::Cfl { .. } => 2.0 / dt,
        Method::HeavyBall { mu } => (2.0 + 2.0 * mu) / dt,
        Method::Nesterov { mu } => (2.0 + 2.0 * mu) / ((1.0 + 2.0 * mu) * dt),
        Method::NesterovPde { mu } => 4.0 / ((1.0 + 2.0 * mu) * dt * dt),
        Method::Adam { beta1, .. } => (2.0 + 2.0 * beta1) / ((1.0 - beta1) * dt),
    }
}

/// Whether steps of a method see the Hessian between two diagonal matrices.
pub fn is_preconditioned(method: Method) -> bool {
    matches!(method, Method::Adam { .. } | Method::Cfl { .. })
}

/// The diagonal of `P^{−1/2}` for Adam, of `S^{1/2}` for steps of length `dt` that keep to the CFL
/// condition; none for the other methods, and none before the first step, when neither has seen
/// anything to scale by.
pub fn preconditioner<F: Real>(
    optimizer: &Optimizer,
    memory: &Memory<F>,
    dt: f64,
) -> Option<Vec<f64>> {
    if memory.steps == 0 {
        return None;
    }
    let second = memory.values[memory.values.len() / 2..].iter().map(|x| x.to_f64());
    match optimizer.method {
        Method::Adam { beta1, beta2, epsilon } => {
            let [missing1, missing2] =
                [beta1, beta2].map(|beta| 1.0 - libm::pow(beta, memory.steps as f64));
            let entry = |v: f64| 1.0 / (missing1 * ((v / missing2).sqrt() + epsilon)).sqrt();
            Some(second.map(entry).collect())
        }
        Method::Cfl { safety, .. } => {
            let entry = |sharpness| factor(sharpness, optimizer.alpha, dt, safety).sqrt();
            Some(second.map(entry).collect())
        }
        _ => None,
    }
}

/// `D A D` of an operator `A` and a diagonal `D`, for [`eigenpairs`](crate::krylov::eigenpairs).
pub fn scaled<'a, E>(
    diagonal: &'a [f64],
    mut multiply: impl FnMut(&Vec<f64>, &mut Vec<f64>) -> Result<(), E> + 'a,
) -> impl FnMut(&Vec<f64>, &mut Vec<f64>) -> Result<(), E> + 'a {
    let mut inner = vec![0.0; diagonal.len()];
    move |v, out| {
        inner.iter_mut().zip(v).zip(diagonal).for_each(|((x, v), d)| *x = d * v);
        multiply(&inner, out)?;
        out.iter_mut().zip(diagonal).for_each(|(x, d)| *x *= d);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::perturbation::Perturbation;

    /// Runs on `λ θ²/2` until `|θ|` is a thousandth or a thousandfold of what it was, and says whether
    /// it grew. Momentum alone makes a transient of at most 1/(1 − mu) = 10 times.
    fn grows(method: Method, dt: f64, lambda: f64, memory: Option<Memory<f64>>) -> bool {
        let optimizer = Optimizer { method, alpha: 0.0 };
        // So small that Adam's v does not notice.
        let start = 1e-12;
        let mut theta = [start];
        let mut memory = memory.unwrap_or_else(|| optimizer.at_rest(&theta));
        loop {
            // Two in a row: an oscillation may pass near zero.
            let before = theta[0].abs();
            optimizer.look_ahead(&mut theta, &mut memory);
            let mut g = [lambda * theta[0]];
            optimizer.step(&mut theta, &mut g, &mut memory, dt, Perturbation::NONE);
            let size = theta[0].abs().max(before) / start;
            if !(1e-3..1e3).contains(&size) {
                return size > 1.0;
            }
        }
    }

    #[test]
    fn each_optimizer_is_stable_just_below_and_unstable_just_above() {
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
        let mut methods = vec![Method::Sgd, Method::Adam { beta1, beta2, epsilon }];
        for mu in [0.0, 0.5, 0.9] {
            methods.push(Method::HeavyBall { mu });
            methods.push(Method::Nesterov { mu });
            methods.push(Method::NesterovPde { mu });
        }
        for method in methods {
            for dt in [0.01, 1.0] {
                // v is held: a long past in which it was 4, and a memory that hardly fades.
                let (method, memory, scale) = match method {
                    Method::Adam { .. } => (
                        Method::Adam { beta1, beta2: 1.0 - 1e-12, epsilon },
                        Some(Memory { steps: 1 << 50, values: vec![0.0, 4.0] }),
                        2.0 + epsilon,
                    ),
                    other => (other, None, 1.0),
                };
                let edge = scale * threshold(method, dt);
                let [below, above] =
                    [0.99, 1.01].map(|factor| grows(method, dt, factor * edge, memory.clone()));
                assert!(!below, "{method:?}, dt {dt}: grows below the edge");
                assert!(above, "{method:?}, dt {dt}: does not grow above the edge");
            }
        }
        let adam = Method::Adam { beta1, beta2, epsilon };
        assert!((threshold(adam, 1.0) - 38.0).abs() < 1e-12, "38/dt");
    }

    #[test]
    fn the_preconditioner_is_what_adam_divides_by() {
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-3);
        let method = Method::Adam { beta1, beta2, epsilon };
        let optimizer = Optimizer { method, alpha: 0.0 };
        let mut theta = [0.0_f64; 3];
        let mut memory = optimizer.at_rest(&theta);
        assert_eq!(preconditioner(&optimizer, &memory, 0.1), None, "nothing to scale by yet");
        for step in 0..5 {
            let mut g = [0.1, -3.0, 1e-4].map(|g| g * f64::from(step + 1));
            optimizer.step(&mut theta, &mut g, &mut memory, 0.1, Perturbation::NONE);
            // d = P⁻¹ m.
            let diagonal = preconditioner(&optimizer, &memory, 0.1).unwrap();
            for i in 0..3 {
                let expected = diagonal[i] * diagonal[i] * memory.values[i];
                // A dozen roundings on each side.
                assert!((g[i] - expected).abs() <= 1e-14 * g[i].abs(), "{} {expected}", g[i]);
            }
        }
        let sgd = Optimizer { method: Method::Sgd, alpha: 0.0 };
        assert_eq!(preconditioner(&sgd, &Memory::<f64> { steps: 5, values: vec![] }, 0.1), None);
    }

    #[test]
    fn the_preconditioner_is_what_the_cfl_step_multiplies_by() {
        let method = Method::Cfl { every: 5, safety: 0.5, by_layer: true };
        let optimizer = Optimizer { method, alpha: 1.0 };
        // v, which a step does not look at, and sharpnesses below and above 2 c/dt − alpha = 9.
        let mut memory = Memory { steps: 3, values: vec![0.0, 0.0, 0.0, 1.0, 9.0, 39.0] };
        let (mut theta, mut g) = ([0.0_f64; 3], [1.0; 3]);
        optimizer.step(&mut theta, &mut g, &mut memory, 0.1, Perturbation::NONE);
        assert_eq!(g, [1.0, 1.0, 0.25]);
        let diagonal = preconditioner(&optimizer, &memory, 0.1).unwrap();
        assert_eq!(diagonal, [1.0, 1.0, 0.5]);
    }
}
