//! Quadratics, a saddle, a kink, and momentum without curvature.

use std::convert::Infallible;
use std::sync::Arc;

use crate::attribution::{Attribution, Linearization, Pair, State, refinement};
use crate::objective::{Objective, StochasticObjective, TrainableModel};
use crate::optim::direction::Optimizer;
use crate::optim::method::{Method, Name};
use crate::training::GradientDescent;

/// `Σ c_i θ_i²/2 + Σ |θ_i − kink|`, the last with `kink: Some`.
#[derive(Clone)]
struct Model {
    curvatures: Vec<f64>,
    kink: Option<f64>,
}

impl Model {
    fn quadratic(curvatures: &[f64]) -> Self {
        Self { curvatures: curvatures.to_vec(), kink: None }
    }
}

impl Objective<f64> for Model {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.curvatures.len()
    }

    fn loss(&mut self, theta: &[f64]) -> Result<f64, Infallible> {
        let bowl: f64 = theta.iter().zip(&self.curvatures).map(|(t, c)| 0.5 * c * t * t).sum();
        let edge = |kink: f64| theta.iter().map(|t| (t - kink).abs()).sum::<f64>();
        Ok(bowl + self.kink.map_or(0.0, edge))
    }

    fn gradient(&mut self, theta: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        for (out, (t, c)) in out.iter_mut().zip(theta.iter().zip(&self.curvatures)) {
            *out = c * t + self.kink.map_or(0.0, |kink| (t - kink).signum());
        }
        Ok(())
    }

    fn hessian_vector(&mut self, _: &[f64], v: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        for (out, (v, c)) in out.iter_mut().zip(v.iter().zip(&self.curvatures)) {
            *out = c * v;
        }
        Ok(())
    }
}

impl StochasticObjective<f64> for Model {
    type Batch = ();

    fn set_batch(&mut self, _: &Arc<()>) {}
}

impl TrainableModel<f64> for Model {}

fn attribution(
    mut model: Model,
    optimizer: Optimizer,
    dt: f64,
    before: &Pair<f64>,
) -> Option<Attribution> {
    let Ok(after) = before.stepped(&mut model, &optimizer, dt);
    let linearization = Linearization::of(optimizer).unwrap();
    let Ok(found) = linearization.attribute(&mut model, dt, before, &after, 20);
    found
}

fn sgd(model: Model, dt: f64, run: &[f64], copy: &[f64]) -> Option<Attribution> {
    let start = |theta: &[f64]| State::start(theta.to_vec(), &Optimizer::SGD);
    attribution(model, Optimizer::SGD, dt, &Pair { run: start(run), copy: start(copy) })
}

#[test]
fn a_step_of_three_over_the_curvature_is_all_overshoot() {
    let found = sgd(Model::quadratic(&[3.0, 3.0]), 1.0, &[1.0, -2.0], &[1.5, -2.25]).unwrap();
    assert!((found.growth - std::f64::consts::LN_2).abs() < 1e-14);
    assert!((found.e_folds().overshoot - std::f64::consts::LN_2).abs() < 1e-14, "{found:?}");
    // (−2)² − 1.
    assert!((found.parts.overshoot - 3.0).abs() < 1e-14);
    assert_eq!(found.shares().unwrap().overshoot, 1.0);
    assert!(found.parts.kinks.abs() < 1e-14 && !found.kinks_are_resolved());
}

#[test]
fn along_a_saddle_it_is_all_negative_curvature() {
    for dt in [0.01, 0.1, 1.0] {
        let found = sgd(Model::quadratic(&[-1.0, -1.0]), dt, &[0.0, 0.5], &[1.0, 0.25]).unwrap();
        let expected = libm::log1p(dt);
        assert!((found.e_folds().negative_curvature - expected).abs() < 1e-14, "{found:?}");
        assert!((found.growth - expected).abs() < 1e-14);
        assert_eq!(found.shares().unwrap().negative_curvature, 1.0);
    }
}

