//! # Three activation regimes and their stability bounds
//!
//! ## Claim
//! Depending on whether the activation is on, in transition or off, the kernel follows one of three
//! linear equations, each with its own bound on the weight decay. A restrained run moves between
//! these regimes; a stable run does not.
//!
//! ## Method
//! The equations of the activated and the not activated regime are run on an image of shapes with
//! mean pooling, and the largest stable weight decay is found by bisection. The network of
//! fig-nonlinear-loss is run at five step sizes, and we count the share of positions in each
//! regime: activated where `beta (K*I) > 1`, not activated where it is below -1, transitioning
//! between.
//!
//! Correction: for the activated regime the paper has `alpha < 2/dt - Ibar²/8`. The constant mode
//! of a kernel with `w²` pixels carries `w²` times as much, and with `r' = 1` the residual changes
//! by `s'(0) Ibar Kbar`, not half of it. The bound is therefore `alpha < 2/dt - s'(0) |S|²`, with
//! `S(z)` the sum of the image under kernel pixel `z` (divided by the number of positions for mean
//! pooling).
//!
//! ## Reference
//! The paper, Section 5.4, table of the regimes, and Appendix D.5.
//!
//! ## Differences
//! - smoke: a 64 x 64 image and 200 steps for the network.

use lastbit::signal::shapes;
use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::Exhibit;
use super::checkerboard_net::{STEPS, cells_over_dt, non_linear, over_dt, settings};
use super::linear_bounds::{exact, half_of_bracket};
use crate::error::Error;
use crate::figure::{Axis, Figure};
use crate::plan::{Plan, Task};
use crate::progress::Progress;
use crate::record::{Band, Check, Origin, Outcome, Record, Scale};
use crate::series::Field;
use crate::simulate::kernel::{Equation, KernelRun, Over, regime_pictures};

/// The largest stable decay, as derived and as found by running.
const EXACT: &str = "alpha_max_exact";
const BY_RUNNING: &str = "alpha_max_by_running";

/// Width of the bracket around it, relative.
const TOLERANCE: f64 = 1e-3;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "tab-regimes",
    source: include_str!("tab_regimes.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

/// A linear regime on an image that has a mean.
fn regime(equation: Equation) -> KernelRun {
    let mut run = non_linear(Scale::Smoke, 0.05);
    run.image = Field { height: 64, width: 64, values: shapes(64, 64, 0.0, 1) };
    run.window = (16, 16);
    run.initial.truncate(256);
    run.equation = equation;
    run.steps = 500;
    run
}

/// The largest stable decay, as derived, as printed and as found by running.
fn bounds(run: &KernelRun, progress: &Progress) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    let positions = 49.0 * 49.0;
    let mean_of_image = run.image.values.iter().sum::<f64>() / positions;
    let of_the_paper = match run.equation {
        Equation::Activated => 2.0 / run.dt - mean_of_image * mean_of_image / 8.0,
        _ => 2.0 / run.dt,
    };
    outcome.number("alpha_max_of_the_paper", of_the_paper);
    outcome.number(EXACT, exact(run)[1]);
    let found = run.search_edge(Over::AlphaMax, (None, None), TOLERANCE, progress)?;
    outcome.number(BY_RUNNING, found.map_or(f64::NAN, |f| f.bracket.middle()));
    Ok(outcome)
}

fn plan(scale: Scale) -> Plan {
    let linear = |(key, equation): (&str, Equation)| {
        let run = regime(equation);
        let settings = json!({"image": "shapes", "side": 64, "window": 16, "dt": run.dt});
        Task::simulation(key, settings, 12 * run.steps, move |progress| bounds(&run, progress))
    };
    let regimes = [("activated", Equation::Activated), ("not-activated", Equation::NotActivated)];
    let mut cells: Vec<Task> = regimes.into_iter().map(linear).collect();
    cells.extend(cells_over_dt(scale, |run| run));
    cells.retain(|cell| cell.key != "dt-0.101");
    Plan { settings: settings(&non_linear(scale, 0.03)), cells }
}

fn checks(record: &Record) -> Vec<Check> {
    let mut checks = Vec::new();
    for key in ["activated", "not-activated"] {
        let name = format!("alpha_max by search (expected: corrected bound), {key}");
        let [exact, found] = [EXACT, BY_RUNNING].map(|number| record.number(key, number));
        let band = half_of_bracket(TOLERANCE);
        checks.push(Check::number(&name, Origin::ClosedForm, exact, found, band));
    }
    for (key, dt, kind) in STEPS {
        let changed = record.number(key, KernelRun::MEAN_CHANGED);
        let name = format!("dt = {dt}: share of positions that change regime per step");
        let (share, band) = match kind {
            VerdictKind::Stable => (0.0, Band::AtMost),
            VerdictKind::Restrained => (0.01, Band::AtLeast),
            VerdictKind::Diverged | VerdictKind::Undecided => continue,
        };
        checks.push(Check::number(&name, Origin::Paper, share, changed, band));
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let mut network = record.clone();
    network.cells.retain(|cell| cell.key.starts_with("dt-"));
    let chart = |id: &str, title: &str, column: &str| {
        over_dt(&network, [id, title, ""], "curves", column, Axis::linear("share"), vec![])
    };
    let with_map = network.cells.iter().filter(|cell| cell.fields.contains_key(KernelRun::REGIMES));
    let maps: Vec<(&str, String)> =
        with_map.map(|cell| (&*cell.key, cell.key.replace("dt-", "dt = "))).collect();
    vec![
        regime_pictures("maps", &maps),
        chart("transitioning", "Share of positions in the transitioning regime", "transitioning"),
        chart("changed", "Share of positions that change regime per step", "changed"),
    ]
}
