//! # Control: with all seeds fixed, repeated runs are bit-identical
//!
//! ## Claim
//! Three trials with `k = 1` coincide at every epoch. Nothing random is left, so rounding alone
//! causes the differences in the other tables.
//!
//! ## Method
//! The first network of tab-relu is trained three times, on one, two and three threads. The bits of
//! all weights are hashed at every step that is recorded, and the hashes are compared.
//!
//! ## Reference
//! The paper, Appendix B, first table.
//!
//! ## Differences
//! - desk: the settings of tab-relu at this scale.
//! - smoke: the settings of tab-relu at this scale.
//! - The paper compares accuracies to two digits; we compare every bit.

use super::Exhibit;
use super::perturbed::{settings, task, training_plan};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Check, Origin, Record, Scale};
use crate::train::{ReplicaSeries, Training};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("tab_seeds_fixed.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "tab-seeds-fixed";
/// Threads of each trial.
const TRIALS: [usize; 3] = [1, 2, 3];

fn key(trial: usize) -> String {
    format!("trial{trial}")
}

fn plan(scale: Scale) -> Plan {
    let found = settings(ID, scale, &["replicas.k=[1]"]);
    let cell = |threads: usize| {
        task(&key(threads), Training { threads: Some(threads), ..Training::new(found.clone()) })
    };
    training_plan(ID, scale, TRIALS.map(cell).into())
}

fn checks(record: &Record) -> Vec<Check> {
    let hash = |trial| record.cell(&key(trial)).and_then(|cell| cell.hash.clone());
    // Two that are missing are not equal.
    let hash = |trial: usize| hash(trial).unwrap_or_else(|| format!("none of trial {trial}"));
    let check = |trial: &usize| {
        let name = format!("hash of all recorded weights, trial {trial} (expected: trial 1)");
        Check::word(&name, Origin::Paper, &hash(1), &hash(*trial))
    };
    TRIALS[1..].iter().map(check).collect()
}

fn figures(_: &Record) -> Vec<Figure> {
    let trace = |trial: usize| {
        let (label, series) = (format!("trial {trial}"), ReplicaSeries::Tests.of("k1"));
        Trace::new(&label, &key(trial), &series, "epoch", "test_accuracy").marked()
    };
    let chart =
        Chart::new(Axis::linear("epoch"), Axis::linear("test accuracy"), TRIALS.map(trace).into());
    let caption = "The three curves coincide.";
    vec![Figure::chart("accuracy", "Test accuracy of three trials", caption, chart)]
}
