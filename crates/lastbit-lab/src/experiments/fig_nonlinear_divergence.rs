//! # Two runs that differ in rounding only, on the one-layer network
//!
//! ## Claim
//! Between gradient descent with `k = 1` and with `k = 3` (a factor that cancels but for rounding)
//! the relative difference grows fast and levels off where the step is restrained, and does not grow
//! where it is stable.
//!
//! ## Method
//! The runs of fig-nonlinear-loss, each beside its perturbed twin
//! `K - (dt/k)(k g)`; RelL1 of the two kernels over the steps.
//!
//! ## Reference
//! The paper, Section 5.4, figure on loss and error of the non-linear PDE, right.
//!
//! ## Differences
//! - smoke: an image of 64 x 64 and 200 steps.

use super::Exhibit;
use super::checkerboard_net::{STEPS, cells_over_dt, non_linear, over_dt, settings};
use crate::figure::{Axis, Figure, Level};
use crate::plan::{Plan, Scale};
use crate::record::{Band, Check, Origin, Record};

/// The exhibit.
pub struct FigNonlinearDivergence;

impl Exhibit for FigNonlinearDivergence {
    fn id(&self) -> &'static str {
        "fig-nonlinear-divergence"
    }

    fn source(&self) -> &'static str {
        include_str!("fig_nonlinear_divergence.rs")
    }

    fn plan(&self, scale: Scale) -> Plan {
        let settings = settings(&non_linear(scale, 0.03));
        Plan { settings, cells: cells_over_dt(scale, |run| run) }
    }

    fn checks(&self, record: &Record) -> Vec<Check> {
        let mut checks = Vec::new();
        for (key, dt, kind) in STEPS {
            let found = record.number(key, "rel_l1");
            let name = format!("dt = {dt}: RelL1 of k = 1 and k = 3 in the end");
            match kind {
                // The twin forgets what it adds at a rate of at least alpha dt = 0.2 a step: a few
                // ulps remain, on small values more of them.
                "stable" => {
                    checks.push(Check::number(&name, Origin::Paper, 1e-12, found, Band::AtMost));
                }
                // Saturated: of the size of the kernel itself.
                "restrained" => {
                    checks.push(Check::number(&name, Origin::Paper, 0.1, found, Band::AtLeast));
                }
                _ => {}
            }
        }
        checks
    }

    fn figures(&self, record: &Record) -> Vec<Figure> {
        let last_bit = Level { label: "last bit of f64".to_owned(), y: f64::EPSILON / 2.0 };
        let text = [
            "rel-l1",
            "RelL1 of the perturbed twin",
            "It grows to the size of the kernel where the step is restrained.",
        ];
        vec![over_dt(record, text, "curves", "rel_l1", Axis::log("RelL1"), vec![last_bit])]
    }
}
