//! Trajectories of the PDE schemes against the same schemes in numpy.
//!
//! The files in `tests/golden` are made by `python reference/pde_numpy.py golden`. numpy rounds
//! `+ − × ÷ √` correctly and one operation at a time, and the script keeps our operation order, so
//! in `f64` no tolerance is needed: the bits are equal, in the overdriven runs too, where any
//! difference would have been amplified by up to 19 per step.
//!
//! The `f32` runs start from the same data rounded to `f32` and are compared within bounds derived
//! at each test.

use std::convert::Infallible;

use lastbit::pde::beltrami::Beltrami;
use lastbit::pde::beltrami_1d::Beltrami1d;
use lastbit::pde::beltrami_2d::Beltrami2d;
use lastbit::pde::heat::{Ends, Heat};
use lastbit::pde::scheme::{Scheme, Term};
use lastbit::pde::textbook;
use lastbit::spectrum::certified::{End, StableInterval, stable_steps};
use lastbit::spectrum::von_neumann::amplification;
use lastbit::{Dynamics, Real, evolve};
use serde_json::Value;

use crate::json::{count, golden, items, number, numbers};

fn rounded<F: Real>(values: &[f64]) -> Vec<F> {
    values.iter().map(|&value| F::of(value)).collect()
}

fn assert_same_bits(ours: &[f64], numpy: &[f64], what: &str) {
    assert_eq!(ours.len(), numpy.len(), "{what}");
    for (i, (a, b)) in ours.iter().zip(numpy).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}, index {i}: {a:e} against {b:e}");
    }
}

fn assert_close(ours: &[f32], numpy: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), numpy.len(), "{what}");
    for (i, (a, b)) in ours.iter().zip(numpy).enumerate() {
        let error = (a.to_f64() - b).abs();
        assert!(error <= tolerance, "{what}, index {i}: {error:e}, allowed {tolerance:e}");
    }
}

/// The final state of `run` after `steps`.
fn after<D: Dynamics<Error = Infallible>>(mut run: D, steps: usize) -> Vec<D::Scalar> {
    let Ok(_) = evolve(&mut run, 0, steps, &mut []);
    run.state().to_vec()
}

fn heat<F: Real>(file: &Value) -> Vec<F> {
    assert_eq!(file["ends"], "dirichlet");
    let start = rounded(&numbers(&file["start"]));
    // dx = kappa = 1 makes r = dt without rounding.
    let run = Heat::new(number(&file["r"]), 1.0, 1.0, Ends::Dirichlet, start);
    after(run, count(&file["steps"]))
}

#[test]
fn heat_has_the_bits_of_numpy() {
    let file = golden(include_str!("../golden/heat.json"));
    assert_same_bits(&heat(&file), &numbers(&file["end"]), "heat");
}

#[test]
fn heat_in_single_precision_follows_numpy() {
    let file = golden(include_str!("../golden/heat.json"));
    // At r ≤ ½ the weights r, 1 − 2r, r are positive and sum to 1: errors add up and do not grow.
    // A step rounds four times something below the largest value, 1.5; r in f32 is off by a
    // relative u, times a second difference below 0.2; the start is off by 1.5 u.
    let steps = count(&file["steps"]) as f64;
    let tolerance = (4.0 * 1.5 * steps + 0.2 * steps + 1.5) * f32::UNIT_ROUNDOFF;
    assert_close(&heat(&file), &numbers(&file["end"]), tolerance, "heat in f32");
}

/// The final state of one run of a Beltrami file, a signal or an image by its `shape`.
fn beltrami<F: Real>(file: &Value, run: &Value) -> Vec<F> {
    let [dx, delta, lambda] = ["dx", "delta", "lambda"].map(|key| number(&file[key]));
    let parameters = Beltrami { dt: number(&run["dt"]), dx, delta, lambda };
    let signal = rounded(&numbers(&file["signal"]));
    let steps = count(&run["steps"]);
    match &numbers(&file["shape"])[..] {
        [_] => after(Beltrami1d::new(parameters, signal), steps),
        [height, width] => {
            let (height, width) = (*height as usize, *width as usize);
            after(Beltrami2d::new(parameters, height, width, signal), steps)
        }
        shape => panic!("shape {shape:?}"),
    }
}

const BELTRAMI: [&str; 2] =
    [include_str!("../golden/beltrami_1d.json"), include_str!("../golden/beltrami_2d.json")];

#[test]
fn beltrami_has_the_bits_of_numpy_stable_and_overdriven() {
    for file in BELTRAMI.map(golden) {
        for run in items(&file["runs"]) {
            let what = format!("shape {}, {}", file["shape"], run["name"]);
            assert_same_bits(&beltrami(&file, run), &numbers(&run["end"]), &what);
        }
    }
}

