//! # Depth destabilizes: one layer against three, without weight decay
//!
//! ## Claim
//! On the zeros and ones of MNIST, a one-layer network with one channel is stable at every learning
//! rate tried. A three-layer network is stable at 1 and 3. At 5 it is restrained: again and again
//! it reaches regions that are too sharp for this learning rate, and it stays bounded.
//!
//! ## Method
//! Layers with one channel (3x3, padding 1, no bias, Swish with `beta` = 1), mean over all
//! positions, sigmoid, binary cross-entropy; pixels from 0 to 1, full batch, plain gradient descent
//! from PyTorch's initialization (uniform between -1/3 and 1/3), in f64. Each run gets a verdict
//! and is paired with a copy perturbed by one ulp. The final sharpness is that of the exact
//! Hessian.
//!
//! Without weight decay, a network that can fit its images keeps sharpening, and no learning rate
//! is safe for ever. The verdicts hold for this number of steps and this initialization.
//!
//! ## Reference
//! The paper, Section 6.2, figure on depth. It does not state padding, pixel range, initialization
//! or number of steps.
//!
//! ## Differences
//! - smoke: 12 images, 64 steps, only learning rates at which both networks are stable.
//! - desk: the first 50 images, 5000 steps, seed 2. A network that fits few images sharpens
//!   further: from seeds 0 and 1, three layers cross the edge at learning rate 3 as well.
//! - paper: all 12,665 images, 5000 steps.

use serde_json::json;

use lastbit::verdict::{Horizon, VerdictKind};

use super::Exhibit;
use super::one_channel::{OneChannel, in_words, on_device};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::{Plan, Task};
use crate::record::{Check, Origin, Record, Scale};
use crate::train::Device;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-depth",
    source: include_str!("fig_depth.rs"),
    plan: |scale| plan(scale, Device::Cpu),
    plan_on: Some(|scale, device| on_device(plan(scale, device), device)),
    not_tested_at_smoke: Some(
        "only learning rates at which both depths are stable are run, on 12 images for 64 steps",
    ),
    checks,
    figures,
    ..Exhibit::EMPTY
};

/// Layers, learning rate, verdict.
const RUNGS: [(usize, &str, VerdictKind); 8] = [
    (1, "1", VerdictKind::Stable),
    (1, "3", VerdictKind::Stable),
    (1, "5", VerdictKind::Stable),
    (1, "20", VerdictKind::Stable),
    (1, "80", VerdictKind::Stable),
    (3, "1", VerdictKind::Stable),
    (3, "3", VerdictKind::Stable),
    (3, "5", VerdictKind::Restrained),
];

fn rungs(scale: Scale) -> Vec<(usize, &'static str, VerdictKind)> {
    let mut rungs = RUNGS.to_vec();
    if scale == Scale::Smoke {
        rungs.retain(|(_, _, verdict)| *verdict == VerdictKind::Stable);
    }
    rungs
}

fn key(layers: usize, dt: &str) -> String {
    format!("net{layers}-dt-{dt}")
}

fn run(scale: Scale, layers: usize, dt: &str) -> OneChannel {
    let (images, steps) = match scale {
        Scale::Smoke => (Some(12), 64),
        Scale::Desk => (Some(50), 5000),
        Scale::Paper => (None, 5000),
    };
    let dt = dt.parse().expect("a number");
    OneChannel { layers, images, alpha: 0.0, dt, seed: 2, steps }
}

fn plan(scale: Scale, device: Device) -> Plan {
    let cell = |(layers, dt, _): (usize, &str, VerdictKind)| {
        let run = run(scale, layers, dt);
        let horizon = Horizon::exactly(run.steps);
        let settings = json!({ "layers": layers, "dt": run.dt, "seed": run.seed });
        Task::simulation(&key(layers, dt), settings, run.steps, move |progress| {
            Ok(run.probes(device, horizon, true)?.run(run.dt, progress)?.1)
        })
    };
    let any = run(scale, 1, "1");
    let mut settings = any.settings();
    settings["alpha"] = json!(0.0);
    settings["steps"] = json!(any.steps);
    Plan { settings, cells: rungs(scale).into_iter().map(cell).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    let check = |(layers, dt, expected): (usize, &str, VerdictKind)| {
        let name = format!("verdict: {}, learning rate {dt}", in_words(layers));
        let found = record.judged(&key(layers, dt));
        Check::verdict(&name, Origin::Paper, expected, found)
    };
    rungs(record.exhibit_scale()).into_iter().map(check).collect()
}

fn figures(record: &Record) -> Vec<Figure> {
    let rungs = rungs(record.exhibit_scale());
    let chart = |layers: usize, series: &str, column: &str, label: &str| {
        let own = rungs.iter().filter(|(own, ..)| *own == layers);
        let traces = own.map(|(layers, dt, _)| {
            let key = key(*layers, dt);
            let verdict = record.verdict(&key).map_or("missing", VerdictKind::name);
            let label = format!("learning rate {dt}, {verdict}");
            Trace::new(&label, &key, series, "step", column)
        });
        Chart::new(Axis::linear("step"), Axis::log(label), traces.collect())
    };
    let [one, three] = [1, 3].map(|layers| chart(layers, "curves", "loss", "loss"));
    vec![
        Figure::chart("loss-1", "Loss, one layer", "It falls at every learning rate.", one),
        Figure::chart(
            "loss-3",
            "Loss, three layers",
            "At 5 the run is restrained: the loss spikes, recovers and stays bounded.",
            three,
        ),
        Figure::chart(
            "twins",
            "Three layers: distance to a copy perturbed by one ulp",
            "Relative 2-norm distance of the weights.",
            chart(3, "twin", "distance", "distance"),
        ),
    ]
}
