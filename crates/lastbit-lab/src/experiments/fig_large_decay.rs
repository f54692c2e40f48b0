//! # With large weight decay, the largest stable learning rate tends to 2/alpha
//!
//! ## Claim
//! In standard networks, the largest stable learning rate times half the weight decay tends to one
//! as the weight decay grows.
//!
//! ## Method
//! Weight decay `alpha` adds `alpha` to every eigenvalue of the Hessian. At a minimum, the limit of
//! plain gradient descent is therefore `2/(alpha + lambda_max)`, with `lambda_max` that of the loss
//! alone. Multiplied by `alpha/2` this is `alpha/(alpha + lambda_max)`, which is below one and
//! tends to it.
//!
//! Large weight decay also draws the weights to zero. The curvature left there couples neighbouring
//! layers, through the mean of residual times input. It is of the order of ten for normalized
//! pixels, so weight decays well above ten count as large. At smaller ones, a run from the usual
//! initial weights can diverge on its way to a minimum that would be stable at its learning rate.
//!
//! Limits are found by bisection over verdicts, with full-batch runs in f64: a perceptron, a small
//! convolutional network, and the same with batch norm.
//!
//! ## Reference
//! The paper, withdrawn appendix on weight decay.
//!
//! ## Differences
//! - smoke: 12 images, only the perceptron, two weight decays, 64 steps.
//! - desk: 24 images (zeros and ones of MNIST), 150 steps, limits to 1 %.
//! - paper: 1000 images, 500 steps. (The paper does not name its networks and data here.)

use std::sync::Arc;

use serde_json::json;

use super::Exhibit;
use super::one_channel::horizon_of_a_search;
use super::perturbed::parsed;
use crate::edge::{EdgeNumber, End, Over, Probes, Property, Search, searched};
use crate::error::Error;
use crate::figure::{Drawing, Figure, HeatMap};
use crate::plan::{Plan, Task};
use crate::progress::Progress;
use crate::record::{Band, Check, Origin, Outcome, Record, Scale};
use crate::train::Prepared;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-large-decay",
    source: include_str!("fig_large_decay.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

/// Name, section `network`.
const NETWORKS: [(&str, &str, &str); 3] = [
    ("mlp", "perceptron", "kind = \"mlp\"\nhidden = [16]\nactivation = \"tanh\""),
    ("cnn", "convolutional", "kind = \"cnn\"\nchannels = [4, 8]\nactivation = \"relu\""),
    (
        "cnn-bn",
        "with batch norm",
        "kind = \"cnn\"\nchannels = [4, 8]\nactivation = \"relu\"\nbatch-norm = true",
    ),
];
const DECAYS: [&str; 5] = ["0.1", "1", "10", "100", "1000"];

fn grid(
    scale: Scale,
) -> (&'static [(&'static str, &'static str, &'static str)], &'static [&'static str]) {
    match scale {
        Scale::Smoke => (&NETWORKS[..1], &DECAYS[3..]),
        Scale::Desk | Scale::Paper => (&NETWORKS[..], &DECAYS[..]),
    }
}

/// Images, steps, width of a bracket.
fn effort(scale: Scale) -> (usize, usize, f64) {
    match scale {
        Scale::Smoke => (12, 64, 0.02),
        Scale::Desk => (24, 150, 0.01),
        Scale::Paper => (1000, 500, 0.01),
    }
}

fn key(network: &str, alpha: &str) -> String {
    format!("{network}-alpha-{alpha}")
}

/// Name of the product of a number with half the decay.
fn times_half_alpha(what: EdgeNumber) -> String {
    format!("{what}_times_half_alpha")
}

