//! The one-layer network and its windowed bounds against the same in numpy and scipy.
//!
//! `tests/golden/kernel.json` is made by `python reference/kernel_numpy.py golden`, which works
//! with the explicit matrix of patches `P` and has checked its derivatives by complex steps. We
//! never form `P`: windows of at most 36 pixels are summed directly, larger ones go by Fourier
//! transform. The file has both, so two algorithms meet a third here, and equal bits are not to be
//! expected; each tolerance is derived where it is used.

use lastbit::Dynamics;
use lastbit::activation::Activation;
use lastbit::batches::FullBatch;
use lastbit::correlate::{Correlator, Edges};
use lastbit::objective::Objective;
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::pde::one_layer::{OneLayer, Pooling, Settings};
use lastbit::pde::quadratic::{Coefficients, Quadratic, Regime};
use lastbit::reduce::{distance, max_abs};
use lastbit::signal::normal;
use lastbit::spectrum::window::{AlphaInterval, Range, alpha_interval, patch_extremes};
use lastbit::training::GradientDescent;
use lastbit::verdict::{Horizon, VerdictKind, judge};
use serde_json::Value;

use crate::json::{self, count, items, number, numbers};

fn golden() -> Value {
    json::golden(include_str!("../golden/kernel.json"))
}

/// Rows and columns.
fn shape(value: &Value) -> (usize, usize) {
    (count(&value[0]), count(&value[1]))
}

/// On the image of a problem or a spectrum of the file.
fn correlator(case: &Value) -> Correlator {
    let (size, window) = (shape(&case["size"]), shape(&case["window"]));
    Correlator::new(&numbers(&case["image"]), size, window, Edges::Valid)
}

fn settings(network: &Value) -> Settings {
    let [label, bias, alpha] = ["label", "bias", "alpha"].map(|key| number(&network[key]));
    let activation = match network["activation"]["name"].as_str() {
        Some("swish") => Activation::Swish { beta: number(&network["activation"]["beta"]) },
        Some("tanh") => Activation::Tanh,
        _ => panic!("activation {}", network["activation"]),
    };
    let pooling = match network["pooling"].as_str() {
        Some("sum") => Pooling::Sum,
        Some("mean") => Pooling::Mean,
        _ => panic!("pooling {}", network["pooling"]),
    };
    Settings { activation, pooling, label, bias, alpha }
}

/// Calls `test` for every network of the file with its problem; there are 16.
fn for_each_network(mut test: impl FnMut(&Value, &Value, OneLayer)) {
    let (file, mut count) = (golden(), 0);
    for problem in items(&file["problems"]) {
        for network in items(&problem["networks"]) {
            test(problem, network, OneLayer::new(settings(network), correlator(problem)));
            count += 1;
        }
    }
    assert_eq!(count, 16);
}

/// Largest difference over the largest value.
fn relative_error(ours: &[f64], numpy: &[f64]) -> f64 {
    assert_eq!(ours.len(), numpy.len());
    let gap: Vec<f64> = ours.iter().zip(numpy).map(|(a, b)| a - b).collect();
    max_abs(&gap) / max_abs(numpy)
}

/// Of a loss, a gradient and a Hessian-vector product.
///
/// A value of the map is a sum of at most 56 products, one of a gradient of at most 90; the
/// transform of 16 x 16 adds some 20 roundings of the largest: at most 200 u of the sum of moduli
/// on each side. Sums of terms of random signs are up to ten times smaller than that, so
/// 2 · 200 · 10 u = 4e-13.
const TOLERANCE: f64 = 1e-12;

#[test]
fn loss_gradient_and_hessian_are_those_of_the_patch_matrix() {
    for_each_network(|problem, expected, mut network| {
        let (kernel, direction) = (numbers(&problem["kernel"]), numbers(&problem["direction"]));
        let mut out = kernel.clone();
        let what = format!("window {}, {:?}", problem["window"], network.settings());
        let loss = number(&expected["loss"]);
        assert!((network.loss(&kernel).unwrap() - loss).abs() <= TOLERANCE * loss, "loss, {what}");
        network.gradient(&kernel, &mut out);
        let error = relative_error(&out, &numbers(&expected["gradient"]));
        assert!(error <= TOLERANCE, "gradient, {what}: {error:e}");
        network.hessian_vector(&kernel, &direction, &mut out);
        let error = relative_error(&out, &numbers(&expected["hessian_vector"]));
        assert!(error <= TOLERANCE, "Hessian, {what}: {error:e}");
    });
}

#[test]
fn fifty_steps_of_descent_follow_numpy() {
    for_each_network(|problem, expected, network| {
        let what = format!("window {}, {:?}", problem["window"], network.settings());
        let descent = &expected["descent"];
        let (dt, losses) = (number(&descent["dt"]), numbers(&descent["losses"]));
        assert_eq!(losses.len(), 51);
        let start = numbers(&problem["kernel"]);
        let mut run = GradientDescent::full_batch(network, Optimizer::SGD, dt, start.clone());
        // A step errs by dt TOLERANCE times the largest component of the gradient, which is at
        // most its norm g, in each of n components: √n in norm. The script has multiplied up the
        // norms of 1 − dt ∇²L along the way, so that an error made at one step is at another at
        // most `amplification` times as large. It changes a loss by at most g times itself.
        let worst_error = number(&descent["amplification"]) * dt * TOLERANCE;
        let root_of_count = (start.len() as f64).sqrt();
        let (mut largest_gradient, mut error_of_kernel) = (0.0_f64, 0.0);
        for (step, expected) in losses.iter().enumerate() {
            let loss = run.energy().unwrap().expect("a descent has an energy");
            let tolerance = TOLERANCE * expected + largest_gradient * error_of_kernel;
            let error = (loss - expected).abs();
            assert!(error <= tolerance, "step {step}, {what}: {error:e}, allowed {tolerance:e}");
            let before = run.state().to_vec();
            if step + 1 < losses.len() {
                run.step();
                largest_gradient = largest_gradient.max(distance(run.state(), &before) / dt);
                error_of_kernel =
                    (step + 1) as f64 * worst_error * root_of_count * largest_gradient;
            }
        }
        let error = distance(run.state(), &numbers(&descent["end"]));
        assert!(error <= error_of_kernel, "end, {what}: {error:e}, allowed {error_of_kernel:e}");
    });
}

