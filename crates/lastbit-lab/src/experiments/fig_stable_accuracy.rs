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
use super::perturbed::training_plan;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ReplicaNumber, ReplicaSeries};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("fig_stable_accuracy.rs"),
    plan: |scale| {
        training_plan(ID, scale, rates(scale).iter().map(|rate| cell(ID, scale, rate)).collect())
    },
    not_tested_at_smoke: Some("the runs have 4 and 16 steps, in which nothing is learned"),
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "fig-stable-accuracy";

/// The smallest rate, and one at which twins part.
fn rates(scale: Scale) -> [&'static str; 2] {
    let rates = ladder(scale).rates;
    let unstable = if scale == Scale::Paper { rates.len() - 2 } else { 0 };
    [rates[rates.len() - 1], rates[unstable]]
}

fn checks(record: &Record) -> Vec<Check> {
    let [stable, unstable] = rates(record.exhibit_scale());
    let accuracy = |k: &str| record.number(&key(stable), &ReplicaNumber::TestAccuracy.of(k));
    let check = |name: String, origin, expected, found, band| {
        Check::number(&name, origin, expected, found, band)
    };
    let at = format!("at learning rate {stable}");
    let [one, three] = ["k1", "k3"].map(accuracy);
    let same = format!("test accuracy of k = 3 {at} (expected: that of k = 1)");
    let gained = rise(record, stable, "k1");
    // Accuracies may agree by chance, answers to hundreds of images do not.
    let differ = format!("share of test images classified differently at learning rate {unstable}");
    let churn = record.number(&key(unstable), &ReplicaNumber::Churn.of("k3"));
    vec![
        check(same, Origin::Paper, one, three, Band::Same),
        check(format!("accuracy gained {at}"), Origin::Paper, 0.05, gained, Band::AtLeast),
        check(differ, Origin::Claim, 0.01, churn, Band::AtLeast),
    ]
}

fn figures(record: &Record) -> Vec<Figure> {
    let figure = |rate: &str| {
        let trace = |k: &str| {
            let series = ReplicaSeries::Tests.of(k);
            Trace::new(k, &key(rate), &series, "step", "test_accuracy").marked()
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
