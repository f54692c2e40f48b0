//! What two paths lead to: files of tensors, single checkpoints, or runs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::runs::{self, RunDiff, is_run};
use super::{Diff, Only};
use crate::error::Error;
use crate::input::refuse;

/// Two paths, compared.
#[derive(Debug)]
pub enum PathDiff {
    /// Files of tensors, or folders that are one checkpoint each.
    Tensors(Box<Diff>),
    /// Runs.
    Runs(Box<RunDiff>),
}

/// Compares two files, two checkpoints or two runs.
pub fn of_paths(a: &Path, b: &Path, only: &Only) -> Result<PathDiff, Error> {
    match (is_run(a), is_run(b)) {
        (true, true) => Ok(PathDiff::Runs(Box::new(runs::of(a, b, only)?))),
        (false, false) => {
            let (a, b) = rayon::join(|| runs::load(a), || runs::load(b));
            Ok(PathDiff::Tensors(Box::new(only.compare(&a?, &b?)?)))
        }
        (is_a_run, _) => {
            let (run, other) = if is_a_run { (a, b) } else { (b, a) };
            if let Err(source) = fs::metadata(other) {
                return Err(Error::Read { path: other.to_owned(), source });
            }
            let expected =
                format!("a run, as {} is one; or two files or checkpoints", run.display());
            Err(refuse(other, "one file or checkpoint", expected))
        }
    }
}

impl PathDiff {
    /// Whether nothing differs.
    pub fn is_identical(&self) -> bool {
        match self {
            Self::Tensors(diff) => diff.different() == 0,
            Self::Runs(found) => found.identical,
        }
    }

    /// All numbers; `kind` says of what.
    pub fn json(&self, a: &Path, b: &Path) -> Value {
        match self {
            Self::Tensors(diff) => super::json(diff, a, b),
            Self::Runs(found) => {
                let mut value = json!(found);
                value["kind"] = json!("runs");
                value
            }
        }
    }
}
