//! Checks every file of a training run.
//!
//! An ended run has [hashes](super::manifest) of all its files. One that goes on is checked by its checkpoints: each
//! carries its own hash, and the lengths that the metrics had.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::checkpoint::{self, Opened};
use super::manifest::{self, MANIFEST};
use super::metrics::Row;
use super::run::CONFIG;
use super::settings::ConfigFile;
use super::summary::SUMMARY;
use super::timing::{self, Timing};
use crate::damage::Findings;
use crate::error::Error;
use crate::input::read_toml;
use crate::record::check_all;
use crate::sealed::{self, FileHash, damaged};

const LOST: &str = "put it back, or train again in another folder";

/// Whether a folder holds a run, or what is left of one.
pub fn is_left_of_run(folder: &Path) -> bool {
    folder.join("checkpoints").is_dir() || folder.join(MANIFEST).exists()
}

/// Checks the run in a folder.
pub fn verify(folder: &Path, found: &mut Findings) {
    let resume = match folder.parent() {
        // A run of a record is resumed or trained again with it.
        Some(runs) if runs.ends_with("runs") => "give the command of its record again".to_owned(),
        _ => format!("`lastbit train --out {} --resume`", folder.display()),
    };
    let path = folder.join(MANIFEST);
    let hashes = match manifest::read(folder) {
        Ok(None) if folder.join(SUMMARY).exists() => Err(damaged(&path, "the file is missing")),
        other => other,
    };
    match hashes {
        Ok(Some(files)) => {
            let (rewritten, others): (Vec<_>, Vec<_>) =
                files.iter().partition(|(file, _)| manifest::is_rewritten(file));
            found.add(&path, Ok(()), "");
            check_all(folder, rewritten, &resume, found);
            check_all(folder, others, LOST, found);
            found.add(folder, check_timing(folder), &resume);
        }
        Ok(None) => {
            verify_unfinished(folder, found);
            found.note(folder.to_owned(), "a training that has not ended", &resume);
        }
        Err(error) => {
            found.add::<()>(&path, Err(error), &resume);
            verify_unfinished(folder, found);
        }
    }
}

/// The time belongs to no result, but it is checked.
fn check_timing(folder: &Path) -> Result<(), Error> {
    let path = folder.join(timing::FILE);
    let config = folder.join(CONFIG);
    let Some((timing, _)) = sealed::read::<Timing>(&path, timing::FORMAT)? else {
        return Err(damaged(&path, "the file is missing"));
    };
    match FileHash::of_file(&config) {
        Ok(settings) if settings != timing.settings => {
            Err(damaged(&path, format!("it does not belong to the {CONFIG} beside it")))
        }
        // That one is named by its own check.
        _ => Ok(()),
    }
}

fn verify_unfinished(folder: &Path, found: &mut Findings) {
    let config = folder.join(CONFIG);
    let parsed = read_toml(&config).and_then(|text| ConfigFile::parse(&text, &config, &[]));
    found.add(&config, parsed, LOST);
    let steps = checkpoint::steps_in(folder).unwrap_or_default();
    let mut last = None;
    for step in steps {
        let path = checkpoint::path_of(folder, step);
        let opened = Opened::read(&path).and_then(|opened| match opened.state.step {
            own if own == step => Ok(opened.state.metrics),
            own => Err(damaged(&path, format!("it is the checkpoint of step {own}"))),
        });
        last = found.add(&path, opened, "remove it: an earlier one is enough to resume").or(last);
    }
    let Some(lengths) = last else { return };
    let csv = folder.join("metrics.csv");
    found.add(&csv, check_length(&csv, lengths.csv), LOST);
    let jsonl = folder.join("metrics.jsonl");
    found.add(&jsonl, check_rows(&jsonl, lengths.jsonl), LOST);
}

/// A file has all that it had at a checkpoint; more of it may follow.
fn check_length(path: &Path, length: u64) -> Result<File, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    match file.metadata().map_err(unreadable)?.len() {
        found if found < length => {
            Err(damaged(path, format!("found {found} bytes, expected at least {length}")))
        }
        _ => Ok(file),
    }
}

fn check_rows(path: &Path, length: u64) -> Result<(), Error> {
    let file = check_length(path, length)?;
    for (i, line) in BufReader::new(file.take(length)).lines().enumerate() {
        let refuse = |why: String| damaged(path, format!("line {} is no row ({why})", i + 1));
        let line = line.map_err(|error| refuse(error.to_string()))?;
        serde_json::from_str::<Row>(&line).map_err(|error| refuse(error.to_string()))?;
    }
    Ok(())
}
