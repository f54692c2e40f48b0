//! Batch norm by the textbook, in double precision.
//!
//! ```text
//! x = (z − μ)/√(σ² + ε)     n = γ x + β     ∂L/∂γ = Σ g x     ∂L/∂β = Σ g
//! ∂L/∂z = γ/√(σ² + ε) (g − ⟨g⟩ − x ⟨g x⟩)                     in training mode
//! ∂L/∂z = γ/√(σ² + ε) g                                       in evaluation mode
//! running ← 0.9 running + 0.1 (⟨z⟩, Σ (z − ⟨z⟩)²/(M − 1))      ε = 1e-5, M numbers of the channel
//! ```
//!
//! # What rounding may do
//!
//! With `u` the unit roundoff and `R` the roundings of a sum (down the columns of an image and along
//! its row; the images are added in double precision), to first order and with `s = 1/√(σ² + ε)`:
//!
//! ```text
//! δμ  = R u ⟨|z|⟩
//! δσ² = (R + 2) u σ² + 4 σ δμ + 5 δμ²       squares about rounded means of images, put together
//! ρ   = δσ²/(2 (σ² + ε)) + 4 u              of s, relative
//! δn  = |γ| s (2 u (|z| + |μ|) + δμ + ρ |z − μ|) + u (|β| + |n|)
//! δm₁ = R u ⟨|g|⟩
//! δm₂ = s ((R + 2) u ⟨|g| |z − μ|⟩ + (u |μ| + δμ) ⟨|g|⟩) + ρ |m₂|
//! δ∂z = |γ| s ((ρ + 3 u)(|g| + |m₁|) + δm₁)
//!       + |γ| s² ((δm₂ + (2 ρ + 4 u) |m₂|) |z − μ| + |m₂| (3 u (|z| + |μ|) + δμ))
//! ```
//!
//! So a mean of 10⁴ deviations costs the four digits that it costs the numbers themselves, and no
//! more. The twin's own errors are the same with `u = 2⁻⁵³` and `R = M`.

use super::{Alone, error_gradient, normal, value_in_training};
use crate::Real;
use crate::nn::{BatchNormMode, Builder, Node};
use crate::objective::{Objective, StochasticObjective};

const EPSILON: f64 = 1e-5;
/// Errors are below 0.05 of what they are errors of, so that their products add less than a tenth.
const SECOND_ORDER: f64 = 1.1;

const EXAMPLES: usize = 8;
const IMAGE: [usize; 3] = [6, 7, 3];
const CHANNELS: usize = IMAGE[2];
const COUNT: usize = EXAMPLES * IMAGE[0] * IMAGE[1];

fn layer(net: &mut Builder, x: Node) -> Node {
    net.batch_norm(x, "bn")
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    values.sum::<f64>() / COUNT as f64
}

/// A channel with the gradient by its norm.
struct Channel {
    mode: BatchNormMode,
    z: Vec<f64>,
    g: Vec<f64>,
    gamma: f64,
    beta: f64,
    mean: f64,
    variance: f64,
}

/// Of one precision's sums.
struct Rounding {
    u: f64,
    sum: f64,
}

/// Errors of what a channel's numbers depend on.
struct Errors {
    u: f64,
    mean: f64,
    variance: f64,
    s: f64,
    m1: f64,
    m2: f64,
}

impl Channel {
    fn s(&self) -> f64 {
        1.0 / (self.variance + EPSILON).sqrt()
    }

    fn x(&self, i: usize) -> f64 {
        (self.z[i] - self.mean) * self.s()
    }

    fn value(&self, i: usize) -> f64 {
        self.gamma * self.x(i) + self.beta
    }

    fn m1(&self) -> f64 {
        mean(self.g.iter().copied())
    }

    fn m2(&self) -> f64 {
        mean((0..COUNT).map(|i| self.g[i] * self.x(i)))
    }

    fn gradient(&self, i: usize) -> f64 {
        let rest = match self.mode {
            BatchNormMode::Training => self.m1() + self.x(i) * self.m2(),
            BatchNormMode::Evaluation => 0.0,
        };
        self.gamma * self.s() * (self.g[i] - rest)
    }

    fn errors(&self, Rounding { u, sum }: &Rounding) -> Errors {
        let size = |values: &[f64]| mean(values.iter().map(|x| x.abs()));
        let of_mean = match self.mode {
            BatchNormMode::Training => sum * u * size(&self.z),
            BatchNormMode::Evaluation => 0.0,
        };
        let variance = match self.mode {
            BatchNormMode::Training => {
                let sigma = self.variance.sqrt();
                (sum + 2.0) * u * self.variance + 4.0 * sigma * of_mean + 5.0 * of_mean * of_mean
            }
            BatchNormMode::Evaluation => 0.0,
        };
        let s = variance / (2.0 * (self.variance + EPSILON)) + 4.0 * u;
        let products = mean((0..COUNT).map(|i| (self.g[i] * (self.z[i] - self.mean)).abs()));
        let shifted = (u * self.mean.abs() + of_mean) * size(&self.g);
        let m2 = self.s() * ((sum + 2.0) * u * products + shifted) + s * self.m2().abs();
        Errors { u: *u, mean: of_mean, variance, s, m1: sum * u * size(&self.g), m2 }
    }

