//! # Control: factors of two do not change a single bit
//!
//! ## Claim
//! `k` and `2^n k` give bit-identical trajectories, because multiplying and dividing by two is
//! exact in floating point. All odd factors give different trajectories. The differences in the
//! other tables therefore come from rounding and from nothing else.
//!
//! ## Method
//! The first network of tab-relu with `k` = 1 to 12, three times, on one, two and three threads.
//! The bits of all weights are hashed at every step that is recorded.
//!
//! ## Reference
//! The paper, Appendix B, second table. (Its 94.47 for `k = 8`, trial 1, is a misprint for 93.47.)
//!
//! ## Differences
//! - desk: the settings of tab-relu at this scale, 1 epoch.
//! - smoke: the settings of tab-relu at this scale, 1 epoch.
//! - The paper compares accuracies to two digits; we compare every bit.

use super::Exhibit;
use super::perturbed::{settings, task, training_plan};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Check, Origin, Record, Scale};
use crate::train::{ReplicaSeries, Training};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("tab_power_of_two.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "tab-power-of-two";
/// Threads of each trial.
const TRIALS: [usize; 3] = [1, 2, 3];
const FACTORS: std::ops::RangeInclusive<u32> = 1..=12;

fn key(trial: usize) -> String {
    format!("trial{trial}")
}

fn odd_part(k: u32) -> u32 {
    k >> k.trailing_zeros()
}

/// Two that are missing are not equal.
fn hash(record: &Record, trial: usize, k: u32) -> String {
    let hashes = record.cell(&key(trial)).map(|cell| &cell.hashes);
    let found = hashes.and_then(|hashes| hashes.get(&format!("k{k}")));
    found.cloned().unwrap_or_else(|| format!("none of k = {k}"))
}

fn plan(scale: Scale) -> Plan {
    let mut changes = vec!["replicas.k=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"];
    changes.extend(match scale {
        Scale::Smoke => vec!["training.epochs=1", "training.fluctuation-batches=0"],
        Scale::Desk => vec!["training.epochs=1", "training.fluctuation-batches=0"],
        Scale::Paper => vec![],
    });
    let found = settings(ID, scale, &changes);
    let cell = |threads: usize| {
        task(&key(threads), Training { threads: Some(threads), ..Training::new(found.clone()) })
    };
    training_plan(ID, scale, TRIALS.map(cell).into())
}

fn checks(record: &Record) -> Vec<Check> {
    let mut checks = Vec::new();
    for k in FACTORS.filter(|k| k % 2 == 0) {
        let odd = odd_part(k);
        let name = format!("hash of all recorded weights, k = {k} (expected: k = {odd})");
        let [expected, found] = [odd, k].map(|k| hash(record, 1, k));
        checks.push(Check::word(&name, Origin::Paper, &expected, &found));
    }
    let mut odd: Vec<String> = FACTORS.filter(|k| k % 2 == 1).map(|k| hash(record, 1, k)).collect();
    odd.sort_unstable();
    odd.dedup();
    let distinct = odd.len().to_string();
    checks.push(Check::word(
        "number of distinct trajectories for odd k",
        Origin::Paper,
        "6",
        &distinct,
    ));
    for trial in &TRIALS[1..] {
        let whole = |trial: usize| {
            let hash = record.cell(&key(trial)).and_then(|cell| cell.hash.clone());
            hash.unwrap_or_else(|| format!("none of trial {trial}"))
        };
        let name = format!("hash of trial {trial} (expected: trial 1)");
        checks.push(Check::word(&name, Origin::Paper, &whole(1), &whole(*trial)));
    }
    checks
}

fn figures(_: &Record) -> Vec<Figure> {
    let trace = |k: u32| {
        let series = ReplicaSeries::Curves.of(&format!("k{k}"));
        Trace::new(&format!("k = {k}"), &key(1), &series, "step", "rel_l1")
    };
    let chart = Chart::new(
        Axis::linear("step"),
        Axis::log("RelL1 to k = 1"),
        FACTORS.filter(|k| odd_part(*k) > 1).map(trace).collect(),
    );
    let caption = "Curves of k and 2k coincide. For k = 2, 4 and 8 RelL1 is zero, which a \
                   logarithmic axis cannot show.";
    vec![Figure::chart("rel-l1", "RelL1 for all factors k", caption, chart)]
}
