//! # Two hidden layers stay below the edge of stability, four cross it
//!
//! ## Claim
//! On 5000 images with a learning rate of 2/150, a fully connected network with two hidden layers
//! is stable: its sharpness peaks below `2/lr` = 150 and its loss falls smoothly. With four hidden
//! layers the sharpness exceeds 150, and the loss has spikes.
//!
//! At paper scale, from three initializations, we find peaks of 151.6, 138.9 and 138.6 for two
//! layers, with a loss that falls at every step, and peaks of 270.2, 239.7 and 312.1 for four (on a
//! GPU).
//!
//! ## Method
//! The first 5000 images of CIFAR-10, each pixel normalized by its mean and standard deviation over
//! these images; layers of width 200 with tanh and biases, PyTorch's default initialization,
//! cross-entropy; full-batch gradient descent without momentum or weight decay, in f32. The
//! sharpness is the largest eigenvalue of the exact Hessian over all images, to a relative residual
//! of 0.1 %. A spike is the peak of an excursion of the loss to more than 1 % above its lowest
//! value so far.
//!
//! ## Reference
//! The paper, Section 6, figure on fully connected networks and CIFAR-5k, after Cohen et al., 2021.
//!
//! ## Differences
//! - smoke: 64 images, layers of width 16, 30 steps.
//! - desk: the first 300 images, which are embedded. With fewer images the sharpness rises less. The
//!   threshold is therefore lower: learning rate 0.04, `2/lr` = 50. 400 steps, sharpness every 10
//!   steps, three initializations.
//! - paper: 4000 steps, sharpness every 50 steps, three initializations. The paper states neither
//!   the number of steps nor the initialization.

use super::Exhibit;
use super::perturbed::{parsed, task};
use super::{largest, smallest};
use crate::figure::{Axis, Chart, Drawing, Figure, Level, Quantity, Strip, Strips, Trace};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ConfigFile, ReplicaNumber, ReplicaSeries, Training};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("fig_fc_cifar5k.rs"),
    plan,
    not_tested_at_smoke: Some(
        "in 30 steps on 64 images the sharpness stays far below its threshold at either depth",
    ),
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "fig-fc-cifar5k";
const DEPTHS: [usize; 2] = [2, 4];
/// The one replica of a run.
const REPLICA: &str = "k1";

/// The settings of the paper.
const PAPER: &str = r#"
data = { name = "cifar10", normalization = "pixel", limit = 5000, test-limit = 1000 }
network = { kind = "mlp", hidden = [200, 200], activation = "tanh", init = "torch" }
loss = { name = "cross-entropy" }
optimizer = { name = "sgd", dt = 0.013333333333333334 }
sharpness = { every = 50 }
[training]
steps = 4000
batch = "full"
metrics-every = 1
evaluate-every = "never"
checkpoint-every = 50
"#;

/// What differs at the other scales.
fn changes(scale: Scale) -> &'static [&'static str] {
    match scale {
        Scale::Smoke => &[
            "data.name=cifar10-small",
            "data.limit=64",
            "data.test-limit=32",
            "training.steps=30",
            "sharpness.every=10",
        ],
        Scale::Desk => &[
            "data.name=cifar10-small",
            "data.limit=300",
            "data.test-limit=300",
            "optimizer.dt=0.04",
            "training.steps=400",
            "sharpness.every=10",
        ],
        Scale::Paper => &[],
    }
}

fn width(scale: Scale) -> usize {
    if scale == Scale::Smoke { 16 } else { 200 }
}

fn initializations(scale: Scale) -> std::ops::Range<u64> {
    match scale {
        Scale::Smoke => 0..1,
        Scale::Desk | Scale::Paper => 0..3,
    }
}

fn key(depth: usize, init: u64) -> String {
    format!("hidden-{depth}-init-{init}")
}

fn settings(scale: Scale, depth: usize, init: u64) -> ConfigFile {
    let mut changes: Vec<String> = changes(scale).iter().map(|&change| change.to_owned()).collect();
    changes.push(format!("network.hidden={:?}", vec![width(scale); depth]));
    changes.push(format!("replicas.seeds.init=[{init}]"));
    parsed(ID, PAPER, &changes)
}

/// `2/dt`, the largest stable curvature.
fn threshold(scale: Scale) -> f64 {
    2.0 / settings(scale, 2, 0).settings.optimizer.dt
}

