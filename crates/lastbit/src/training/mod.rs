//! Training: replicas of one model that see the same batches in lock step.
//!
//! ```text
//! one step of a replica:    flip a bit, if it is due
//!                           look ahead, ∇L on the batch            (Optimizer::look_ahead, Objective)
//!                           Hessian-vector products, if wanted      (Optimizer::products, cfl)
//!                           θ ← θ − (dt/k)(k d)                     (Optimizer::step, Perturbation)
//!                           running statistics of the batch         (StochasticObjective)
//! ```
//!
//! A replica is plain data ([`Replica`]): parameters, memory of the optimizer, buffers, statistics of
//! its epoch. The models are tools that a replica borrows for a step; a few of them serve all
//! replicas, whichever thread gets to which first. The next state of a replica depends on its own
//! state and on the step's number alone: not on threads, not on what other replicas share the
//! trainer, not on a stop in between.
//!
//! A replica whose parameters leave the numbers, or exceed [`BLOW_UP`] times the size they started
//! with (or times 1, where that is more), has *ended*: it stays as it was then, the others go on. An
//! error of a model is another matter: it ends the training of all replicas.

mod gradient_descent;
mod measure;
mod replica;

pub use self::gradient_descent::{GradientDescent, LossCurve};
pub use self::measure::{Compared, Distance, Fluctuation, distance_between, gradient_fluctuation};
pub use self::replica::{EpochStats, Flip, Replica, Variant};

use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use crate::Real;
use crate::batches::BatchSource;
use crate::objective::{Evaluation, TrainableModel};
use crate::optim::direction::Optimizer;
use crate::optim::schedule::Schedule;
use crate::verdict::BLOW_UP;

/// What all replicas of a trainer have in common besides the objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Direction of the steps.
    pub optimizer: Optimizer,
    /// Full learning rate.
    pub dt: f64,
    /// How it changes.
    pub schedule: Schedule,
}

/// Replicas in training: of a model `O`, on batches from sources `S`.
#[derive(Debug)]
pub struct Trainer<F, O, S> {
    model: O,
    /// Models that no replica uses at the moment, each with room for a gradient.
    idle: Mutex<Vec<(O, Vec<F>)>>,
    sources: Vec<S>,
    plan: Plan,
    variants: Vec<Variant>,
    replicas: Vec<Replica<F>>,
    step: usize,
}

/// Makes sure that what a training of so many parameters is made of fits together.
///
/// # Panics
///
/// If there is not one variant per replica, a variant names a source that is not there, the sources have
/// epochs of different length, or a replica has another number of parameters or another optimizer's memory.
pub fn assert_fit<F: Real, S: BatchSource>(
    sources: &[S],
    plan: &Plan,
    variants: &[Variant],
    replicas: &[Replica<F>],
    parameters: usize,
) {
    assert_eq!(variants.len(), replicas.len(), "variants and replicas");
    assert!(!replicas.is_empty(), "no replicas");
    let last = variants.iter().map(|variant| variant.source).max().unwrap_or(0);
    assert!(last < sources.len(), "source {last} of {}", sources.len());
    let lengths: Vec<usize> = sources.iter().map(BatchSource::steps_per_epoch).collect();
    assert!(lengths.iter().all(|length| *length == lengths[0]), "epochs of {lengths:?} steps");
    let memory = plan.optimizer.method.memory().len() * parameters;
    for replica in replicas {
        assert_eq!(replica.theta.len(), parameters, "parameters");
        assert_eq!(replica.memory.values.len(), memory, "memory of the optimizer");
    }
}

