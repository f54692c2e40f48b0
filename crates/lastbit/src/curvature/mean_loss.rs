//! The mean loss over a set of examples, with gradient and Hessian, a batch at a time.
//!
//! ```text
//! L(θ) = Σ_b w_b L_b(θ) + (alpha/2) |θ|²,      w_b = n_b / Σ n_b
//! ∇L   = Σ_b w_b ∇L_b + alpha θ
//! H v  = Σ_b w_b H_b v + alpha v
//! ```
//!
//! The sum over the batches is taken in `f64`, in their order; each term has the precision of the
//! objective, and its bits do not depend on threads. Weight decay stands inside the gradient that
//! optimizers follow, and therefore inside the Hessian.
//!
//! **Batch norm.** Each batch is seen with its own statistics, as in training. With one batch that
//! holds all examples this is exactly the loss that full-batch training descends. With several it is
//! the mean of the losses of those batches: another cut of the same set has another Hessian.
//! Without batch norm the cut matters to the rounding alone.
//!
//! With a single batch the objective may keep its linearization from one product to the next, which
//! the engine does: the first product at new parameters costs about three gradients, each further
//! one two. With several batches each product costs three gradients.

use std::sync::Arc;

use crate::Real;
use crate::objective::OnBatches;
use crate::reduce::sum_by;

/// Examples in batches, each with its share of the whole.
#[derive(Debug)]
pub struct Set<B> {
    batches: Vec<(Arc<B>, f64)>,
}

impl<B> Set<B> {
    /// Of batches with their numbers of examples.
    ///
    /// # Panics
    ///
    /// If there is no example.
    pub fn new(batches: Vec<(Arc<B>, usize)>) -> Self {
        let total: usize = batches.iter().map(|(_, examples)| examples).sum();
        assert!(total > 0, "a set of {} batches without examples", batches.len());
        let share = |(batch, examples)| (batch, examples as f64 / total as f64);
        Self { batches: batches.into_iter().map(share).collect() }
    }
}

/// The loss of the module doc, at one place at a time.
#[derive(Debug)]
pub struct MeanLoss<'a, F, O: OnBatches<F>>
where
    F: Real,
{
    objective: &'a mut O,
    set: &'a Set<O::Batch>,
    alpha: f64,
    /// Room for a gradient or a product of one batch.
    part: Vec<F>,
}

impl<'a, F: Real, O: OnBatches<F>> MeanLoss<'a, F, O> {
    /// Of an objective over a set; `alpha` is the weight decay inside the gradient.
    pub fn new(objective: &'a mut O, set: &'a Set<O::Batch>, alpha: f64) -> Self {
        if let [(only, _)] = &set.batches[..] {
            objective.set_batch(only);
        }
        let part = vec![F::default(); objective.len()];
        Self { objective, set, alpha, part }
    }

    /// `L(θ)`.
    pub fn loss(&mut self, theta: &[F]) -> f64 {
        let mut sum = 0.0;
        self.each_batch(|objective, _, share| sum += share * objective.loss(theta));
        let squares = sum_by(theta.len(), |i| theta[i].to_f64() * theta[i].to_f64());
        sum + self.alpha / 2.0 * squares
    }

    /// `out = ∇L(θ)`.
    pub fn gradient(&mut self, theta: &[F], out: &mut [f64]) {
        out.fill(0.0);
        self.each_batch(|objective, part, share| {
            objective.gradient(theta, part);
            add(out, part, share);
        });
        add(out, theta, self.alpha);
    }

    /// `out = H v` at `θ`; `v` is rounded to the precision of the objective.
    pub fn hessian_vector(&mut self, theta: &[F], v: &[f64], out: &mut [f64]) {
        let rounded: Vec<F> = v.iter().map(|v| F::of(*v)).collect();
        out.fill(0.0);
        self.each_batch(|objective, part, share| {
            objective.hessian_vector(theta, &rounded, part);
            add(out, part, share);
        });
        add(out, &rounded, self.alpha);
    }

    fn each_batch(&mut self, mut work: impl FnMut(&mut O, &mut [F], f64)) {
        let several = self.set.batches.len() > 1;
        for (batch, share) in &self.set.batches {
            // Setting the only batch again would throw its linearization away.
            if several {
                self.objective.set_batch(batch);
            }
            work(self.objective, &mut self.part, *share);
        }
    }
}

/// `sum ← sum + factor x`.
fn add<F: Real>(sum: &mut [f64], x: &[F], factor: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += factor * x.to_f64());
}
