//! # When during training does one flipped bit matter?
//!
//! ## Claim
//! One bit flipped at the start leads to a different network: most weights differ, and a fifth of
//! the test images are classified differently. The later the flip, the closer the two networks end.
//! After the learning rate was reduced, a flip has almost no effect. What matters is the time left
//! at the full learning rate.
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

use super::Exhibit;
use super::perturbed::{plan, settings, task};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{BUTTERFLY, ReplicaNumber, Training};

pub struct ExtButterfly;

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

fn seeds(scale: Scale) -> std::ops::Range<usize> {
    if scale == Scale::Smoke { 0..1 } else { 0..2 }
}

fn key(seed: usize) -> String {
    format!("seed{seed}")
}

fn replica(time: usize) -> String {
    format!("flip-conv1.weight-0-at{time}")
}

impl Exhibit for ExtButterfly {
    fn id(&self) -> &'static str {
        ID
    }

    fn source(&self) -> &'static str {
        include_str!("ext_butterfly.rs")
    }

    fn plan(&self, scale: Scale) -> Plan {
        let flip = |t: &usize| format!("{{ tensor = \"conv1.weight\", index = 0, step = {t} }}");
        let flips: Vec<String> = times(scale).iter().map(flip).collect();
        let flips = format!("replicas.flip-bit=[{}]", flips.join(", "));
        let cell = |seed: usize| {
            let batch = format!("replicas.seeds.batch=[{seed}]");
            let augment = format!("replicas.seeds.augment=[{seed}]");
            let changes = [
                "replicas.k=[1]",
                flips.as_str(),
                &batch,
                &augment,
                "training.fluctuation-batches=0",
            ];
            task(&key(seed), Training::new(settings(ID, scale, &changes)))
        };
        plan(ID, scale, seeds(scale).map(cell).collect())
    }

    fn checks(&self, record: &Record) -> Vec<Check> {
        let scale = record.exhibit_scale();
        let times = times(scale);
        if scale == Scale::Smoke {
            let distance = record.number(&key(0), &ReplicaNumber::RelL1.of(&replica(times[0])));
            let found = if distance > 0.0 { "yes" } else { "no" };
            let name = "a bit flipped at the start still makes a difference";
            return vec![Check::word(name, Origin::Claim, "yes", found)];
        }
        let (first, last) = (times[0], times[times.len() - 1]);
        let mut checks = Vec::new();
        for seed in seeds(scale) {
            let distance =
                |t: usize| record.number(&key(seed), &ReplicaNumber::RelL1.of(&replica(t)));
            // As in the tables; and the flipped bit itself is 1e-7 of one weight among many.
            for (when, t, limit, band) in
                [("first", first, 0.1, Band::AtLeast), ("last", last, 1e-4, Band::AtMost)]
            {
                let name = format!("seed {seed}: final RelL1, {when} flip (step {t})");
                checks.push(Check::number(&name, Origin::Claim, limit, distance(t), band));
            }
        }
        checks
    }

    fn figures(&self, record: &Record) -> Vec<Figure> {
        let figure = |id: &str, title: &str, caption: &str, y: Axis, column: &str| {
            let trace = |seed: usize| {
                let label = format!("seed {seed}");
                let mut trace = Trace::new(&label, &key(seed), BUTTERFLY, "flipped_at", column);
                trace.marks = true;
                trace
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
}
