//! Losses by the formulas one would write first, and in closed form.
//!
//! ```text
//! cross-entropy          −ln(e^{x_y}/Σ e^x)                           Hessian  diag(p) − p pᵀ
//! binary cross-entropy   1/C Σ (y ln(1 + e^{−x}) + (1 − y) ln(1 + e^x))         σ(x) σ(−x)/C
//! half squared error     Σ (x − y)²/2                                 1
//! ```
//!
//! # What rounding may do
//!
//! `exp` and `log` of the pinned libm are good to one unit in the last place, 2u. With `C` outputs of
//! at most `X`, shifted by at most `2X`, a share of the softmax or a sigmoid has the relative error
//! `E = (C + 2X + 8) u`: argument, exponential, sum, quotient. A logarithm makes `E` absolute and adds
//! `2u` of itself.

use std::sync::Arc;

use super::{integers, normal};
use crate::Real;
use crate::nn::loss::Target;
use crate::nn::{Batch, Builder, Engine, Loss, Targets};
use crate::objective::{Objective, StochasticObjective};

const U: f64 = f64::UNIT_ROUNDOFF;
/// Not a power of two, so that its rounding counts.
const SHARE: f64 = 1.0 / 7.0;

/// Value, gradient and derivative of the gradient along `x_dot`.
struct Answer {
    value: f64,
    gradient: Vec<f64>,
    dot: Vec<f64>,
}

fn ours<F: Real>(loss: Loss, x: &[F], target: Target<F>, x_dot: &[F], share: f64) -> Answer {
    let mut out = vec![F::of(f64::NAN); x.len()];
    let value = loss.example(x, target, share, &mut out);
    let gradient = out.iter().map(|x| x.to_f64()).collect();
    loss.example_dot(x, x_dot, share, &mut out);
    Answer { value, gradient, dot: out.iter().map(|x| x.to_f64()).collect() }
}

fn naive_cross_entropy(x: &[f64], class: usize, x_dot: &[f64], share: f64) -> Answer {
    let total: f64 = x.iter().map(|&x| libm::exp(x)).sum();
    let p: Vec<f64> = x.iter().map(|&x| libm::exp(x) / total).collect();
    let unit = |a: usize, b: usize| if a == b { 1.0 } else { 0.0 };
    let hessian = |a: usize, b: usize| p[a] * unit(a, b) - p[a] * p[b];
    let row = |a: usize| (0..x.len()).map(|b| hessian(a, b) * x_dot[b]).sum::<f64>() * share;
    Answer {
        value: -libm::log(p[class]),
        gradient: (0..x.len()).map(|c| (p[c] - unit(c, class)) * share).collect(),
        dot: (0..x.len()).map(row).collect(),
    }
}

fn naive_binary(x: &[f64], y: &[f64], x_dot: &[f64], share: f64) -> Answer {
    let count = x.len() as f64;
    let sigma = |x: f64| libm::exp(x) / (1.0 + libm::exp(x));
    let term = |(x, y): (&f64, &f64)| {
        y * libm::log(1.0 + libm::exp(-x)) + (1.0 - y) * libm::log(1.0 + libm::exp(*x))
    };
    let each = || x.iter().zip(y);
    let dots = x.iter().zip(x_dot);
    Answer {
        value: each().map(term).sum::<f64>() / count,
        gradient: each().map(|(x, y)| (sigma(*x) - y) * share / count).collect(),
        dot: dots.map(|(x, dot)| sigma(*x) * sigma(-x) * dot * share / count).collect(),
    }
}

/// `off` bounds both errors in double precision; ours is then rounded to `F`.
fn assert_near<F: Real>(what: &str, ours: &[f64], twin: &[f64], off: f64) {
    for (ours, twin) in ours.iter().zip(twin) {
        let bound = off + F::UNIT_ROUNDOFF * (twin.abs() + off);
        let error = (ours - twin).abs();
        assert!(error <= bound, "{what}, {}: off by {error:e} beyond {bound:e}", F::NAME);
    }
}

fn doubles<F: Real>(x: &[F]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |largest, x| x.abs().max(largest))
}