impl<F, O, S> Trainer<F, O, S>
where
    F: Real,
    O: TrainableModel<F, Error: Send> + Send + Sync,
    S: BatchSource<Batch = O::Batch> + Sync,
{
    /// What the replicas train.
    pub fn model(&self) -> &O {
        &self.model
    }

    /// Continues after `step` steps with these replicas; `step = 0` with [`Replica::start`] starts.
    ///
    /// # Panics
    ///
    /// If these do not fit together ([`assert_fit`]).
    pub fn new(
        model: O,
        sources: Vec<S>,
        plan: Plan,
        variants: Vec<Variant>,
        step: usize,
        replicas: Vec<Replica<F>>,
    ) -> Self {
        assert_fit(&sources, &plan, &variants, &replicas, model.len());
        Self { model, idle: Mutex::default(), sources, plan, variants, replicas, step }
    }

    /// Steps done.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Steps in an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.sources[0].steps_per_epoch()
    }

    /// Learning rate of the step that comes next.
    pub fn rate(&self) -> f64 {
        self.plan.schedule.rate(self.plan.dt, self.step / self.steps_per_epoch(), self.step)
    }

    /// The replicas, in the order of their variants.
    pub fn replicas(&self) -> &[Replica<F>] {
        &self.replicas
    }

    /// Advances all replicas by one step.
    ///
    /// # Errors
    ///
    /// The error of the first replica that has one. Some replicas have then made the step and others
    /// not: training can only be taken up from a state saved before.
    pub fn advance(&mut self) -> Result<(), O::Error> {
        let (step, rate) = (self.step, self.rate());
        let first_of_epoch = step.is_multiple_of(self.steps_per_epoch());
        let batches = self.batches_of_replicas(step);
        let examples = self.sources[0].batch_size(step);
        let mut replicas = std::mem::take(&mut self.replicas);
        let optimizer = &self.plan.optimizer;
        let advance = |((replica, variant), batch): ((&mut Replica<F>, &Variant), &Option<_>)| {
            if first_of_epoch {
                replica.epoch_stats = EpochStats::default();
            }
            let Some(batch) = batch else { return Ok(()) };
            self.borrow_model(|model, gradient| {
                replica.advance(step, variant, optimizer, rate, model, batch, examples, gradient)
            })
        };
        let each = replicas.par_iter_mut().zip(&self.variants).zip(&batches);
        // All of them, so that which error is the first does not depend on threads.
        let done: Vec<Result<(), O::Error>> = each.map(advance).collect();
        self.replicas = replicas;
        self.step += 1;
        done.into_iter().collect()
    }

    /// The batch of each replica; none for those that have ended.
    fn batches_of_replicas(&mut self, step: usize) -> Vec<Option<Arc<O::Batch>>> {
        let mut shared: Vec<Option<Arc<O::Batch>>> = vec![None; self.sources.len()];
        let (sources, replicas) = (&mut self.sources, &self.replicas);
        let batch_of = |(variant, replica): (&Variant, &Replica<F>)| {
            let source = &mut sources[variant.source];
            match variant.order {
                _ if replica.ended.is_some() => None,
                Some(seed) => Some(source.reordered(step, seed)),
                None => {
                    let batch = &mut shared[variant.source];
                    Some(batch.get_or_insert_with(|| source.batch(step)).clone())
                }
            }
        };
        self.variants.iter().zip(replicas).map(batch_of).collect()
    }

    /// Lends a model. Nested parallelism inside it may start another replica on this thread,
    /// which then takes another model: the lock is never held during the work.
    fn borrow_model<T>(&self, work: impl FnOnce(&mut O, &mut Vec<F>) -> T) -> T {
        let found = self.idle.lock().expect("no panic while lending").pop();
        let (mut model, mut gradient) =
            found.unwrap_or_else(|| (self.model.clone(), vec![F::default(); self.model.len()]));
        let result = work(&mut model, &mut gradient);
        self.idle.lock().expect("no panic while lending").push((model, gradient));
        result
    }

    /// How each replica does on all examples of `batches`, as a finished network. Replicas that have
    /// ended are left out.
    ///
    /// # Errors
    ///
    /// The error of the first replica that has one.
    pub fn evaluate(
        &self,
        batches: &mut impl BatchSource<Batch = O::Batch>,
    ) -> Result<Vec<Option<Evaluation>>, O::Error> {
        let mut sums: Vec<Option<Evaluation>> = self
            .replicas
            .iter()
            .map(|replica| replica.ended.is_none().then(Evaluation::default))
            .collect();
        let mut total = 0;
        for step in 0..batches.steps_per_epoch() {
            let (batch, examples) = (batches.batch(step), batches.batch_size(step));
            total += examples;
            let add = |(sum, replica): (&mut Option<Evaluation>, &Replica<F>)| {
                let Some(sum) = sum else { return Ok(()) };
                let part = self.borrow_model(|model, _| {
                    model.load_buffers(&replica.buffers);
                    model.evaluate(&replica.theta, &batch)
                })?;
                sum.loss += part.loss * examples as f64;
                sum.right.extend(part.right);
                sum.classes.extend(part.classes);
                Ok(())
            };
            let done: Vec<_> = sums.par_iter_mut().zip(&self.replicas).map(add).collect();
            done.into_iter().collect::<Result<(), O::Error>>()?;
        }
        sums.iter_mut().flatten().for_each(|sum| sum.loss /= total as f64);
        Ok(sums)
    }

    /// The relative gradient fluctuation ([`gradient_fluctuation`]) of each replica where it is now:
    /// the mean gradient of the coming `count` batches against that of the batch after them. Ended
    /// replicas are left out.
    ///
    /// # Errors
    ///
    /// The error of the first replica that has one.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn fluctuations(&mut self, count: usize) -> Result<Vec<Option<f64>>, O::Error> {
        let batches = self.coming_batches(count + 1);
        let fluctuation = |(own, replica): (&Option<Vec<_>>, &Replica<F>)| {
            let Some(own) = own else { return Ok(None) };
            self.borrow_model(|model, gradient| {
                model.load_buffers(&replica.buffers);
                gradient_fluctuation(model, &replica.theta, own, gradient).map(Some)
            })
        };
        let done: Vec<_> = batches.par_iter().zip(&self.replicas).map(fluctuation).collect();
        done.into_iter().collect()
    }

    /// The batches of the coming `count` steps, for each replica; none for those that have ended.
    pub fn coming_batches(&mut self, count: usize) -> Vec<Option<Vec<Arc<O::Batch>>>> {
        let steps = self.step..self.step + count;
        let batches: Vec<_> = steps.map(|step| self.batches_of_replicas(step)).collect();
        let own = |(i, replica): (usize, &Replica<F>)| match replica.ended {
            None => batches.iter().map(|of_step| of_step[i].clone()).collect(),
            Some(_) => None,
        };
        self.replicas.iter().enumerate().map(own).collect()
    }
}

/// Whether parameters are beyond what counts as a run.
fn has_diverged<F: Real>(theta: &[F], scale: f64) -> bool {
    let size = crate::reduce::max_abs(theta);
    !size.is_finite() || size > BLOW_UP * scale
}

#[cfg(test)]
mod tests;
