//! Checks every file of a record.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::timing::Timing;
use super::{Cells, PARTS, RECORD, Record, SETTINGS, Store};
use crate::damage::Findings;
use crate::relative_path::RelativePath;
use crate::sealed::{FileHash, damaged};

/// Whether a folder holds a record, or what is left of one.
pub fn is_record(folder: &Path) -> bool {
    let has = |part: &str| folder.join(part).is_dir();
    folder.join(RECORD).exists() || has("cells") || (has("series") && has("figures"))
}

/// Checks the record in a folder; returns the number of its cells.
pub fn verify(folder: &Path, found: &mut Findings) -> usize {
    let store = Store::open(folder);
    let path = folder.join(RECORD);
    let missing = || damaged(&path, "the file is missing");
    let loaded = store.load().and_then(|record| record.ok_or_else(missing));
    let record = found.add(&path, loaded, AGAIN);
    let mend = record.as_ref().map_or(AGAIN.to_owned(), |record| mend(folder, record));
    let mut named = BTreeSet::new();
    let mut cells = Cells::default();
    if let Some(record) = record {
        check_all(folder, &record.files, &mend, found);
        // The page of a training has no settings of its own, and its time is that of the run.
        if record.files.contains_key(&RelativePath::new(SETTINGS)) {
            found.add(folder, Timing::check(folder, &record), &mend);
        }
        named.extend(record.files.into_keys());
        cells = record.cells;
    }
    let is_whole = !named.is_empty() || !cells.is_empty();
    // Cells that are not in the record yet; all of them where it cannot be read.
    for file in files_of(folder, "cells") {
        if named.contains(&file) {
            continue;
        }
        let path = folder.join(&*file);
        if let Some(Some((_, cell, _))) = found.add(&path, store.read_cell(&file), &mend) {
            cells.push(cell);
            named.insert(file);
            if is_whole {
                found.note(path, "a finished cell that is not in record.json", &mend);
            }
        }
    }
    for cell in cells.iter() {
        check_all(folder, &cell.files, &mend, found);
        named.extend(cell.files.keys().cloned());
    }
    if is_whole {
        for file in PARTS.iter().flat_map(|part| files_of(folder, part)) {
            if !named.contains(&file) {
                let message = "record.json does not name this file";
                found.note(folder.join(&*file), message, "remove it if it is not yours");
            }
        }
    }
    cells.len()
}

/// Checks files against their hashes.
pub fn check_all<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = (&'a RelativePath, &'a FileHash)>,
    mend: &str,
    found: &mut Findings,
) {
    for (file, hash) in files {
        if found.is_stopped() {
            return;
        }
        let checked = file.below(folder).and_then(|path| hash.check(&path));
        found.add(folder, checked, mend);
    }
}

/// The files in a folder of a record, in the order of their names; those that are being written are left out.
fn files_of(folder: &Path, part: &str) -> Vec<RelativePath> {
    let entries = fs::read_dir(folder.join(part)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let shown = names.filter(|name| !name.starts_with('.'));
    let mut files: Vec<RelativePath> =
        shown.filter_map(|name| RelativePath::try_from(format!("{part}/{name}")).ok()).collect();
    files.sort();
    files
}

const AGAIN: &str = "give the command that wrote it again";

/// The command that computes what is damaged in a record again.
fn mend(folder: &Path, record: &Record) -> String {
    let Record { id, scale, device, .. } = record;
    let (Some(scale), Some(out)) = (scale, folder.parent().and_then(Path::parent)) else {
        return AGAIN.to_owned();
    };
    let device = device.as_ref().map(|device| format!(" --device {device}")).unwrap_or_default();
    format!("`lastbit run {id} --scale {scale}{device} --out {}`", out.display())
}
