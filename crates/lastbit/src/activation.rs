//! Activation functions with their first two derivatives.
//!
//! ```text
//! Swish   r = x σ(βx)    r' = σ + βx σ(1−σ)    r'' = β σ(1−σ) (2 + βx (1−2σ))
//! ReLU    r = max(x, 0)  r' = [x > 0]          r'' = 0
//! tanh    r = tanh x     r' = 1 − r²           r'' = −2 r (1 − r²)
//! sigmoid r = σ(x)       r' = σ(1−σ)           r'' = σ(1−σ)(1−2σ)
//! ```
//!
//! Rounded in the type of the argument, with [`Real::exp`]; only tanh of an `f32` goes through
//! `f64`, for its digits near zero.

use crate::Real;
use crate::exp::exp;

crate::named_enum! {
    /// An activation by its name alone.
    pub enum ActivationKind {
        /// x/(1 + e^(-beta x)).
        Swish = "swish",
        /// max(x, 0).
        Relu = "relu",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// 1/(1 + e^-x).
        Sigmoid = "sigmoid",
    }
}

impl ActivationKind {
    /// The activation; `beta` is the steepness of Swish.
    pub fn with_beta(self, beta: f64) -> Activation {
        match self {
            Self::Swish => Activation::Swish { beta },
            Self::Relu => Activation::Relu,
            Self::Tanh => Activation::Tanh,
            Self::Sigmoid => Activation::Sigmoid,
        }
    }
}

/// An activation.
///
/// In settings: `"relu"`, `"tanh"`, `"sigmoid"` or `{ swish = BETA }`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Activation {
    /// `x/(1 + e^{−βx})`.
    Swish {
        /// Steepness; towards ReLU as it grows.
        beta: f64,
    },
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1/(1 + e^{−x})`.
    Sigmoid,
}

#[cfg(feature = "serde")]
impl crate::named::WordOrNumber for Activation {
    const EXPECTED: &'static str =
        "\"relu\", \"tanh\", \"sigmoid\" or { swish = BETA } with BETA > 0";

    fn parts(&self) -> (&'static str, Option<f64>) {
        match self {
            Self::Swish { beta } => (ActivationKind::Swish.name(), Some(*beta)),
            Self::Relu => (ActivationKind::Relu.name(), None),
            Self::Tanh => (ActivationKind::Tanh.name(), None),
            Self::Sigmoid => (ActivationKind::Sigmoid.name(), None),
        }
    }

    fn from_parts(word: &str, number: Option<f64>) -> Option<Self> {
        use crate::named::Named;
        match (ActivationKind::from_name(word)?, number) {
            (ActivationKind::Swish, Some(beta)) if beta > 0.0 => Some(Self::Swish { beta }),
            (ActivationKind::Swish, _) | (_, Some(_)) => None,
            (kind, None) => Some(kind.with_beta(f64::NAN)),
        }
    }
}

#[cfg(feature = "serde")]
crate::serde_of_word_or_number!(Activation);

impl Activation {
    /// `r, r', r''` at `x`.
    #[inline(always)]
    pub fn at<F: Real>(self, x: F) -> [F; 3] {
        let (one, two) = (F::of(1.0), F::of(2.0));
        match self {
            Self::Swish { beta } => {
                let beta = F::of(beta);
                let s = sigmoid(beta * x);
                let slope = s * (one - s);
                [x * s, s + beta * x * slope, beta * slope * (two + beta * x * (one - two * s))]
            }
            Self::Relu => {
                // Not `x > 0`: a NaN must stay visible, as in PyTorch.
                if x <= F::default() { [F::default(); 3] } else { [x, one, F::default()] }
            }
            Self::Tanh => tanh(x.to_f64()).map(F::of),
            Self::Sigmoid => {
                let s = sigmoid(x);
                let slope = s * (one - s);
                [s, slope, slope * (one - two * s)]
            }
        }
    }
}

#[inline(always)]
fn sigmoid<F: Real>(x: F) -> F {
    F::of(1.0) / (F::of(1.0) + (-x).exp())
}

#[inline(always)]
fn tanh(x: f64) -> [f64; 3] {
    // (1 − q)/(1 + q) with q = e^{−2|x|} loses digits near 0; there tanh is x − x³/3.
    let q = exp(-2.0 * x.abs());
    let small = x - x * x * x / 3.0;
    let large = ((1.0 - q) / (1.0 + q)).copysign(x);
    let r = if x.abs() < 1e-4 { small } else { large };
    [r, 1.0 - r * r, -2.0 * r * (1.0 - r * r)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_zero_are_the_papers() {
        assert_eq!(Activation::Swish { beta: 3.0 }.at(0.0), [0.0, 0.5, 1.5]);
    }

    #[test]
    fn not_a_number_stays_visible() {
        for activation in [
            Activation::Swish { beta: 1.0 },
            Activation::Relu,
            Activation::Tanh,
            Activation::Sigmoid,
        ] {
            assert!(activation.at(f64::NAN)[0].is_nan(), "{activation:?}");
            assert!(activation.at(f32::NAN)[0].is_nan(), "{activation:?}");
        }
        assert_eq!(Activation::Relu.at(-0.0_f32).map(f32::to_bits), [0; 3]);
    }

    #[test]
    fn derivatives_are_those_of_the_value() {
        for activation in [
            Activation::Swish { beta: 1.0 },
            Activation::Swish { beta: 2.5 },
            Activation::Tanh,
            Activation::Sigmoid,
        ] {
            for i in -40..=40 {
                let x = f64::from(i) * 0.2 + 0.01;
                let h = 1e-5;
                for order in [0, 1] {
                    let value = |x: f64| activation.at::<f64>(x)[order];
                    let slope = (value(x + h) - value(x - h)) / (2.0 * h);
                    // Truncation h² r''''/6 with |r''''| below 40, rounding u/h.
                    let error = (slope - activation.at(x)[order + 1]).abs();
                    assert!(error < 1e-9, "{activation:?}, x = {x}, order {order}: {error:e}");
                }
            }
        }
    }

    #[test]
    fn single_precision_is_the_double_rounded_within_a_few_ulps() {
        for activation in [Activation::Swish { beta: 1.0 }, Activation::Sigmoid, Activation::Tanh] {
            for i in -400..=400 {
                let x = i as f32 * 0.03125;
                let (single, double) = (activation.at(x), activation.at(f64::from(x)));
                // The exponential is good to 2 ulps, four more roundings follow; r' and r'' are
                // sums of terms up to 1 + |x| that may cancel.
                for (single, double) in single.into_iter().zip(double) {
                    let error = (f64::from(single) - double).abs();
                    let bound = 8.0 * f32::UNIT_ROUNDOFF * (1.0 + f64::from(x).abs());
                    assert!(error <= bound, "{activation:?} at {x}: {error:e}");
                }
            }
        }
    }

    #[test]
    fn tanh_agrees_with_libm() {
        for i in -2000..=2000 {
            let x = f64::from(i) * 0.005;
            // Relative 1e-12: (1 − q) has lost at most four digits at |x| = 1e-4.
            assert!((Activation::Tanh.at(x)[0] - libm::tanh(x)).abs() <= 1e-12 * x.abs());
        }
    }
}
