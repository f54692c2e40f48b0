//! What the exhibits of perturbed training share: the runs, and the tables of seeds and factors.
//!
//! The settings of each scale are a configuration of `lastbit train` in this folder; an exhibit
//! changes single keys of it. A cell is one run: one seed of the batches with a replica for each
//! factor `k`.

pub mod grid;
pub mod ladder;
pub mod paper;
mod pictures;

use std::path::Path;

use crate::plan::{Compute, Plan, Task};
use crate::record::Scale;
use crate::train::{ConfigFile, Training};

/// The configuration of a scale.
fn base(scale: Scale) -> &'static str {
    match scale {
        Scale::Smoke => include_str!("smoke.toml"),
        Scale::Desk => include_str!("desk.toml"),
        Scale::Paper => include_str!("paper.toml"),
    }
}

/// The settings of a scale with some keys changed, each `section.key=value`.
///
/// # Panics
///
/// If a change does not fit; a test plans every exhibit at every scale.
pub fn settings(id: &str, scale: Scale, changes: &[impl ToString]) -> ConfigFile {
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    parsed(id, base(scale), &changes)
}

/// An exhibit's own configuration with some keys changed.
///
/// # Panics
///
/// As [`settings`].
pub fn parsed(id: &str, text: &str, changes: &[String]) -> ConfigFile {
    ConfigFile::parse(text, Path::new(id), changes).unwrap_or_else(|error| panic!("{error}"))
}

/// A cell that trains.
pub fn task(key: &str, training: Training) -> Task {
    Task {
        key: key.to_owned(),
        settings: training.found.to_json(),
        steps: work(&training.found),
        compute: Compute::Training(Box::new(training)),
    }
}

/// Work of a run, in steps or epochs of its replicas: enough to tell how much of a plan is done,
/// where its runs all count the one or all the other.
fn work(found: &ConfigFile) -> u64 {
    let (training, replicas) = (&found.settings.training, &found.settings.replicas);
    let length = training.epochs.map(|epochs| 1000 * epochs).or(training.steps).unwrap_or(1);
    let count = replicas.k.len() + replicas.flip_bit.len() + replicas.permute_order.len();
    let bits = if training.precision == crate::simulate::Precision::F64 { 2 } else { 1 };
    (length * count * bits) as u64
}

/// A plan of training runs.
pub fn training_plan(id: &str, scale: Scale, cells: Vec<Task>) -> Plan {
    Plan { settings: parsed(id, base(scale), &[]).to_json(), cells }
}

/// The factors of a scale, as the names of replicas have them.
pub fn factors(scale: Scale) -> Vec<String> {
    parsed("", base(scale), &[]).settings.replicas.k.iter().map(|k| format!("k{k}")).collect()
}
