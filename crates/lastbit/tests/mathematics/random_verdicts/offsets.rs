//! Data with an offset: no equation here knows it, so the verdict is that of the same data without it.
//!
//! ```text
//! data      = fl(signal + offset)       in f32 or f64
//! reference = data − offset             exact, judged in f64
//!
//! Beltrami    stable for dt < dt_sharp, never diverges for dt < 2/λ, diverges for dt > 2/λ
//! heat        diverges exactly for dt > dt_max of its mesh
//! ```
//!
//! Precision suffices where the distance `d` at which the twin is kept is 64 roundings of the state or more.

use std::f64::consts::PI;
use std::ops::Range;

use lastbit::Real;
use lastbit::pde::beltrami::Beltrami;
use lastbit::pde::beltrami_1d::Beltrami1d;
use lastbit::pde::beltrami_2d::Beltrami2d;
use lastbit::pde::heat::{Ends, Heat, dt_max_on_mesh};
use lastbit::reduce::max_abs;
use lastbit::signal::{blocks_and_ramp, shapes, triangle};
use lastbit::verdict::{Horizon, Judgement, VerdictKind};

use super::tally::Tally;
use super::{Draw, judged};

#[derive(Debug, Clone, Copy)]
enum Equation {
    Line(Beltrami),
    Plane(Beltrami, usize),
    Heat { dt: f64, ends: Ends },
}

impl Equation {
    fn judge<F: Real>(self, data: Vec<F>, horizon: Horizon) -> Judgement {
        match self {
            Self::Line(parameters) => judged(Beltrami1d::new(parameters, data))(horizon),
            Self::Plane(parameters, width) => {
                let height = data.len() / width;
                judged(Beltrami2d::new(parameters, height, width, data))(horizon)
            }
            Self::Heat { dt, ends } => judged(Heat::new(dt, 1.0, 1.0, ends, data))(horizon),
        }
    }

    /// The fastest growth that any state can have: where it is flat, the Hessian is `λ + L/δ`, and the
    /// largest eigenvalue of the Laplacian `L` with `n` points along an axis is `4 cos²(π/2n)` for each axis.
    fn fastest(self, points: usize) -> f64 {
        let of_axis = |n: usize| 4.0 * libm::cos(PI / (2.0 * n as f64)).powi(2);
        let of_beltrami = |Beltrami { dt, delta, lambda, .. }: Beltrami, top: f64| {
            dt * (lambda + top / delta) - 1.0
        };
        let factor = match self {
            Self::Line(parameters) => of_beltrami(parameters, of_axis(points)),
            Self::Plane(parameters, width) => of_beltrami(parameters, 2.0 * of_axis(width)),
            Self::Heat { dt, ends } => 2.0 * dt / dt_max_on_mesh(1.0, 1.0, ends, points) - 1.0,
        };
        libm::log(factor.abs())
    }

    /// Whether a verdict contradicts what is known for certain; growth below its resolution does not.
    fn is_contradicted_by(self, judged: &Judgement, points: usize) -> bool {
        let [stable, restrained, diverged] =
            [VerdictKind::Stable, VerdictKind::Restrained, VerdictKind::Diverged]
                .map(|kind| judged.verdict.kind() == kind);
        match self {
            Self::Line(parameters) | Self::Plane(parameters, _) => {
                let dimensions = if matches!(self, Self::Line(_)) { 1 } else { 2 };
                let dt = parameters.dt;
                (dt < parameters.dt_sharp(dimensions) && (restrained || diverged))
                    || (dt < parameters.dt_bounded() && diverged)
                    || (dt > parameters.dt_bounded() && (stable || restrained))
            }
            Self::Heat { .. } => {
                let rate = self.fastest(points);
                restrained || (rate > judged.resolution && stable) || (rate <= 0.0 && diverged)
            }
        }
    }

    /// The range in which the equation is linear, of a state of this size.
    fn linear_range(self, size: f64) -> f64 {
        match self {
            Self::Line(parameters) | Self::Plane(parameters, _) => parameters.delta * parameters.dx,
            Self::Heat { .. } => size,
        }
    }
}

fn beltrami(draw: &mut Draw, dimensions: usize) -> Beltrami {
    let (delta, lambda) = (draw.log_uniform(0.01, 0.3), draw.log_uniform(0.05, 1.0));
    let unit = Beltrami { dt: 1.0, dx: 1.0, delta, lambda };
    let dt = match draw.below(3) {
        0 => unit.dt_sharp(dimensions) * draw.around_the_edge(),
        1 => unit.dt_sharp(dimensions) * draw.log_uniform(0.1, 1000.0),
        _ => unit.dt_bounded() * draw.around_the_edge(),
    };
    Beltrami { dt, ..unit }
}

