//! Edges of training runs that are known in closed form, found by running the engine.

use std::convert::Infallible;
use std::sync::Arc;

use lastbit::batches::{Batches, Normalization, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::Builder;
use lastbit::nn::{Engine, Init, Loss, Network};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::search::{Bracket, EdgeSearch, Probe};
use lastbit::training::GradientDescent;
use lastbit::verdict::{Horizon, Judgement, Verdict, judge};

/// Examples of `width` inputs with a target each.
fn dataset(width: usize, inputs: &[f64], targets: Targets) -> Dataset {
    Dataset { shape: [1, 1, width], inputs: Inputs::Reals(inputs.to_vec()), targets }
}

fn reals(values: &[f64]) -> Targets {
    Targets::Reals { width: 1, values: values.to_vec() }
}

struct Problem {
    network: Network,
    loss: Loss,
    data: Arc<Dataset>,
    start: Vec<f64>,
}

impl Problem {
    fn run(
        &self,
        method: Method,
        alpha: f64,
        dt: f64,
    ) -> GradientDescent<f64, Engine<f64>, Batches<f64>> {
        let engine = Engine::new(&Arc::new(self.network.clone()), self.loss);
        let selection = Selection::full(&self.data);
        let batches = Batches::new(self.data.clone(), &Normalization::none(), selection, None);
        GradientDescent::new(engine, batches, Optimizer { method, alpha }, dt, self.start.clone())
    }

    fn edge(
        &self,
        method: Method,
        alpha: f64,
        guess: f64,
        steps: usize,
    ) -> (Bracket, Vec<Probe<Judgement>>) {
        let mut search = EdgeSearch::new(1e-3, |dt| {
            let judged = judge(&mut self.run(method, alpha, dt), Horizon::of(steps), &mut [])?;
            Ok::<_, Infallible>((judged.verdict.is_stable(), judged))
        });
        let Ok(found) = search.seek(guess, 2.0, 12);
        (found.expect("stable at the guess, and not far above it"), search.into_probes())
    }
}

#[track_caller]
fn assert_near(found: &Bracket, expected: f64, tolerance: f64) {
    let off = found.middle() / expected - 1.0;
    assert!(off.abs() < tolerance, "{} instead of {expected}: {off:e}", found.middle());
}

/// All sums of `±1.5` and `±0.5` on two inputs: with the bias, `XᵀX/n` is diagonal with the entries
/// 2.25, 0.25 and 1.
fn regression() -> Problem {
    let mut net = Builder::new([1, 1, 2]);
    let input = net.input();
    net.linear(input, "fc1", 1, true);
    let network = net.build();
    let inputs = [1.5, 0.5, 1.5, -0.5, -1.5, 0.5, -1.5, -0.5];
    Problem {
        start: network.initial(Init::Torch, 3),
        network,
        loss: Loss::HalfMse,
        data: Arc::new(dataset(2, &inputs, reals(&[1.0, -0.5, 2.0, 0.25]))),
    }
}

#[test]
fn linear_regression_has_its_edge_at_the_threshold_of_each_optimizer() {
    let (problem, mu) = (regression(), 0.9);
    for alpha in [0.0, 0.75] {
        let z = 2.25 + alpha;
        for (method, edge) in [
            (Method::Sgd, 2.0 / z),
            (Method::HeavyBall { mu }, (2.0 + 2.0 * mu) / z),
            (Method::Nesterov { mu }, (2.0 + 2.0 * mu) / ((1.0 + 2.0 * mu) * z)),
            (Method::NesterovPde { mu }, (4.0 / ((1.0 + 2.0 * mu) * z)).sqrt()),
        ] {
            let (found, probes) = problem.edge(method, alpha, 0.4 * edge, 1000);
            // Half of a bracket, and five e-folds over 500 steps at 2 per relative distance or more.
            assert_near(&found, edge, 0.5e-3 + 5e-3);
            // Nothing restrains it; closer to the edge growth is too slow to be told from a cycle.
            for probe in probes.iter().filter(|probe| probe.at > 1.01 * edge) {
                let is_diverged = matches!(probe.seen.verdict, Verdict::Diverged { .. });
                assert!(is_diverged, "{method:?} at {}: {:?}", probe.at, probe.seen);
            }
        }
    }
}

#[test]
fn descent_on_a_quadratic_finds_its_edge_to_the_bracket() {
    let (found, _) = regression().edge(Method::Sgd, 0.75, 0.3, 1000);
    // A linear descent shows a twentieth of an e-fold over 500 steps: 5e-5 at a rate of 2.
    assert_near(&found, 2.0 / 3.0, 0.5e-3 + 5e-5);
}

#[test]
fn a_network_of_two_weights_has_the_edge_of_its_minimum() {
    // L = (ab − 1)²/2 + (alpha/2)(a² + b²) has its minima at a = b, ab = 1 − alpha, where the
    // largest curvature is 2 − 2 alpha.
    let mut net = Builder::new([1, 1, 1]);
    let input = net.input();
    let inner = net.linear(input, "a", 1, false);
    net.linear(inner, "b", 1, false);
    let problem = Problem {
        network: net.build(),
        loss: Loss::HalfMse,
        data: Arc::new(dataset(1, &[1.0], reals(&[1.0]))),
        start: vec![0.7, 1.1],
    };
    let alpha = 0.1;
    let (found, probes) = problem.edge(Method::Sgd, alpha, 0.3, 1000);
    // The motion must die by a tenth within 500 steps: a rate of 2e-4, 1e-4 of the edge.
    assert_near(&found, 1.0 / (1.0 - alpha), 0.5e-3 + 1e-4);
    let mut above = probes.iter().filter(|probe| probe.holds == Some(false));
    assert!(above.any(|probe| probe.seen.verdict == Verdict::Restrained));
}

#[test]
fn logistic_regression_with_decay_has_the_edge_of_its_minimum() {
    // Two examples, x = ±1 with labels 1 and 0: L = ln(1 + e^−w) + (alpha/2) w² with a bias that stays
    // at zero. At the minimum s(−w) = alpha w the curvature is s(w) s(−w) + alpha, for the bias as well.
    let mut net = Builder::new([1, 1, 1]);
    let input = net.input();
    net.linear(input, "fc1", 1, true);
    let labels = Targets::Classes { count: 2, labels: vec![1, 0] };
    let problem = Problem {
        network: net.build(),
        loss: Loss::BinaryCrossEntropy,
        data: Arc::new(dataset(1, &[1.0, -1.0], labels)),
        start: vec![1.5, 0.0],
    };
    let alpha = 0.1;
    let s = |x: f64| 1.0 / (1.0 + libm::exp(-x));
    let w = (0..50).fold(1.5, |w: f64, _| w - (alpha * w - s(-w)) / (alpha + s(w) * s(-w)));
    let z = s(w) * s(-w) + alpha;
    let (found, _) = problem.edge(Method::Sgd, alpha, 1.0 / z, 2000);
    // As above, with twice the steps.
    assert_near(&found, 2.0 / z, 0.5e-3 + 1e-4);
}
