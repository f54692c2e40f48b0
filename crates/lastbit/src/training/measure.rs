//! What is measured of replicas: how far apart two are, how much the gradient fluctuates.
//!
//! ```text
//! relative gradient fluctuation = (1/M) Σ |x_i − y_i| / |x_i|
//! ```
//!
//! with `x` the mean of the gradients of some batches, `y` the gradient of one more, and `M` the
//! number of components with `x_i ≠ 0`; those of dead units are left out.
//!
//! Reference: the paper, Section 4.2 and its first footnote.

use std::ops::Range;
use std::sync::Arc;

use crate::Real;
use crate::comparison::mean_agreeing_bits;
use crate::divergence::{max_ulps, rel_l1};
use crate::hash_of_bits;
use crate::objective::StochasticObjective;
use crate::reduce::{distance, norm, sum_by};

/// How far a replica is from another.
#[derive(Debug, Clone, PartialEq)]
pub struct Distance {
    /// [`rel_l1`] of all parameters.
    pub rel_l1: f64,
    /// The same for each tensor.
    pub rel_l1_of: Vec<f64>,
    /// [`mean_agreeing_bits`] of all parameters.
    pub agreeing_bits: f64,
    /// The same of each tensor.
    pub agreeing_bits_of: Vec<f64>,
    /// [`max_ulps`] of all parameters.
    pub max_ulps: u64,
    /// Distance in the 2-norm over the norm of the reference.
    pub distance: f64,
}

/// How far `theta` is from `reference`, in all and in each of `tensors`.
pub fn distance_between<F: Real>(
    reference: &[F],
    theta: &[F],
    tensors: &[Range<usize>],
) -> Distance {
    let part = |range: &Range<usize>| rel_l1(&reference[range.clone()], &theta[range.clone()]);
    let bits =
        |range: &Range<usize>| mean_agreeing_bits(&reference[range.clone()], &theta[range.clone()]);
    Distance {
        rel_l1: rel_l1(reference, theta),
        rel_l1_of: tensors.iter().map(part).collect(),
        agreeing_bits: mean_agreeing_bits(reference, theta),
        agreeing_bits_of: tensors.iter().map(bits).collect(),
        max_ulps: max_ulps(reference, theta),
        distance: distance(reference, theta) / norm(reference),
    }
}

/// A replica beside another.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// How far it is.
    pub distance: Distance,
    /// [`hash_of_bits`] of its parameters.
    pub hash: String,
}

impl Compared {
    /// `theta` beside `reference`, in all and in each of `tensors`.
    pub fn of<F: Real>(reference: &[F], theta: &[F], tensors: &[Range<usize>]) -> Self {
        let distance = distance_between(reference, theta, tensors);
        Self { distance, hash: hash_of_bits(theta) }
    }
}

/// The relative gradient fluctuation at `theta`: the mean gradient of all `batches` but the last
/// against that of the last. `gradient` is room to work in.
///
/// # Errors
///
/// If a gradient could not be computed.
///
/// # Panics
///
/// With fewer than two batches.
pub fn gradient_fluctuation<F: Real, O: StochasticObjective<F>>(
    objective: &mut O,
    theta: &[F],
    batches: &[Arc<O::Batch>],
    gradient: &mut [F],
) -> Result<f64, O::Error> {
    let count = batches.len();
    assert!(count >= 2, "{count} batches, need one beside the mean of others");
    let mut fluctuation = Fluctuation::new(theta.len());
    let (last, others) = batches.split_last().expect("at least two batches");
    for batch in others {
        objective.set_batch(batch);
        objective.gradient(theta, gradient)?;
        fluctuation.add(gradient);
    }
    objective.set_batch(last);
    objective.gradient(theta, gradient)?;
    Ok(fluctuation.against(gradient))
}

/// Gradients whose mean is held against one more.
#[derive(Debug, Clone)]
pub struct Fluctuation {
    sum: Vec<f64>,
    count: usize,
}

impl Fluctuation {
    /// Of no gradients yet, each of so many numbers.
    pub fn new(len: usize) -> Self {
        Self { sum: vec![0.0; len], count: 0 }
    }

    /// One gradient of the mean.
    pub fn add<F: Real>(&mut self, gradient: &[F]) {
        self.sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g.to_f64());
        self.count += 1;
    }

    /// The relative gradient fluctuation.
    pub fn against<F: Real>(&self, gradient: &[F]) -> f64 {
        let mean = |i: usize| self.sum[i] / self.count as f64;
        let term = |i: usize| {
            let x = mean(i);
            if x == 0.0 { 0.0 } else { (x - gradient[i].to_f64()).abs() / x.abs() }
        };
        let counted = (0..self.sum.len()).filter(|i| mean(*i) != 0.0).count();
        sum_by(self.sum.len(), term) / counted as f64
    }
}
