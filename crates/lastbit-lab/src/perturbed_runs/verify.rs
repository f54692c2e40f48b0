//! Checks every file of an envelope and of its runs.

use std::fs;
use std::path::Path;

use super::runs::{Finished, RUNS};
use super::settings::{FILE, FORMAT};
use crate::damage::Findings;
use crate::envelope;
use crate::sealed;

const MEND: &str = "give the command of the envelope again";

/// Whether a folder holds an envelope, or what is left of one.
pub fn is_left_of_envelope(folder: &Path) -> bool {
    folder.join(envelope::FILE).exists() || folder.join(FILE).exists() && folder.join(RUNS).is_dir()
}

/// Whether all below a folder is what a program wrote: only its logs are ours to check, by the envelope it belongs to.
pub fn is_of_program(folder: &Path) -> bool {
    folder.ends_with(RUNS) && folder.parent().is_some_and(|parent| parent.join(FILE).exists())
}

/// Checks the envelope in a folder; returns the number of its runs.
pub fn verify(folder: &Path, found: &mut Findings) -> usize {
    for (name, format) in [(FILE, FORMAT), (envelope::FILE, envelope::FORMAT)] {
        let path = folder.join(name);
        // That of a training has no settings of its own.
        if path.exists() {
            found.add(&path, sealed::check(&path, format), MEND);
        }
    }
    let entries = fs::read_dir(folder.join(RUNS)).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    for path in &files {
        let read = sealed::read::<Finished>(path, FORMAT);
        let Some(Some((finished, _))) = found.add(path, read, MEND) else { continue };
        let run = path.with_extension("");
        for (name, hash) in &finished.files {
            if found.is_stopped() {
                return files.len();
            }
            let checked = name.below(&run).and_then(|file| hash.check(&file));
            found.add(&run.join(&**name), checked, MEND);
        }
    }
    if !folder.join(envelope::FILE).exists() {
        found.note(folder.to_owned(), "an envelope whose runs are not all whole", MEND);
    }
    files.len()
}
