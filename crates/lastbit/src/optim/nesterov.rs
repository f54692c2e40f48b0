//! Nesterov's method as the paper discretizes `K'' + d K' = −∇L(K)`.
//!
//! ```text
//! V    = K + mu (K − K₋₁)
//! K₊₁  = V − s ∇L(V),        s = dt² (1 + mu)/2,     mu = (2 − d dt)/(2 + d dt)
//! ```
//!
//! On a quadratic of curvature `z` the factors of a step are the roots of
//! `x² − q(1 + mu) x + q mu`, `q = 1 − s z`: stable exactly for `0 < z < 4/((1 + 2 mu) dt²)`.
//!
//! The state holds `K` and then `K₋₁`.
//!
//! Reference: the paper, Theorem 5.5 and Appendix E.

use std::cell::RefCell;

use super::perturbation::Perturbation;
use crate::objective::Objective;
use crate::{Dynamics, Real};

/// `K₋₁ ← K`, `K ← fl(K + fl(mu fl(K − K₋₁)))`: from `K` to `V`, where the gradient is taken.
pub(super) fn look_ahead<F: Real>(now: &mut [F], before: &mut [F], mu: f64) {
    let mu = F::of(mu);
    for (k, old) in now.iter_mut().zip(before) {
        let ahead = *k + mu * (*k - *old);
        *old = std::mem::replace(k, ahead);
    }
}

/// The factor `s` of the gradient.
pub(super) fn step_of(dt: f64, mu: f64) -> f64 {
    dt * dt * (1.0 + mu) / 2.0
}

/// Nesterov's method on an objective.
#[derive(Debug, Clone)]
pub struct Nesterov<F, O> {
    dt: f64,
    mu: f64,
    perturbation: Perturbation,
    objective: RefCell<O>,
    state: Vec<F>,
    gradient: Vec<F>,
}

impl<F: Real, O: Objective<F>> Nesterov<F, O> {
    /// Starts at rest from `theta`.
    ///
    /// # Panics
    ///
    /// If `theta` has another length than the objective's parameters, `dt` is not positive or `mu`
    /// is not in `[0, 1)`.
    pub fn new(objective: O, theta: &[F], dt: f64, mu: f64, perturbation: Perturbation) -> Self {
        assert_eq!(theta.len(), objective.len(), "parameters");
        assert!(dt > 0.0 && (0.0..1.0).contains(&mu), "dt = {dt}, mu = {mu}");
        Self {
            dt,
            mu,
            perturbation,
            objective: RefCell::new(objective),
            state: [theta, theta].concat(),
            gradient: theta.to_vec(),
        }
    }

    /// The present `K`.
    pub fn theta(&self) -> &[F] {
        &self.state[..self.gradient.len()]
    }

    /// Looks at the objective.
    pub fn with_objective<T>(&self, look: impl FnOnce(&mut O, &[F]) -> T) -> T {
        look(&mut self.objective.borrow_mut(), self.theta())
    }
}

impl<F: Real, O: Objective<F>> Dynamics for Nesterov<F, O> {
    type Scalar = F;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.state
    }

    fn load(&mut self, state: &[F]) {
        self.state.copy_from_slice(state);
    }

    fn step(&mut self) {
        let (now, before) = self.state.split_at_mut(self.gradient.len());
        look_ahead(now, before, self.mu);
        self.objective.get_mut().gradient(now, &mut self.gradient);
        self.perturbation.step(now, &self.gradient, step_of(self.dt, self.mu));
    }

    fn is_linear(&self) -> bool {
        self.objective.borrow().is_quadratic()
    }
}
