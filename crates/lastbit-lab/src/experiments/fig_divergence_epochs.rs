//! # Replicas diverge exponentially, then level off
//!
//! ## Claim
//! The weights of two networks that differ only in rounding diverge exponentially and then level
//! off: the instability is restrained. Every network that was tried behaves like this.
//!
//! ## Method
//! RelL1 between `k = 3` and `k = 1` over all weights, for the first seed of tab-relu, tab-swish,
//! tab-adam, tab-f64 and tab-architectures. The runs are shared with those tables. The growth rate
//! is the slope of a line fitted to the logarithm of RelL1 while RelL1 is below 0.01.
//!
//! ## Reference
//! The paper, Section 4.2, Figure 2, left.
//!
//! ## Differences
//! - desk: the settings of those tables at this scale.
//! - smoke: the settings of those tables at this scale.
//! - Adam and double precision are not in the paper's figure.

use lastbit::verdict::VerdictKind;

use super::perturbed::grid::Grid;
use super::perturbed::{task, training_plan};
use super::{Exhibit, tab_adam, tab_architectures, tab_f64, tab_relu, tab_swish};
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ReplicaNumber, ReplicaSeries};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("fig_divergence_epochs.rs"),
    plan,
    not_tested_at_smoke: Some(
        "nine steps are too few for a difference to grow from an ulp to a plateau",
    ),
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ID: &str = "fig-divergence-epochs";

/// Key of the cell, and the table whose first seed it is.
fn runs() -> [(&'static str, Grid); 7] {
    let [vgg_fashion, vgg_cifar, resnet_fashion] = tab_architectures::GRIDS;
    [
        ("resnet-relu", tab_relu::GRID),
        ("resnet-swish", tab_swish::GRID),
        ("resnet-adam", tab_adam::GRID),
        ("resnet-f64", tab_f64::DOUBLE),
        ("vgg-fashion", vgg_fashion),
        ("vgg-cifar", vgg_cifar),
        ("resnet-fashion", resnet_fashion),
    ]
}

fn plan(scale: Scale) -> Plan {
    let cells = runs().map(|(key, grid)| task(key, grid.training(scale, 0)));
    training_plan(ID, scale, cells.into())
}

fn checks(record: &Record) -> Vec<Check> {
    let check = |(key, _): (&str, Grid)| {
        let number = |what: ReplicaNumber| record.number(key, &what.of("k3"));
        let rate = number(ReplicaNumber::GrowthPerStep);
        let least = rate - 3.0 * number(ReplicaNumber::GrowthStandardError);
        // A rate is fitted where enough recorded steps are below 0.01.
        let growth = match least {
            _ if rate.is_nan() => VerdictKind::Undecided.name(),
            least if least > 0.0 => "yes",
            _ => "no",
        };
        let check = |name: &str, expected, what, band| {
            Check::number(&format!("{key}: {name}"), Origin::Paper, expected, number(what), band)
        };
        let grows = format!("{key}: RelL1 grows exponentially below 0.01 (rate above 3 SE)");
        [
            Check::word(&grows, Origin::Paper, "yes", growth),
            // As in the tables: a last bit is 1e-7, strangers are about 1 apart.
            check("final RelL1", 0.1, ReplicaNumber::RelL1, Band::AtLeast),
            // |x − y| ≤ |x| + |y|: more than twice |y| only where one of them has outgrown the other.
            check(
                "final 2-norm distance, over the norm of the weights",
                2.0,
                ReplicaNumber::Distance,
                Band::AtMost,
            ),
        ]
    };
    runs().into_iter().flat_map(check).collect()
}

fn figures(_: &Record) -> Vec<Figure> {
    let series = ReplicaSeries::Curves.of("k3");
    let chart = |y: Axis| {
        Chart::new(
            Axis::linear("epoch"),
            y,
            runs().map(|(key, _)| Trace::new(key, key, &series, "epoch", "rel_l1")).into(),
        )
    };
    let caption = "RelL1 between k = 3 and k = 1, all weights: fast growth, then a plateau.";
    vec![
        Figure::chart("rel-l1", "RelL1 over the epochs", caption, chart(Axis::linear("RelL1"))),
        Figure::chart(
            "rel-l1-log",
            "The same on a logarithmic axis",
            "The initial growth is exponential.",
            chart(Axis::log("RelL1")),
        ),
    ]
}