fn plan(scale: Scale) -> Plan {
    // One initialization of both depths after the other.
    let cells = initializations(scale).flat_map(|init| DEPTHS.map(|depth| (depth, init)));
    let cell = |(depth, init)| task(&key(depth, init), Training::new(settings(scale, depth, init)));
    Plan { settings: settings(scale, 2, 0).to_json(), cells: cells.map(cell).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    let scale = record.exhibit_scale();
    let of = |depth: usize, what: ReplicaNumber| {
        initializations(scale).map(move |init| record.number(&key(depth, init), &what.of(REPLICA)))
    };
    let most = |depth, what| largest(of(depth, what));
    let least = |depth, what| smallest(of(depth, what));
    let edge = threshold(scale);
    let paper = |name: &str, expected, found, band| {
        Check::number(name, Origin::Paper, expected, found, band)
    };
    vec![
        paper(
            "2 hidden layers: largest sharpness over all runs",
            edge,
            most(2, ReplicaNumber::MaxSharpness),
            Band::AtMost,
        ),
        paper(
            "2 hidden layers: largest number of spikes in a run",
            0.0,
            most(2, ReplicaNumber::Spikes),
            Band::AtMost,
        ),
        paper(
            "4 hidden layers: lowest peak sharpness of a run",
            edge,
            least(4, ReplicaNumber::MaxSharpness),
            Band::AtLeast,
        ),
        paper(
            "4 hidden layers: smallest number of spikes in a run",
            1.0,
            least(4, ReplicaNumber::Spikes),
            Band::AtLeast,
        ),
    ]
}

fn figures(record: &Record) -> Vec<Figure> {
    let scale = record.exhibit_scale();
    let cells =
        || DEPTHS.into_iter().flat_map(|depth| initializations(scale).map(move |i| (depth, i)));
    let label = |depth: usize, init: u64| format!("{depth} hidden layers, seed {init}");
    let trace = |(depth, init): (usize, u64), series: &str, y: &str| {
        Trace::new(&label(depth, init), &key(depth, init), series, "step", y)
    };
    let mut losses: Vec<Trace> =
        cells().map(|cell| trace(cell, &ReplicaSeries::Curves.of(REPLICA), "loss")).collect();
    let spiking = |(depth, init): &(usize, u64)| {
        record.number(&key(*depth, *init), &ReplicaNumber::Spikes.of(REPLICA)) > 0.0
    };
    losses.extend(cells().filter(spiking).map(|cell| Trace {
        label: format!("spikes: {}", label(cell.0, cell.1)),
        marks: true,
        ..trace(cell, &ReplicaSeries::Curves.of(REPLICA), "spike")
    }));
    let sharpness =
        cells().map(|cell| trace(cell, &ReplicaSeries::Sharpness.of(REPLICA), "sharpness"));
    let edge = threshold(scale);
    let level = Level { label: "2/lr".to_owned(), y: edge };
    let step = || Axis::linear("step");
    vec![
        Figure::chart(
            "loss",
            "Loss",
            "Mean over all training images. Dots mark spikes.",
            Chart::new(step(), Axis::log("loss"), losses),
        ),
        Figure::chart(
            "sharpness",
            "Sharpness",
            "It rises during training (progressive sharpening). Above the line, gradient descent is \
             unstable along the sharpest direction.",
            Chart {
                levels: vec![level],
                ..Chart::new(step(), Axis::linear("sharpness"), sharpness.collect())
            },
        ),
        peaks(scale, edge),
    ]
}

/// The largest sharpness of each run.
fn peaks(scale: Scale, edge: f64) -> Figure {
    let number = ReplicaNumber::MaxSharpness.of(REPLICA);
    let value = |depth, init| -> Quantity { (key(depth, init).as_str(), number.as_str()).into() };
    let row = |depth| {
        let values = initializations(scale).map(|init| value(depth, init)).collect();
        Strip::new(format!("{depth} hidden layers"), values)
    };
    let mut rows: Vec<Strip> = DEPTHS.map(row).into();
    rows.push(Strip::new("2/lr", vec![edge.into()]));
    let strips = Strips::new("largest sharpness of a run", rows);
    let caption = "One dot per initialization.";
    Figure::new("peaks", "Largest sharpness of each run", caption, Drawing::Strips(strips))
}
