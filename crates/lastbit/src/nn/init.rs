//! Where training begins.
//!
//! Draw `i` of tensor `t` is draw `i` of stream `t`: a weight's start depends on the seed and its own
//! place, not on what stands before it.

use super::network::{Network, Parameter, Role};
use crate::Real;
use crate::rng::Stream;

/// A rule for initial weights. Batch norms start with scale 1 and shift 0 under all of them.
///
/// In settings: `"torch"`, `"kaiming-normal"` or `{ normal = SIGMA }`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Init {
    /// PyTorch's default for convolutions and linear layers, weights and biases:
    /// uniform in `±1/√fan_in`.
    #[default]
    Torch,
    /// He et al. 2015: weights normal with variance `2/fan_in`, biases as in PyTorch's default.
    KaimingNormal,
    /// Weights and biases normal with standard deviation `sigma`.
    Normal {
        /// Standard deviation.
        sigma: f64,
    },
}

#[cfg(feature = "serde")]
impl crate::named::WordOrNumber for Init {
    const EXPECTED: &'static str = "\"torch\", \"kaiming-normal\" or { normal = SIGMA }";

    fn parts(&self) -> (&'static str, Option<f64>) {
        match self {
            Self::Torch => ("torch", None),
            Self::KaimingNormal => ("kaiming-normal", None),
            Self::Normal { sigma } => ("normal", Some(*sigma)),
        }
    }

    fn from_parts(word: &str, number: Option<f64>) -> Option<Self> {
        match (word, number) {
            ("torch", None) => Some(Self::Torch),
            ("kaiming-normal", None) => Some(Self::KaimingNormal),
            ("normal", Some(sigma)) => Some(Self::Normal { sigma }),
            _ => None,
        }
    }
}

#[cfg(feature = "serde")]
crate::serde_of_word_or_number!(Init);

impl Network {
    /// Initial parameters.
    pub fn initial<F: Real>(&self, init: Init, seed: u64) -> Vec<F> {
        let draw = |(tensor, parameter): (usize, &Parameter)| {
            let stream = Stream::new(seed, tensor as u64);
            let role = parameter.role;
            (0..parameter.range.len() as u64).map(move |i| {
                F::of(match role {
                    Role::Scale | Role::RunningVariance => 1.0,
                    Role::Shift | Role::RunningMean => 0.0,
                    Role::Weight { fan_in } => weight(init, &stream, i, fan_in),
                    Role::Bias { fan_in } => match init {
                        Init::KaimingNormal => weight(Init::Torch, &stream, i, fan_in),
                        _ => weight(init, &stream, i, fan_in),
                    },
                })
            })
        };
        self.parameters().iter().enumerate().flat_map(draw).collect()
    }

    /// Initial running statistics: mean 0, variance 1.
    pub fn initial_buffers<F: Real>(&self) -> Vec<F> {
        let value = |role| if role == Role::RunningVariance { F::of(1.0) } else { F::default() };
        self.buffers()
            .iter()
            .flat_map(|buffer| std::iter::repeat_n(value(buffer.role), buffer.range.len()))
            .collect()
    }
}

fn weight(init: Init, stream: &Stream, i: u64, fan_in: usize) -> f64 {
    match init {
        Init::Torch => (2.0 * stream.uniform(i) - 1.0) / (fan_in as f64).sqrt(),
        Init::KaimingNormal => stream.normal(i) * (2.0 / fan_in as f64).sqrt(),
        Init::Normal { sigma } => stream.normal(i) * sigma,
    }
}
