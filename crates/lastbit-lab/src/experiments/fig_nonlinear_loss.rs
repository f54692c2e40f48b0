//! # Loss of the one-layer network at stable, restrained and diverging steps
//!
//! ## Claim
//! At steps 0.01 and 0.03 the kernel converges. At 0.05, 0.07 and 0.09 the loss oscillates for ever
//! but stays bounded. Above `2/alpha = 0.1` it blows up.
//!
//! ## Method
//! A 256 x 256 checkerboard, label 1, a 32 x 32 kernel with normal initial values, Swish with `beta
//! = 1`, weight decay `alpha = 20`, mean pooling, 1000 steps of gradient descent. Beyond the paper:
//! we find the limit between stable and restrained by bisection over verdicts and compare it with
//! `2/lambda_max` at the minimum.
//!
//! ## Reference
//! The paper, Section 5.4, figure on loss and error of the non-linear PDE, left.
//!
//! ## Differences
//! - smoke: a 64 x 64 image and 200 steps; the limit to 1 %.
//! - The paper writes the pooling as an integral; its figure is reproduced with the mean.

use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::Exhibit;
use super::checkerboard_net::{STEPS, cells_over_dt, non_linear, over_dt, settings};
use super::linear_bounds::half_of_bracket;
use crate::figure::{Axis, Figure};
use crate::plan::{Plan, Task};
use crate::record::{Check, Origin, Outcome, Record, Scale};
use crate::simulate::kernel::Over;

/// The cell of the search, and its numbers.
const CELL: &str = "edge";
const EDGE: &str = "edge";
const RELATIVE_WIDTH: &str = "relative_width";
const PREDICTED: &str = "predicted";

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-nonlinear-loss",
    source: include_str!("fig_nonlinear_loss.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

fn plan(scale: Scale) -> Plan {
    let run = non_linear(scale, 0.03);
    let tolerance = if scale == Scale::Smoke { 1e-2 } else { 1e-3 };
    let settings = settings(&run);
    let mut cells = cells_over_dt(scale, |run| run);
    let search = json!({"tolerance": tolerance});
    cells.push(Task::simulation(CELL, search, 12 * run.steps, move |progress| {
        let mut outcome = Outcome::default();
        if let Ok(found) = run.search_edge(Over::Dt, (None, None), tolerance, progress)? {
            outcome.number(EDGE, found.bracket.middle());
            outcome.number(RELATIVE_WIDTH, found.bracket.relative_width());
            outcome.number(PREDICTED, found.predicted.unwrap_or(f64::NAN));
        }
        Ok(outcome)
    }));
    Plan { settings, cells }
}

fn checks(record: &Record) -> Vec<Check> {
    let verdict = |(key, dt, expected): &(&str, f64, VerdictKind)| {
        let name = format!("verdict at dt = {dt}");
        Check::verdict(&name, Origin::Paper, *expected, record.judged(key))
    };
    let mut checks: Vec<Check> = STEPS.iter().map(verdict).collect();
    let width = record.number(CELL, RELATIVE_WIDTH);
    checks.push(Check::number(
        "stability limit by search (expected: 2/lambda_max at the minimum)",
        Origin::ClosedForm,
        record.number(CELL, PREDICTED),
        record.number(CELL, EDGE),
        half_of_bracket(width),
    ));
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let text =
        ["loss", "Loss", "Below the stability limit the loss converges; above it never settles."];
    vec![over_dt(record, text, "curves", "loss", Axis::log("loss"), vec![])]
}
