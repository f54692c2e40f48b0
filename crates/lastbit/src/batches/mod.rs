//! From a data set to the batches of training: which examples, in which order, how normalized and
//! how augmented.
//!
//! The batch of a step is a function of the step. The order of an epoch is a permutation drawn from
//! the counter-based generator at (seed, epoch), the crop and flip of an example are drawn at
//! (seed, epoch, example): nothing is advanced, so that a resumed run, another number of threads
//! or another order of the examples see the same numbers.
//!
//! ```text
//! step s:   epoch e = s / steps_per_epoch,   examples order_e[b i .. b (i + 1)],   i = s mod steps_per_epoch
//! ```

mod augmentation;
mod normalization;
mod source;

pub use self::augmentation::Augmentation;
pub use self::normalization::Normalization;
pub use self::source::{BatchSource, FullBatch};

use std::sync::Arc;

use crate::Real;
use crate::data::{Dataset, Targets as StoredTargets};
use crate::nn::{Batch, Targets};
use crate::rng::Stream;

/// Streams of one seed for different purposes lie this far apart.
const PURPOSE: u64 = 1 << 56;
const SELECTION: u64 = PURPOSE;
const AUGMENTATION: u64 = 2 * PURPOSE;
const ORDER_IN_BATCH: u64 = 3 * PURPOSE;

/// In which order the examples of an epoch come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they lie in the data set, in every epoch.
    AsStored,
    /// Shuffled anew in every epoch.
    Shuffled {
        /// Which shuffles.
        seed: u64,
    },
}

/// How an epoch is cut into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Examples in a batch.
    pub size: usize,
    /// Their order.
    pub order: Order,
    /// Whether a smaller batch at the end of an epoch is used, or left out.
    pub keep_last: bool,
}

impl Selection {
    /// All examples at every step.
    pub fn full(data: &Dataset) -> Self {
        Self { size: data.len(), order: Order::AsStored, keep_last: true }
    }

    /// Steps in an epoch over this many examples.
    pub fn steps_per_epoch(&self, examples: usize) -> usize {
        if self.keep_last { examples.div_ceil(self.size) } else { examples / self.size }
    }
}

/// A batch by its examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The epoch, on which the views of the examples depend.
    pub epoch: usize,
    /// Which examples, in their order.
    pub examples: Vec<u32>,
}

/// The batches of a training run.
#[derive(Debug, Clone)]
pub struct Batches<F> {
    data: Arc<Dataset>,
    normalization: normalization::Table<F>,
    selection: Selection,
    augmentation: Option<Augmentation>,
    /// The epoch looked at last and its order: saves drawing it at every step.
    epoch: Option<(usize, Vec<u32>)>,
    /// The batch of every step, where they are all the same.
    only: Option<Arc<Batch<F>>>,
}

impl<F: Real> Batches<F> {
    /// Batches of `data`.
    ///
    /// # Panics
    ///
    /// If the batches are empty or larger than the data set, or the normalization does not fit it.
    pub fn new(
        data: Arc<Dataset>,
        normalization: &Normalization,
        selection: Selection,
        augmentation: Option<Augmentation>,
    ) -> Self {
        let (size, len) = (selection.size, data.len());
        assert!(0 < size && size <= len, "batches of {size} from {len} examples");
        let normalization = normalization.table(&data);
        Self { data, normalization, selection, augmentation, epoch: None, only: None }
    }

    /// What they are made of.
    pub fn data(&self) -> &Arc<Dataset> {
        &self.data
    }

    /// How numbers are normalized.
    pub fn normalization(&self) -> &Normalization {
        &self.normalization.of
    }

    /// For data in bytes: what each byte becomes, for each place of the normalization.
    pub fn of_bytes(&self) -> &[[F; 256]] {
        &self.normalization.bytes
    }

    /// How examples are varied.
    pub fn augmentation(&self) -> Option<Augmentation> {
        self.augmentation
    }

    /// Steps in an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.selection.steps_per_epoch(self.data.len())
    }

    /// Whether all steps see the same batch.
    pub fn is_full_batch(&self) -> bool {
        self.augmentation.is_none()
            && self.selection.order == Order::AsStored
            && self.steps_per_epoch() == 1
    }

    /// Which examples a step sees, in their order.
    pub fn examples(&mut self, step: usize) -> Vec<u32> {
        let (epoch, place) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        let first = place * self.selection.size;
        let end = (first + self.selection.size).min(self.data.len());
        match self.selection.order {
            Order::AsStored => (first as u32..end as u32).collect(),
            Order::Shuffled { seed } => {
                if self.epoch.as_ref().is_none_or(|(drawn, _)| *drawn != epoch) {
                    let stream = Stream::new(seed, SELECTION + epoch as u64);
                    self.epoch = Some((epoch, stream.permutation(self.data.len())));
                }
                let (_, order) = self.epoch.as_ref().expect("drawn above");
                order[first..end].to_vec()
            }
        }
    }

    /// The same for whoever forms the batch elsewhere; with a seed, in another order, drawn at
    /// (seed, step): a change that exact arithmetic would not see.
    pub fn chosen(&mut self, step: usize, order: Option<u64>) -> Chosen {
        let mut examples = self.examples(step);
        if let Some(seed) = order {
            let order = Stream::new(seed, ORDER_IN_BATCH + step as u64).permutation(examples.len());
            examples = order.iter().map(|i| examples[*i as usize]).collect();
        }
        Chosen { epoch: step / self.steps_per_epoch(), examples }
    }

    /// The batch of a step.
    pub fn batch(&mut self, step: usize) -> Arc<Batch<F>> {
        if let Some(only) = &self.only {
            return only.clone();
        }
        let chosen = self.chosen(step, None);
        let batch = Arc::new(self.form(&chosen));
        if self.is_full_batch() {
            self.only = Some(batch.clone());
        }
        batch
    }

    /// The batch of a step in its own order or in another, as [`chosen`](Self::chosen) has it.
    pub fn batch_in(&mut self, step: usize, order: Option<u64>) -> Arc<Batch<F>> {
        if order.is_none() {
            return self.batch(step);
        }
        let chosen = self.chosen(step, order);
        Arc::new(self.form(&chosen))
    }

    fn form(&self, chosen: &Chosen) -> Batch<F> {
        let Chosen { epoch, examples } = chosen;
        let len = self.data.input_len();
        let mut inputs = vec![F::default(); examples.len() * len];
        for (input, example) in inputs.chunks_exact_mut(len).zip(examples) {
            let view = self.augmentation.map(|augmentation| augmentation.view(*epoch, *example));
            self.normalization.write(&self.data, *example as usize, view, input);
        }
        let targets = match &self.data.targets {
            StoredTargets::Classes { labels, .. } => {
                Targets::Classes(examples.iter().map(|i| labels[*i as usize]).collect())
            }
            StoredTargets::Reals { width, values } => {
                let of = |i: &u32| &values[*i as usize * width..][..*width];
                Targets::Reals(examples.iter().flat_map(of).map(|v| F::of(*v)).collect())
            }
        };
        Batch { inputs, targets }
    }
}

#[cfg(test)]
mod tests;
