//! The report as a file: what `lastbit report` does.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::render;
use crate::error::Error;
use crate::experiments::CATALOGUE;
use crate::files::write_atomically;
use crate::record::{FoundRecords, Record, Scale, all_records};
use crate::relative_path::RelativePath;
use crate::train::is_run;

/// A report that was written.
#[derive(Debug)]
pub struct Written {
    /// Its place.
    pub path: PathBuf,
    /// The records that are shown.
    pub records: Vec<Shown>,
    /// What is wrong with those that are not.
    pub damaged: Vec<Error>,
}

/// A record that is shown.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Its name.
    pub id: RelativePath,
    /// The scale of an exhibit.
    pub scale: Option<Scale>,
    /// Hash of the settings of a run of one's own.
    pub settings_hash: Option<String>,
    /// Whether its checks hold.
    pub status: &'static str,
    /// Why the claim of an exhibit cannot be tested at this scale.
    pub not_tested: Option<String>,
}

/// Writes the report of all records below `folder`, as `report.html` there or to a file of its own.
pub fn write(folder: &Path, file: Option<&Path>) -> Result<Written, Error> {
    let FoundRecords { mut whole, damaged } = all_records(folder).map_err(with_advice)?;
    if whole.is_empty() && damaged.is_empty() {
        let path = folder.to_owned();
        return Err(if is_training(folder) {
            Error::Unfinished { path }
        } else {
            Error::NoRecords { path }
        });
    }
    // Exhibits in the order of the catalogue, runs of one's own after them.
    let place = |id: &str| CATALOGUE.iter().position(|e| e.id == id).unwrap_or(usize::MAX);
    whole.sort_by_key(|(_, record)| place(&record.id));
    let path = file.map_or_else(|| folder.join("report.html"), Path::to_owned);
    let report = render(&whole, damaged.into_iter().map(with_advice).collect())?;
    write_atomically(&path, report.page.as_bytes())?;
    let records = report.shown.iter().map(|record| Shown::new(record)).collect();
    let damaged = report.damaged.into_iter().map(with_advice).collect();
    Ok(Written { path, records, damaged })
}

impl Shown {
    fn new(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            scale: record.scale,
            settings_hash: record.settings_hash.clone(),
            status: record.status().name(),
            not_tested: record.not_tested.clone(),
        }
    }
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