#[test]
fn weight_decay_belongs_to_the_curvature() {
    let optimizer = Optimizer { method: Method::Sgd, alpha: 1.0 };
    let [run, copy] = [1.0, 2.0].map(|x| State::start(vec![x], &optimizer));
    let found = attribution(Model::quadratic(&[2.0]), optimizer, 1.0, &Pair { run, copy }).unwrap();
    assert!((found.e_folds().overshoot - std::f64::consts::LN_2).abs() < 1e-14, "{found:?}");
}

#[test]
fn a_piecewise_linear_loss_has_nothing_but_kinks() {
    let model = Model { curvatures: vec![0.0; 2], kink: Some(0.3) };
    // The copy is beyond the kink in the first parameter: the step of 0.1 takes them 0.2 further apart.
    let found = sgd(model.clone(), 0.1, &[0.35, 1.0], &[0.25, 1.0]).unwrap();
    // From 0.1 to 0.1 across the kink: |−0.1 + 0.2|.
    assert!(found.growth.abs() < 1e-14 && found.parts.kinks.abs() < 1e-13, "{found:?}");
    let found = sgd(model.clone(), 0.1, &[0.31, 1.0], &[0.29, 1.0]).unwrap();
    // From 0.02 to 0.18: (9² − 1), up to the rounding of differences of 0.02.
    assert!((found.growth - libm::log(9.0)).abs() < 1e-13, "{found:?}");
    assert!((found.parts.kinks - 80.0).abs() < 1e-11 && found.kinks_are_resolved());
    assert_eq!(found.shares().unwrap().kinks, 1.0);
    // On one side of it nothing happens, and nothing is claimed.
    let found = sgd(model, 0.1, &[0.5, 1.0], &[0.4, 1.0]).unwrap();
    assert!(found.growth.abs() < 1e-14 && found.shares().is_none(), "{found:?}");
}

#[test]
fn momentum_without_curvature_is_transient() {
    let mu = 0.9;
    let optimizer = Optimizer { method: Method::HeavyBall { mu }, alpha: 0.0 };
    let run = State::start(vec![1.0], &optimizer);
    let mut copy = run.clone();
    copy.memory.values[0] = 2.0;
    let pair = Pair { run, copy };
    let found = attribution(Model::quadratic(&[0.0]), optimizer, 0.1, &pair).unwrap();
    // y = 0.2 becomes x = −mu y and y = mu y: 2 mu² − 1.
    assert!((found.parts.transient - (2.0 * mu * mu - 1.0)).abs() < 1e-14, "{found:?}");
    assert_eq!(found.parts.negative_curvature + found.parts.overshoot, 0.0);
    assert_eq!(found.shares().unwrap().transient, 1.0);
}

#[test]
fn an_unstable_mode_of_momentum_is_told_by_the_side_it_leaves_on() {
    let (mu, dt) = (0.8, 0.1);
    for method in [Method::HeavyBall { mu }, Method::Nesterov { mu }, Method::NesterovPde { mu }] {
        for (curvature, is_overshoot) in [(1.2 * method.threshold(dt), true), (-5.0, false)] {
            let optimizer = Optimizer { method, alpha: 0.0 };
            let mut model = Model::quadratic(&[curvature]);
            let mut pair = Pair::new(State::start(vec![0.0], &optimizer), method);
            // Long enough for the stable mode to be gone: a factor (mu/|r|)^200 below 1e-19.
            for _ in 0..200 {
                let Ok(next) = pair.stepped(&mut model, &optimizer, dt);
                pair = next.at_distance(1e-3, method);
            }
            let found = attribution(model, optimizer, dt, &pair).unwrap();
            let (own, other) = match is_overshoot {
                true => (found.e_folds().overshoot, found.parts.negative_curvature),
                false => (found.e_folds().negative_curvature, found.parts.overshoot),
            };
            assert!(found.growth > 0.0 && other == 0.0, "{method:?} {found:?}");
            // A one-dimensional run at 0: all but rounding is the mode's own growth.
            assert!((own - found.growth).abs() < 1e-12, "{method:?} {found:?}");
        }
    }
}

