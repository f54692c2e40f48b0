//! Checks every file of a probed run.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use super::fingerprint::{FINGERPRINTS, FingerprintRow};
use super::lines;
use super::row::Row;
use super::settings::Settings;
use crate::damage::Findings;
use crate::error::Error;
use crate::sealed::damaged;
use crate::train::file_list::{FILES, FileList};
use crate::train::{CONFIG, METRICS, SUMMARY};

const RESUME: &str = "resume the training with resume=True, or put the file back";

/// Whether a folder holds a probed run, or what is left of one.
pub fn is_left_of_probe(folder: &Path) -> bool {
    let lists = |text: Vec<u8>| String::from_utf8_lossy(&text).contains(FINGERPRINTS);
    folder.join(FINGERPRINTS).exists() || fs::read(folder.join(FILES)).is_ok_and(lists)
}

/// Checks the run in a folder.
pub fn verify(folder: &Path, found: &mut Findings) {
    let path = folder.join(FILES);
    let list = match FileList::read(folder) {
        Ok(None) if folder.join(SUMMARY).exists() => Err(damaged(&path, "the file is missing")),
        other => other,
    };
    let list = match list {
        Ok(list) => list,
        Err(error) => found.add(&path, Err(error), RESUME).flatten(),
    };
    let has_ended = list.as_ref().is_some_and(|list| list.get(SUMMARY).is_some());
    if let Some(list) = &list {
        found.add(&path, Ok(()), "");
        for file in list.names() {
            if found.is_stopped() {
                return;
            }
            let checked = file.below(folder).and_then(|path| match list.get(file) {
                Some(noted) if has_ended => noted.check(&path),
                Some(noted) => noted.check_beginning(&path).map(drop),
                None => Ok(()),
            });
            found.add(&folder.join(&**file), checked, RESUME);
        }
    } else {
        found.add(&folder.join(CONFIG), Settings::read(folder), RESUME);
    }
    if !has_ended {
        let hashed = |file| list.as_ref().and_then(|list| Some(list.get(file)?.bytes)).unwrap_or(0);
        rows_after(folder, METRICS, hashed(METRICS), |line| Row::parse(line).map(drop), found);
        let parse = |line: &str| FingerprintRow::parse(line).map(drop);
        rows_after(folder, FINGERPRINTS, hashed(FINGERPRINTS), parse, found);
        found.note(folder.to_owned(), "a probed training that has not ended", RESUME);
    }
}

/// Rows that are not under a hash yet have at least the form of rows.
fn rows_after(
    folder: &Path,
    file: &str,
    hashed: u64,
    parse: impl Fn(&str) -> Result<(), String>,
    found: &mut Findings,
) {
    let path = folder.join(file);
    let (mut bytes, mut after) = (0, 0);
    let read = lines::read(&path, |line| {
        bytes += line.len() as u64 + 1;
        if bytes > hashed {
            after += 1;
            parse(line)?;
        }
        Ok(ControlFlow::Continue(()))
    });
    match read {
        Ok(lines) => {
            if after > 0 {
                let message = format!("its last {after} rows are not under a hash yet");
                found.note(path.clone(), &message, "the run writes their hash when it is resumed");
            }
            if lines.is_cut {
                let message = "it ends within a row, which is cut off when the run is resumed";
                found.note(path, message, RESUME);
            }
        }
        Err(error @ Error::Input { .. }) => drop(found.add::<()>(&path, Err(error), RESUME)),
        // That it is missing or cannot be read has been found already, if it is listed.
        Err(error) => {
            if hashed == 0 {
                found.add::<()>(&path, Err(error), RESUME);
            }
        }
    }
}
