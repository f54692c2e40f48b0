//! The file of an envelope: small, so that it can be committed beside the test that reads it.
//!
//! It has the values of every run and not only their band, so that a check can leave runs out, and runs can be added.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::number::Number;
use crate::sealed;

/// The format of the file.
pub const FORMAT: u32 = 1;

/// The metrics of runs that differ by rounding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The format of the file.
    pub format: u32,
    /// Version of lastbit that wrote it.
    pub version: String,
    /// What was run, as the user gave it; empty where runs were given.
    pub command: Vec<String>,
    /// How each run was perturbed, such as `ulps`.
    pub perturbation: String,
    /// Names of the perturbed runs.
    pub runs: Vec<String>,
    /// Whether the program is bit-reproducible without a perturbation, if that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproducibility: Option<Reproducibility>,
    /// The values of each metric.
    pub metrics: BTreeMap<String, Band>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What a reader of each check should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Two runs of the program without a perturbation, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reproducibility {
    /// All metrics are equal, bit for bit.
    BitIdentical,
    /// They are not.
    Differs {
        /// The metric that differs first.
        metric: String,
        /// The step from which it differs.
        step: u64,
    },
}

/// A metric of all runs at the steps that all of them have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Steps, increasing.
    pub steps: Vec<u64>,
    /// For each run, in the order of [`Envelope::runs`], its value at each step.
    pub values: Vec<Vec<Number>>,
}

impl Envelope {
    /// Reads a file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        Ok(sealed::read(path, FORMAT)?.map(|(envelope, _)| envelope))
    }

    /// Writes it atomically.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        sealed::write(path, self).map(|_| ())
    }
}
