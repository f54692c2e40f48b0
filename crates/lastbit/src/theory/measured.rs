//! What a layer does: the ends of its block of the Hessian, and its edge of stability by running.
//!
//! The edge is the largest step at which the layer, trained alone from where it stands, is stable by
//! [the rule](crate::verdict). It belongs to where that training leads, not to where it starts: the
//! state that the largest stable step ended at is returned with it.

use super::restricted::Restricted;
use crate::Dynamics;
use crate::objective::Objective;
use crate::optim::descent::Descent;
use crate::optim::perturbation::Perturbation;
use crate::search::{self, Bracket};
use crate::spectrum::lanczos::{self, Ends, Extremes, Stop};
use crate::verdict::{Horizon, Judgement, judge};

/// Doublings or halvings that look for the other side of an edge.
const DOUBLINGS: usize = 12;

/// An edge of stability, and where the training led that shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Between the largest stable step and the smallest that is not.
    pub bracket: Bracket<Judgement>,
    /// Where the largest stable step ended.
    pub end: Vec<f64>,
}

impl<O: Objective<f64>> Restricted<f64, O> {
    /// Both ends of the Hessian by the parameters that may move, weight decay included, at `x`.
    pub fn block(&mut self, x: &[f64]) -> Extremes {
        let n = x.len();
        let stop = Stop { tolerance: 1e-10, most: n.min(200), ends: Ends::Both };
        lanczos::extremes(&lanczos::random_start(n), stop, |v, out| {
            self.hessian_vector(x, v, out);
        })
    }

    /// The edge of gradient descent from the start, near `guess`, to a relative `tolerance`; none if
    /// there is none within a factor of 2¹².
    ///
    /// # Panics
    ///
    /// If the guess is not positive.
    pub fn edge(&self, guess: f64, tolerance: f64, horizon: Horizon) -> Option<Edge> {
        assert!(guess > 0.0, "a guess of {guess}, need a positive one");
        let mut end = (0.0, vec![]);
        // The bisection begins with two steps that were tried to find it.
        let mut tried: Vec<(f64, Judgement)> = Vec::new();
        let mut trial = |dt: f64| {
            if let Some((_, judged)) = tried.iter().find(|(at, _)| *at == dt) {
                return (judged.verdict.kind() == "stable", *judged);
            }
            let mut run = Descent::new(self.clone(), self.start().to_vec(), dt, Perturbation::NONE);
            let judged = judge(&mut run, horizon, &mut []);
            let stable = judged.verdict.kind() == "stable";
            if stable && dt > end.0 {
                end = (dt, run.state().to_vec());
            }
            tried.push((dt, judged));
            (stable, judged)
        };
        let factor = if trial(guess).0 { 2.0 } else { 0.5 };
        let bracket = search::seek(guess, factor, DOUBLINGS, tolerance, &mut trial).ok()?;
        Some(Edge { bracket, end: end.1 })
    }
}
