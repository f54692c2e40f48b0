//! Two runs: where they first differ, and how the difference grows from there.
//!
//! ```text
//! run                        what it has
//! run of `lastbit train`     at each row of its metrics a hash of all weights; at a checkpoint all tensors
//! run of a probe             at each measured step a hash of each tensor
//! folder of checkpoints      at each saved step all tensors (safetensors, also sharded)
//! ```
//!
//! Only steps that both runs have are compared, and an answer says which: "identical up to step 800, different at step 850".
//! Runs may become identical again (a saturated weight, a constant), so a search by halves would miss what it looks for: all
//! common steps are looked at, by hashes or by the bytes of files. Tensors are compared one pair of checkpoints at a time: at
//! each step until one differs, then at up to 25 steps at even distances to the end, and at up to 25 more while the
//! distance is small, which is where its growth is measured.

mod answer;
mod compare;
mod differences;
mod flat;
mod growth;
mod metrics;
mod own;
mod record;
mod refusals;
mod same_bytes;
mod saved;
mod source;
#[cfg(test)]
mod tests;
mod thinning;

pub use compare::of;
pub use flat::SettingDifference;
pub use growth::GrowthOfDistance;
pub use metrics::MetricDifference;
pub use record::{csv, keep};
pub use saved::{Unit, is_checkpoint, load};
pub use source::{EdgeRatio, Kind, is_run};

use std::path::PathBuf;

use serde::Serialize;

use crate::number::Number;

/// Two runs, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDiff {
    /// The first run.
    pub a: RunSide,
    /// The second.
    pub b: RunSide,
    /// What their steps are.
    pub unit: Unit,
    /// The answer in words.
    pub verdict: String,
    /// Whether nothing differs at any common step, and no logged metric does.
    pub identical: bool,
    /// Steps that both have.
    pub common_steps: usize,
    /// The first of them.
    pub first_common_step: u64,
    /// The last of them.
    pub last_common_step: u64,
    /// At how many of them something differs.
    pub different_steps: usize,
    /// The last common step before the first difference.
    pub last_identical_step: Option<u64>,
    /// The first common step that differs.
    pub first_different_step: Option<u64>,
    /// A later step at which they are identical again.
    pub identical_again_at: Option<u64>,
    /// The first tensors that differ.
    pub tensors: Option<TensorsAt>,
    /// How the distance grows from the first difference on.
    pub growth: GrowthOfDistance,
    /// Some of the common steps: the first, those around the first difference, all at which tensors were compared, the last.
    pub steps: Vec<StepRow>,
    /// Metrics that both logged at common steps.
    pub metrics: Vec<String>,
    /// The first logged value that differs.
    pub first_metric: Option<MetricDifference>,
    /// Edge ratios where they first differ, or near that.
    pub edge: [Option<EdgeRatio>; 2],
    /// Settings that differ.
    pub settings: Vec<SettingDifference>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSide {
    /// Its folder.
    pub folder: PathBuf,
    /// What it is.
    pub kind: &'static str,
    /// The replica that was compared, of a run that has replicas.
    pub replica: Option<String>,
    /// Steps at which it has something to compare.
    pub steps: usize,
}

/// The tensors that differ at a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorsAt {
    /// The step: the first that differs, or the first after it at which single tensors are known.
    pub step: u64,
    /// Tensors that were compared.
    pub compared: usize,
    /// Those that differ, in the order of the model where that is known, else of their names.
    pub different: Vec<TensorDifference>,
}

/// A tensor that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorDifference {
    /// Its name.
    pub name: String,
    /// RelL1; unknown where values were not saved.
    pub rel_l1: Option<Number>,
    /// Largest distance in ulps; unknown where values were not saved or are not comparable.
    pub max_ulps: Option<u64>,
    /// Entries whose bits differ.
    pub entries_different: Option<usize>,
    /// All entries.
    pub entries: Option<usize>,
    /// Entries that are NaN or infinite on some side and differ.
    pub not_comparable: Option<usize>,
}

/// How both runs stand at a common step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepRow {
    /// The step.
    pub step: u64,
    /// How they stand.
    pub status: StepStatus,
    /// By what that is known.
    pub by: Evidence,
    /// Tensors that were compared one by one.
    pub tensors: Option<usize>,
    /// Those of them that differ.
    pub tensors_different: Option<usize>,
    /// How far the parameters are apart, where their values are known.
    pub distance: Option<Distance>,
    /// Edge ratios that were measured at this step.
    pub edge_ratio: [Option<Number>; 2],
}

/// Whether two runs are identical at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepStatus {
    /// All that both saved is bit-identical.
    Identical,
    /// It is not.
    Different,
    /// The bytes of the files differ; their tensors were not compared.
    FilesDiffer,
}

/// What says whether two runs are identical at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// A hash of all parameters.
    Hash,
    /// A hash of each tensor.
    TensorHashes,
    /// The bytes of the files.
    Bytes,
    /// The values of all tensors.
    Values,
}

/// How far all parameters are apart, as if they were one tensor. Running statistics and what the optimizer remembers
/// are left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distance {
    /// RelL1; NaN where nothing can be compared.
    pub rel_l1: Number,
    /// Norm of the difference over the norm of A (of replicas of one run: of its first replica); NaN where entries are not
    /// comparable.
    pub relative: Number,
    /// Largest distance in ulps.
    pub max_ulps: Option<u64>,
}
