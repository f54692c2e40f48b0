//! What a training program logged: metrics over steps, read from the files that trainers write.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The metrics of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoggedRun {
    /// Values over steps, by the name of the metric, such as `loss` or `eval/accuracy`.
    pub metrics: BTreeMap<String, Metric>,
    /// The files that they were read from.
    pub files: Vec<PathBuf>,
    /// What the reader should know, such as an unfinished last line of a file that still grows.
    pub notes: Vec<String>,
}

/// A metric over steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metric {
    /// Steps, increasing.
    pub steps: Vec<u64>,
    /// The value at each step; it may be infinite or NaN.
    pub values: Vec<f64>,
}
