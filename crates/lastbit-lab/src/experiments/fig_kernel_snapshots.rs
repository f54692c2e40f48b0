//! # The kernel of the one-layer network, frame by frame
//!
//! ## Claim
//! Late in the run, five consecutive frames of the kernel are identical at a stable step and switch
//! between states at a restrained step. At a diverging step the kernel grows from frame to frame.
//!
//! ## Method
//! The non-linear equation of fig-nonlinear-loss at steps 0.03, 0.07 and 0.101. Shown are the last
//! five frames of the run; for the diverging run, five frames after a quarter of it.
//!
//! ## Reference
//! The paper's source, withdrawn figure on the kernel (Section 5.4).
//!
//! ## Differences
//! - smoke: a 64 x 64 image and 200 steps.
//! - The withdrawn figure uses a photograph; ours uses the checkerboard of the other figures.

use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::Exhibit;
use super::checkerboard_net::{non_linear, settings, steps, task};
use crate::figure::{Figure, Panel, Pictures};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Outcome, Record, Scale};
use crate::simulate::kernel::KernelRun;
use crate::simulate::pde::snapshot_name;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-kernel-snapshots",
    source: include_str!("fig_kernel_snapshots.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const RUNS: [(&str, f64, VerdictKind); 3] = [
    ("stable", 0.03, VerdictKind::Stable),
    ("restrained", 0.07, VerdictKind::Restrained),
    ("exploding", 0.101, VerdictKind::Diverged),
];

/// First of the five frames.
fn first_frame(key: &str, steps: usize) -> usize {
    if key == "exploding" { steps / 4 } else { steps - 4 }
}

fn plan(scale: Scale) -> Plan {
    let cell = |(key, dt, _): (&str, f64, VerdictKind)| {
        let first = first_frame(key, steps(scale));
        let snapshots = (first..first + 5).collect();
        task(key, json!({"dt": dt}), KernelRun { snapshots, ..non_linear(scale, dt) })
    };
    let settings = settings(&non_linear(scale, 0.03));
    Plan { settings, cells: RUNS.into_iter().map(cell).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    let mut checks: Vec<Check> = RUNS
        .iter()
        .map(|(key, _, kind)| {
            let name = format!("verdict, {key}");
            Check::verdict(&name, Origin::Paper, *kind, record.judged(key))
        })
        .collect();
    // The positions that change their regime from one step to the next.
    let changed = |key: &str| record.number(key, KernelRun::MEAN_CHANGED);
    for (key, share, band) in [("stable", 0.0, Band::AtMost), ("restrained", 0.01, Band::AtLeast)] {
        let name = format!("share of positions that change regime per step, {key}");
        checks.push(Check::number(&name, Origin::Paper, share, changed(key), band));
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let steps = record.settings["steps"].as_u64().unwrap_or(0) as usize;
    let row = |(key, dt, _): &(&str, f64, VerdictKind)| {
        let first = first_frame(key, steps);
        let known =
            |field: &String| record.cell(key).is_some_and(|cell| cell.fields.contains_key(field));
        let panel = |step: usize| {
            let field = snapshot_name(step);
            let label = format!("step {step}");
            known(&field).then(|| Panel { label, cell: (*key).to_owned(), field })
        };
        let panels: Vec<Panel> = (first..first + 5).filter_map(panel).collect();
        // Grey between plus and minus the largest value of the first frame.
        let size = [Outcome::FIELD_LOW, Outcome::FIELD_HIGH]
            .map(|name| record.number(key, name).abs())
            .into_iter()
            .fold(1e-300, f64::max);
        let pictures = Pictures { range: [-size, size], panels };
        Figure::pictures(key, &format!("Kernel at dt = {dt}: {key}"), "", pictures)
    };
    RUNS.iter().map(row).collect()
}
