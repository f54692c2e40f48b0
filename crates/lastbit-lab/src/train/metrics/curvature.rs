//! What a row says of the Hessian; its columns are fixed by the settings of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::number::Number;
use crate::train::settings::Settings;

/// Curvature of the mean loss, weight decay included. What is absent was not measured there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curvature {
    /// Largest eigenvalues of the Hessian, descending.
    pub sharpness: Vec<Number>,
    /// Norms of `H v − sharpness v`.
    pub residual: Vec<Number>,
    /// Largest eigenvalue of Adam's preconditioned Hessian.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditioned_sharpness: Option<Number>,
    /// Twice the edge ratio: `dt sharpness` for gradient descent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalized_sharpness: Option<Number>,
    /// The largest eigenvalue over the optimizer's threshold: 1 is the edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge_ratio: Option<Number>,
    /// Hessian-vector products of all this.
    pub products: usize,
    /// Curvature along the next update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_sharpness: Option<Number>,
    /// Losses computed for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_passes: Option<usize>,
    /// Mean curvature of batches along their own gradients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_sharpness: Option<Number>,
    /// Its standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_sharpness_error: Option<Number>,
    /// Trace of the Hessian.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Number>,
    /// Its standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_error: Option<Number>,
    /// Largest eigenvalue of the block of each weight tensor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sharpness_of: BTreeMap<String, Number>,
}

/// The columns of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns {
    top: usize,
    preconditioned: bool,
    critical: bool,
    batch: bool,
    density: bool,
}

impl Columns {
    /// Those that the settings ask for; none without a section `sharpness`.
    pub fn of(settings: &Settings) -> Self {
        let Some(sharpness) = &settings.sharpness else { return Self::default() };
        Self {
            top: sharpness.top,
            preconditioned: settings.optimizer.method().is_preconditioned(),
            critical: sharpness.critical,
            batch: sharpness.batch > 0,
            density: sharpness.density,
        }
    }

    /// Names, and what a row has under them: nothing where it was not measured.
    pub fn named(&self, row: Option<&Curvature>) -> Vec<(String, Option<Number>)> {
        if self.top == 0 {
            return Vec::new();
        }
        let number = |of: fn(&Curvature) -> Option<Number>| row.and_then(of);
        let mut columns = Vec::new();
        for (name, of) in [
            ("sharpness", (|row| &row.sharpness) as fn(&Curvature) -> &Vec<Number>),
            ("residual", |row| &row.residual),
        ] {
            for i in 0..self.top {
                let name = if i == 0 { name.to_owned() } else { format!("{name}_{}", i + 1) };
                columns.push((name, row.and_then(|row| of(row).get(i).copied())));
            }
        }
        let mut add = |is_there: bool, name: &str, value: Option<Number>| {
            if is_there {
                columns.push((name.to_owned(), value));
            }
        };
        let count = |count: usize| Some(Number(count as f64));
        add(
            self.preconditioned,
            "preconditioned_sharpness",
            number(|r| r.preconditioned_sharpness),
        );
        add(true, "normalized_sharpness", number(|r| r.normalized_sharpness));
        add(true, "edge_ratio", number(|r| r.edge_ratio));
        add(true, "products", row.and_then(|r| count(r.products)));
        add(self.critical, "critical_sharpness", number(|r| r.critical_sharpness));
        add(self.critical, "critical_passes", row.and_then(|r| count(r.critical_passes?)));
        add(self.batch, "batch_sharpness", number(|r| r.batch_sharpness));
        add(self.batch, "batch_sharpness_error", number(|r| r.batch_sharpness_error));
        add(self.density, "trace", number(|r| r.trace));
        add(self.density, "trace_error", number(|r| r.trace_error));
        columns
    }
}
