//! Section `sharpness`: what is measured of the Hessian, how often and how well.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::Every;

/// Section `sharpness`; without it nothing of this is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sharpness {
    /// When; at the start and at the end in any case.
    #[serde(default)]
    pub every: Every,
    /// How many of the largest eigenvalues.
    #[serde(default = "one")]
    pub top: usize,
    /// Of the loss over which examples.
    #[serde(default)]
    pub examples: Examples,
    /// Residual over the largest eigenvalue.
    #[serde(default = "thousandth")]
    pub tolerance: f64,
    /// Whether also of each weight tensor by itself.
    #[serde(default)]
    pub layers: bool,
    /// Whether also along the next update.
    #[serde(default)]
    pub critical: bool,
    /// Batches over which the batch sharpness is averaged; 0 for none.
    #[serde(default)]
    pub batch: usize,
    /// Whether trace and spectral density are estimated at the end.
    #[serde(default)]
    pub density: bool,
    /// Of which replicas.
    #[serde(default)]
    pub replicas: Measured,
}

fn one() -> usize {
    1
}

fn thousandth() -> f64 {
    1e-3
}

/// Replicas that are measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// The first.
    #[default]
    First,
    /// All.
    All,
}

/// The first examples of the training set, or all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Examples {
    /// All.
    #[default]
    All,
    /// So many.
    First(usize),
}

impl TryFrom<Value> for Examples {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::String(word) if word == "all" => Ok(Self::All),
            Value::Integer(count) if *count > 0 => Ok(Self::First(*count as usize)),
            _ => Err(format!("found {value}, expected a number of examples or \"all\"")),
        }
    }
}

impl From<Examples> for Value {
    fn from(examples: Examples) -> Self {
        match examples {
            Examples::All => "all".into(),
            Examples::First(count) => (count as i64).into(),
        }
    }
}
