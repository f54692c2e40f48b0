//! The page of a run: a record in its own directory, which `lastbit report` shows.
//!
//! While the run goes on, the record names curves under names of their own (`series/run-loss-120.csv` at 120 rows), which are
//! removed when the next record is in place: a killed process leaves a record whose files are whole.

use std::collections::BTreeSet;
use std::fs;

use super::figures;
use super::history::History;
use super::settings::Settings;
use super::summary::Summary;
use crate::error::Error;
use crate::files::remove;
use crate::lock::Lock;
use crate::number::Number;
use crate::plot::write_figures;
use crate::record::{Outcome, Page, Record, Store, to_csv};
use crate::relative_path::RelativePath;

const ID: &str = "probe";
/// The one cell of such a record.
const CELL: &str = "run";
const PARTS: [&str; 2] = ["series", "figures"];

/// Writes the page; that of an ended run has its figures as files, too.
pub fn write(
    lock: &Lock,
    settings: &Settings,
    history: &History,
    summary: &Summary,
    has_ended: bool,
) -> Result<(), Error> {
    lock.check()?;
    let store = Store::at(lock.folder(), &PARTS)?;
    let json = settings.to_json();
    let mut cell = store.save_outcome(CELL, &json, outcome(settings, history, summary))?;
    let mut drawn = Vec::new();
    for one in figures::of(history, CELL) {
        drawn.push(one.figure);
        for (name, series) in one.series {
            let rows = history.count();
            let file = if has_ended {
                format!("series/{CELL}-{name}.csv")
            } else {
                format!("series/{CELL}-{name}-{rows}.csv")
            };
            let file = RelativePath::new(file);
            cell.files.insert(file.clone(), store.save_file(&file, to_csv(&series).as_bytes())?);
            cell.series.insert(name, file);
        }
    }
    let page = page(settings, summary, has_ended);
    let mut record = Record {
        cells: [cell].into_iter().collect(),
        figures: drawn,
        ..Record::new(ID, None, None, page, json, 1)
    };
    if has_ended {
        record.files = write_figures(&store, &record)?;
    }
    lock.check()?;
    store.save(&record)?;
    remove_others(&store, &record)
}

fn page(settings: &Settings, summary: &Summary, has_ended: bool) -> Page {
    let text = |table, key, otherwise: &str| {
        settings.text(table, key).unwrap_or_else(|| otherwise.to_owned())
    };
    let mut title = format!("Training of {}", text("model", "class", "a model"));
    if let Some(optimizer) = settings.text("optimizer", "name") {
        title += &format!(" with {optimizer}");
    }
    let unfinished = if has_ended { "" } else { "Not finished; so far: " };
    let count = text("batches", "count", "the");
    let plural = if count == "1" { "batch" } else { "batches" };
    let mut method = format!(
        "Measured while it trained, on {count} probe {plural} of {} examples in all. No bit of the training is changed by it.",
        text("batches", "examples", "some")
    );
    for note in &summary.notes {
        method += &format!("\n\nStep {}: {}", note.step, note.note);
    }
    Page {
        title,
        claim: format!("{unfinished}{}", summary.answer),
        method,
        reference: String::new(),
        differences: vec![],
    }
}

fn outcome(settings: &Settings, history: &History, summary: &Summary) -> Outcome {
    let mut outcome = Outcome {
        hash: history.last_with(|row| row.hash.clone()).map(|(_, hash)| hash),
        device: settings.text("versions", "device-name"),
        ..Outcome::default()
    };
    let mut number = |name: &str, value: Option<Number>| {
        if let Some(Number(value)) = value {
            outcome.number(name, value);
        }
    };
    let last = |of: fn(&super::Row) -> Option<Number>| history.last_with(of).map(|(_, n)| n);
    number("rows", Some(Number(summary.rows as f64)));
    number("last_loss", last(|row| row.loss.or(row.probe_loss)));
    number("last_sharpness", last(|row| row.sharpness));
    number("last_critical_lr", last(|row| row.critical_lr));
    number("last_growth_per_step", last(|row| row.growth_per_step));
    number("measuring_share", Some(summary.measuring_share));
    if let Some(edge) = &summary.edge {
        number("last_edge_ratio", Some(edge.last));
        number("max_edge_ratio", Some(edge.max));
        number("late_median_edge_ratio", Some(edge.late_median));
    }
    outcome
}

/// Removes the curves and figures of earlier records.
fn remove_others(store: &Store, record: &Record) -> Result<(), Error> {
    let named: BTreeSet<&str> =
        record.cells[0].files.keys().chain(record.files.keys()).map(|file| &**file).collect();
    for part in PARTS {
        for entry in fs::read_dir(store.folder().join(part)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && !named.contains(format!("{part}/{name}").as_str()) {
                remove(&entry.path())?;
            }
        }
    }
    Ok(())
}
