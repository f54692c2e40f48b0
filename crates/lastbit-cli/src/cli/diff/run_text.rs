//! A comparison of two runs on a terminal.

use std::collections::BTreeSet;

use super::text::shown;
use crate::cli::table::table;
use lastbit_lab::diff::runs::{
    EdgeRatio, Evidence, RunDiff, RunSide, SettingDifference, StepRow, StepStatus, TensorDifference,
};
use lastbit_lab::number::Number;

/// Tensors, steps and settings that are listed; the files of `--out` have more.
const MOST: usize = 20;
/// Letters of a setting that are shown.
const MOST_LETTERS: usize = 40;

/// The answer first, then what it rests on.
pub fn of(found: &RunDiff) -> String {
    let mut text = format!("{}\n\n", found.verdict);
    text += &sides(found);
    text += &tensors(found);
    if found.first_different_step.is_some() {
        text += &steps(found);
    }
    text += &edges(found);
    text += &metrics(found);
    text += &settings(&found.settings);
    for note in &found.notes {
        text += &format!("Note: {note}\n");
    }
    text
}

fn sides(found: &RunDiff) -> String {
    let unit = found.unit.name();
    let line = |name: &str, side: &RunSide| {
        let replica =
            side.replica.as_ref().map_or(String::new(), |name| format!(", replica {name}"));
        let (folder, kind) = (side.folder.display(), side.kind);
        format!("{name}: {folder}{replica} ({kind}; {} {unit}s)\n", side.steps)
    };
    let RunDiff { common_steps, different_steps, first_common_step, last_common_step, .. } = found;
    format!(
        "{}{}in common: {common_steps} {unit}s, {first_common_step} to {last_common_step}; different at {different_steps}\n\n",
        line("A", &found.a),
        line("B", &found.b)
    )
}

fn dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn tensors(found: &RunDiff) -> String {
    let Some(tensors) = &found.tensors else { return String::new() };
    let row = |one: &TensorDifference| {
        let max_ulps = match one.not_comparable {
            Some(count) if count > 0 => "not comparable".to_owned(),
            _ => dash(one.max_ulps),
        };
        vec![
            shown(&one.name),
            dash(one.rel_l1),
            max_ulps,
            dash(one.entries_different),
            dash(one.entries),
        ]
    };
    let header = ["tensor", "RelL1", "max ulps", "entries that differ", "of"];
    let unit = found.unit.name();
    let title = format!(
        "Tensors that differ at {unit} {}: {} of {}\n",
        tensors.step,
        tensors.different.len(),
        tensors.compared
    );
    title
        + &table(&header, tensors.different.iter().take(MOST).map(row))
        + &more(tensors.different.len())
        + "\n"
}

/// How many were not listed.
fn more(count: usize) -> String {
    if count > MOST { format!("… and {} more\n", count - MOST) } else { String::new() }
}

fn steps(found: &RunDiff) -> String {
    // Even places, both ends among them.
    let last = found.steps.len() - 1;
    let places: BTreeSet<usize> =
        (0..=last.min(MOST)).map(|k| k * last / last.clamp(1, MOST)).collect();
    let around = [found.last_identical_step, found.first_different_step];
    let has_edge = found.steps.iter().any(|row| row.edge_ratio.iter().any(Option::is_some));
    let status = |row: &StepRow| match (row.status, row.by) {
        (StepStatus::Identical, Evidence::Hash) => "identical (hash of the parameters)",
        (StepStatus::Different, Evidence::Hash) => "different (hash of the parameters)",
        (StepStatus::Identical, _) => "identical",
        (StepStatus::Different, _) => "different",
        (StepStatus::FilesDiffer, _) => "files differ, not compared",
    };
    let row = |row: &StepRow| {
        let different = match (row.tensors_different, row.tensors) {
            (Some(some), Some(all)) => format!("{some} of {all}"),
            _ => "-".to_owned(),
        };
        let mut line = vec![
            row.step.to_string(),
            status(row).to_owned(),
            different,
            dash(row.distance.map(|at| at.relative)),
            dash(row.distance.map(|at| at.rel_l1)),
            dash(row.distance.and_then(|at| at.max_ulps)),
        ];
        if has_edge {
            line.extend(row.edge_ratio.map(dash));
        }
        line
    };
    let mut header =
        vec![found.unit.name(), "status", "tensors that differ", "distance", "RelL1", "max ulps"];
    if has_edge {
        header.extend(["edge ratio A", "edge ratio B"]);
    }
    let chosen = found
        .steps
        .iter()
        .enumerate()
        .filter(|(place, row)| places.contains(place) || around.contains(&Some(row.step)));
    table(&header, chosen.map(|(_, line)| row(line))) + "\n"
}

fn edges(found: &RunDiff) -> String {
    let unit = found.unit.name();
    let line = |name: &str, edge: &Option<EdgeRatio>| {
        let edge = edge.as_ref()?;
        let sharpness =
            edge.sharpness.map_or(String::new(), |value| format!(" (sharpness {value})"));
        Some(format!(
            "Edge ratio of {name} at {unit} {}: {}{sharpness}\n",
            edge.step, edge.edge_ratio
        ))
    };
    let [a, b] = &found.edge;
    [line("A", a), line("B", b)].into_iter().flatten().collect()
}

fn metrics(found: &RunDiff) -> String {
    let unit = found.unit.name();
    match &found.first_metric {
        _ if found.metrics.is_empty() => String::new(),
        None => {
            format!("Logged metrics are equal at all common {unit}s: {}\n", listed(&found.metrics))
        }
        Some(first) => {
            let digits = |value: Number| lastbit_lab::number::digits(value.0);
            format!(
                "First logged value that differs: {} at {unit} {}, {} in A and {} in B\n",
                shown(&first.metric),
                first.step,
                digits(first.a),
                digits(first.b)
            )
        }
    }
}

fn listed(names: &[String]) -> String {
    let some: Vec<String> = names.iter().take(MOST).map(|name| shown(name)).collect();
    some.join(", ") + if names.len() > MOST { ", …" } else { "" }
}

fn settings(all: &[SettingDifference]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let value = |value: &Option<String>| {
        let Some(text) = value else { return "none".to_owned() };
        match text.char_indices().nth(MOST_LETTERS) {
            Some((end, _)) => shown(&text[..end]) + "…",
            None => shown(text),
        }
    };
    let row = |one: &SettingDifference| vec![shown(&one.key), value(&one.a), value(&one.b)];
    let header = ["setting", "A", "B"];
    format!(
        "Settings that differ\n{}{}\n",
        table(&header, all.iter().take(MOST).map(row)),
        more(all.len())
    )
}
