//! # The stable learning rate still learns
//!
//! ## Claim
//! At the smallest learning rate of fig-divergence-lr replicas stay together, and accuracy still
//! rises: the run is not stuck. The curves of `k = 1` and `k = 3` coincide. At a larger learning
//! rate they do not.
//!
//! ## Method
//! Test accuracy of both replicas in two runs of fig-divergence-lr: at the smallest learning rate,
//! and at a larger one at which replicas diverge.
//!
//! ## Reference
//! The paper, Appendix C, last figure (and the one after it, cut from the printed version).
//!
//! ## Differences
//! - desk: the settings of fig-divergence-lr at this scale; the larger learning rate is the
//!   largest.
//! - smoke: the settings of fig-divergence-lr at this scale.
//! - paper: the larger learning rate is 3.125e-5, the second smallest.

use super::Exhibit;
use super::perturbed::ladder::{cell, key, ladder, rise};
use super::perturbed::plan;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ReplicaNumber, ReplicaSeries};

pub struct FigStableAccuracy;

const ID: &str = "fig-stable-accuracy";

/// The smallest rate, and one at which twins part.
fn rates(scale: Scale) -> [&'static str; 2] {
    let rates = ladder(scale).rates;
    let unstable = if scale == Scale::Paper { rates.len() - 2 } else { 0 };
    [rates[rates.len() - 1], rates[unstable]]
}

impl Exhibit for FigStableAccuracy {
    fn id(&self) -> &'static str {
        ID
    }

    fn source(&self) -> &'static str {
        include_str!("fig_stable_accuracy.rs")
    }

    fn plan(&self, scale: Scale) -> Plan {
        plan(ID, scale, rates(scale).iter().map(|rate| cell(ID, scale, rate)).collect())
    }

    fn not_tested(&self, scale: Scale) -> Option<&'static str> {
        let why = "the runs have 4 and 16 steps, in which nothing is learned";
        (scale == Scale::Smoke).then_some(why)
    }

    fn checks(&self, record: &Record) -> Vec<Check> {
        let [stable, unstable] = rates(record.exhibit_scale());
        let accuracy = |k: &str| record.number(&key(stable), &ReplicaNumber::TestAccuracy.of(k));
        vec![
            Check::number(
                &format!(
                    "test accuracy of k = 3 at learning rate {stable} (expected: that of k = 1)"
                ),
                Origin::Paper,
                accuracy("k1"),
                accuracy("k3"),
                Band::Same,
            ),
            Check::number(
                &format!("accuracy gained at learning rate {stable}"),
                Origin::Paper,
                0.05,
                rise(record, stable, "k1"),
                Band::AtLeast,
            ),
            // Accuracies may agree by chance, answers to hundreds of images do not.
            Check::number(
                &format!("share of test images classified differently at learning rate {unstable}"),
                Origin::Claim,
                0.01,
                record.number(&key(unstable), &ReplicaNumber::Churn.of("k3")),
                Band::AtLeast,
            ),
        ]
    }

    fn figures(&self, record: &Record) -> Vec<Figure> {
        let figure = |rate: &str| {
            let trace = |k: &str| {
                let series = ReplicaSeries::Tests.of(k);
                let mut trace = Trace::new(k, &key(rate), &series, "step", "test_accuracy");
                trace.marks = true;
                trace
            };
            let chart = Chart::new(
                Axis::linear("step"),
                Axis::linear("test accuracy"),
                ["k1", "k3"].map(trace).into(),
            );
            Figure::chart(&key(rate), &format!("Test accuracy at learning rate {rate}"), "", chart)
        };
        rates(record.exhibit_scale()).map(figure).into()
    }
}
