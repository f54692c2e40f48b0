//! A model of one's own behind the seam: loss, gradient and Hessian-vector product, nothing more.
//!
//! The model is the smallest deep network: one weight after the other, `L = ½ (ab − 1)²`. Run with
//! `cargo run --release -p lastbit --example own_model`.

use std::convert::Infallible;

use lastbit::divergence::LastBitTwin;
use lastbit::krylov::{EigenOptions, eigenpairs, infallible};
use lastbit::objective::Objective;
use lastbit::optim::descent::Descent;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::search::EdgeSearch;
use lastbit::verdict::{Horizon, Verdict, judge};
use lastbit::{Dynamics, evolve};

#[derive(Clone)]
struct TwoWeights;

impl Objective<f64> for TwoWeights {
    fn len(&self) -> usize {
        2
    }

    fn loss(&mut self, theta: &[f64]) -> f64 {
        0.5 * (theta[0] * theta[1] - 1.0) * (theta[0] * theta[1] - 1.0)
    }

    fn gradient(&mut self, theta: &[f64], out: &mut [f64]) {
        let residual = theta[0] * theta[1] - 1.0;
        out.copy_from_slice(&[residual * theta[1], residual * theta[0]]);
    }

    fn hessian_vector(&mut self, theta: &[f64], v: &[f64], out: &mut [f64]) {
        let [a, b] = [theta[0], theta[1]];
        let cross = 2.0 * a * b - 1.0;
        out.copy_from_slice(&[b * b * v[0] + cross * v[1], cross * v[0] + a * a * v[1]]);
    }
}

fn main() {
    let k3 = Perturbation { k: 3.0, form: Form::Paper };
    let run = |dt: f64| Descent::new(TwoWeights, vec![1.5, 0.6], dt, k3);
    for dt in [0.5, 1.05, 3.0] {
        let mut descent = run(dt);
        let mut twin = LastBitTwin::new(&descent);
        evolve(&mut descent, 0, 1000, &mut [&mut twin]);
        let apart = twin.points().last().map_or(0.0, |(_, point)| point.rel_l1);
        let theta = descent.state().to_vec();
        let hessian = infallible(|v, out| TwoWeights.hessian_vector(&theta, v, out));
        let Ok(found) = eigenpairs(&theta, vec![], EigenOptions::largest(1e-12, 10), hessian);
        let verdict = judge(&mut run(dt), Horizon::of(1000), &mut []).verdict.kind();
        let normalized = dt * found.lambda_max();
        println!("dt {dt}: {verdict}, twins {apart:.1e} apart, dt lambda_max {normalized:.4}");
    }
    let is_stable = |dt| judge(&mut run(dt), Horizon::of(2000), &mut []).verdict == Verdict::Stable;
    let mut search = EdgeSearch::new(1e-3, |dt| Ok::<_, Infallible>((is_stable(dt), ())));
    let Ok(edge) = search.bisect(0.1, 3.0);
    let edge = edge.expect("one end is stable");
    println!("stable up to dt = {:.4} (2/lambda_max is at most 1 here)", edge.middle());
}