fn check_against_formulas<F: Real>() {
    for outputs in [1, 2, 3, 10, 101] {
        for seed in 0..20 {
            let x: Vec<F> = normal::<F>(outputs, seed).iter().map(|x| F::of(3.0) * *x).collect();
            let x_dot: Vec<F> = normal(outputs, seed + 100);
            let (x64, dot64) = (doubles(&x), doubles(&x_dot));
            let (size, dot_size) = (largest(&x64), largest(&dot64));
            let e = (outputs as f64 + 2.0 * size + 8.0) * U;

            let class = seed as usize % outputs;
            let a = ours(Loss::CrossEntropy, &x, Target::Class(class), &x_dot, SHARE);
            let b = naive_cross_entropy(&x64, class, &dot64, SHARE);
            // A logarithm and two sums of numbers up to 2X + ln C.
            let logs = 4.0 * U * (2.0 * size + libm::log(outputs as f64));
            let off = 2.0 * (e + logs);
            assert!((a.value - b.value).abs() <= off, "{}, {}", a.value, b.value);
            // p ≤ 1 and one more rounding by the difference and the share.
            let off = 2.0 * (e + 2.0 * U) * SHARE;
            assert_near::<F>("cross-entropy, gradient", &a.gradient, &b.gradient, off);
            // Two shares of errors E times 2 D, and the sum over the outputs.
            let off = 2.0 * (4.0 * e + (outputs as f64 + 4.0) * U) * dot_size * SHARE;
            assert_near::<F>("cross-entropy, product", &a.dot, &b.dot, off);

            let y: Vec<F> = (0..outputs).map(|i| F::of((i % 5) as f64 * 0.25)).collect();
            let a = ours(Loss::BinaryCrossEntropy, &x, Target::Reals(&y), &x_dot, SHARE);
            let b = naive_binary(&x64, &doubles(&y), &dot64, SHARE);
            // Each term has three parts of at most X + 1, and then they are added.
            let off = 2.0 * (e + (outputs as f64 + 6.0) * U * (size + 1.0));
            assert!((a.value - b.value).abs() <= off, "{}, {}", a.value, b.value);
            let share = SHARE / outputs as f64;
            let off = 2.0 * (e + 3.0 * U) * share;
            assert_near::<F>("binary cross-entropy, gradient", &a.gradient, &b.gradient, off);
            let off = 2.0 * (2.0 * e + 4.0 * U) * dot_size * share;
            assert_near::<F>("binary cross-entropy, product", &a.dot, &b.dot, off);
        }
    }
}

#[test]
fn cross_entropies_are_their_formulas() {
    check_against_formulas::<f32>();
    check_against_formulas::<f64>();
}

#[test]
fn equal_logits_give_the_logarithm_of_their_number() {
    for classes in [2_usize, 10, 1000] {
        let share = 1.0 / classes as f64;
        for level in [0.0, -3.5, 80.0] {
            let x = vec![level; classes];
            let dot: Vec<f64> = normal(classes, 1);
            let a = ours(Loss::CrossEntropy, &x, Target::Class(1), &dot, 1.0);
            // The logarithm, and its sum with the level and back.
            let bound = 3.0 * U * (level.abs() + 7.0);
            assert!((a.value - libm::log(classes as f64)).abs() <= bound, "{classes}: {}", a.value);
            // e⁰ = 1 and sums of ones are exact; what is left are the quotient and the difference.
            for (c, gradient) in a.gradient.iter().enumerate() {
                let exact = share - if c == 1 { 1.0 } else { 0.0 };
                assert!((gradient - exact).abs() <= 2.0 * U, "{classes}: {gradient}");
            }
        }
    }
    let a =
        ours(Loss::BinaryCrossEntropy, &[0.0; 3], Target::Reals(&[0.0, 1.0, 0.5]), &[1.0; 3], 1.0);
    assert!((a.value - libm::log(2.0)).abs() <= 4.0 * U);
    assert_eq!(a.gradient, [0.5 / 3.0, -0.5 / 3.0, 0.0]);
    assert_eq!(a.dot, [0.25 / 3.0; 3]);
}

fn check_extremes<F: Real>() {
    let x = [1e4, 0.0, -1e4].map(F::of);
    let dot = [1.0, 2.0, 3.0].map(F::of);
    for (class, value) in [(0, 0.0), (1, 1e4), (2, 2e4)] {
        let a = ours(Loss::CrossEntropy, &x, Target::Class(class), &dot, 1.0);
        assert_eq!(a.value, value);
        let mut exact = [1.0, 0.0, 0.0];
        exact[class] -= 1.0;
        assert_eq!(a.gradient, exact);
        assert_eq!(a.dot, [0.0; 3]);
    }
    for (y, value, gradient) in [
        ([1.0, 0.5, 0.0], 0.0, [0.0, 0.0, 0.0]),
        ([0.0, 0.5, 1.0], 2e4, [1.0, 0.0, -1.0]),
        ([0.25, 0.5, 0.25], 7500.0 + 2500.0, [0.75, 0.0, -0.25]),
    ] {
        let y = y.map(F::of);
        let a = ours(Loss::BinaryCrossEntropy, &x, Target::Reals(&y), &dot, 3.0);
        // Behind numbers of 10⁴ the logarithm of 2 for the output 0 keeps an ulp of theirs.
        let exact = (value + libm::log(2.0)) / 3.0;
        assert!((a.value - exact).abs() <= 4.0 * U * 2e4, "{}, not {exact}", a.value);
        assert_eq!(a.gradient, gradient);
        assert_eq!(a.dot, [0.0, 0.5, 0.0]);
    }
}

