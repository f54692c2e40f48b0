//! # Weight decay must lie between two bounds
//!
//! ## Claim
//! The linearized equation of the one-layer network converges for weight decays between `alpha_min`
//! and `alpha_max`, and diverges outside.
//!
//! ## Method
//! A 256 x 256 checkerboard, a 32 x 32 kernel, `dt = 1e-8`, `a = -0.5`, `beta = 1`, forward Euler,
//! sum pooling. The bounds for this kernel size are exact: `alpha_min` is a quarter of the largest
//! eigenvalue `(w (n - w + 1))²` of the patch operator (`w` and `n` are the side lengths of kernel
//! and image), and `alpha_max = 2/dt`. The equation is run at 0.5 and 2 times `alpha_min` and at
//! 0.5, 0.95 and 1.05 times `alpha_max`.
//!
//! ## Reference
//! The paper, Section 5.3, figure on the stability bounds of the linearized PDE.
//!
//! ## Differences
//! - smoke: a 64 x 64 image, with the step scaled accordingly.
//! - We plot the norm of the kernel, because the loss of a run below `alpha_min` is negative.

use super::Exhibit;
use super::checkerboard_net::linear;
use super::linear_bounds::{checks, figure, plan};
use lastbit::verdict::VerdictKind;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-linear-bounds",
    source: include_str!("fig_linear_bounds.rs"),
    plan: |scale| plan(&linear(scale, 32, false), &PROBES),
    checks: |record| checks(record, &PROBES),
    figures: |record| vec![figure(record)],
    ..Exhibit::EMPTY
};

const PROBES: [(&str, f64, f64, VerdictKind); 5] = [
    ("half-of-min", 0.5, 0.0, VerdictKind::Diverged),
    ("twice-min", 2.0, 0.0, VerdictKind::Stable),
    ("half-of-max", 0.0, 0.5, VerdictKind::Stable),
    ("0.95-of-max", 0.0, 0.95, VerdictKind::Stable),
    ("1.05-of-max", 0.0, 1.05, VerdictKind::Diverged),
];
