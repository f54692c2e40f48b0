//! What a layer does: both ends of the spectrum of its block of the Hessian, and its edge of stability
//! by running.
//!
//! The edge is the largest step at which the layer, trained alone from where it stands, is stable by
//! [the rule](crate::verdict). It belongs to where that training leads, not to where it starts: the
//! state that the largest stable step ended at is returned with it.

use std::convert::Infallible;

use super::restricted::Restricted;
use crate::batches::FullBatch;
use crate::krylov::{EigenOptions, EigenResult, eigenpairs};
use crate::objective::Objective;
use crate::optim::direction::Optimizer;
use crate::reduce::max_abs;
use crate::search::{Bracket, EdgeSearch};
use crate::training::GradientDescent;
use crate::verdict::{Horizon, judge};
use crate::{Dynamics, Watcher};

/// Doublings or halvings that look for the other side of an edge.
const DOUBLINGS: usize = 12;

/// An edge of stability, and the state that training led to just below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Between the largest stable step and the smallest that is not.
    pub bracket: Bracket,
    /// State in which the largest stable step ended.
    pub end: Vec<f64>,
}

impl<O: Objective<f64, Error = Infallible>> Restricted<f64, O> {
    /// Both ends of the spectrum of the Hessian by the parameters that may move, weight decay
    /// included, at `x`.
    pub fn block(&mut self, x: &[f64]) -> EigenResult {
        let n = x.len();
        let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| self.hessian_vector(x, v, out);
        let options = EigenOptions::both_ends(1e-10, n.min(200));
        let Ok(found) = eigenpairs(&vec![0.0; n], vec![], options, multiply);
        found
    }

    /// The edge of gradient descent from the start, near `guess`, to a relative `tolerance`; none if
    /// there is none within a factor of 2¹². All runs are shown to the watcher.
    ///
    /// # Panics
    ///
    /// If the guess is not positive.
    pub fn edge(
        &self,
        guess: f64,
        tolerance: f64,
        horizon: Horizon,
        watcher: &mut dyn Watcher<GradientDescent<f64, Self, FullBatch<()>>>,
    ) -> Option<Edge> {
        assert!(guess > 0.0, "a guess of {guess}, need a positive one");
        let mut search = EdgeSearch::new(tolerance, |dt| {
            let start = self.start().to_vec();
            let scale = max_abs(&start);
            let mut run = GradientDescent::full_batch(self.clone(), Optimizer::SGD, dt, start)
                .with_scale(scale);
            let judged = judge(&mut run, horizon, &mut [&mut *watcher])?;
            Ok::<_, Infallible>((judged.verdict.is_stable(), run.state().to_vec()))
        });
        let Ok(bracket) = search.near(guess, DOUBLINGS);
        let bracket = bracket?;
        let end = search.into_probes().into_iter().find(|probe| probe.at == bracket.holds)?.seen;
        Some(Edge { bracket, end })
    }
}
