//! The metrics of several logs of one run.

use std::collections::{BTreeMap, BTreeSet};

use lastbit_formats::listed;

use super::Metric;
use super::rows::Read;
use super::source::{Kind, Log};

/// The metrics of all logs, and what the reader should know.
///
/// Of a table beside JSON lines of the same name only those count that the lines lack: it is their copy.
pub fn union(logs: Vec<(&Log, Read)>) -> (BTreeMap<String, Metric>, Vec<String>) {
    let mut notes = Vec::new();
    let (mut exact, mut events) = (Vec::new(), Vec::new());
    for (log, mut read) in logs {
        notes.append(&mut read.notes);
        let kind = if log.kind == Kind::Events { &mut events } else { &mut exact };
        kind.push((log, read.metrics));
    }
    let lines: Vec<(&str, BTreeSet<String>)> = exact
        .iter()
        .filter(|(log, _)| log.kind == Kind::Lines)
        .map(|(log, metrics)| (log.label.as_str(), metrics.keys().cloned().collect()))
        .collect();
    for (log, metrics) in exact.iter_mut().filter(|(log, _)| log.kind == Kind::Table) {
        for (_, names) in lines.iter().filter(|(label, _)| *label == log.label) {
            metrics.retain(|name, _| !names.contains(name));
        }
    }
    let has_state = exact.iter().any(|(log, _)| log.kind == Kind::TrainerState);
    let mut all = named(exact, &mut notes);
    let mut both = Vec::new();
    for (name, metric) in named(events, &mut notes) {
        let exact_name = Some(name.clone()).filter(|name| all.contains_key(name));
        let of_state =
            || Some(name_in_state(&name)?).filter(|name| has_state && all.contains_key(name));
        match exact_name.or_else(of_state) {
            None => drop(all.insert(name, metric)),
            Some(name) => {
                let own = all.entry(name.clone()).or_default();
                let filled = fill(own, metric);
                both.push((name, filled));
            }
        }
    }
    let filled: Vec<&str> =
        both.iter().filter(|(_, filled)| *filled > 0).map(|(name, _)| name.as_str()).collect();
    if !both.is_empty() {
        let names: Vec<&String> = both.iter().map(|(name, _)| name).collect();
        notes.push(format!(
            "in event files and in others: {}; the others count, since event files round to 32 bits",
            listed(&names)
        ));
    }
    if !filled.is_empty() {
        notes.push(format!(
            "read from event files at steps that the other file lacks: {}",
            listed(&filled)
        ));
    }
    (all, notes)
}

/// Metrics by name; a name that several logs have is preceded by the label of its log.
fn named(
    logs: Vec<(&Log, BTreeMap<String, Metric>)>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, Metric> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in logs.iter().flat_map(|(_, metrics)| metrics.keys()) {
        *counts.entry(name.clone()).or_default() += 1;
    }
    let shared: Vec<&String> =
        counts.iter().filter(|(_, count)| **count > 1).map(|(name, _)| name).collect();
    if !shared.is_empty() {
        let labels: Vec<&str> = logs.iter().map(|(log, _)| log.label.as_str()).collect();
        notes.push(format!(
            "in several logs, and preceded by the name of each: {} (logs: {})",
            listed(&shared),
            listed(&labels)
        ));
    }
    let mut all = BTreeMap::new();
    for (log, metrics) in logs {
        for (name, metric) in metrics {
            let is_shared = counts[&name] > 1;
            let full = if is_shared { format!("{}/{name}", log.label) } else { name };
            all.insert(full, metric);
        }
    }
    all
}

/// What Hugging Face's trainer calls a metric in `trainer_state.json`, by its name in event files.
fn name_in_state(name: &str) -> Option<String> {
    let (part, rest) = name.split_once('/')?;
    match part {
        "train" => Some(rest.to_owned()),
        "eval" | "test" => Some(format!("{part}_{rest}")),
        _ => None,
    }
}

/// Adds the values of steps that `own` lacks, such as those after the last checkpoint of a trainer. Logs whose steps
/// differ otherwise count different things, and nothing is added. Returns how many.
fn fill(own: &mut Metric, other: Metric) -> usize {
    let steps: BTreeSet<u64> = other.steps.iter().copied().collect();
    if !own.steps.iter().all(|step| steps.contains(step)) {
        return 0;
    }
    let had = own.steps.len();
    let mut all: BTreeMap<u64, f64> = other.steps.into_iter().zip(other.values).collect();
    all.extend(own.steps.drain(..).zip(own.values.drain(..)));
    (own.steps, own.values) = all.into_iter().unzip();
    own.steps.len() - had
}
