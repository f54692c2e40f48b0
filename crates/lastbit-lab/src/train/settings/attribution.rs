//! Section `attribution`: at which steps the growth of the replicas' differences is split by cause.

use serde::{Deserialize, Serialize};

use super::Every;

/// Section `attribution`; without it nothing of this is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Attribution {
    /// Over which steps, counted from 1; after each epoch where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// Over these steps, instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<usize>>,
    /// Hessian-vector products for each replica and step: nodes of the spectral measure.
    #[serde(default = "some_tens")]
    pub nodes: usize,
}

fn some_tens() -> usize {
    32
}

impl Attribution {
    /// Whether the growth over a step is due, the first step being 1.
    pub fn is_due(&self, step: usize, steps_per_epoch: usize) -> bool {
        match &self.steps {
            Some(steps) => steps.contains(&step),
            None => self.every.unwrap_or_default().is_due(step, steps_per_epoch),
        }
    }
}