    fn value_error(&self, e: &Errors, i: usize) -> f64 {
        let sizes = 2.0 * e.u * (self.z[i].abs() + self.mean.abs());
        let inner = sizes + e.mean + e.s * (self.z[i] - self.mean).abs();
        self.gamma.abs() * self.s() * inner + e.u * (self.beta.abs() + self.value(i).abs())
    }

    fn gradient_error(&self, e: &Errors, i: usize) -> f64 {
        let scale = self.gamma.abs() * self.s();
        let own = (e.s + 3.0 * e.u) * self.g[i].abs();
        if self.mode == BatchNormMode::Evaluation {
            return scale * own;
        }
        let (m1, m2) = (self.m1().abs(), self.m2().abs());
        let off = (self.z[i] - self.mean).abs();
        let sizes = 3.0 * e.u * (self.z[i].abs() + self.mean.abs()) + e.mean;
        let first = own + (e.s + 3.0 * e.u) * m1 + e.m1;
        let second = (e.m2 + (2.0 * e.s + 4.0 * e.u) * m2) * off + m2 * sizes;
        scale * (first + self.s() * second)
    }
}

/// Ours and the twin's errors together.
fn bound<F: Real>(of: impl Fn(Rounding) -> f64) -> f64 {
    let ours = Rounding { u: F::UNIT_ROUNDOFF, sum: (IMAGE[0] + IMAGE[1]) as f64 };
    let twins = Rounding { u: f64::UNIT_ROUNDOFF, sum: COUNT as f64 };
    SECOND_ORDER * (of(ours) + of(twins))
}

fn assert_within(what: &str, ours: f64, twin: f64, bound: f64) {
    let error = (ours - twin).abs();
    assert!(error <= bound, "{what}: {ours} and {twin} differ by {error:e} beyond {bound:e}");
}

fn channel_of<F: Real>(values: &[F], channel: usize) -> Vec<f64> {
    values.iter().skip(channel).step_by(CHANNELS).map(|x| x.to_f64()).collect()
}

/// Images whose channels have a mean and a standard deviation of about these; scale and shift.
fn example<F: Real>(mean: f64, deviation: f64) -> (Vec<F>, Vec<F>) {
    let z: Vec<f64> = normal(COUNT * CHANNELS, 1);
    // Channels differ, and so do images.
    let of = |(i, z): (usize, f64)| {
        let image = i / (IMAGE[0] * IMAGE[1] * CHANNELS);
        F::of(mean + deviation * (z + 0.3 * (i % CHANNELS) as f64 + 0.1 * image as f64))
    };
    (z.into_iter().enumerate().map(of).collect(), normal(2 * CHANNELS, 2))
}

fn check<F: Real>(mode: BatchNormMode, center: f64, deviation: f64) {
    let (images, parameters) = example::<F>(center, deviation);
    let mut alone = Alone::<F>::new(EXAMPLES, IMAGE, layer);
    let squared = deviation * deviation;
    let running: Vec<F> =
        [[center; CHANNELS].map(F::of), [1.2 * squared; CHANNELS].map(F::of)].concat();
    alone.engine.load_buffers(&running);
    alone.engine.set_mode(mode);
    let n = match mode {
        BatchNormMode::Training => value_in_training(EXAMPLES, IMAGE, layer, &images, &parameters),
        BatchNormMode::Evaluation => alone.outputs(&images, &parameters),
    };
    let targets: Vec<F> = normal(images.len(), 3);
    let g = error_gradient(&n, &targets, EXAMPLES);
    let gradient = alone.gradient(&images, &parameters, &targets);

    for c in 0..CHANNELS {
        let z = channel_of(&images, c);
        let (mean, variance) = match mode {
            BatchNormMode::Training => {
                let mean = mean(z.iter().copied());
                (mean, self::mean(z.iter().map(|z| (z - mean) * (z - mean))))
            }
            BatchNormMode::Evaluation => (running[c].to_f64(), running[CHANNELS + c].to_f64()),
        };
        let (gamma, beta) = (parameters[c].to_f64(), parameters[CHANNELS + c].to_f64());
        let twin = Channel { mode, z, g: channel_of(&g, c), gamma, beta, mean, variance };
        let what = |part| format!("{part}, {mode:?}, mean {center}, {}", F::NAME);
        let (ours, by_image) = (channel_of(&n, c), channel_of(&gradient.images, c));
        let (m, count) = (twin.m2(), COUNT as f64);
        for i in 0..COUNT {
            let off = bound::<F>(|r| twin.value_error(&twin.errors(&r), i));
            assert_within(&what("value"), ours[i], twin.value(i), off);
            let off = bound::<F>(|r| twin.gradient_error(&twin.errors(&r), i));
            assert_within(&what("gradient"), by_image[i], twin.gradient(i), off);
        }
        let by_scale = gradient.parameters[c].to_f64();
        let off = bound::<F>(|r| count * (twin.errors(&r).m2 + 2.0 * r.u * m.abs()));
        assert_within(&what("scale"), by_scale, count * m, off);
        let by_shift = gradient.parameters[CHANNELS + c].to_f64();
        let off = bound::<F>(|r| count * (twin.errors(&r).m1 + 2.0 * r.u * twin.m1().abs()));
        assert_within(&what("shift"), by_shift, count * twin.m1(), off);
    }
}

