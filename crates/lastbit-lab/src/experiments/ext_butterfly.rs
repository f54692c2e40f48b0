//! # When during training does one flipped bit matter?
//!
//! ## Claim
//! One bit flipped at the start leads to a different network: most weights differ, and many test
//! images are classified differently. After the learning rate was reduced, a flip has almost no
//! effect. Of the flips before, later ones matter less, and some not at all: rounding can absorb
//! the flipped bit.
//!
//! ## Method
//! The first network of tab-relu, and copies in which the last bit of one weight (the first of
//! `conv1.weight`) is flipped once, before step `t`. Shown against `t`, at the end of training:
//! RelL1 to the unmodified network, the share of test images that the two classify differently, and
//! the accuracy. Two batch seeds.
//!
//! ## Reference
//! Not in the paper, which perturbs every step from the first.
//!
//! ## Differences
//! - desk: the settings of tab-relu at this scale.
//! - smoke: the settings of tab-relu at this scale, one seed.

use super::perturbed::{settings, task, training_plan};
use super::{Exhibit, largest};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{BUTTERFLY, ReplicaNumber, Training};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("ext_butterfly.rs"),
    plan,
    not_tested_at_smoke: Some(
        "nine steps are too few for a flipped bit to lead to a different network",
    ),
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "ext-butterfly";

/// Steps before which the bit is flipped.
fn times(scale: Scale) -> Vec<usize> {
    match scale {
        Scale::Smoke => vec![0, 4, 8],
        // The learning rate falls at 900 and at 1350; there are 1500 steps.
        Scale::Desk => vec![0, 100, 300, 500, 700, 800, 880, 920, 1000, 1150, 1300, 1400, 1480],
        // It falls every 15,640 steps, and there are 78,200.
        Scale::Paper => {
            vec![0, 391, 3910, 7820, 15_000, 16_500, 23_460, 31_000, 47_000, 62_000, 77_000]
        }
    }
}

/// The step at which the learning rate is first reduced.
fn reduced_at(scale: Scale) -> usize {
    match scale {
        Scale::Smoke => 9,
        Scale::Desk => 900,
        Scale::Paper => 15_640,
    }
}

fn seeds(scale: Scale) -> std::ops::Range<usize> {
    if scale == Scale::Smoke { 0..1 } else { 0..2 }
}

fn key(seed: usize) -> String {
    format!("seed{seed}")
}

fn replica(time: usize) -> String {
    format!("flip-conv1.weight-0-at{time}")
}

fn plan(scale: Scale) -> Plan {
    let flip = |t: &usize| format!("{{ tensor = \"conv1.weight\", index = 0, step = {t} }}");
    let flips: Vec<String> = times(scale).iter().map(flip).collect();
    let flips = format!("replicas.flip-bit=[{}]", flips.join(", "));
    let cell = |seed: usize| {
        let batch = format!("replicas.seeds.batch=[{seed}]");
        let augment = format!("replicas.seeds.augment=[{seed}]");
        let changes =
            ["replicas.k=[1]", flips.as_str(), &batch, &augment, "training.fluctuation-batches=0"];
        task(&key(seed), Training::new(settings(ID, scale, &changes)))
    };
    training_plan(ID, scale, seeds(scale).map(cell).collect())
}

fn checks(record: &Record) -> Vec<Check> {
    let scale = record.exhibit_scale();
    let times = times(scale);
    let flip_after = |t: usize| t >= reduced_at(scale);
    let mut checks = Vec::new();
    for seed in seeds(scale) {
        let number =
            |what: ReplicaNumber, t: usize| record.number(&key(seed), &what.of(&replica(t)));
        let after = times.iter().filter(|t| flip_after(**t));
        let largest = largest(after.map(|t| number(ReplicaNumber::RelL1, *t)));
        // As in the tables: networks that are 0.1 apart are different.
        for (what, limit, found, band) in [
            ("final RelL1, first flip", 0.1, number(ReplicaNumber::RelL1, 0), Band::AtLeast),
            (
                "share of test images classified differently, first flip",
                0.1,
                number(ReplicaNumber::Churn, 0),
                Band::AtLeast,
            ),
            (
                "largest final RelL1 of a flip after the learning rate was reduced",
                0.1,
                largest,
                Band::AtMost,
            ),
        ] {
            let name = format!("seed {seed}: {what}");
            checks.push(Check::number(&name, Origin::Claim, limit, found, band));
        }
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let figure = |id: &str, title: &str, caption: &str, y: Axis, column: &str| {
        let trace = |seed: usize| {
            let label = format!("seed {seed}");
            Trace::new(&label, &key(seed), BUTTERFLY, "flipped_at", column).marked()
        };
        let chart = Chart::new(
            Axis::linear("step at which the bit is flipped"),
            y,
            seeds(record.exhibit_scale()).map(trace).collect(),
        );
        Figure::chart(id, title, caption, chart)
    };
    vec![
        figure(
            "rel-l1",
            "RelL1 at the end of training",
            "Relative to the unmodified network.",
            Axis::log("RelL1"),
            "rel_l1",
        ),
        figure(
            "churn",
            "Share of test images classified differently",
            "By the modified and the unmodified network, after training.",
            Axis::linear("share"),
            "churn",
        ),
        figure(
            "accuracy",
            "Test accuracy",
            "Of the network with the flipped bit, after training.",
            Axis::linear("test accuracy"),
            "test_accuracy",
        ),
    ]
}
