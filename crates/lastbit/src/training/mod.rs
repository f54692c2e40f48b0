//! Training: replicas of one network that see the same batches in lock step.
//!
//! ```text
//! one step of a replica:    flip a bit, if it is due
//!                           look ahead, ∇L on the batch      (Optimizer::look_ahead, Objective)
//!                           products with ∇²L, if wanted      (Optimizer::products, cfl)
//!                           θ ← θ − (dt/k)(k d)               (Optimizer::step, Perturbation)
//!                           buffers follow what the batch showed       (OnBatches::settle)
//! ```
//!
//! A replica is plain data ([`Replica`]): parameters, memory of the optimizer, buffers, a tally of
//! its epoch. The objectives are tools that a replica borrows for a step; a few of them serve all
//! replicas, whichever thread gets to which first. The next state of a replica depends on its own
//! state and on the step's number alone: not on threads, not on what other replicas share the
//! trainer, not on a stop in between.
//!
//! A replica whose parameters leave the numbers, or exceed [`BLOW_UP`] times the size they started
//! with (or times 1, where that is more), has *ended*: it stays as it was then, the others go on.

mod measure;
mod replica;
mod run;

pub use self::measure::{Compared, Distance, Fluctuation, distance_between, gradient_fluctuation};
pub use self::replica::{Flip, Replica, Tally, Variant};
pub use self::run::Run;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use crate::Real;
use crate::batches::Batches;
use crate::nn::{Batch, Engine, Evaluation};
use crate::objective::OnBatches;
use crate::optim::direction::Optimizer;
use crate::optim::schedule::Schedule;
use crate::verdict::BLOW_UP;

/// An objective that also tells how well it does.
pub trait Learner<F: Real>: OnBatches<F, Batch = Batch<F>> + Send + Sync {
    /// The loss of the batch that the last gradient saw on its way.
    fn last_loss(&self) -> f64;

    /// For each example of that batch whether its class was found; empty where targets are no
    /// classes.
    fn right_answers(&self) -> Vec<bool>;

    /// The parameters of each layer, tiling the flat vector.
    fn layers(&self) -> Vec<Range<usize>>;

    /// How a finished network does on a batch: with its running statistics, not the batch's.
    fn evaluate(&mut self, theta: &[F], batch: &Batch<F>) -> Evaluation;
}

impl<F: Real> Learner<F> for Engine<F> {
    fn last_loss(&self) -> f64 {
        self.last_loss()
    }

    fn right_answers(&self) -> Vec<bool> {
        self.right_answers()
    }

    fn layers(&self) -> Vec<Range<usize>> {
        self.network().layers()
    }

    fn evaluate(&mut self, theta: &[F], batch: &Batch<F>) -> Evaluation {
        self.evaluate(theta, batch)
    }
}

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

/// Replicas in training.
#[derive(Debug)]
pub struct Trainer<F, O> {
    objective: O,
    /// Objectives that no replica uses at the moment, each with room for a gradient.
    idle: Mutex<Vec<(O, Vec<F>)>>,
    sources: Vec<Batches<F>>,
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
pub fn assert_fit<F: Real>(
    sources: &[Batches<F>],
    plan: &Plan,
    variants: &[Variant],
    replicas: &[Replica<F>],
    parameters: usize,
) {
    assert_eq!(variants.len(), replicas.len(), "variants and replicas");
    assert!(!replicas.is_empty(), "no replicas");
    let last = variants.iter().map(|variant| variant.source).max().unwrap_or(0);
    assert!(last < sources.len(), "source {last} of {}", sources.len());
    let lengths: Vec<usize> = sources.iter().map(Batches::steps_per_epoch).collect();
    assert!(lengths.iter().all(|length| *length == lengths[0]), "epochs of {lengths:?} steps");
    let memory = plan.optimizer.method.memories() * parameters;
    for replica in replicas {
        assert_eq!(replica.theta.len(), parameters, "parameters");
        assert_eq!(replica.memory.values.len(), memory, "memory of the optimizer");
    }
}

impl<F: Real, O: Learner<F>> Trainer<F, O> {
    /// What the replicas descend.
    pub fn objective(&self) -> &O {
        &self.objective
    }

