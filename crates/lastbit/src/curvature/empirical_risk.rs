//! The empirical risk: the mean loss over a set of examples, with gradient and Hessian, a batch at a time.
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
use crate::batches::BatchSource;
use crate::krylov::{EigenOptions, EigenResult, eigenpairs};
use crate::objective::StochasticObjective;
use crate::reduce::sum_by;

/// Examples in batches, each with its share of the whole.
#[derive(Debug)]
pub struct WeightedBatches<B> {
    batches: Vec<(Arc<B>, f64)>,
}

impl<B> WeightedBatches<B> {
    /// Of batches with their numbers of examples.
    ///
    /// # Panics
    ///
    /// If there is no example.
    pub fn new(batches: Vec<(Arc<B>, usize)>) -> Self {
        let total: usize = batches.iter().map(|(_, examples)| examples).sum();
        assert!(total > 0, "{} batches without examples", batches.len());
        let share = |(batch, examples)| (batch, examples as f64 / total as f64);
        Self { batches: batches.into_iter().map(share).collect() }
    }

    /// The batches of a source's first epoch.
    pub fn first_epoch(source: &mut impl BatchSource<Batch = B>) -> Self {
        let steps = 0..source.steps_per_epoch();
        Self::new(steps.map(|step| (source.batch(step), source.batch_size(step))).collect())
    }
}

/// The loss of the module doc, at one place at a time.
#[derive(Debug)]
pub struct EmpiricalRisk<'a, F, O: StochasticObjective<F>>
where
    F: Real,
{
    objective: &'a mut O,
    set: &'a WeightedBatches<O::Batch>,
    alpha: f64,
    /// Room for a gradient or a product of one batch.
    part: Vec<F>,
}

impl<'a, F: Real, O: StochasticObjective<F>> EmpiricalRisk<'a, F, O> {
    /// Of an objective over a set; `alpha` is the weight decay inside the gradient.
    pub fn new(objective: &'a mut O, set: &'a WeightedBatches<O::Batch>, alpha: f64) -> Self {
        if let [(only, _)] = &set.batches[..] {
            objective.set_batch(only);
        }
        let part = vec![F::default(); objective.len()];
        Self { objective, set, alpha, part }
    }

    /// `L(θ)`.
    ///
    /// # Errors
    ///
    /// That of the objective; likewise below.
    pub fn loss(&mut self, theta: &[F]) -> Result<f64, O::Error> {
        let mut sum = 0.0;
        self.each_batch(|objective, _, share| {
            sum += share * objective.loss(theta)?;
            Ok(())
        })?;
        let squares = sum_by(theta.len(), |i| theta[i].to_f64() * theta[i].to_f64());
        Ok(sum + self.alpha / 2.0 * squares)
    }

    /// `out = ∇L(θ)`.
    ///
    /// # Errors
    ///
    /// See [`loss`](Self::loss).
    pub fn gradient(&mut self, theta: &[F], out: &mut [f64]) -> Result<(), O::Error> {
        out.fill(0.0);
        self.each_batch(|objective, part, share| {
            objective.gradient(theta, part)?;
            add(out, part, share);
            Ok(())
        })?;
        add(out, theta, self.alpha);
        Ok(())
    }

    /// `out = H v` at `θ`; `v` is rounded to the precision of the objective.
    ///
    /// # Errors
    ///
    /// See [`loss`](Self::loss).
    pub fn hessian_vector(
        &mut self,
        theta: &[F],
        v: &[f64],
        out: &mut [f64],
    ) -> Result<(), O::Error> {
        let rounded: Vec<F> = v.iter().map(|v| F::of(*v)).collect();
        out.fill(0.0);
        self.each_batch(|objective, part, share| {
            objective.hessian_vector(theta, &rounded, part)?;
            add(out, part, share);
            Ok(())
        })?;
        add(out, &rounded, self.alpha);
        Ok(())
    }

    /// Eigenvalues of the Hessian at `θ`, or of `D H D` with a preconditioner `D`, starting from
    /// approximate eigenvectors where some are `known`.
    ///
    /// # Errors
    ///
    /// See [`loss`](Self::loss).
    pub fn eigenpairs(
        &mut self,
        theta: &[F],
        preconditioner: Option<&[f64]>,
        known: Vec<Vec<f64>>,
        options: EigenOptions,
    ) -> Result<EigenResult, O::Error> {
        let zeros = vec![0.0; theta.len()];
        let hessian = |v: &Vec<f64>, out: &mut Vec<f64>| self.hessian_vector(theta, v, out);
        match preconditioner {
            Some(diagonal) => eigenpairs(&zeros, known, options, scaled(diagonal, hessian)),
            None => eigenpairs(&zeros, known, options, hessian),
        }
    }

    fn each_batch(
        &mut self,
        mut work: impl FnMut(&mut O, &mut [F], f64) -> Result<(), O::Error>,
    ) -> Result<(), O::Error> {
        let several = self.set.batches.len() > 1;
        for (batch, share) in &self.set.batches {
            // Setting the only batch again would throw its linearization away.
            if several {
                self.objective.set_batch(batch);
            }
            work(self.objective, &mut self.part, *share)?;
        }
        Ok(())
    }
}

/// `sum ← sum + factor x`.
fn add<F: Real>(sum: &mut [f64], x: &[F], factor: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += factor * x.to_f64());
}

/// `D A D` of an operator `A` and a diagonal `D`, for [`eigenpairs`].
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