#[test]
fn stable_beltrami_in_single_precision_follows_numpy() {
    for file in BELTRAMI.map(golden) {
        let run = &file["runs"][0];
        assert_eq!(run["name"], "stable");
        let numpy = numbers(&run["end"]);
        // Gradient descent below 2/L on an energy whose Hessian is at least λ contracts the
        // 2-norm by 1 − λ dt, so errors of a step add up to at most themselves over λ dt.
        // Errors of a step, per point: u |u_{n+1}| ≤ u from the last sum; a flux is at most 1 and
        // off by at most 10 u (differences, squares, sums, root, division, rounded δ), four of
        // them, the data term and the products by another 10 u, in all 50 u dt < ½ u.
        // The start is off by u.
        let contraction = number(&file["lambda"]) * number(&run["dt"]);
        let norm = (numpy.len() as f64).sqrt() * f32::UNIT_ROUNDOFF;
        let tolerance = norm * (1.0 + 1.5 / contraction);
        assert_close(&beltrami(&file, run), &numpy, tolerance, &file["shape"].to_string());
    }
}

/// Third-order Adams-Bashforth in time, centred in space, at Courant number `dt`.
fn adams_bashforth_3() -> Scheme {
    let levels = [(0, -23.0), (-1, 16.0), (-2, -5.0)];
    let mut terms = vec![Term { level: 0, offset: vec![0], coefficient: vec![1.0] }];
    for (level, weight) in levels {
        for side in [-1, 1] {
            let c = weight * f64::from(side) / 24.0;
            terms.push(Term { level, offset: vec![side], coefficient: vec![0.0, c] });
        }
    }
    Scheme::new(1, terms).expect("well formed")
}

#[test]
fn amplification_factors_are_those_of_numpy_roots() {
    let file = golden(include_str!("../golden/von_neumann.json"));
    let omegas = numbers(&file["omegas"]);
    let cases = items(&file["schemes"]);
    assert_eq!(cases.len(), 7);
    for case in cases {
        let parameter = |name: &str| number(&case["parameters"][name]);
        let (scheme, dt) = match case["scheme"].as_str().expect("a name") {
            "leapfrog_wave" => (textbook::wave_leap_frog(1.0, 1.0), parameter("c")),
            "nesterov" => {
                let mu = parameter("mu");
                let dt = (parameter("share_of_limit") / (1.0 + 2.0 * mu)).sqrt();
                (textbook::nesterov_heat(1.0, mu, 1.0), dt)
            }
            "ab3_advection" => (adams_bashforth_3(), parameter("c")),
            other => panic!("unknown scheme {other}"),
        };
        for (omega, expected) in omegas.iter().zip(numbers(&case["max_abs_root"])) {
            let ours = amplification(&scheme, dt, &[*omega]);
            // Two roots of modulus below 2 and at least 0.07 apart (leap-frog at omega = 0.1):
            // coefficients carry a few roundings, roots 1/0.07 times as many, in both programs.
            assert!((ours - expected).abs() < 1e-13, "{case}, omega {omega}: {ours}");
        }
    }
}

/// `python reference/schemes_numpy.py`: no stencil is used there, limits come from symbols and stability
/// polynomials by minimization and bisection.
#[test]
fn stable_steps_are_those_of_scipy() {
    let file = golden(include_str!("../golden/stable_dt.json"));
    let cases = items(&file["cases"]);
    assert_eq!(cases.len(), 4 * textbook::all().count());
    for case in cases {
        let parameter = |name: &str| number(&case["parameters"][name]);
        let parameters = textbook::Parameters {
            dx: parameter("dx"),
            kappa: parameter("kappa"),
            lambda: parameter("lam"),
            speed: parameter("speed"),
            speed_y: parameter("speed_y"),
            mu: parameter("mu"),
            z: parameter("z"),
        };
        let name = case["scheme"].as_str().expect("a name");
        let row = textbook::named(name).unwrap_or_else(|| panic!("no scheme {name}"));
        let steps = stable_steps(&(row.build)(&parameters));
        match case["stable_dt"].as_str() {
            Some("never") => assert!(steps.is_never(), "{case}: {steps:?}"),
            Some("always") => assert!(steps.is_always(), "{case}: {steps:?}"),
            Some(other) => panic!("found {other}"),
            None => {
                let [
                    StableInterval {
                        from: End::Unbounded,
                        to: End::Bracket { stable, unstable, .. },
                        ..
                    },
                ] = &steps.intervals()[..]
                else {
                    panic!("{case}: {steps:?}");
                };
                let (scipy, within) = (number(&case["stable_dt"]), number(&case["within"]));
                // Each scheme's tolerance is derived in the script.
                assert!(*stable <= scipy * (1.0 + within), "{case}: {steps:?}");
                assert!(scipy * (1.0 - within) <= *unstable, "{case}: {steps:?}");
                assert!(unstable / stable - 1.0 <= 1e-6, "{case}: {steps:?}");
            }
        }
    }
}