fn signal(draw: &mut Draw, points: usize) -> Vec<f64> {
    let seed = draw.below(1 << 20) as u64;
    let noise = [0.0, 0.005, 0.05][draw.below(3)];
    let height = draw.log_uniform(0.01, 100.0);
    let shape = match draw.below(3) {
        0 => triangle(points, 1.0),
        1 => vec![0.5; points],
        _ => blocks_and_ramp(points, 0.0, seed),
    };
    shape.into_iter().map(|value| height * value + noise * draw.normal()).collect()
}

fn compare<F: Real>(draw: &mut Draw, tally: &mut Tally, case: u64) {
    let points = 8 + draw.below(33);
    let (equation, signal) = match draw.below(3) {
        0 => {
            let width = 4 + draw.below(3);
            let seed = draw.below(1 << 20) as u64;
            let noise = [0.0, 0.005, 0.02][draw.below(3)];
            (Equation::Plane(beltrami(draw, 2), width), shapes(width, width, noise, seed))
        }
        1 => (Equation::Line(beltrami(draw, 1)), signal(draw, points)),
        _ => {
            let ends = [Ends::Dirichlet, Ends::Neumann, Ends::Periodic][draw.below(3)];
            let dt = dt_max_on_mesh(1.0, 1.0, ends, points) * draw.around_the_edge();
            (Equation::Heat { dt, ends }, signal(draw, points))
        }
    };
    let size = if draw.is_one_in(6) { 0.0 } else { draw.log_uniform(1.0, 1e8) };
    let offset = F::of(draw.normal().signum() * size);
    let data: Vec<F> = signal.iter().map(|value| F::of(value + offset.to_f64())).collect();
    let reference: Vec<f64> = data.iter().map(|value| value.to_f64() - offset.to_f64()).collect();
    let horizon = Horizon::of(100 + draw.below(200));
    let largest = max_abs(&data);
    let exact = equation.judge(reference, horizon);
    let judged = equation.judge(data, horizon);
    let [exact_kind, kind] = [exact, judged].map(|judged| judged.verdict.kind());
    let is_known = exact_kind != VerdictKind::Undecided;
    let points = signal.len();
    // Stable means up to the resolution, here as everywhere.
    let is_below_resolution = [exact, judged].iter().any(|judged| {
        judged.verdict.kind() == VerdictKind::Stable
            && equation.fastest(points) <= judged.resolution
    });
    let differs =
        is_known && kind != VerdictKind::Undecided && kind != exact_kind && !is_below_resolution;
    let is_wrong =
        differs || [exact, judged].iter().any(|judged| equation.is_contradicted_by(judged, points));
    // d/(u |x|) = √(ℓ/(u |x|)).
    let roundings = (equation.linear_range(largest)
        / (F::UNIT_ROUNDOFF * largest.max(f64::MIN_POSITIVE)))
    .sqrt();
    let what = format!(
        "{case}: {} offset {offset} {equation:?} {points} points, exact {exact:?}",
        F::NAME
    );
    tally.below_resolution +=
        usize::from(is_known && kind != VerdictKind::Undecided && kind != exact_kind && !is_wrong);
    tally.add(&judged, is_wrong, is_known && roundings >= 64.0, &what);
}

fn judge_random(cases: Range<u64>) {
    let mut tally = Tally::default();
    for case in cases {
        let mut draw = Draw::new(41, case);
        if draw.is_one_in(2) {
            compare::<f32>(&mut draw, &mut tally, case);
        } else {
            compare::<f64>(&mut draw, &mut tally, case);
        }
    }
    tally.report("offsets");
}

#[test]
fn an_offset_never_changes_a_verdict() {
    judge_random(0..300);
}

/// `cargo test --release -p lastbit --test mathematics random_verdicts::offsets -- --ignored --nocapture`
#[test]
#[ignore = "ten thousand cases"]
fn ten_thousand_offsets_never_change_a_verdict() {
    judge_random(0..10_000);
}

/// A cycle of a few roundings of a state with the offset 1130, in f32. Restrained without the offset, called
/// stable.
#[test]
#[ignore = "known to be wrong"]
fn a_cycle_of_a_few_roundings_is_not_called_stable() {
    judge_random(77_001_526..77_001_527);
}
