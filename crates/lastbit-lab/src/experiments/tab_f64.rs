//! # Double precision does not remove the effect of rounding
//!
//! ## Claim
//! In double precision a rounding error is 2^29 times smaller, yet it changes test accuracy as
//! much: by 0.15 points instead of 0.16. More bits delay the growth by some steps; they do not
//! prevent it.
//!
//! ## Method
//! The table of tab-relu in `f64` and, for comparison, in `f32`. The `f32` runs are those of
//! tab-relu.
//!
//! ## Reference
//! The paper, Section 4.2, Table 1 (right), and Appendix C.
//!
//! ## Differences
//! - desk: the settings of tab-relu at this scale, four seeds.
//! - smoke: the settings of tab-relu at this scale.

use super::perturbed::grid::{Grid, TOO_SHORT};
use super::perturbed::paper::{self, Printed};
use super::perturbed::training_plan;
use super::{Exhibit, tab_relu};
use crate::plan::Plan;
use crate::record::{CONFIDENCE, Check, Origin, Record, Scale};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("tab_f64.rs"),
    plan,
    not_tested_at_smoke: Some(TOO_SHORT),
    checks,
    figures: |record| [DOUBLE, SINGLE].iter().flat_map(|grid| grid.figures(record)).collect(),
    shows_parts: true,
    ..Exhibit::EMPTY
};

const ID: &str = "tab-f64";

/// In double precision.
pub const DOUBLE: Grid = Grid {
    id: ID,
    prefix: "f64-",
    title: "f64",
    changes: |_| vec!["training.precision=f64"],
    desk_seeds: 4,
    paper: Printed::Table(&paper::F64),
};

/// In single precision.
const SINGLE: Grid = Grid { id: ID, prefix: "f32-", title: "f32", desk_seeds: 4, ..tab_relu::GRID };

fn plan(scale: Scale) -> Plan {
    let cells = [DOUBLE, SINGLE].iter().flat_map(|grid| grid.cells(scale));
    training_plan(ID, scale, cells.collect())
}

fn checks(record: &Record) -> Vec<Check> {
    let [double, single] = [DOUBLE, SINGLE].map(|grid| grid.over_k(record));
    // Networks of other precisions round independently of each other: both pool their seeds.
    let quotient = double.zip(single).and_then(|(a, b)| a.over(b, CONFIDENCE));
    let name = "standard deviation over k in f64 over that in f32 (same order)";
    let mut checks = vec![Check::quotient(name, Origin::Claim, quotient, 2.0)];
    checks.extend([DOUBLE, SINGLE].iter().flat_map(|grid| grid.rounding_checks(record)));
    checks
}