#[test]
fn values_and_gradients_are_the_textbooks() {
    for mode in [BatchNormMode::Training, BatchNormMode::Evaluation] {
        check::<f32>(mode, 0.0, 1.0);
        check::<f64>(mode, 0.0, 1.0);
        // Where ε matters.
        check::<f32>(mode, -3.0, 0.01);
        check::<f64>(mode, -3.0, 0.01);
        check::<f64>(mode, 50.0, 20.0);
    }
}

#[test]
fn a_large_mean_costs_its_own_digits_only() {
    for mode in [BatchNormMode::Training, BatchNormMode::Evaluation] {
        check::<f32>(mode, 1e4, 1.0);
        check::<f64>(mode, 1e4, 1.0);
    }
}

/// A product at the same parameters looks at the statistics that were put in place meanwhile.
#[test]
fn products_follow_running_statistics() {
    let (images, parameters) = example::<f64>(0.0, 1.0);
    let (targets, direction): (Vec<f64>, Vec<f64>) =
        (normal(images.len(), 3), normal(images.len(), 4));
    let mut fresh = Alone::<f64>::new(EXAMPLES, IMAGE, layer);
    fresh.engine.set_mode(BatchNormMode::Evaluation);
    fresh.set_targets(&targets);
    let mut used = Alone { engine: fresh.engine.clone(), ..fresh };
    let (theta, v) = (fresh.theta(&images, &parameters), fresh.theta(&direction, &parameters));
    let (mut expected, mut out) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
    let running = [0.5, 0.5, 0.5, 4.0, 4.0, 4.0];
    fresh.engine.load_buffers(&running);
    fresh.engine.hessian_vector(&theta, &v, &mut expected);
    used.engine.hessian_vector(&theta, &v, &mut out);
    used.engine.load_buffers(&running);
    used.engine.hessian_vector(&theta, &v, &mut out);
    assert!(out == expected, "looks at the statistics of before");
}

fn check_running<F: Real>(center: f64) {
    let (images, parameters) = example::<F>(center, 1.0);
    let mut alone = Alone::<F>::new(EXAMPLES, IMAGE, layer);
    let targets: Vec<F> = normal(images.len(), 3);
    let mut expected = [[0.0; CHANNELS], [1.0; CHANNELS]];
    let mut errors = [[0.0; CHANNELS]; 2];
    for round in 1..=3 {
        alone.gradient(&images, &parameters, &targets);
        alone.engine.update_running_stats();
        for c in 0..CHANNELS {
            let z = channel_of(&images, c);
            let mean = mean(z.iter().copied());
            let squares: f64 = z.iter().map(|z| (z - mean) * (z - mean)).sum();
            let (variance, unbiased) = (squares / COUNT as f64, squares / (COUNT - 1) as f64);
            let g = vec![0.0; COUNT];
            let mode = BatchNormMode::Training;
            let twin = Channel { mode, z, g, gamma: 1.0, beta: 0.0, mean, variance };
            for (kind, new) in [(0, mean), (1, unbiased)] {
                let old = &mut expected[kind][c];
                *old = 0.9 * *old + 0.1 * new;
                // A tenth of the new error, nine of the old, and up to four roundings.
                let off = bound::<F>(|r| {
                    let e = twin.errors(&r);
                    let new_error = [e.mean, e.variance * unbiased / variance][kind];
                    0.1 * new_error + 4.0 * r.u * old.abs()
                });
                errors[kind][c] = 0.9 * errors[kind][c] + off;
                let ours = alone.engine.buffers()[kind * CHANNELS + c].to_f64();
                assert_within(&format!("round {round}"), ours, *old, errors[kind][c]);
            }
        }
    }
}

#[test]
fn running_statistics_take_a_tenth_of_the_batch() {
    check_running::<f32>(0.5);
    check_running::<f64>(0.5);
    check_running::<f32>(1e4);
}

/// `z` = 1, 2, 3, 4: mean 5/2, unbiased variance 5/3.
#[test]
fn running_statistics_of_four_numbers() {
    let mut alone = Alone::<f64>::new(4, [1, 1, 1], layer);
    alone.gradient(&[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0], &[0.0; 4]);
    alone.engine.update_running_stats();
    let [mean, variance] = alone.engine.buffers() else { panic!("two buffers") };
    // Three roundings each.
    assert_within("mean", *mean, 0.25, 3.0 * f64::UNIT_ROUNDOFF);
    assert_within("variance", *variance, 0.9 + 0.5 / 3.0, 6.0 * f64::UNIT_ROUNDOFF);
}
