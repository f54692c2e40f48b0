//! Tables of a record: checks, cells, settings, provenance.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{html, overview};
use crate::record::{Cell, Record, VerdictRecord};

/// The comparisons.
pub fn checks(record: &Record) -> String {
    if record.checks.is_empty() {
        return String::new();
    }
    let head = ["Check", "Origin", "Expected", "Found", "Band", "Outcome"].map(str::to_owned);
    let row = |check: &crate::record::Check| {
        vec![
            html::inline(&check.name),
            check.origin.to_string(),
            overview::value(&check.expected.to_string()),
            overview::value(&check.found_in_words()),
            html::escape(&check.band.to_string()),
            html::badge(check.outcome.name(), check.outcome.name()),
        ]
    };
    let rows: Vec<Vec<String>> = record.checks.iter().map(row).collect();
    format!("<h3>Checks</h3>\n{}", html::table("Checks", "checks", &head, &rows))
}

/// What each cell gave.
pub fn cells(record: &Record) -> String {
    if record.cells.is_empty() {
        return String::new();
    }
    let judged = record.cells.iter().any(|cell| cell.verdict.is_some());
    let names: BTreeSet<&String> =
        record.cells.iter().flat_map(|cell| cell.numbers.keys()).collect();
    let mut head = vec!["Cell".to_owned()];
    if judged {
        head.extend(["Verdict", "Growth per step"].map(str::to_owned));
    }
    head.extend(names.iter().map(|name| html::escape(name)));
    let row = |cell: &Cell| {
        let mut row = vec![html::code(&cell.key)];
        if judged {
            row.push(cell.verdict.as_ref().map(html::verdict).unwrap_or_default());
            row.push(cell.verdict.as_ref().map(growth).unwrap_or_default());
        }
        let number = |name| cell.numbers.get(name).map(|n| html::number(*n)).unwrap_or_default();
        row.extend(names.iter().map(|name| number(*name)));
        row
    };
    let rows: Vec<Vec<String>> = record.cells.iter().map(row).collect();
    format!("<h3>Cells</h3>\n{}", html::table("Cells", "cells", &head, &rows))
}

fn growth(verdict: &VerdictRecord) -> String {
    format!(
        "{} ± {}",
        html::number(verdict.growth_per_step),
        html::number(verdict.growth_standard_error)
    )
}

/// The settings, closed at first.
pub fn settings(record: &Record) -> String {
    let head = ["Setting", "Value"].map(str::to_owned);
    let row = |(key, value): (String, String)| vec![html::code(&key), html::code(&value)];
    let rows: Vec<Vec<String>> = flat("", &record.settings).into_iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    html::details("Settings", &html::table("Settings", "settings", &head, &rows))
}

/// Nested tables as lines `outer.inner`, in their order.
fn flat(prefix: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(map) => {
            let name = |key: &str| {
                if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
            };
            map.iter().flat_map(|(key, inner)| flat(&name(key), inner)).collect()
        }
        Value::Null => vec![(prefix.to_owned(), "none".to_owned())],
        Value::String(text) => vec![(prefix.to_owned(), text.clone())],
        other => vec![(prefix.to_owned(), other.to_string())],
    }
}

/// Version of the program, and the device where that was not the CPU.
fn made_by(cell: &Cell) -> String {
    let device = cell.device.as_ref().map(|device| format!(", {device}")).unwrap_or_default();
    format!("{}{device}", cell.version)
}

/// Where each number comes from, closed at first.
pub fn provenance(record: &Record) -> String {
    if record.cells.is_empty() {
        return String::new();
    }
    let head = ["Cell", "Version", "Commit", "Hash of the final state", "Settings", "Files"];
    let row = |cell: &Cell| {
        let settings: Vec<String> = flat("", &cell.settings)
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        let files: Vec<String> =
            cell.series.values().chain(cell.fields.values()).map(|file| html::code(file)).collect();
        vec![
            html::code(&cell.key),
            html::escape(&made_by(cell)),
            html::code(&cell.commit),
            cell.hash.as_deref().map(html::code).unwrap_or_default(),
            html::escape(&settings.join(", ")),
            files.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = record.cells.iter().map(row).collect();
    let table = html::table("Provenance", "provenance", &head.map(str::to_owned), &rows);
    let folder = format!("{}/{}", record.id, record.folder_name());
    let place = format!(
        "<p class=\"quiet\">Files are in {} below the folder of the report.</p>\n",
        html::code(&folder)
    );
    html::details("Provenance", &(place + &table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_settings_become_lines_in_their_order() {
        let lines = flat("", &json!({"dt": 0.1, "grid": {"n": [1, 2]}, "a": null}));
        let lines: Vec<String> =
            lines.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(lines, ["dt=0.1", "grid.n=[1,2]", "a=none"]);
    }
}
