//! Trainings of small networks: the parts against steps that are really made.

use std::sync::Arc;

use crate::activation::Activation;
use crate::attribution::{Attribution, Linearization, Pair, State};
use crate::nn::{Batch, Engine, Init, Loss, Targets, zoo};
use crate::objective::{Objective, StochasticObjective};
use crate::optim::direction::Optimizer;
use crate::optim::method::Method;
use crate::reduce::sum_by;
use crate::rng::Stream;

const EXAMPLES: usize = 24;

/// 2 inputs, 8 hidden units, 1 output; a smooth function to learn.
fn network(activation: Activation) -> (Engine<f64>, Vec<f64>) {
    let noise = Stream::new(5, 0);
    let inputs: Vec<f64> = (0..2 * EXAMPLES as u64).map(|i| noise.normal(i)).collect();
    let targets = inputs.chunks(2).map(|x| libm::sin(2.0 * x[0]) * x[1]).collect();
    let network = zoo::mlp([1, 1, 2], &[8], 1, activation);
    let theta = network.initial(Init::Torch, 1);
    let mut engine = Engine::new(&Arc::new(network), Loss::HalfMse);
    engine.set_batch(&Arc::new(Batch { inputs, targets: Targets::Reals(targets) }));
    (engine, theta)
}

struct Run {
    engine: Engine<f64>,
    linearization: Linearization,
    dt: f64,
    pair: Pair<f64>,
}

impl Run {
    fn new(activation: Activation, method: Method, dt: f64) -> Self {
        let (engine, theta) = network(activation);
        let optimizer = Optimizer { method, alpha: 1e-3 };
        let linearization = Linearization::of(optimizer).unwrap();
        let pair = Pair::new(State::start(theta, &optimizer), method);
        Self { engine, linearization, dt, pair }
    }

    fn stepped(&mut self, pair: &Pair<f64>) -> Pair<f64> {
        let Ok(after) = pair.stepped(&mut self.engine, self.linearization.optimizer(), self.dt);
        after
    }

    /// The growth of a pair over the coming step.
    fn attribution(&mut self, pair: &Pair<f64>) -> Attribution {
        let after = self.stepped(pair);
        let Self { engine, linearization, dt, .. } = self;
        let Ok(found) = linearization.attribute(engine, *dt, pair, &after, 100);
        found.expect("finite, and apart")
    }

    /// The next step, with the copy brought back.
    fn advance(&mut self) {
        let after = self.stepped(&self.pair.clone());
        let method = self.linearization.optimizer().method;
        self.pair = after.at_distance(after.reference(method), method);
    }
}

#[test]
fn parts_add_up_to_the_growth_and_the_linear_ones_to_the_linear_step() {
    for activation in [Activation::Tanh, Activation::Relu] {
        let mut run = Run::new(activation, Method::Sgd, 0.4);
        for step in 0..200 {
            let pair = run.pair.clone();
            let found = run.attribution(&pair);
            // ln and exp round in the last place; the parts are sums of 100 nodes of order one.
            let measured = libm::expm1(2.0 * found.growth);
            assert!((found.parts.total() - measured).abs() < 1e-13, "{step}: {found:?}");
            assert!((found.e_folds().total() - found.growth).abs() < 1e-13, "{step}: {found:?}");
            // |d − dt (H d + alpha d)|² by one product, with d scaled to norm 1 as the basis is.
            let n = pair.run.theta.len();
            let d = |i: usize| (pair.copy.theta[i] - pair.run.theta[i]) / found.distance;
            let v: Vec<f64> = (0..n).map(d).collect();
            let mut image = vec![0.0; n];
            let Ok(()) = run.engine.hessian_vector(&pair.run.theta, &v, &mut image);
            let moved = |i: usize| v[i] - run.dt * (image[i] + 1e-3 * v[i]);
            let exact = sum_by(n, |i| moved(i) * moved(i)) - 1.0;
            let linear = found.parts.total() - found.parts.kinks;
            // Some tens of roundings of dt λ, which is below 3.
            assert!((linear - exact).abs() < 1e-13, "{step}: {linear} {exact}");
            assert!(found.parts.contraction <= 0.0 && found.parts.transient == 0.0);
            run.advance();
        }
    }
}

