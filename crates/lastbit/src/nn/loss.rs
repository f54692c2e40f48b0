//! What the output is measured against, with gradient and second derivative, example by example.
//!
//! With `x` the outputs of an example, `y` its target, `C` outputs and `N` examples:
//!
//! ```text
//! cross-entropy          L = 1/N Σ (ln Σ_c e^{x_c} − x_y)             ∂L/∂x = (p − e_y)/N,  p = softmax(x)
//! binary cross-entropy   L = 1/(NC) Σ (max(x, 0) − x y + ln(1 + e^{−|x|}))    ∂L/∂x = (σ(x) − y)/(NC)
//! half squared error     L = 1/(2N) Σ |x − y|²                        ∂L/∂x = (x − y)/N
//! ```
//!
//! All in double precision with the pinned libm, rounded once at the end.

use crate::Real;

/// Examples with their targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<F> {
    /// All inputs, each in the order row, column, channel.
    pub inputs: Vec<F>,
    /// What belongs to each.
    pub targets: Targets<F>,
}

/// What belongs to each example.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets<F> {
    /// A class.
    Classes(Vec<u32>),
    /// As many numbers as there are outputs.
    Reals(Vec<F>),
}

impl<F> Targets<F> {
    /// Number of examples, each with `outputs` outputs.
    pub fn len(&self, outputs: usize) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Reals(values) => values.len() / outputs,
        }
    }
}

crate::named_enum! {
    /// A loss.
    pub enum Loss, default CrossEntropy {
        /// Of the softmax, for classes.
        CrossEntropy = "cross-entropy",
        /// Of the sigmoid, for numbers between 0 and 1 or, with a single output, two classes.
        BinaryCrossEntropy = "binary-cross-entropy",
        /// Half the mean squared error, for numbers.
        HalfMse = "half-mse",
    }
}

/// The target of one example.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a, F> {
    Class(usize),
    Reals(&'a [F]),
}

impl<F: Real> Targets<F> {
    pub(super) fn of(&self, example: usize, outputs: usize) -> Target<'_, F> {
        match self {
            Self::Classes(classes) => Target::Class(classes[example] as usize),
            Self::Reals(values) => Target::Reals(&values[example * outputs..][..outputs]),
        }
    }
}

impl Loss {
    /// The summand of one example, without the factor 1/N; its gradient, times `share` (1/N), goes
    /// to `out`.
    pub(super) fn example<F: Real>(
        self,
        x: &[F],
        target: Target<F>,
        share: f64,
        out: &mut [F],
    ) -> f64 {
        let outputs = x.len();
        match self {
            Self::CrossEntropy => {
                let class = class_of(target);
                let (largest, total) = softmax_total(x);
                for (c, (x, out)) in x.iter().zip(out).enumerate() {
                    let p = libm::exp(x.to_f64() - largest) / total;
                    *out = F::of((p - f64::from(u8::from(c == class))) * share);
                }
                largest + libm::log(total) - x[class].to_f64()
            }
            Self::BinaryCrossEntropy => {
                let width = outputs as f64;
                let mut sum = 0.0;
                for (c, (x, out)) in x.iter().zip(out).enumerate() {
                    let (x, y) = (x.to_f64(), number(target, c, outputs));
                    sum += x.max(0.0) - x * y + libm::log1p(libm::exp(-x.abs()));
                    *out = F::of((sigmoid(x) - y) * (share / width));
                }
                sum / width
            }
            Self::HalfMse => {
                let mut sum = 0.0;
                for (c, (x, out)) in x.iter().zip(out).enumerate() {
                    let off = x.to_f64() - number(target, c, outputs);
                    sum += off * off;
                    *out = F::of(off * share);
                }
                sum / 2.0
            }
        }
    }

    /// The derivative of the gradient along `x_dot`.
    pub(super) fn example_dot<F: Real>(self, x: &[F], x_dot: &[F], share: f64, out: &mut [F]) {
        match self {
            Self::CrossEntropy => {
                // p ⊙ (ẋ − ⟨p, ẋ⟩)
                let (largest, total) = softmax_total(x);
                let p = |x: &F| libm::exp(x.to_f64() - largest) / total;
                let mean: f64 = x.iter().zip(x_dot).map(|(x, dot)| p(x) * dot.to_f64()).sum();
                for ((x, dot), out) in x.iter().zip(x_dot).zip(out) {
                    *out = F::of(p(x) * (dot.to_f64() - mean) * share);
                }
            }
            Self::BinaryCrossEntropy => {
                let width = x.len() as f64;
                for ((x, dot), out) in x.iter().zip(x_dot).zip(out) {
                    let s = sigmoid(x.to_f64());
                    *out = F::of(s * (1.0 - s) * dot.to_f64() * (share / width));
                }
            }
            Self::HalfMse => {
                for (dot, out) in x_dot.iter().zip(out) {
                    *out = F::of(dot.to_f64() * share);
                }
            }
        }
    }

    /// The class that outputs stand for; 0 among outputs that are not numbers.
    pub(super) fn class_of_answer<F: Real>(self, x: &[F]) -> usize {
        if x.len() == 1 {
            // Where both classes cost the same: a sigmoid of 1/2, a number halfway from 0 to 1.
            let border = if self == Self::HalfMse { 0.5 } else { 0.0 };
            usize::from(x[0].to_f64() > border)
        } else {
            // The first of the largest.
            (1..x.len()).fold(0, |best, c| if x[c] > x[best] { c } else { best })
        }
    }

    /// Whether the answer is the right class; `None` where the target is no class.
    pub(super) fn is_right<F: Real>(self, x: &[F], target: Target<F>) -> Option<bool> {
        let Target::Class(class) = target else { return None };
        Some(self.class_of_answer(x) == class && x.iter().all(|x| x.is_finite()))
    }
}

fn softmax_total<F: Real>(x: &[F]) -> (f64, f64) {
    let largest = x.iter().map(|x| x.to_f64()).fold(f64::NEG_INFINITY, f64::max);
    (largest, x.iter().map(|x| libm::exp(x.to_f64() - largest)).sum())
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn class_of<F>(target: Target<F>) -> usize {
    match target {
        Target::Class(class) => class,
        Target::Reals(_) => panic!("cross-entropy needs classes, found numbers"),
    }
}

/// Output `c`'s target: of a class 0 or 1 the class itself where there is one output, else the
/// class's indicator vector.
fn number<F: Real>(target: Target<F>, c: usize, outputs: usize) -> f64 {
    match target {
        Target::Class(class) => {
            let classes = outputs.max(2);
            assert!(class < classes, "class {class} of {classes}");
            let one = if outputs == 1 { class == 1 } else { class == c };
            f64::from(u8::from(one))
        }
        Target::Reals(values) => values[c].to_f64(),
    }
}
