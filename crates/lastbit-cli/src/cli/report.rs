//! `lastbit report`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::CommandOutput;
use lastbit_lab::Error;
use lastbit_lab::experiments::CATALOGUE;
use lastbit_lab::files::write_atomically;
use lastbit_lab::record::{Record, Store, all_records};
use lastbit_lab::report::render;
use lastbit_lab::train::is_run;

/// Writes the report of all records below `out` and returns its path with them.
pub fn write(out: &Path) -> Result<(PathBuf, Vec<(Store, Record)>), Error> {
    write_plainly(out).map_err(with_advice)
}

fn write_plainly(out: &Path) -> Result<(PathBuf, Vec<(Store, Record)>), Error> {
    let mut records = all_records(out)?;
    if records.is_empty() {
        let path = out.to_owned();
        return Err(if is_training(out) {
            Error::Unfinished { path }
        } else {
            Error::NoRecords { path }
        });
    }
    // Exhibits in the order of the catalogue, runs of one's own after them.
    let place = |id: &str| CATALOGUE.iter().position(|e| e.id == id).unwrap_or(usize::MAX);
    records.sort_by_key(|(_, record)| place(&record.id));
    let path = out.join("report.html");
    write_atomically(&path, render(&records)?.as_bytes())?;
    Ok((path, records))
}

/// A configuration of the user's may lie in any folder; a run has checkpoints beside it.
fn is_training(folder: &Path) -> bool {
    is_run(folder) && folder.join("checkpoints").is_dir()
}

/// The record of a training is written again by its end.
fn with_advice(error: Error) -> Error {
    match error {
        Error::Record { path, message, advice } => {
            let folder = path.parent().filter(|folder| is_training(folder));
            let advice = folder.map_or(advice, |folder| {
                let folder = folder.display();
                format!("move it away, and `lastbit train --out {folder} --resume` writes it again")
            });
            Error::Record { path, message, advice }
        }
        other => other,
    }
}

/// The answer of the command.
pub fn report(out: &Path) -> Result<CommandOutput, Error> {
    let (path, records) = write(out)?;
    let count = records.len();
    let plural = if count == 1 { "" } else { "s" };
    let text = format!("Report of {count} record{plural}: {}\n", path.display());
    let entries: Vec<_> = records
        .iter()
        .map(|(_, record)| {
            json!({
                "id": record.id,
                "scale": record.scale,
                "settings_hash": record.settings_hash,
                "status": record.status().name(),
                "not_tested": record.not_tested,
            })
        })
        .collect();
    Ok(CommandOutput::new(text, json!({"report": path, "records": entries})))
}