/// `|J d|²/|d|² − 1` by central differences of steps that are made, in the norm of the attribution: from copies moved both ways.
fn by_difference(run: &mut Run, pair: &Pair<f64>, factor: f64) -> f64 {
    let method = run.linearization.optimizer().method;
    let moved =
        |by: f64| Pair { run: pair.run.clone(), copy: pair.run.toward(&pair.copy, by, method) };
    let ends = [-factor, factor].map(&moved);
    let [low, high] = ends.each_ref().map(|pair| run.attribution(pair));
    // |J d ± O(d²)|: the odd order cancels in the mean of the two growths.
    let growth = |found: &Attribution| libm::expm1(2.0 * found.growth);
    0.5 * (growth(&low) + growth(&high))
}

#[test]
fn linear_parts_of_every_optimizer_are_those_of_central_differences() {
    for (method, dt) in [
        (Method::Sgd, 0.4),
        (Method::HeavyBall { mu: 0.8 }, 0.1),
        (Method::Nesterov { mu: 0.8 }, 0.1),
        (Method::NesterovPde { mu: 0.8 }, 0.4),
        (Method::Adam { beta1: 0.9, beta2: 0.99, epsilon: 1e-8 }, 0.01),
    ] {
        let mut run = Run::new(Activation::Tanh, method, dt);
        for step in 0..60 {
            if step >= 20 {
                let pair = run.pair.clone();
                let found = run.attribution(&pair);
                let linear = found.parts.total() - found.parts.kinks;
                let exact = by_difference(&mut run, &pair, 1.0);
                // At a relative distance of 1e-8 (Adam 1e-10) the second order is rounding; what is left is the
                // rounding of the step, twice 2u over that distance and the condition of the gradient.
                let tolerance = if method.is_linear() { 1e-6 } else { 1e-4 };
                assert!((linear - exact).abs() < tolerance, "{method:?} {step}: {linear} {exact}");
                assert!((linear - exact).abs() < 10.0 * found.rounding, "{method:?} {step}");
            }
            run.advance();
        }
    }
}

#[test]
fn beyond_the_linear_step_a_smooth_network_has_a_part_in_proportion_to_the_distance() {
    let mut run = Run::new(Activation::Tanh, Method::Sgd, 0.4);
    for _ in 0..50 {
        run.advance();
    }
    let near = run.pair.at_distance(1e-4, Method::Sgd);
    let nearer = run.pair.at_distance(5e-5, Method::Sgd);
    let [near, nearer] = [near, nearer].map(|pair| run.attribution(&pair));
    assert!(near.kinks_are_resolved() && nearer.kinks_are_resolved(), "{near:?} {nearer:?}");
    // Up to the next order, 1e-4 of it times a constant of the network.
    let ratio = near.parts.kinks / nearer.parts.kinks;
    assert!((ratio - 2.0).abs() < 1e-2, "{ratio}");
    // The linear parts are the same function of the direction alone; a rescaled difference rounds to u/1e-5.
    assert!((near.parts.overshoot - nearer.parts.overshoot).abs() < 1e-9);
    assert!((near.parts.negative_curvature - nearer.parts.negative_curvature).abs() < 1e-9);
}

#[test]
fn fewer_nodes_change_the_split_by_about_what_is_stated() {
    let mut run = Run::new(Activation::Tanh, Method::HeavyBall { mu: 0.8 }, 0.1);
    for _ in 0..50 {
        run.advance();
    }
    let (pair, exact) = (run.pair.clone(), run.attribution(&run.pair.clone()));
    assert_eq!(exact.split_change, 0.0);
    let after = run.stepped(&pair);
    for products in [4, 8, 16, 24] {
        let Run { engine, linearization, dt, .. } = &mut run;
        let Ok(Some(found)) = linearization.attribute(engine, *dt, &pair, &after, products) else {
            panic!("finite, and apart")
        };
        assert_eq!(found.products, products);
        // The growth of the linear step is exact whatever the number of nodes.
        let linear = |found: &Attribution| found.parts.total() - found.parts.kinks;
        assert!((linear(&found) - linear(&exact)).abs() < 1e-12, "{products}");
        let changes = found.parts.values().into_iter().zip(exact.parts.values());
        let most = changes.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(most <= 2.0 * found.split_change, "{products}: {most} {found:?}");
    }
}
