mod random;

use super::*;
use crate::pde::scheme::Term;
use crate::pde::textbook::{self as book, KnownSteps, Parameters};

const PARAMETERS: [Parameters; 4] = [
    Parameters { dx: 1.0, kappa: 1.0, lambda: 1.0, speed: 1.0, speed_y: 1.0, mu: 0.9, z: 1.0 },
    Parameters { dx: 0.3, kappa: 0.7, lambda: 2.5, speed: 1.7, speed_y: -0.4, mu: 0.5, z: 3.0 },
    Parameters {
        dx: 1.0,
        kappa: 1e-4,
        lambda: 0.1,
        speed: -10.0,
        speed_y: 3.0,
        mu: 0.0,
        z: 1.4286e8,
    },
    Parameters { dx: 1e-9, kappa: 20.0, lambda: 1e3, speed: 1e-6, speed_y: 0.0, mu: 0.99, z: 1e-3 },
];

fn term(level: i32, offset: i32, coefficient: &[f64]) -> Term {
    Term { level, offset: vec![offset], coefficient: coefficient.to_vec() }
}

/// A scheme without space: one amplification factor, a polynomial in `dt`.
fn factor(coefficient: &[f64]) -> Scheme {
    Scheme::new(1, vec![term(0, 0, coefficient)]).unwrap()
}

/// The only edge: stable from 0 to a bracket that holds `expected`, unstable beyond.
fn assert_edge(name: &str, scheme: &Scheme, expected: f64) {
    // Errors of 8 roundings in the coefficients; the least favourable (Runge-Kutta in 9 powers of dt)
    // multiplies them by a thousand.
    assert_edge_within(name, scheme, expected, 1e-11);
}

fn assert_edge_within(name: &str, scheme: &Scheme, expected: f64, width: f64) {
    let steps = stable_steps(scheme);
    let [StableInterval { from: End::Unbounded, to: End::Bracket { stable, unstable, .. }, .. }] =
        &steps.intervals()[..]
    else {
        panic!("{name}: {steps:?}");
    };
    // The closed form carries a few roundings of its own.
    let rounding = 4.0 * f64::EPSILON * expected;
    assert!(
        *stable <= expected + rounding && expected - rounding <= *unstable,
        "{name}: {steps:?}"
    );
    assert!(unstable / stable - 1.0 < width, "{name}: {steps:?}");
}

#[test]
fn the_textbook_is_right() {
    for p in &PARAMETERS {
        for row in book::all() {
            let scheme = (row.build)(p);
            match (row.known)(p) {
                // At equal speeds |A| = 1 on a whole line of frequencies at the edge, which boxes of
                // the size of the square root of the distance to it must cover.
                KnownSteps::UpTo(dt) if row.name == "advection-lax-friedrichs-2d" => {
                    assert_edge_within(row.name, &scheme, dt, 1e-6);
                }
                KnownSteps::UpTo(dt) => assert_edge(row.name, &scheme, dt),
                KnownSteps::Never => assert!(stable_steps(&scheme).is_never(), "{}", row.name),
                KnownSteps::Always => assert!(stable_steps(&scheme).is_always(), "{}", row.name),
            }
        }
    }
}

#[test]
fn long_waves_that_a_grid_of_frequencies_misses() {
    let plane = book::advection_diffusion_2d([1.0, 0.2], 0.1, 1.0);
    assert_edge("2-D", &plane, 0.2 / 1.04);
    let analysis = Analysis::new(&plane);
    let Stability::CertainlyUnstable(mode) = analysis.at(0.2 / 1.04 * (1.0 + 1e-9)) else {
        panic!("a long wave is amplified");
    };
    // Along the flow, (y, x) = (0.2, 1), and long.
    assert!((mode.omega[0] / mode.omega[1] - 0.2).abs() < 1e-3 && mode.omega[1] < 1e-3, "{mode:?}");
    // A grid of 36 frequencies an axis sees nothing 2 % above.
    assert!(matches!(analysis.at(0.2 / 1.04 * 1.02), Stability::CertainlyUnstable(_)));
    assert_edge("1-D", &book::advection_diffusion(10.0, 1e-4, 1.0), 2e-6);
}

