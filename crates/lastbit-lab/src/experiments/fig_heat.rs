//! # The heat equation on both sides of its stability limit (CFL condition)
//!
//! ## Claim
//! The explicit scheme is stable exactly when `r = κ dt/dx² < 1/2`. At `r = 0.4` a triangular
//! profile flattens to zero. At `r = 0.8` errors grow, first at the kink of the triangle, soon
//! everywhere.
//!
//! ## Method
//! 31 nodes, `dx = 1`, `κ = 1`, a triangle of height 1.5, both ends held at 0. Each step multiplies
//! mode `j` of the mesh by exactly `1 − 4r sin²(jπ/60)`. The profiles are compared with the sum
//! over these modes, and the growth rate of a perturbed copy with the largest factor. The exact
//! limit of this mesh is `r = 1/(2 sin²(29π/60))`; the verdict is tested 0.1 % below and above it.
//!
//! ## Reference
//! The paper, Section 3.1, figure "Illustration of instability in discretizing the heat equation".
//!
//! ## Differences
//! - smoke: the stable run has 1000 steps, so its last profile is that at t = 200.

use lastbit::verdict::VerdictKind;
use std::f64::consts::PI;

use lastbit::pde::heat::{Ends, amplification, dt_max_on_mesh};
use lastbit::signal::triangle;
use serde_json::json;

use super::Exhibit;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::{Plan, Task};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::simulate::Precision;
use crate::simulate::heat::HeatRun;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-heat",
    source: include_str!("fig_heat.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const POINTS: usize = 31;
const HEIGHT: f64 = 1.5;
const STABLE_TIMES: [f64; 7] = [0.0, 0.8, 2.4, 4.0, 100.0, 200.0, 800.0];
const UNSTABLE_TIMES: [f64; 4] = [0.0, 0.8, 2.4, 4.0];

/// The cells: key, `r`, times of the profiles.
fn cells() -> Vec<(&'static str, f64, &'static [f64])> {
    let edge = dt_max_on_mesh(1.0, 1.0, Ends::Dirichlet, POINTS);
    vec![
        ("r-0.4", 0.4, &STABLE_TIMES),
        ("r-0.8", 0.8, &UNSTABLE_TIMES),
        ("below-edge", 0.999 * edge, &[]),
        ("above-edge", 1.001 * edge, &[]),
    ]
}

fn plan(scale: Scale) -> Plan {
    let steps = if scale == Scale::Smoke { 1000 } else { 4000 };
    let task = |(key, r, times): (&str, f64, &[f64])| {
        let last = steps as f64 * r;
        let times: Vec<f64> = times.iter().copied().filter(|t| *t <= last).collect();
        let run = HeatRun {
            dt: r,
            dx: 1.0,
            kappa: 1.0,
            ends: Ends::Dirichlet,
            precision: Precision::F64,
            steps,
            times: times.clone(),
            initial: triangle(POINTS, HEIGHT),
        };
        let settings = json!({"dt": r, "times": times});
        Task::simulation(key, settings, steps, move |progress| run.run(progress))
    };
    let settings = json!({
        "points": POINTS, "height": HEIGHT, "dx": 1.0, "kappa": 1.0, "ends": "dirichlet",
        "precision": "f64", "steps": steps,
    });
    Plan { settings, cells: cells().into_iter().map(task).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    use Origin::{ClosedForm, Paper};
    use VerdictKind::{Diverged, Stable};
    let verdict = |name: &str, origin, expected, key: &str| {
        Check::verdict(name, origin, expected, record.judged(key))
    };
    let check =
        |name: &str, expected, found, band| Check::number(name, ClosedForm, expected, found, band);
    let error = |key: &str| record.number(key, HeatRun::ERROR_OF_PROFILES);
    // Four roundings a step, each of at most half an ulp of the largest value, are carried on
    // with the profile itself; the oracle's powers carry as many. Its sines add the rounding
    // of their arguments, which reach 30 π.
    let rounding = |steps: f64| (8.0 * steps + 30.0 * PI) * f64::EPSILON;
    let slowest = libm::log(amplification(0.4, PI / 30.0));
    let fastest = libm::log(amplification(0.8, 29.0 * PI / 30.0).abs());
    vec![
        verdict("verdict at r = 0.4", Paper, Stable, "r-0.4"),
        verdict("verdict at r = 0.8", Paper, Diverged, "r-0.8"),
        verdict("verdict at 0.999 of the mesh's stability limit", ClosedForm, Stable, "below-edge"),
        verdict(
            "verdict at 1.001 of the mesh's stability limit",
            ClosedForm,
            Diverged,
            "above-edge",
        ),
        check(
            "largest relative error of the profiles at r = 0.4 (exact: sum over modes)",
            rounding(2000.0),
            error("r-0.4"),
            Band::AtMost,
        ),
        check(
            "largest relative error of the profiles at r = 0.8 (exact: sum over modes)",
            rounding(5.0),
            error("r-0.8"),
            Band::AtMost,
        ),
        // The twin is kept between 0.01 and 10 times √u of the state: its rounding is at most
        // 100 √u ≈ 1e-6 of its size at each of the few times it is brought back.
        check(
            "growth rate per step at r = 0.4 (exact: slowest mode)",
            slowest,
            record.growth("r-0.4"),
            Band::Relative(1e-4),
        ),
        // The run ends after few steps, in which modes 27 to 29 are not yet told apart: their
        // rates differ by up to 2 %.
        check(
            "growth rate per step at r = 0.8 (exact: fastest mode)",
            fastest,
            record.growth("r-0.8"),
            Band::Relative(0.02),
        ),
    ]
}

fn figures(record: &Record) -> Vec<Figure> {
    let profiles = |key: &str, title: &str, caption: &str| {
        let cell = record.cell(key)?;
        let r = cell.settings["dt"].as_f64()?;
        let times = cell.settings["times"].as_array()?;
        let trace = |time: &serde_json::Value| {
            let step = (time.as_f64()? / r).round() as usize;
            let column = HeatRun::profile_name(step, r);
            Some(Trace::new(&column, key, "profiles", "x", &column))
        };
        let traces = times.iter().filter_map(trace).collect();
        let chart = Chart::new(Axis::linear("x"), Axis::linear("u"), traces);
        Some(Figure::chart(&format!("profiles-{key}"), title, caption, chart))
    };
    [
        profiles("r-0.4", "r = 0.4: stable", "The triangle flattens and decays to zero."),
        profiles("r-0.8", "r = 0.8: diverged", "Errors alternate from node to node and grow."),
    ]
    .into_iter()
    .flatten()
    .collect()
}
