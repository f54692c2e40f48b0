//! Where training takes its batches from: a data set in memory, or a type of the user's own.

use std::sync::Arc;

use super::Batches;
use crate::Real;
use crate::nn::Batch;

/// The batches of a training, each a function of its step: a resumed run, a perturbed copy and a replica
/// on another thread ask for the same step and must see the same numbers.
pub trait BatchSource {
    /// What a model is evaluated on.
    type Batch: Send + Sync;

    /// Steps in an epoch.
    fn steps_per_epoch(&self) -> usize;

    /// Examples in the batch of a step.
    fn batch_size(&mut self, step: usize) -> usize;

    /// The batch of a step.
    fn batch(&mut self, step: usize) -> Arc<Self::Batch>;

    /// The batch of a step with its examples in another order, drawn at (seed, step): a rounding-level
    /// perturbation.
    ///
    /// # Panics
    ///
    /// Unless the source knows how to reorder its examples.
    fn reordered(&mut self, step: usize, seed: u64) -> Arc<Self::Batch> {
        panic!("order {seed} of step {step}: this source of batches has one order only");
    }

    /// Whether all steps see the same batch.
    fn is_full_batch(&self) -> bool {
        false
    }
}

impl<F: Real> BatchSource for Batches<F> {
    type Batch = Batch<F>;

    fn steps_per_epoch(&self) -> usize {
        self.steps_per_epoch()
    }

    fn batch_size(&mut self, step: usize) -> usize {
        self.examples(step).len()
    }

    fn batch(&mut self, step: usize) -> Arc<Batch<F>> {
        self.batch(step)
    }

    fn reordered(&mut self, step: usize, seed: u64) -> Arc<Batch<F>> {
        self.batch_in(step, Some(seed))
    }

    fn is_full_batch(&self) -> bool {
        self.is_full_batch()
    }
}

/// One batch at every step.
#[derive(Debug)]
pub struct FullBatch<B> {
    /// All examples.
    pub batch: Arc<B>,
    /// How many.
    pub examples: usize,
}

impl<B> Clone for FullBatch<B> {
    fn clone(&self) -> Self {
        Self { batch: Arc::clone(&self.batch), examples: self.examples }
    }
}

impl<B: Send + Sync> BatchSource for FullBatch<B> {
    type Batch = B;

    fn steps_per_epoch(&self) -> usize {
        1
    }

    fn batch_size(&mut self, _: usize) -> usize {
        self.examples
    }

    fn batch(&mut self, _: usize) -> Arc<B> {
        Arc::clone(&self.batch)
    }

    fn is_full_batch(&self) -> bool {
        true
    }
}
