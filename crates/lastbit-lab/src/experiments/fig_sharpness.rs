//! # Sharpness of the one-layer network and the edge of stability
//!
//! ## Claim
//! The normalized sharpness `dt lambda_max` stays below 2 at the stable steps 0.01 and 0.03. At the
//! restrained steps 0.05, 0.07 and 0.09 it crosses 2 again and again.
//!
//! ## Method
//! The runs of fig-nonlinear-loss. `lambda_max` of the exact Hessian is computed by Lanczos'
//! method, started from the previous eigenvector plus a tenth of a random vector. The checks use
//! the second half of each run, to exclude the initial transient.
//!
//! ## Reference
//! The paper, Section 6.1, figure on the normalized sharpness.
//!
//! ## Differences
//! - smoke: a 64 x 64 image and 200 steps.
//! - The sharpness is measured at every second step.

use super::Exhibit;
use super::checkerboard_net::{STEPS, cells_over_dt, non_linear, over_dt, settings};
use crate::figure::{Axis, Figure, Level};
use crate::plan::Plan;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::simulate::kernel::KernelRun;
use lastbit::verdict::VerdictKind;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-sharpness",
    source: include_str!("fig_sharpness.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

fn plan(scale: Scale) -> Plan {
    let settings = settings(&non_linear(scale, 0.03));
    let measured = |run: KernelRun| KernelRun { sharpness_every: 2, ..run };
    let mut cells = cells_over_dt(scale, measured);
    cells.retain(|cell| cell.key != "dt-0.101");
    Plan { settings, cells }
}

fn checks(record: &Record) -> Vec<Check> {
    let check = |(key, dt, kind): &(&str, f64, VerdictKind)| {
        let band = match *kind {
            VerdictKind::Stable => Band::AtMost,
            VerdictKind::Restrained => Band::AtLeast,
            VerdictKind::Diverged | VerdictKind::Undecided => return None,
        };
        let name = format!("dt = {dt}: largest dt lambda_max in the second half of the run");
        let found = record.number(key, KernelRun::LATE_NORMALIZED_SHARPNESS);
        Some(Check::number(&name, Origin::Paper, 2.0, found, band))
    };
    STEPS.iter().filter_map(check).collect()
}

fn figures(record: &Record) -> Vec<Figure> {
    let edge = Level { label: "edge of stability".to_owned(), y: 2.0 };
    let text = [
        "sharpness",
        "Normalized sharpness",
        "dt times the largest Hessian eigenvalue. A step is unstable above 2.",
    ];
    let axis = Axis::linear("dt lambda_max");
    vec![over_dt(record, text, "sharpness", "normalized", axis, vec![edge])]
}