#[test]
fn ends_of_the_windowed_spectrum_are_those_of_the_dense_matrix() {
    let file = golden();
    for case in items(&file["spectra"]) {
        let found = patch_extremes(&mut correlator(case), 200);
        let (min, max) = (number(&case["eig_min"]), number(&case["eig_max"]));
        // Lanczos stops at a residual of 1e-12 of the largest eigenvalue, which bounds the error;
        // forming and solving PᵀP costs scipy some n u = 60 u of it.
        for (ours, dense) in [(found.lambda_min(), min), (found.lambda_max(), max)] {
            let error = (ours - dense).abs() / max;
            assert!(error <= 1e-10, "window {}: {ours} {dense}, {error:e}", case["window"]);
        }
    }
}

/// A linear equation of the transitioning regime on an image of the file, with its exact modes.
struct Linear {
    equation: Quadratic,
    /// `q = a p β/2`.
    q: f64,
    range: Range,
    what: String,
}

/// For each image and both signs of `a`.
fn linear_equations() -> Vec<Linear> {
    let file = golden();
    let mut all = Vec::new();
    for case in items(&file["spectra"]) {
        for a in [-0.5, 0.5] {
            let activation = Activation::Swish { beta: 1.0 };
            let settings =
                Settings { activation, pooling: Pooling::Sum, label: 1.0, bias: 0.0, alpha: 0.0 };
            let correlator = correlator(case);
            let (rows, columns) = correlator.positions();
            let coefficients =
                Coefficients::of(Regime::Transitioning { a }, &settings, rows * columns);
            all.push(Linear {
                equation: Quadratic::new(coefficients, correlator),
                q: coefficients.patch,
                range: Range { min: number(&case["eig_min"]), max: number(&case["eig_max"]) },
                what: format!("image {}, window {}, a = {a}", case["size"], case["window"]),
            });
        }
    }
    all
}

impl Linear {
    /// A limit for the curvature at which the interval of stable decays is not empty: its ends are
    /// at least three times `|q| e_max` apart.
    fn limit(&self) -> f64 {
        4.0 * self.q.abs() * self.range.max
    }

    /// A hundredth of a bound, or of the curvatures where the bound is zero: fewer positions than
    /// pixels leave modes that the image does not see.
    fn hundredth(&self, bound: f64) -> f64 {
        let curvature = self.q.abs() * self.range.max;
        0.01 * if bound.abs() > 1e-12 * curvature { bound.abs() } else { curvature }
    }

    fn start(&self) -> Vec<f64> {
        normal(Objective::<f64>::len(&self.equation), 3)
    }

    fn run(&self, alpha: f64, dt: f64, method: Method) -> Descent {
        let equation = self.equation.clone().with_alpha(alpha);
        let optimizer = Optimizer { method, alpha: 0.0 };
        let start = self.start();
        let scale = max_abs(&start);
        GradientDescent::full_batch(equation, optimizer, dt, start).with_scale(scale)
    }
}

type Descent = GradientDescent<f64, Quadratic, FullBatch<()>>;

/// The verdict if it is another than expected.
fn surprise(mut run: Descent, expected: VerdictKind, what: &str) -> Option<String> {
    let Ok(judged) = judge(&mut run, Horizon::of(400), &mut []);
    (judged.verdict.kind() != expected).then(|| format!("{what}: not {expected}: {judged:?}"))
}

/// Judges all equations 1 % inside and outside of the weight decays that `method(dt)` bears, `dt` such that the
/// largest stable curvature is [`Linear::limit`].
fn assert_bounds(method: Method, dt: impl Fn(f64) -> f64, with_min: bool) {
    let mut surprises = Vec::new();
    for linear in linear_equations() {
        let dt = dt(linear.limit());
        let AlphaInterval { min, max } =
            alpha_interval(linear.q, linear.range, method.threshold(dt));
        let (above_min, below_max) = (linear.hundredth(min), linear.hundredth(max));
        let below = [
            (min - above_min, VerdictKind::Diverged, "1 % below alpha_min"),
            (min + above_min, VerdictKind::Stable, "1 % above alpha_min"),
        ];
        let above = [
            (max - below_max, VerdictKind::Stable, "1 % below alpha_max"),
            (max + below_max, VerdictKind::Diverged, "1 % above alpha_max"),
        ];
        for (alpha, expected, place) in below.into_iter().filter(|_| with_min).chain(above) {
            let what = format!("{}, {place}, alpha {alpha:e}, dt {dt:e}", linear.what);
            surprises.extend(surprise(linear.run(alpha, dt, method), expected, &what));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[test]
fn euler_is_stable_exactly_between_the_exact_bounds() {
    assert_bounds(Method::Sgd, |limit| 2.0 / limit, true);
}

#[test]
fn nesterov_is_stable_exactly_below_its_exact_bound() {
    let mu = 0.9;
    let dt = |limit: f64| (4.0 / ((1.0 + 2.0 * mu) * limit)).sqrt();
    assert_bounds(Method::NesterovPde { mu }, dt, false);
}