    /// Goes on after `step` steps with these replicas; `step = 0` with [`Replica::start`] starts.
    ///
    /// # Panics
    ///
    /// If these do not fit together ([`assert_fit`]).
    pub fn new(
        objective: O,
        sources: Vec<Batches<F>>,
        plan: Plan,
        variants: Vec<Variant>,
        step: usize,
        replicas: Vec<Replica<F>>,
    ) -> Self {
        assert_fit(&sources, &plan, &variants, &replicas, objective.len());
        Self { objective, idle: Mutex::default(), sources, plan, variants, replicas, step }
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
    pub fn advance(&mut self) {
        let (step, rate) = (self.step, self.rate());
        let first_of_epoch = step.is_multiple_of(self.steps_per_epoch());
        let batches = self.batches_of_replicas(step);
        let examples = self.sources[0].examples(step).len();
        let mut replicas = std::mem::take(&mut self.replicas);
        let optimizer = &self.plan.optimizer;
        replicas.par_iter_mut().zip(&self.variants).zip(&batches).for_each(
            |((replica, variant), batch)| {
                if first_of_epoch {
                    replica.tally = Tally::default();
                }
                let Some(batch) = batch else { return };
                self.borrow_objective(|objective, gradient| {
                    replica.advance(
                        step, variant, optimizer, rate, objective, batch, examples, gradient,
                    );
                });
            },
        );
        self.replicas = replicas;
        self.step += 1;
    }

    /// The batch of each replica; none for those that have ended.
    fn batches_of_replicas(&mut self, step: usize) -> Vec<Option<Arc<Batch<F>>>> {
        let mut shared: Vec<Option<Arc<Batch<F>>>> = vec![None; self.sources.len()];
        let (sources, replicas) = (&mut self.sources, &self.replicas);
        let batch_of = |(variant, replica): (&Variant, &Replica<F>)| {
            let source = &mut sources[variant.source];
            match variant.order {
                _ if replica.ended.is_some() => None,
                seed @ Some(_) => Some(source.batch_in(step, seed)),
                None => {
                    let batch = &mut shared[variant.source];
                    Some(batch.get_or_insert_with(|| source.batch(step)).clone())
                }
            }
        };
        self.variants.iter().zip(replicas).map(batch_of).collect()
    }

    /// Lends an objective. Nested parallelism inside it may start another replica on this thread,
    /// which then takes another objective: the lock is never held during the work.
    fn borrow_objective<T>(&self, work: impl FnOnce(&mut O, &mut Vec<F>) -> T) -> T {
        let found = self.idle.lock().expect("no panic while lending").pop();
        let (mut objective, mut gradient) = found
            .unwrap_or_else(|| (self.objective.clone(), vec![F::default(); self.objective.len()]));
        let result = work(&mut objective, &mut gradient);
        self.idle.lock().expect("no panic while lending").push((objective, gradient));
        result
    }

    /// How each replica does on all examples of `batches`, as a finished network. Replicas that have
    /// ended are left out.
    pub fn evaluate(&self, batches: &mut Batches<F>) -> Vec<Option<Evaluation>> {
        let mut sums: Vec<Option<Evaluation>> = self
            .replicas
            .iter()
            .map(|replica| replica.ended.is_none().then(Evaluation::default))
            .collect();
        let mut total = 0;
        for step in 0..batches.steps_per_epoch() {
            let (batch, examples) = (batches.batch(step), batches.examples(step).len());
            total += examples;
            sums.par_iter_mut().zip(&self.replicas).for_each(|(sum, replica)| {
                let Some(sum) = sum else { return };
                let part = self.borrow_objective(|objective, _| {
                    objective.load_buffers(&replica.buffers);
                    objective.evaluate(&replica.theta, &batch)
                });
                sum.loss += part.loss * examples as f64;
                sum.right.extend(part.right);
                sum.classes.extend(part.classes);
            });
        }
        sums.iter_mut().flatten().for_each(|sum| sum.loss /= total as f64);
        sums
    }

    /// The relative gradient fluctuation ([`gradient_fluctuation`]) of each replica where it is now:
    /// the mean gradient of the coming `count` batches against that of the batch after them. Ended
    /// replicas are left out.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn fluctuations(&mut self, count: usize) -> Vec<Option<f64>> {
        let batches = self.coming_batches(count + 1);
        let fluctuation = |(own, replica): (&Option<Vec<_>>, &Replica<F>)| {
            let own = own.as_ref()?;
            Some(self.borrow_objective(|objective, gradient| {
                objective.load_buffers(&replica.buffers);
                gradient_fluctuation(objective, &replica.theta, own, gradient)
            }))
        };
        batches.par_iter().zip(&self.replicas).map(fluctuation).collect()
    }

    /// The batches of the coming `count` steps, for each replica; none for those that have ended.
    pub fn coming_batches(&mut self, count: usize) -> Vec<Option<Vec<Arc<Batch<F>>>>> {
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
