//! Activation functions with their first two derivatives.
//!
//! ```text
//! Swish   r = x σ(βx)    r' = σ + βx σ(1−σ)    r'' = β σ(1−σ) (2 + βx (1−2σ))
//! ReLU    r = max(x, 0)  r' = [x > 0]          r'' = 0
//! tanh    r = tanh x     r' = 1 − r²           r'' = −2 r (1 − r²)
//! ```

use crate::exp::{exp, sigmoid};

/// An activation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `x/(1 + e^{−βx})`.
    Swish {
        /// Steepness; towards ReLU as it grows.
        beta: f64,
    },
    /// `max(x, 0)`.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// `r, r', r''` at `x`.
    #[inline(always)]
    pub fn at(self, x: f64) -> [f64; 3] {
        match self {
            Self::Swish { beta } => {
                let s = sigmoid(beta * x);
                let slope = s * (1.0 - s);
                [x * s, s + beta * x * slope, beta * slope * (2.0 + beta * x * (1.0 - 2.0 * s))]
            }
            Self::Relu => {
                if x > 0.0 {
                    [x, 1.0, 0.0]
                } else {
                    [0.0, 0.0, 0.0]
                }
            }
            Self::Tanh => {
                // (1 − q)/(1 + q) with q = e^{−2|x|} loses digits near 0; there tanh is x − x³/3.
                let q = exp(-2.0 * x.abs());
                let small = x - x * x * x / 3.0;
                let large = ((1.0 - q) / (1.0 + q)).copysign(x);
                let r = if x.abs() < 1e-4 { small } else { large };
                [r, 1.0 - r * r, -2.0 * r * (1.0 - r * r)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_zero_are_the_papers() {
        assert_eq!(Activation::Swish { beta: 3.0 }.at(0.0), [0.0, 0.5, 1.5]);
    }

    #[test]
    fn derivatives_are_those_of_the_value() {
        for activation in
            [Activation::Swish { beta: 1.0 }, Activation::Swish { beta: 2.5 }, Activation::Tanh]
        {
            for i in -40..=40 {
                let x = f64::from(i) * 0.2 + 0.01;
                let h = 1e-5;
                for order in [0, 1] {
                    let value = |x: f64| activation.at(x)[order];
                    let slope = (value(x + h) - value(x - h)) / (2.0 * h);
                    // Truncation h² r''''/6 with |r''''| below 40, rounding u/h.
                    let error = (slope - activation.at(x)[order + 1]).abs();
                    assert!(error < 1e-9, "{activation:?}, x = {x}, order {order}: {error:e}");
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