/// The edge of a network at a decay, and its product with half the decay.
fn compute(scale: Scale, network: &str, alpha: f64, progress: &Progress) -> Result<Outcome, Error> {
    let (images, steps, tolerance) = effort(scale);
    // Where the decay is all, the edge is at 2/alpha: one halving below is the place to begin.
    let text = format!(
        "[data]\nname = \"mnist01\"\nlimit = {images}\n[network]\n{network}\n\
         [optimizer]\nname = \"sgd\"\ndt = {:?}\nalpha = {alpha:?}\n\
         [training]\nsteps = {steps}\nbatch = \"full\"\nprecision = \"f64\"\n",
        1.0 / alpha,
    );
    let found = parsed("large-decay", &text, &[]);
    let prepared = Arc::new(Prepared::new(found, None, true).expect("embedded data"));
    let horizon = horizon_of_a_search(steps);
    let probes = Probes::new(prepared, Over::Dt, 0, horizon, false)?;
    let search =
        Search { over: Over::Dt, property: Property::Stable, start: None, ends: None, tolerance };
    let mut outcome = searched(&probes, &search, progress)?;
    let half = 0.5 * alpha;
    for what in [EdgeNumber::Edge, EdgeNumber::Predicted] {
        let value = outcome.numbers.get(&what.of(End::Largest)).map_or(f64::NAN, |n| n.0);
        outcome.number(&times_half_alpha(what), half * value);
    }
    Ok(outcome)
}

fn plan(scale: Scale) -> Plan {
    let (images, steps, tolerance) = effort(scale);
    let settings = json!({
        "data": "mnist01", "images": images, "optimizer": "sgd", "batch": "full", "steps": steps,
        "tolerance": tolerance, "precision": "f64", "loss": "cross-entropy",
    });
    let (networks, decays) = grid(scale);
    let mut cells = Vec::new();
    for (name, _, network) in networks {
        for alpha in decays {
            let value: f64 = alpha.parse().expect("a number");
            let settings = json!({ "network": network, "alpha": value });
            cells.push(Task::simulation(
                &key(name, alpha),
                settings,
                10 * steps,
                move |progress| compute(scale, network, value, progress),
            ));
        }
    }
    Plan { settings, cells }
}

fn checks(record: &Record) -> Vec<Check> {
    let scale = record.exhibit_scale();
    let (_, steps, tolerance) = effort(scale);
    let (networks, decays) = grid(scale);
    let last = decays[decays.len() - 1];
    let mut checks = Vec::new();
    for (name, label, _) in networks {
        let found = record.number(&key(name, last), &times_half_alpha(EdgeNumber::Edge));
        // Half of the bracket, the rule's resolution, and what is left of the curvature: 2 percent.
        let band = 0.5 * tolerance + 0.1 / steps as f64 + 0.02;
        let what =
            format!("{label}, weight decay {last}: largest stable learning rate times alpha/2");
        checks.push(Check::number(&what, Origin::Paper, 1.0, found, Band::Relative(band)));
        // It tends to one: what is missing goes as 1/alpha, so ten times the decay at least halve it.
        let first = record.number(&key(name, decays[0]), &times_half_alpha(EdgeNumber::Edge));
        let what = format!("{label}: distance of that product to one, over that at {}", decays[0]);
        let ratio = (1.0 - found).abs() / (1.0 - first).abs();
        checks.push(Check::number(&what, Origin::Paper, 0.5, ratio, Band::AtMost));
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let (networks, decays) = grid(record.exhibit_scale());
    let map = |id: &str, title: &str, caption: &str, what: EdgeNumber| {
        let number = times_half_alpha(what);
        let entries = |(name, _, _): &(&str, &str, &str)| {
            let entry = |alpha: &&str| (key(name, alpha).as_str(), number.as_str()).into();
            decays.iter().map(entry).collect()
        };
        let map = HeatMap {
            label: "learning rate x alpha/2".to_owned(),
            row_heading: "network".to_owned(),
            column_heading: "weight decay alpha".to_owned(),
            rows: networks.iter().map(|(_, label, _)| (*label).to_owned()).collect(),
            columns: decays.iter().map(|alpha| (*alpha).to_owned()).collect(),
            entries: networks.iter().map(entries).collect(),
            factor: 1.0,
            decimals: 3,
            margins: None,
        };
        Figure::new(id, title, caption, Drawing::HeatMap(map))
    };
    vec![
        map(
            "edges",
            "Largest stable learning rate times alpha/2, by search",
            "One means that weight decay alone sets the limit.",
            EdgeNumber::Edge,
        ),
        map(
            "predicted",
            "The same, predicted by the sharpness at the end of the stable run",
            "alpha/(alpha + lambda_max), lambda_max that of the loss without weight decay.",
            EdgeNumber::Predicted,
        ),
    ]
}
