//! The rule on dynamics small enough to be understood.

use std::convert::Infallible;

use super::*;
use crate::dynamics::examples::{Map, descent, linear, logistic};

fn verdict_of<D: Dynamics<Error = Infallible>>(mut run: D, steps: usize) -> Judgement {
    let Ok(judged) = judge(&mut run, Horizon::of(steps), &mut []);
    judged
}

fn parabola(dt: f64) -> impl Dynamics<Error = Infallible> {
    descent(dt, [1.0], |[x]| 0.5 * x * x, |[x]| [x])
}

/// `E = x²/2 + √(x² + 0.01²)`: curvature 101 at the minimum, 1 far away. Gradient descent is
/// stable below `dt = 2/101`, bounded below `dt = 2`.
fn funnel(dt: f64, x: f64) -> impl Dynamics<Error = Infallible> {
    let energy = |[x]: [f64; 1]| 0.5 * x * x + (x * x + 1e-4).sqrt();
    descent(dt, [x], energy, |[x]| [x + x / (x * x + 1e-4).sqrt()])
}

#[test]
fn descent_on_a_parabola_diverges_from_its_edge_on() {
    for near in [1e-1, 1e-2, 1e-3] {
        assert_eq!(verdict_of(parabola(2.0 * (1.0 - near)), 1000).verdict, Verdict::Stable);
        let above = verdict_of(parabola(2.0 * (1.0 + near)), 1000);
        assert_eq!(above.verdict.kind(), VerdictKind::Diverged, "{near}: {above:?}");
    }
}

#[test]
fn a_mode_that_grows_slowly_among_many_that_shrink_slowly_is_waited_for() {
    // Descent on Σ c_i x_i²/2 with curvatures close to each other and one below zero.
    let curvature = |i: usize| 0.002 * (i as f64 - 0.25);
    let step = move |x: [f64; 100]| std::array::from_fn(|i| x[i] - curvature(i) * x[i]);
    let energy =
        move |x: [f64; 100]| Some((0..100).map(|i| 0.5 * curvature(i) * x[i] * x[i]).sum());
    let valleys = Map { dt: 1.0, x: [1.0; 100], step, energy, is_linear: true };
    let judged = verdict_of(valleys, 200);
    assert_eq!(judged.verdict.kind(), VerdictKind::Diverged, "{judged:?}");
}

#[test]
fn growth_of_a_linear_map_is_the_logarithm_of_its_multiplier() {
    let judged = verdict_of(parabola(0.1), 500);
    // The multiplier is 0.9 at every step; the twin's rounding is √u of its size at worst.
    assert!((judged.growth.per_step - libm::log(0.9)).abs() < 1e-7, "{judged:?}");
}

#[test]
fn a_funnel_is_stable_then_restrained_then_diverges() {
    let (cfl, bounded) = (2.0 / 101.0, 2.0);
    for (dt, expected) in [
        (0.5 * cfl, VerdictKind::Stable),
        (0.99 * cfl, VerdictKind::Stable),
        (1.01 * cfl, VerdictKind::Restrained),
        (10.0 * cfl, VerdictKind::Restrained),
        (0.99 * bounded, VerdictKind::Restrained),
        (1.01 * bounded, VerdictKind::Diverged),
    ] {
        let judged = verdict_of(funnel(dt, 0.7), 2000);
        assert_eq!(judged.verdict.kind(), expected, "dt = {dt}: {judged:?}");
    }
}

#[test]
fn an_oscillation_that_dies_out_is_stable_although_the_energy_rises_at_every_second_step() {
    // E = x²/2 + 0.3 x³ is not symmetric: below dt = 2 the iteration alternates towards 0.
    let energy = |[x]: [f64; 1]| 0.5 * x * x + 0.3 * x * x * x;
    let run = descent(2.0 * (1.0 - 2e-3), [0.3], energy, |[x]| [x + 0.9 * x * x]);
    let judged = verdict_of(run, 300);
    assert_eq!(judged.verdict, Verdict::Stable, "{judged:?}");
    assert!(judged.steps > 300, "{judged:?}");
}

#[test]
fn chaos_without_an_energy_is_restrained_at_its_known_exponent() {
    let judged = verdict_of(logistic(4.0, 0.3), 20_000);
    assert_eq!(judged.verdict, Verdict::Restrained);
    let error = (judged.growth.per_step - libm::log(2.0)).abs();
    assert!(error < 4.0 * judged.growth.standard_error, "{judged:?}");
    assert!(judged.growth.standard_error < 0.01);
}

