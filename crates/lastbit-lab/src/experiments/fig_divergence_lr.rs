//! # Below some learning rate the last bit is forgotten
//!
//! ## Claim
//! Twins part at usual learning rates and do not part at small ones, over the same training time: what
//! parts them is an instability of the step size, and not the landscape.
//!
//! ## Method
//! Plain gradient descent (no momentum, no schedule) with Swish, `k = 1` beside `k = 3`, on a ladder of
//! learning rates; steps times learning rate is the same for all. RelL1 of all weights, and of one
//! convolution of the second stage as in the paper.
//!
//! Rounding goes on at every step, so even a contracting descent is never free of it: without
//! amplification a distance grows as the root of the number of steps at most, a random walk.
//!
//! ## Reference
//! The paper, Section 4.2, Figure 2, right.
//!
//! ## Differences
//! - desk: ResNet-8 on the 1200 embedded images of CIFAR-10, batches of 32, learning rates from 1 to
//!   1/32, training time 50 (50 to 1600 steps). Without momentum and with eight layers the threshold
//!   lies near 0.1, where ResNet-56 has its own below 3e-5: the ladder stands where the threshold is.
//! - smoke: two rates, 4 and 16 steps.
//! - paper: the paper does not state its training time; here 0.5, which is 10 steps at the largest rate
//!   and 160,000 at the smallest.

use super::Exhibit;
use super::perturbed::ladder::{cell, key, ladder, rise};
use super::perturbed::plan;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::{Plan, Scale};
use crate::record::{Band, Check, Origin, Record};

/// The exhibit.
pub struct FigDivergenceLr;

const ID: &str = "fig-divergence-lr";
/// The convolution that is shown alone.
const LAYER: &str = "layer2.0.conv1.weight";

impl Exhibit for FigDivergenceLr {
    fn id(&self) -> &'static str {
        ID
    }

    fn source(&self) -> &'static str {
        include_str!("fig_divergence_lr.rs")
    }

    fn plan(&self, scale: Scale) -> Plan {
        let cells = ladder(scale).rates.iter().map(|rate| cell(ID, scale, rate)).collect();
        plan(ID, scale, cells)
    }

    fn checks(&self, record: &Record) -> Vec<Check> {
        let scale = Scale::of(record);
        let rates = ladder(scale).rates;
        let (first, last) = (rates[0], rates[rates.len() - 1]);
        let distance = |rate: &str| record.number(&key(rate), "distance-k3");
        let check = |name: &str, expected, found, band| {
            Check::number(name, Origin::Paper, expected, found, band)
        };
        if scale == Scale::Smoke {
            let name = format!("some bit differs at dt = {first}");
            let found = if distance(first) > 0.0 { "yes" } else { "no" };
            return vec![Check::word(&name, Origin::Claim, "yes", found)];
        }
        // A random walk of n roundings of 2^-24 reaches 2^-24 sqrt(n): 2.4e-6 after 1600, 2.4e-5
        // after 160,000. Ten times that is not growth; a hundredth of the weights is nothing else.
        let steps = ladder(scale).time / last.parse::<f64>().expect("a number");
        let walk = 10.0 * f64::from(f32::EPSILON) / 2.0 * steps.sqrt();
        vec![
            check(
                &format!("distance at dt = {first}: parted"),
                1e-2,
                distance(first),
                Band::AtLeast,
            ),
            check(
                &format!("distance at dt = {last}: at most ten times a random walk of roundings"),
                walk,
                distance(last),
                Band::AtMost,
            ),
            check(
                &format!("accuracy gained at dt = {last}: it learns all the same"),
                0.05,
                rise(record, last, "k1"),
                Band::AtLeast,
            ),
        ]
    }

    fn figures(&self, record: &Record) -> Vec<Figure> {
        let mut rates = ladder(Scale::of(record)).rates;
        rates.retain(|rate| record.cell(&key(rate)).is_some());
        let chart = |series: &str, y: &str, label: &str| {
            let trace =
                |rate: &&str| Trace::new(&format!("dt = {rate}"), &key(rate), series, "time", y);
            Chart::new(
                Axis::linear("training time: steps x dt"),
                Axis::log(label),
                rates.iter().map(trace).collect(),
            )
        };
        vec![
            Figure::chart(
                "rel-l1",
                "RelL1 of all weights",
                "Large steps amplify a last bit, small ones only collect their own rounding. Spikes \
                 come from weights that pass through zero, of which RelL1 makes the most.",
                chart("k3", "rel_l1", "RelL1"),
            ),
            Figure::chart(
                "rel-l1-layer",
                &format!("RelL1 of one convolution, {LAYER}"),
                "As the paper shows it.",
                chart("k3-rel-l1", LAYER, "RelL1"),
            ),
            Figure::chart(
                "distance",
                "Distance of all weights in the 2-norm, over their norm",
                "The same without the weight that RelL1 gives to small numbers.",
                chart("k3", "distance", "distance"),
            ),
        ]
    }

    fn shows_parts(&self) -> bool {
        true
    }
}
