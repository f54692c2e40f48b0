//! What was measured at a step.

use std::collections::BTreeMap;

use lastbit::verdict::VerdictKind;
use serde::{Deserialize, Serialize};

use crate::number::Number;

/// The name of the training among replicas; there is one.
const REPLICA: &str = "model";

/// A measured step. What is absent was not measured there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Steps done.
    pub step: u64,
    /// Epochs done, with a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Number>,
    /// One name for all rows.
    #[serde(default = "replica")]
    pub replica: String,
    /// Learning rate of the optimizer's first group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lr: Option<Number>,
    /// The training's own loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Number>,
    /// Mean loss of the probe batches, without dropout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_loss: Option<Number>,
    /// Norm of its gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<Number>,
    /// Largest eigenvalue of the Hessian of that loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharpness: Option<Number>,
    /// Norm of `H v − sharpness v`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<Number>,
    /// The sharpness at which the edge ratio is 1, where that is one number for all parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Number>,
    /// Sharpness over the stability limit of the optimizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_ratio: Option<Number>,
    /// Residual of the edge ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_residual: Option<Number>,
    /// Hessian-vector products of all this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hvps: Option<u64>,
    /// Largest learning rate whose next step does not raise the loss of the probe batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_lr: Option<Number>,
    /// Lower end of its bracket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_lr_lower: Option<Number>,
    /// Upper end of its bracket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_lr_upper: Option<Number>,
    /// Growth rate per step of a perturbed copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_per_step: Option<Number>,
    /// Its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_standard_error: Option<Number>,
    /// What that says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictKind>,
    /// Hash of all bits of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Wall time since the first step of the training, all its sessions together.
    pub elapsed_seconds: Number,
    /// The part of it that measurements took.
    pub measuring_seconds: Number,
    /// What could not be measured, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Sharpness of each layer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sharpness_of: BTreeMap<String, Number>,
    /// Edge ratio of each layer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub edge_ratio_of: BTreeMap<String, Number>,
}

fn replica() -> String {
    REPLICA.to_owned()
}

/// A number of a row by the name of its column.
pub type Column = (&'static str, fn(&Row) -> Option<Number>);

/// The numbers of a row; `metrics.csv` has them after `step`, and before `verdict` and `hash`.
pub const NUMBERS: &[Column] = &[
    ("epoch", |row| row.epoch),
    ("lr", |row| row.lr),
    ("loss", |row| row.loss),
    ("probe_loss", |row| row.probe_loss),
    ("gradient_norm", |row| row.gradient_norm),
    ("sharpness", |row| row.sharpness),
    ("residual", |row| row.residual),
    ("threshold", |row| row.threshold),
    ("edge_ratio", |row| row.edge_ratio),
    ("edge_residual", |row| row.edge_residual),
    ("hvps", |row| row.hvps.map(|count| Number(count as f64))),
    ("critical_lr", |row| row.critical_lr),
    ("critical_lr_lower", |row| row.critical_lr_lower),
    ("critical_lr_upper", |row| row.critical_lr_upper),
    ("growth_per_step", |row| row.growth_per_step),
    ("growth_standard_error", |row| row.growth_standard_error),
    ("elapsed_seconds", |row| Some(row.elapsed_seconds)),
    ("measuring_seconds", |row| Some(row.measuring_seconds)),
];

impl Row {
    /// The line of `metrics.jsonl`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a row is plain data") + "\n"
    }

    /// Reads a line of `metrics.jsonl`.
    pub fn parse(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }

    /// The first line of `metrics.csv`.
    pub fn csv_header() -> String {
        let names: Vec<&str> = NUMBERS.iter().map(|(name, _)| *name).collect();
        format!("step,{},verdict,hash\n", names.join(","))
    }

    /// The line of `metrics.csv`: without layers and notes.
    pub fn to_csv(&self) -> String {
        let digits = |number: Option<Number>| number.map(|n| n.0.to_string()).unwrap_or_default();
        let numbers: Vec<String> = NUMBERS.iter().map(|(_, of)| digits(of(self))).collect();
        let verdict = self.verdict.map(|verdict| verdict.to_string()).unwrap_or_default();
        let hash = self.hash.as_deref().unwrap_or_default();
        format!("{},{},{verdict},{hash}\n", self.step, numbers.join(","))
    }
}
