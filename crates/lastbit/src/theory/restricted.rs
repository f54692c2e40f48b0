//! An objective with weight decay, as a function of some of its parameters.
//!
//! ```text
//! L_R(x) = L(θ with θ_R = x) + α/2 |x|²
//! ```
//!
//! The others stay as they are: its Hessian is a diagonal block, its descent the training of one layer.

use std::ops::Range;
use std::sync::Arc;

use crate::Real;
use crate::objective::{Objective, StochasticObjective, TrainableModel};
use crate::reduce::sum_by;

/// An objective of which only the parameters in a range may move.
#[derive(Debug, Clone)]
pub struct Restricted<F, O> {
    objective: O,
    theta: Vec<F>,
    range: Range<usize>,
    alpha: f64,
    /// A direction that is zero outside the range, and a place for results.
    direction: Vec<F>,
    whole: Vec<F>,
}

impl<F: Real, O: Objective<F>> Restricted<F, O> {
    /// Lets the parameters in `range` move from `theta`, with weight decay `alpha`.
    ///
    /// # Panics
    ///
    /// If `theta` has another length than the objective's parameters, or the range is not within.
    pub fn new(objective: O, theta: Vec<F>, range: Range<usize>, alpha: f64) -> Self {
        assert_eq!(theta.len(), objective.len(), "parameters");
        assert!(range.end <= theta.len(), "parameters {range:?} of {}", theta.len());
        let zeros = vec![F::default(); theta.len()];
        Self { objective, theta, range, alpha, direction: zeros.clone(), whole: zeros }
    }

    /// The parameters that may move, where they started.
    pub fn start(&self) -> &[F] {
        &self.theta[self.range.clone()]
    }

    /// All parameters, with `x` those that moved.
    pub fn with(&self, x: &[F]) -> Vec<F> {
        let mut theta = self.theta.clone();
        theta[self.range.clone()].copy_from_slice(x);
        theta
    }

    /// The products in `whole`, plus `α x`.
    fn answer(&self, x: &[F], out: &mut [F]) {
        let alpha = F::of(self.alpha);
        for ((o, g), x) in out.iter_mut().zip(&self.whole[self.range.clone()]).zip(x) {
            *o = *g + alpha * *x;
        }
    }
}

impl<F: Real, O: Objective<F>> Objective<F> for Restricted<F, O> {
    type Error = O::Error;

    fn len(&self) -> usize {
        self.range.len()
    }

    fn loss(&mut self, x: &[F]) -> Result<f64, O::Error> {
        let theta = self.with(x);
        let square = sum_by(x.len(), |i| x[i].to_f64() * x[i].to_f64());
        Ok(self.objective.loss(&theta)? + 0.5 * self.alpha * square)
    }

    fn gradient(&mut self, x: &[F], out: &mut [F]) -> Result<(), O::Error> {
        let theta = self.with(x);
        self.objective.gradient(&theta, &mut self.whole)?;
        self.answer(x, out);
        Ok(())
    }

    fn hessian_vector(&mut self, x: &[F], v: &[F], out: &mut [F]) -> Result<(), O::Error> {
        let theta = self.with(x);
        self.direction[self.range.clone()].copy_from_slice(v);
        self.objective.hessian_vector(&theta, &self.direction, &mut self.whole)?;
        self.answer(v, out);
        Ok(())
    }

    fn is_quadratic(&self) -> bool {
        self.objective.is_quadratic()
    }

    fn loss_roundoff(&self) -> f64 {
        self.objective.loss_roundoff()
    }
}

/// On whichever batch the objective has.
impl<F: Real, O: Objective<F>> StochasticObjective<F> for Restricted<F, O> {
    type Batch = ();

    fn set_batch(&mut self, _: &Arc<()>) {}
}

impl<F: Real, O: Objective<F>> TrainableModel<F> for Restricted<F, O> {}
