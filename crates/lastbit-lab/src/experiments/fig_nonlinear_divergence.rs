//! # Rounding differences in the one-layer network
//!
//! ## Claim
//! Gradient descent is run with `k = 1` and with `k = 3`, a factor that cancels except for
//! rounding. At restrained steps the relative difference between the two grows fast and levels off.
//! At stable steps it does not grow.
//!
//! ## Method
//! The runs of fig-nonlinear-loss, each paired with a perturbed copy `K - (dt/k)(k g)`; RelL1
//! between the two kernels at every step.
//!
//! ## Reference
//! The paper, Section 5.4, figure on loss and error of the non-linear PDE, right.
//!
//! ## Differences
//! - smoke: a 64 x 64 image and 200 steps.

use super::Exhibit;
use super::checkerboard_net::{STEPS, cells_over_dt, non_linear, over_dt, settings};
use crate::figure::{Axis, Figure, Level};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::simulate::kernel::KernelRun;
use lastbit::verdict::VerdictKind;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-nonlinear-divergence",
    source: include_str!("fig_nonlinear_divergence.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

fn plan(scale: Scale) -> Plan {
    let settings = settings(&non_linear(scale, 0.03));
    Plan { settings, cells: cells_over_dt(scale, |run| run) }
}

fn checks(record: &Record) -> Vec<Check> {
    let mut checks = Vec::new();
    for (key, dt, kind) in STEPS {
        let found = record.number(key, KernelRun::REL_L1);
        let name = format!("dt = {dt}: final RelL1 between k = 1 and k = 3");
        let (expected, band) = match kind {
            // The twin forgets what it adds at a rate of at least alpha dt = 0.2 a step: a few
            // ulps remain, on small values more of them.
            VerdictKind::Stable => (1e-12, Band::AtMost),
            // Saturated: of the size of the kernel itself.
            VerdictKind::Restrained => (0.1, Band::AtLeast),
            VerdictKind::Diverged | VerdictKind::Undecided => continue,
        };
        checks.push(Check::number(&name, Origin::Paper, expected, found, band));
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let last_bit = Level { label: "unit roundoff of f64".to_owned(), y: f64::EPSILON / 2.0 };
    let text = [
        "rel-l1",
        "RelL1 to the perturbed copy",
        "At restrained steps it grows to the size of the kernel itself.",
    ];
    vec![over_dt(record, text, "curves", "rel_l1", Axis::log("RelL1"), vec![last_bit])]
}
