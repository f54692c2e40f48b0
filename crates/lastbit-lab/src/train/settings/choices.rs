//! Settings that are a word or a number or a small table; each says in full what it may be.

use serde::{Deserialize, Serialize};
use toml::Value;

/// A number of examples, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Batch {
    /// All at every step.
    Full,
    /// So many.
    Size(usize),
}

impl TryFrom<Value> for Batch {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::String(word) if word == "full" => Ok(Self::Full),
            Value::Integer(size) if *size > 0 => Ok(Self::Size(*size as usize)),
            _ => Err(format!("found {value}, expected a number of examples or \"full\"")),
        }
    }
}

impl From<Batch> for Value {
    fn from(batch: Batch) -> Self {
        match batch {
            Batch::Full => "full".into(),
            Batch::Size(size) => (size as i64).into(),
        }
    }
}

/// How often something is done. At the end it is done in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Every {
    /// After each epoch.
    #[default]
    Epoch,
    /// After so many steps.
    Steps(usize),
    /// At the end only.
    Never,
}

impl Every {
    /// Whether it is due after `step` steps.
    pub fn is_due(self, step: usize, steps_per_epoch: usize) -> bool {
        match self {
            Self::Epoch => step.is_multiple_of(steps_per_epoch),
            Self::Steps(steps) => step.is_multiple_of(steps),
            Self::Never => false,
        }
    }
}

impl TryFrom<Value> for Every {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::String(word) if word == "epoch" => Ok(Self::Epoch),
            Value::String(word) if word == "never" => Ok(Self::Never),
            Value::Integer(steps) if *steps > 0 => Ok(Self::Steps(*steps as usize)),
            _ => Err(format!("found {value}, expected a number of steps, \"epoch\" or \"never\"")),
        }
    }
}

impl From<Every> for Value {
    fn from(every: Every) -> Self {
        match every {
            Every::Epoch => "epoch".into(),
            Every::Steps(steps) => (steps as i64).into(),
            Every::Never => "never".into(),
        }
    }
}

/// How inputs are scaled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Normalization {
    /// Numbers as they are, pixels from 0 to 1.
    None,
    /// By mean and deviation of each channel of the training set.
    #[default]
    Channel,
    /// By mean and deviation of each pixel of the training set.
    Pixel,
    /// By given means and deviations.
    Given {
        /// Means of the channels.
        mean: Vec<f64>,
        /// Deviations of the channels.
        std: Vec<f64>,
    },
}

/// The table of [`Normalization::Given`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeanAndStd {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl TryFrom<Value> for Normalization {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let refuse = |why: &str| {
            let expected = "\"none\", \"channel\", \"pixel\" or { mean = […], std = […] }";
            Err(format!("found {value}{why}, expected {expected}"))
        };
        match &value {
            Value::String(word) => match word.as_str() {
                "none" => Ok(Self::None),
                "channel" => Ok(Self::Channel),
                "pixel" => Ok(Self::Pixel),
                _ => refuse(""),
            },
            Value::Table(table) => match table.clone().try_into() {
                Ok(MeanAndStd { mean, std }) => Ok(Self::Given { mean, std }),
                Err(error) => refuse(&format!(" ({})", error.to_string().trim_end())),
            },
            _ => refuse(""),
        }
    }
}

impl From<Normalization> for Value {
    fn from(normalization: Normalization) -> Self {
        match normalization {
            Normalization::None => "none".into(),
            Normalization::Channel => "channel".into(),
            Normalization::Pixel => "pixel".into(),
            Normalization::Given { mean, std } => {
                Self::try_from(MeanAndStd { mean, std }).expect("lists of numbers")
            }
        }
    }
}
