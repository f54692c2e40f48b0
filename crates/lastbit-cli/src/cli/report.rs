//! `lastbit report`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::CommandOutput;
use lastbit_lab::Error;
use lastbit_lab::experiments::CATALOGUE;
use lastbit_lab::files::write_atomically;
use lastbit_lab::record::{FoundRecords, Record, all_records};
use lastbit_lab::report::render;
use lastbit_lab::train::is_run;

/// A report that was written.
pub struct Written {
    /// Its place.
    pub path: PathBuf,
    records: Vec<Value>,
    /// What is wrong with the records that are not shown.
    damaged: Vec<Error>,
}

/// Writes the report of all records below `out`.
pub fn write(out: &Path) -> Result<Written, Error> {
    let FoundRecords { mut whole, damaged } = all_records(out).map_err(with_advice)?;
    if whole.is_empty() && damaged.is_empty() {
        let path = out.to_owned();
        return Err(if is_training(out) {
            Error::Unfinished { path }
        } else {
            Error::NoRecords { path }
        });
    }
    // Exhibits in the order of the catalogue, runs of one's own after them.
    let place = |id: &str| CATALOGUE.iter().position(|e| e.id == id).unwrap_or(usize::MAX);
    whole.sort_by_key(|(_, record)| place(&record.id));
    let path = out.join("report.html");
    let report = render(&whole, damaged.into_iter().map(with_advice).collect())?;
    write_atomically(&path, report.page.as_bytes())?;
    let records = report.shown.iter().map(|record| entry(record)).collect();
    let damaged = report.damaged.into_iter().map(with_advice).collect();
    Ok(Written { path, records, damaged })
}

fn entry(record: &Record) -> Value {
    json!({
        "id": record.id,
        "scale": record.scale,
        "settings_hash": record.settings_hash,
        "status": record.status().name(),
        "not_tested": record.not_tested,
    })
}

/// A configuration of the user's may lie in any folder; a run has checkpoints beside it.
fn is_training(folder: &Path) -> bool {
    is_run(folder).unwrap_or(false) && folder.join("checkpoints").is_dir()
}

/// The record of a training is written again by its end.
fn with_advice(error: Error) -> Error {
    let resume = |path: &Path| {
        let folder = path.ancestors().skip(1).take(2).find(|folder| is_training(folder))?;
        Some(format!("`lastbit train --out {} --resume` writes it again", folder.display()))
    };
    match error {
        Error::Record { path, message, advice } => {
            let advice =
                resume(&path).map_or(advice, |resume| format!("move it away, and {resume}"));
            Error::Record { path, message, advice }
        }
        Error::Damaged { path, message, advice } => {
            let advice = resume(&path).unwrap_or(advice);
            Error::Damaged { path, message, advice }
        }
        other => other,
    }
}

/// The answer of the command.
pub fn report(out: &Path) -> Result<CommandOutput, Error> {
    let Written { path, records, damaged } = write(out)?;
    let count = records.len();
    let plural = if count == 1 { "" } else { "s" };
    let damaged: Vec<String> = damaged.iter().map(Error::to_string).collect();
    let mut text: String = damaged.iter().map(|line| format!("Not shown: {line}\n")).collect();
    text += &format!("Report of {count} record{plural}: {}\n", path.display());
    let is_whole = damaged.is_empty();
    let json = json!({"report": path, "records": records, "damaged": damaged});
    Ok(CommandOutput::new(text, json).holds(is_whole))
}
