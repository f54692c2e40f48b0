//! The stability threshold of mini-batches beside that of the full batch.
//!
//! `edge_ratio` is the full-batch sharpness over the full-batch threshold. A run on mini-batches need not be near
//! 1 to be at its edge: the literature puts a threshold on the sharpness of a batch instead
//! ([`method`](lastbit::optim::method)). Both are stated; the second is not tested here.

use lastbit::optim::method::Method;
use serde::{Deserialize, Serialize};

use super::Prepared;
use crate::number::Number;

/// Thresholds of a run on mini-batches at one learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MiniBatchThreshold {
    /// Examples in a batch.
    pub batch: usize,
    /// Heavy-ball momentum; 0 for plain steps.
    pub momentum: f64,
    /// Threshold of the full-batch sharpness, for full-batch steps.
    pub full_batch: Number,
    /// Threshold of the sharpness of small batches, from the literature.
    pub small_batch: Number,
}

impl MiniBatchThreshold {
    /// At a learning rate; none with full batches, and where the literature says nothing of the optimizer.
    pub fn of(prepared: &Prepared, dt: f64) -> Option<Self> {
        let method = prepared.plan.optimizer.method;
        let small_batch = method.small_batch_threshold(dt).filter(|_| dt > 0.0)?;
        Some(Self {
            batch: prepared.mini_batch()?,
            momentum: if let Method::HeavyBall { mu } = method { mu } else { 0.0 },
            full_batch: Number(method.threshold(dt)),
            small_batch: Number(small_batch),
        })
    }

    /// After a sentence with the ratio.
    pub fn in_words(&self) -> String {
        let Self { batch, momentum: mu, full_batch, small_batch } = self;
        let ratio =
            "The ratio above is that of the full-batch sharpness to the full-batch threshold";
        if *mu == 0.0 {
            return format!(
                "{ratio}; with batches of {batch}, the literature finds that the sharpness of a batch settles at 2/lr = \
                 {small_batch} (not tested here)."
            );
        }
        format!(
            "{ratio} {full_batch}; with batches of {batch} and momentum {mu}, the literature puts the threshold of the \
             sharpness of a batch at 2 (1 - mu)/lr = {small_batch} for small batches and at 2 (1 + mu)/lr = {full_batch} \
             for large ones (not tested here)."
        )
    }

    /// The same as a note on ratios at several learning rates.
    pub fn note(&self) -> String {
        let Self { batch, momentum: mu, full_batch, small_batch } = self;
        let ratio = "sharpness/threshold, and so the CFL edge, is of the full-batch sharpness and threshold";
        if *mu == 0.0 {
            return format!(
                "{ratio}; with batches of {batch}, the literature finds that the sharpness of a batch settles at 2/lr \
                 (not tested here)"
            );
        }
        let factor = Number(small_batch.0 / full_batch.0);
        format!(
            "{ratio} (2 + 2 mu)/lr; with batches of {batch} and momentum {mu}, the literature puts the threshold of the \
             sharpness of a batch at 2 (1 - mu)/lr for small batches, {factor} times the full-batch one (not tested \
             here)"
        )
    }
}