#[test]
fn extreme_logits_neither_overflow_nor_lose_the_answer() {
    check_extremes::<f32>();
    check_extremes::<f64>();
}

/// With integers and four examples nothing is rounded.
#[test]
fn half_squared_error_is_the_sum_of_squares_over_twice_the_examples() {
    let (x, y): (Vec<f32>, Vec<f32>) = (integers(5, 1), integers(5, 2));
    let dot: Vec<f32> = integers(5, 3);
    let a = ours(Loss::HalfMse, &x, Target::Reals(&y), &dot, 0.25);
    let off: Vec<f64> = x.iter().zip(&y).map(|(x, y)| f64::from(x - y)).collect();
    assert_eq!(a.value, off.iter().map(|off| off * off).sum::<f64>() / 2.0);
    assert_eq!(a.gradient, off.iter().map(|off| off / 4.0).collect::<Vec<_>>());
    assert_eq!(a.dot, dot.iter().map(|dot| f64::from(dot / 4.0)).collect::<Vec<_>>());

    // Through the engine: x = w·1 for four examples and three outputs, so ∂²L/∂w² is the identity.
    let mut net = Builder::new([1, 1, 1]);
    let input = net.input();
    net.linear(input, "fc", 3, false);
    let mut engine = Engine::<f32>::new(&Arc::new(net.build()), Loss::HalfMse);
    let targets: Vec<f32> = integers(12, 4);
    let theta = [1.0, -2.0, 3.0];
    let off = targets.iter().enumerate().map(|(i, y)| f64::from(theta[i % 3] - y));
    let exact = off.map(|off| off * off).sum::<f64>() / (2.0 * 4.0);
    let batch = Batch { inputs: vec![1.0; 4], targets: Targets::Reals(targets) };
    engine.set_batch(&Arc::new(batch));
    assert_eq!(engine.loss(&theta), Ok(exact));
    let mut product = [0.0; 3];
    engine.hessian_vector(&theta, &[1.0, 2.0, -3.0], &mut product);
    assert_eq!(product, [1.0, 2.0, -3.0]);
}

#[test]
fn with_several_outputs_a_class_is_its_indicator() {
    let (x, dot) = ([0.7, -0.2, 1.1], [1.0; 3]);
    for class in 0..3 {
        let mut y = [0.0; 3];
        y[class] = 1.0;
        for loss in [Loss::BinaryCrossEntropy, Loss::HalfMse] {
            let by_class = ours(loss, &x, Target::Class(class), &dot, SHARE);
            let by_number = ours(loss, &x, Target::Reals(&y), &dot, SHARE);
            assert_eq!(by_class.value.to_bits(), by_number.value.to_bits(), "{loss:?}, {class}");
            assert_eq!(by_class.gradient, by_number.gradient, "{loss:?}, {class}");
        }
    }
}

#[test]
fn with_one_output_a_class_is_zero_or_one() {
    let x = [0.7];
    for class in [0, 1] {
        let y = [class as f64];
        let by_class = ours(Loss::BinaryCrossEntropy, &x, Target::Class(class), &[1.0], SHARE);
        let by_number = ours(Loss::BinaryCrossEntropy, &x, Target::Reals(&y), &[1.0], SHARE);
        assert_eq!(by_class.value.to_bits(), by_number.value.to_bits());
        assert_eq!(by_class.gradient, by_number.gradient);
    }
}

#[test]
fn one_output_answers_with_the_class_that_costs_less() {
    for loss in [Loss::BinaryCrossEntropy, Loss::HalfMse] {
        for x in [-1.0, -0.1, 0.1, 0.4, 0.6, 2.0] {
            let cost = |class: usize| ours(loss, &[x], Target::Class(class), &[1.0], SHARE).value;
            let cheaper = usize::from(cost(1) < cost(0));
            assert_eq!(loss.class_of_answer(&[x]), cheaper, "{loss:?} at {x}");
            for class in [0, 1] {
                let right = loss.is_right(&[x], Target::Class(class));
                assert_eq!(right, Some(class == cheaper), "{loss:?} at {x}, class {class}");
            }
        }
    }
}

#[test]
fn several_outputs_answer_with_the_first_of_the_largest() {
    let answer = |x: &[f32]| Loss::CrossEntropy.class_of_answer(x);
    assert_eq!(
        [answer(&[0.0, 2.0, 1.0]), answer(&[3.0, 3.0, 1.0]), answer(&[0.0, -1.0])],
        [1, 0, 0]
    );
    // Not a number is no answer, and never a right one.
    let nan = [f32::NAN, 1.0];
    assert_eq!(Loss::CrossEntropy.is_right(&nan, Target::Class(answer(&nan))), Some(false));
}