#[test]
fn an_instability_however_weak_is_seen_at_every_step() {
    // Adams-Bashforth of second order for advection: |A| = 1 + O(dt⁴).
    let c = 0.5;
    let weak = Scheme::new(
        1,
        vec![
            term(0, 0, &[1.0]),
            term(0, -1, &[0.0, 1.5 * c]),
            term(0, 1, &[0.0, -1.5 * c]),
            term(-1, -1, &[0.0, -0.5 * c]),
            term(-1, 1, &[0.0, 0.5 * c]),
        ],
    );
    assert!(stable_steps(&weak.unwrap()).is_never());
    // Leap-frog in time for diffusion (Richardson's scheme).
    let richardson = Scheme::new(
        1,
        vec![
            term(-1, 0, &[1.0]),
            term(0, -1, &[0.0, 2.0]),
            term(0, 0, &[0.0, -4.0]),
            term(0, 1, &[0.0, 2.0]),
        ],
    );
    assert!(stable_steps(&richardson.unwrap()).is_never());
    let ftcs = Analysis::new(&book::advection_ftcs(1.0, 1.0));
    for exponent in (-900..60).step_by(60) {
        let dt = libm::scalbn(1.0, exponent);
        assert!(matches!(ftcs.at(dt), Stability::CertainlyUnstable(_)), "{dt:e}");
    }
}

#[test]
fn the_set_may_begin_above_zero_and_be_a_union() {
    let ends = |scheme: &Scheme| -> Vec<f64> {
        let intervals = stable_steps(scheme).intervals();
        let ends = intervals.iter().flat_map(|interval| [&interval.from, &interval.to]);
        ends.map(|end| match end {
            End::Unbounded => 0.0,
            End::Bracket { stable, unstable, .. } => {
                assert!((stable / unstable - 1.0).abs() < 1e-11, "{end:?}");
                *stable
            }
            End::Undecided { .. } => panic!("{end:?}"),
        })
        .collect()
    };
    let close = |found: Vec<f64>, expected: &[f64]| {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= 1e-11 * b, "{found:?} {expected:?}");
        }
    };
    close(ends(&factor(&[1.0, 1.0, -1.0])), &[1.0, 2.0]);
    // A = 1 − 2.09 dt + 3 dt² − dt³ exceeds 1 between the roots of 2.09 − 3 dt + dt², (3 ± 0.8)/2, and
    // falls below −1 at 2.482645535672…, the root of 2 − 2.09 dt + 3 dt² − dt³.
    close(ends(&factor(&[1.0, -2.09, 3.0, -1.0])), &[0.0, 1.1, 1.9, 2.482_645_535_672_7]);
    // Unstable for small steps only: A = 2/(1 + dt), as (1 + dt) u₊₁ = 2 u.
    let implicit = Scheme::new(1, vec![term(1, 0, &[0.0, -1.0]), term(0, 0, &[2.0])]).unwrap();
    close(ends(&implicit), &[1.0, 0.0]);
}

#[test]
fn a_factor_that_does_not_depend_on_dt_is_stable_always_or_never() {
    assert!(stable_steps(&factor(&[0.5])).is_always());
    assert!(stable_steps(&factor(&[1.0])).is_always());
    assert!(stable_steps(&factor(&[2.0])).is_never());
    assert!(stable_steps(&factor(&[2.0, 1.0])).is_never());
    // The new level cannot be solved for.
    let singular = Scheme::new(1, vec![term(1, 0, &[1.0]), term(0, 0, &[0.5])]).unwrap();
    assert!(stable_steps(&singular).is_never());
}

#[test]
fn beam_warming_touches_one_where_it_is_a_shift() {
    let [interval] = &stable_steps(&book::advection_beam_warming(1.0, 1.0)).intervals()[..] else {
        panic!("one interval");
    };
    let [(from, to)] = interval.gaps[..] else { panic!("one gap: {interval:?}") };
    assert!(from <= 1.0 && 1.0 <= to && to - from < 1e-5, "{interval:?}");
}

#[test]
fn meshes_that_do_not_know_of_each_other_are_taken_apart() {
    // Diffusion between every third point: touches 1 at 2π/3 as well.
    let wide = vec![term(0, -3, &[0.0, 1.0]), term(0, 0, &[1.0, -2.0]), term(0, 3, &[0.0, 1.0])];
    assert_edge("every third", &Scheme::new(1, wide).unwrap(), 0.5);
    // A scheme in the plane that has one axis only.
    let flat = [(-1, vec![0.0, 1.0]), (0, vec![1.0, -2.0]), (1, vec![0.0, 1.0])]
        .map(|(x, coefficient)| Term { level: 0, offset: vec![0, x], coefficient });
    assert_edge("one axis", &Scheme::new(2, flat.to_vec()).unwrap(), 0.5);
}
