//! Checks a folder with all below it: records, training runs, data sets.
//!
//! ```text
//! record         record.json, cells/*.json and timing.json by their own hash; settings.toml, cells, figures, series and
//!                fields by the hashes in record.json and in the cells
//! training run   every file of an ended run by hashes.json; of another one checkpoints, configuration and rows
//! probed run     every file of an ended run by files.json; of another one the beginnings that it lists, and the form of rows
//! data set       values by the hash in dataset.json
//! envelope       settings.json, envelope.json and runs/*.json by their own hash; logs of runs by the hashes in runs/*.json
//! ```
//!
//! Nothing is written. Not checked are lock files, `report.html`, and what lastbit did not write. Links are not followed.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::damage::{Finding, Findings};
use crate::data;
use crate::error::Error;
use crate::progress::{Monitor, Progress};
use crate::{perturbed_runs, probe, record, train};

/// What was found in a folder.
#[derive(Debug, Default, Serialize)]
pub struct Verified {
    /// Records.
    pub records: usize,
    /// Finished cells of the records.
    pub cells: usize,
    /// Training runs.
    pub runs: usize,
    /// Data sets.
    pub data_sets: usize,
    /// Envelopes.
    pub envelopes: usize,
    /// Files that are as they were written.
    pub whole: usize,
    /// Files that are missing or not as they were written.
    pub damaged: Vec<Finding>,
    /// Files that no record names, and work that is not at its end.
    pub notes: Vec<Finding>,
}

/// Checks a folder.
///
/// # Errors
///
/// If there is nothing to check in it, or if its monitor asked to stop.
pub fn verify(folder: &Path, monitor: &dyn Monitor) -> Result<Verified, Error> {
    let mut parts = Vec::new();
    let files = collect(folder, &mut parts)?;
    if parts.is_empty() {
        return Err(Error::NoRecords { path: folder.to_owned() });
    }
    let progress = Progress::new(monitor, "verify", files);
    let mut found = Findings::new(&progress);
    let mut verified = Verified::default();
    for part in parts {
        progress.check()?;
        if part.is_probe {
            probe::verify(&part.folder, &mut found);
            verified.runs += 1;
        } else if part.is_run {
            train::verify(&part.folder, &mut found);
            verified.runs += 1;
        }
        if part.is_record {
            verified.cells += record::verify(&part.folder, &mut found);
            verified.records += 1;
        }
        if part.is_data_set {
            let mend = "get or import the data set again";
            found.add(&part.folder, data::store::check(&part.folder), mend);
            verified.data_sets += 1;
        }
        if part.is_envelope {
            verified.runs += perturbed_runs::verify(&part.folder, &mut found);
            verified.envelopes += 1;
        }
    }
    progress.check()?;
    let Findings { whole, damaged, notes, .. } = found;
    Ok(Verified { whole, damaged, notes, ..verified })
}

/// A folder with something to check.
struct Part {
    folder: PathBuf,
    is_record: bool,
    is_run: bool,
    is_probe: bool,
    is_data_set: bool,
    is_envelope: bool,
}

/// Finds what is to be checked, and the number of files there.
fn collect(folder: &Path, parts: &mut Vec<Part>) -> Result<u64, Error> {
    let unreadable = |source| Error::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let is_run = train::is_left_of_run(folder);
    let part = Part {
        folder: folder.to_owned(),
        // The page of a run is a record in its folder.
        is_record: record::is_record(folder),
        is_run,
        is_probe: probe::is_left_of_probe(folder),
        is_data_set: data::store::is_left_of_data_set(folder),
        is_envelope: perturbed_runs::is_left_of_envelope(folder),
    };
    let mut files = 0;
    for entry in entries {
        let name = entry.file_name();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let is_ours = !perturbed_runs::is_of_program(&entry.path());
            if is_ours && !name.as_encoded_bytes().starts_with(b".") {
                files += collect(&entry.path(), parts)?;
            }
        } else {
            files += 1;
        }
    }
    if part.is_record || part.is_run || part.is_probe || part.is_data_set || part.is_envelope {
        parts.push(part);
    }
    Ok(files)
}
