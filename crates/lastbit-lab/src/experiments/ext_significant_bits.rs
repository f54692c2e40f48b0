//! # How many bits of a trained weight are reproducible?
//!
//! ## Claim
//! A weight has 24 bits in single and 53 in double precision. While training continues at the full
//! learning rate, replicas that differ in rounding agree on fewer and fewer of them: in single
//! precision until one or none is left; in double precision at least as many bits are lost. The
//! other bits of a trained network are decided by rounding.
//!
//! ## Method
//! `k = 3` against `k = 1` in the first seed of tab-relu and of tab-f64, whose runs are shared. Two
//! weights `a` and `b` agree on `-log2(|a - b| / max(|a|, |b|))` bits, clipped to the range from 0
//! to 24 or 53. Shown is the mean over the weights of a layer.
//!
//! ## Reference
//! Not in the paper. The measure is that of stochastic arithmetic (Parker, Monte Carlo Arithmetic).
//!
//! ## Differences
//! - desk: the settings of those tables at this scale.
//! - smoke: the settings of those tables at this scale.

use std::f64::consts::LN_2;

use super::perturbed::{task, training_plan};
use super::{Exhibit, tab_f64, tab_relu};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ReplicaNumber, ReplicaSeries};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("ext_significant_bits.rs"),
    plan,
    not_tested_at_smoke: Some("nine steps are too few to lose most of the bits"),
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "ext-significant-bits";
/// One convolution of each stage, and the last layer.
const LAYERS: [&str; 5] = [
    "conv1.weight",
    "layer1.0.conv1.weight",
    "layer2.0.conv1.weight",
    "layer3.0.conv1.weight",
    "linear.weight",
];
const CELLS: [(&str, f64); 2] = [("f32", 24.0), ("f64", 53.0)];

fn plan(scale: Scale) -> Plan {
    let runs = [tab_relu::GRID, tab_f64::DOUBLE].map(|grid| grid.training(scale, 0));
    let cells = CELLS.iter().zip(runs).map(|((key, _), run)| task(key, run)).collect();
    training_plan(ID, scale, cells)
}

fn checks(record: &Record) -> Vec<Check> {
    let check = |(key, precision): (&str, f64)| {
        let bits = record.number(key, &ReplicaNumber::AgreeingBits.of("k3"));
        // In single precision one bit is left at most, beside what strangers agree on: none where
        // signs differ, else -log2 of a number uniform in (0, 1), which is 1/ln 2 on average. In
        // double precision at least as many are lost as single precision has.
        let most = if key == "f32" { 1.0 + 0.5 / LN_2 } else { precision - 24.0 };
        let name = format!("agreeing bits after training, {key}");
        Check::number(&name, Origin::Claim, most, bits, Band::AtMost)
    };
    CELLS.map(check).into()
}

fn figures(_: &Record) -> Vec<Figure> {
    let figure = |(key, precision): (&str, f64)| {
        let series = ReplicaSeries::Bits.of("k3");
        let trace = |layer: &str| Trace::new(layer, key, &series, "step", layer);
        let chart = Chart::new(
            Axis::linear("step"),
            Axis::linear("agreeing bits"),
            LAYERS.map(trace).into(),
        );
        let title = format!("Reproducible bits of the weights, by layer, {key}");
        let caption = format!("Mean over the weights of a layer, out of {precision} bits.");
        Figure::chart(key, &title, &caption, chart)
    };
    CELLS.map(figure).into()
}
