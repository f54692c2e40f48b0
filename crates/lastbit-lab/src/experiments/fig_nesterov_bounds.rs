//! # Weight decay must lie between two bounds: Nesterov's method
//!
//! ## Claim
//! With Nesterov momentum there are still two bounds on the weight decay; the upper one is larger.
//!
//! ## Method
//! As fig-linear-bounds, with `dt = 1e-4` and `mu = 0.9`. The paper's upper bound is `4/(3 dt²)`.
//! The roots of the recursion give `4/((1 + 2 mu) dt²)`, which is 7 % larger. The equation is run
//! at 0.5 and 2 times `alpha_min`, at 1.03 times the paper's upper bound (which must still be
//! stable), and at 0.97 and 1.03 times the exact upper bound.
//!
//! ## Reference
//! The paper, Appendix E, figure on the stability bounds for Nesterov's method.
//!
//! ## Differences
//! - smoke: a 64 x 64 image, with the step scaled accordingly.
//! - We plot the norm of the kernel, because the loss of a run below `alpha_min` is negative.

use super::Exhibit;
use super::checkerboard_net::linear;
use super::linear_bounds::{checks, figure, plan};
use lastbit::verdict::VerdictKind;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-nesterov-bounds",
    source: include_str!("fig_nesterov_bounds.rs"),
    plan: |scale| plan(&linear(scale, 32, true), &PROBES),
    checks: |record| checks(record, &PROBES),
    figures: |record| vec![figure(record)],
    ..Exhibit::EMPTY
};

/// The paper's bound over the exact one: `(1 + 2 mu)/3` at `mu = 0.9`.
const PAPER: f64 = 2.8 / 3.0;

const PROBES: [(&str, f64, f64, VerdictKind); 5] = [
    ("half-of-min", 0.5, 0.0, VerdictKind::Diverged),
    ("twice-min", 2.0, 0.0, VerdictKind::Stable),
    ("1.03-of-papers-max", 0.0, 1.03 * PAPER, VerdictKind::Stable),
    ("0.97-of-max", 0.0, 0.97, VerdictKind::Stable),
    ("1.03-of-max", 0.0, 1.03, VerdictKind::Diverged),
];