#[test]
fn copies_that_coincide_or_leave_the_numbers_have_no_attribution() {
    assert_eq!(sgd(Model::quadratic(&[1.0]), 0.1, &[1.0], &[1.0]), None);
    assert_eq!(sgd(Model::quadratic(&[1.0]), 0.1, &[1.0], &[f64::INFINITY]), None);
    assert_eq!(sgd(Model::quadratic(&[f64::NAN]), 0.1, &[1.0], &[2.0]), None);
    // Copies that one step makes equal: all of it contraction.
    let found = sgd(Model::quadratic(&[1.0]), 1.0, &[1.0], &[2.0]).unwrap();
    assert_eq!((found.growth, found.e_folds().contraction), (f64::NEG_INFINITY, f64::NEG_INFINITY));
    assert_eq!((found.e_folds().overshoot, found.parts.contraction), (0.0, -1.0));
}

#[test]
fn differences_at_the_level_of_rounding_have_no_shares() {
    // Curvature so weak that it amplifies by 1e-4, with a copy 4 ulps away, which the step rounds.
    let model = || Model::quadratic(&[-1e-3; 3]);
    let near = [1.0, 1.0 + 4.0 * f64::EPSILON, 3.0];
    let found = sgd(model(), 0.1, &[1.0, 1.0, 3.0], &near).unwrap();
    assert!(found.shares().is_none() && found.rounding > 0.1, "{found:?}");
    let far = [1.0, 1.001, 3.0];
    let found = sgd(model(), 0.1, &[1.0, 1.0, 3.0], &far).unwrap();
    assert_eq!(found.shares().unwrap().negative_curvature, 1.0, "{found:?}");
}

#[test]
fn the_optimizer_that_limits_layers_says_why_not() {
    let method = Method::Cfl { every: 10, safety: 0.9, by_layer: true };
    let refused = Linearization::of(Optimizer { method, alpha: 0.0 }).unwrap_err();
    assert_eq!(refused.optimizer, Name::Cfl);
    assert!(refused.because.contains("power iteration"));
}

#[test]
fn growth_that_stays_as_the_step_shrinks_is_the_flows_own() {
    let run = |curvatures: &'static [f64]| {
        move |dt: f64| {
            let model = Model::quadratic(curvatures);
            GradientDescent::full_batch(model, Optimizer::SGD, dt, vec![0.0; curvatures.len()])
        }
    };
    // dt λ = 3, 1.5, 0.75: ln 2, ln 0.5, ln 0.25 a step; the other direction has λ = 0.
    let Ok(found) = refinement(1.0, 2, (4.0, 12.0), run(&[3.0]));
    let growth: Vec<f64> = found.iter().map(|refined| refined.growth_per_time).collect();
    for (growth, factor, dt) in
        [(growth[0], 2.0, 1.0), (growth[1], 0.5, 0.5), (growth[2], 0.25, 0.25)]
    {
        // Copies 1e-8 apart at 0: differences are exact, each logarithm rounds.
        assert!((growth - libm::log(factor) / dt).abs() < 1e-12, "{found:?}");
    }
    // A saddle: ln(1 + dt)/dt tends to 1.
    let Ok(found) = refinement(0.1, 3, (30.0, 40.0), run(&[-1.0, 2.0]));
    for refined in &found {
        let expected = libm::log1p(refined.dt) / refined.dt;
        // After 30 units of time the other direction is e^{−90} of it.
        assert!((refined.growth_per_time - expected).abs() < 1e-12, "{found:?}");
    }
    assert_eq!(found[3].steps, 800);
}
