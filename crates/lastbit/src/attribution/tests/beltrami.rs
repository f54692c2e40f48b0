//! Beltrami reaction-diffusion, gradient descent on a convex energy whose Hessian is known in closed form.

use std::convert::Infallible;

use crate::Dynamics;
use crate::attribution::{Attribution, Linearization, Pair, State};
use crate::objective::Objective;
use crate::optim::direction::Optimizer;
use crate::optim::method::Method;
use crate::pde::beltrami::Beltrami;
use crate::pde::beltrami_1d::Beltrami1d;
use crate::rng::Stream;

/// `E(u) = Σ λ/2 (I − u)² + Σ √(p² + δ²)`, with `H v = λ v + Dᵀ δ²/(p² + δ²)^{3/2} D v` and `D` the slope.
#[derive(Clone)]
struct Energy {
    parameters: Beltrami,
    signal: Vec<f64>,
}

impl Energy {
    /// `out = λ x + Dᵀ flux(slope of u, slope of x)`.
    fn apply(&self, u: &[f64], x: &[f64], flux: impl Fn(f64, f64) -> f64, out: &mut [f64]) {
        let Beltrami { dx, lambda, .. } = self.parameters;
        out.iter_mut().zip(x).for_each(|(out, x)| *out = lambda * x);
        for i in 0..u.len() - 1 {
            let flux = flux((u[i + 1] - u[i]) / dx, (x[i + 1] - x[i]) / dx) / dx;
            out[i] -= flux;
            out[i + 1] += flux;
        }
    }
}

impl Objective<f64> for Energy {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.signal.len()
    }

    fn loss(&mut self, u: &[f64]) -> Result<f64, Infallible> {
        let Beltrami { dx, delta, lambda, .. } = self.parameters;
        let data: f64 =
            u.iter().zip(&self.signal).map(|(u, i)| lambda / 2.0 * (i - u) * (i - u)).sum();
        let length = |pair: &[f64]| libm::hypot((pair[1] - pair[0]) / dx, delta);
        Ok(data + u.windows(2).map(length).sum::<f64>())
    }

    fn gradient(&mut self, u: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        let Beltrami { delta, lambda, .. } = self.parameters;
        self.apply(u, u, |p, _| p / (p * p + delta * delta).sqrt(), out);
        out.iter_mut().zip(&self.signal).for_each(|(out, i)| *out -= lambda * i);
        Ok(())
    }

    fn hessian_vector(&mut self, u: &[f64], v: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        let delta = self.parameters.delta;
        let square = delta * delta;
        let bent = |p: f64, q: f64| square * q / ((p * p + square) * (p * p + square).sqrt());
        self.apply(u, v, bent, out);
        Ok(())
    }
}

/// The growths over the steps of a run that starts at its signal, with a copy brought back after each.
fn growths(times_sharp: f64, signal: &[f64], steps: usize) -> (Beltrami, Vec<Attribution>) {
    let of = |dt: f64| Beltrami { dt, dx: 1.0, delta: 0.1, lambda: 1.0 };
    let parameters = of(times_sharp * of(1.0).dt_sharp(1));
    let mut equation = Beltrami1d::new(parameters, signal.to_vec());
    let mut model = Energy { parameters, signal: signal.to_vec() };
    let optimizer = Optimizer::SGD;
    let mut pair = Pair::new(State::start(signal.to_vec(), &optimizer), Method::Sgd);
    let linearization = Linearization::of(optimizer).unwrap();
    let mut growths = Vec::new();
    for step in 0..steps {
        let Ok(after) = pair.stepped(&mut model, &optimizer, parameters.dt);
        if step == 0 {
            let Ok(()) = equation.step();
            let gap = |(a, b): (&f64, &f64)| (a - b).abs();
            let most = after.run.theta.iter().zip(equation.state()).map(gap).fold(0.0, f64::max);
            // Ten operations on numbers of order one.
            assert!(most < 1e-14, "not the equation: {most:e}");
        }
        let found = linearization.attribute(&mut model, parameters.dt, &pair, &after, 64);
        let Ok(Some(found)) = found else { panic!("finite, and apart") };
        growths.push(found);
        pair = after.at_distance(after.reference(Method::Sgd), Method::Sgd);
    }
    (parameters, growths)
}

#[test]
fn a_flat_signal_overshoots_by_its_checkerboard_as_von_neumann_says() {
    let signal = [0.3; 8];
    for times in [0.9, 2.0] {
        let (parameters, growths) = growths(times, &signal, 300);
        // Flat, the Hessian is λ + (4/δ) sin²(jπ/16), j = 0 … 7.
        let curvature = |j: f64| {
            let sine = libm::sin(j * std::f64::consts::PI / 16.0);
            parameters.lambda + 4.0 / parameters.delta * sine * sine
        };
        let found = growths.last().unwrap();
        if times > 1.0 {
            let expected = libm::log(parameters.dt * curvature(7.0) - 1.0);
            // The next mode fades by 0.85 a step. Beyond the linear step there is d² ~ (1e-8/δ)²; rounding is 1e-8 of d.
            assert!((found.growth - expected).abs() < 1e-7, "{found:?} {expected}");
            assert!((found.e_folds().overshoot - expected).abs() < 1e-7, "{found:?}");
            assert_eq!(found.shares().unwrap().overshoot, 1.0);
        } else {
            assert!(growths.iter().all(|found| found.parts.overshoot == 0.0));
            assert!(found.growth < 0.0 && found.shares().is_none(), "{found:?}");
        }
    }
}

#[test]
fn whatever_its_copies_do_negative_curvature_has_no_part_in_it() {
    let noise = Stream::new(3, 0);
    let value = |i: u64| libm::sin(0.3 * i as f64) + 0.1 * noise.normal(i);
    let signal: Vec<f64> = (0..32).map(value).collect();
    for times in [0.9, 8.0] {
        for found in growths(times, &signal, 200).1 {
            assert_eq!(found.parts.negative_curvature, 0.0, "convex: {found:?}");
            assert_eq!(found.parts.transient, 0.0, "no momentum: {found:?}");
        }
    }
}
