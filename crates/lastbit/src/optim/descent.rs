//! Gradient descent: forward Euler for the gradient flow `dθ/dt = −∇L(θ)`.

use std::cell::RefCell;

use super::perturbation::Perturbation;
use crate::objective::Objective;
use crate::{Dynamics, Real};

/// Gradient descent on an objective.
#[derive(Debug, Clone)]
pub struct Descent<F, O> {
    dt: f64,
    perturbation: Perturbation,
    /// In a cell, because evaluating the loss uses the objective's work space.
    objective: RefCell<O>,
    theta: Vec<F>,
    gradient: Vec<F>,
}

impl<F: Real, O: Objective<F>> Descent<F, O> {
    /// Starts from `theta`.
    ///
    /// # Panics
    ///
    /// If `theta` has another length than the objective's parameters, or `dt` is not positive.
    pub fn new(objective: O, theta: Vec<F>, dt: f64, perturbation: Perturbation) -> Self {
        assert_eq!(theta.len(), objective.len(), "parameters");
        assert!(dt > 0.0, "dt = {dt}, need a positive one");
        let gradient = vec![F::default(); theta.len()];
        Self { dt, perturbation, objective: RefCell::new(objective), theta, gradient }
    }

    /// Looks at the objective.
    pub fn with_objective<T>(&self, look: impl FnOnce(&mut O, &[F]) -> T) -> T {
        look(&mut self.objective.borrow_mut(), &self.theta)
    }
}

impl<F: Real, O: Objective<F>> Dynamics for Descent<F, O> {
    type Scalar = F;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.theta
    }

    fn load(&mut self, state: &[F]) {
        self.theta.copy_from_slice(state);
    }

    fn step(&mut self) {
        self.objective.get_mut().gradient(&self.theta, &mut self.gradient);
        self.perturbation.step(&mut self.theta, &self.gradient, self.dt);
    }

    fn energy(&self) -> Option<f64> {
        Some(self.with_objective(Objective::loss))
    }

    fn is_linear(&self) -> bool {
        self.objective.borrow().is_quadratic()
    }
}