#[test]
fn a_reproducible_cycle_without_an_energy_is_stable() {
    assert_eq!(verdict_of(logistic(3.2, 0.3), 2000).verdict, Verdict::Stable);
}

#[test]
fn rotations_shears_and_transients_are_not_growth() {
    let (sin, cos) = (libm::sin(0.1), libm::cos(0.1));
    for matrix in [
        [[cos, -sin], [sin, cos]],     // modulus 1
        [[1.0, 1.0], [0.0, 1.0]],      // grows like n, not exponentially
        [[0.99, 1000.0], [0.0, 0.98]], // swells by about 4e4, then decays
    ] {
        let judged = verdict_of(linear(matrix, [1.0, 1.0]), 2000);
        assert_eq!(judged.verdict, Verdict::Stable, "{matrix:?}: {judged:?}");
    }
}

#[test]
fn a_growing_run_is_continued_until_a_last_bit_would_have_crossed_the_bound() {
    // The unstable direction starts at 1e-16 of the state: after 1000 steps nothing shows.
    let start = linear([[1.0, 0.0], [0.0, 1.02]], [1.0, 1e-16]);
    let mut short = start.clone();
    let Ok(judged) = judge(&mut short, Horizon::exactly(1000), &mut []);
    assert_eq!(judged.verdict, Verdict::Undecided(Doubt::BoundedSoFar));
    let judged = verdict_of(start, 1000);
    assert_eq!(judged.verdict.kind(), VerdictKind::Diverged, "{judged:?}");
}

#[test]
fn an_unstable_part_that_is_exactly_zero_is_found() {
    let run = linear([[1.0, 0.0], [0.0, 1.5]], [1.0, 0.0]);
    assert_eq!(verdict_of(run, 500).verdict.kind(), VerdictKind::Diverged);
    // At rest in the minimum of the funnel: unstable there, bounded or not elsewhere.
    for (dt, expected) in
        [(0.01, VerdictKind::Stable), (0.2, VerdictKind::Restrained), (2.1, VerdictKind::Diverged)]
    {
        let judged = verdict_of(funnel(dt, 0.0), 2000);
        assert_eq!(judged.verdict.kind(), expected, "dt = {dt}: {judged:?}");
    }
}

#[test]
fn a_cycle_behind_a_slow_descent_is_found() {
    for slow in [1e-4, 1e-5, 1e-6] {
        let root = |x: f64| (x * x + 1e-4).sqrt();
        let energy = move |[x, y]: [f64; 2]| 0.5 * x * x + root(x) + 0.5 * slow * y * y;
        let run = descent(0.2, [0.7, 1.0], energy, move |[x, y]| [x + x / root(x), slow * y]);
        let judged = verdict_of(run, 2000);
        assert_eq!(judged.verdict, Verdict::Restrained, "{slow}: {judged:?}");
    }
}

#[test]
fn where_divergence_is_not_asked_for_a_run_ends_once_it_is_not_stable() {
    let ends = |dt: f64| {
        [true, false].map(|tells_divergence| {
            let horizon = Horizon { steps: 200, at_most: 4000, tells_divergence };
            judge(&mut funnel(dt, 0.7), horizon, &mut []).unwrap()
        })
    };
    let cfl = 2.0 / 101.0;
    let [long, short] = ends(10.0 * cfl);
    assert_eq!((long.verdict, short.verdict), (Verdict::Restrained, Verdict::Restrained));
    assert_eq!(short.steps, 200);
    let [long, short] = ends(0.9 * cfl);
    assert_eq!(long, short, "a stable run is looked at for as long");
}

#[test]
fn a_run_of_one_step_is_looked_at_for_longer() {
    assert_eq!(verdict_of(parabola(3.0), 1).verdict.kind(), VerdictKind::Diverged);
    let mut short = parabola(3.0);
    let Ok(judged) = judge(&mut short, Horizon::exactly(2), &mut []);
    assert_eq!(judged.verdict, Verdict::Undecided(Doubt::TooShort));
}

#[test]
fn not_a_number_is_a_verdict_with_its_step() {
    let broken = descent(1.0, [1.0], |[x]| x, |[x]| [(x - 4.0).sqrt()]);
    assert_eq!(verdict_of(broken, 100).verdict, Verdict::Diverged { step: 1 });
}
