//! Hashes of the files of an ended run, so that damage is noticed.
//!
//! ```text
//! DIR/hashes.json   BLAKE3 hashes of config.toml, summary.json, metrics, answers, densities, attribution.csv,
//!                   checkpoints and trained networks; sealed
//! ```
//!
//! It is written last: a run with this file has ended. The files of the [page](super::page) are under the hashes of its record,
//! and `timing.json` under its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checkpoint;
use super::measure::ANSWERS;
use super::metrics::ATTRIBUTION;
use super::run::CONFIG;
use super::summary::SUMMARY;
use crate::error::Error;
use crate::relative_path::RelativePath;
use crate::sealed::{self, FileHash};
use crate::tensors::{self, TensorFile};

/// The file of hashes.
pub const MANIFEST: &str = "hashes.json";
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    files: BTreeMap<RelativePath, FileHash>,
}

/// Hashes the files of an ended run. A run that had ended before keeps the hashes of its checkpoints: resuming does not
/// look at all of them, and whatever it writes again has the same bytes.
pub fn write(folder: &Path) -> Result<(), Error> {
    let mut files = read(folder).ok().flatten().unwrap_or_default();
    files.retain(|file, _| is_checkpoint(file));
    for file in files_in(folder)? {
        if files.contains_key(&file) {
            continue;
        }
        let path = folder.join(&*file);
        let hash = FileHash::of_file(&path).map_err(|source| Error::Read { path, source })?;
        files.insert(file, hash);
    }
    sealed::write(&folder.join(MANIFEST), &Manifest { format: FORMAT, files }).map(drop)
}

/// Forgets the hashes of a run that begins again.
pub fn remove(folder: &Path) -> Result<(), Error> {
    let path = folder.join(MANIFEST);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Write { path, source })
        }
        _ => Ok(()),
    }
}

/// The hashes, if the run has ended.
pub fn read(folder: &Path) -> Result<Option<BTreeMap<RelativePath, FileHash>>, Error> {
    let path = RelativePath::new(MANIFEST).below(folder)?;
    Ok(sealed::read::<Manifest>(&path, FORMAT)?.map(|(manifest, _)| manifest.files))
}

/// Fails where a file of an ended run is damaged that resuming would not write again.
pub fn check_before_resuming(folder: &Path) -> Result<(), Error> {
    let files = read(folder)?.unwrap_or_default();
    let last = files
        .keys()
        .filter_map(|file| checkpoint::step_of(file.strip_prefix("checkpoints/")?))
        .max();
    for (file, hash) in files {
        // A checkpoint has a hash of its own, and is checked when it is read.
        if !is_rewritten(&file) && !is_checkpoint(&file) {
            hash.check(&file.below(folder)?).map_err(with_advice)?;
        }
    }
    // Without its last checkpoint it goes on before its end, and writes to files that the hashes are of.
    let has_last = last.is_none_or(|step| checkpoint::path_of(folder, step).exists());
    if has_last { Ok(()) } else { remove(folder) }
}

fn is_checkpoint(file: &str) -> bool {
    file.starts_with("checkpoints/")
}

/// Whether resuming an ended run writes a file again, from its last checkpoint.
pub fn is_rewritten(file: &str) -> bool {
    file == SUMMARY || file.starts_with("final/")
}

/// What the replicas of an ended run answered on the test set; nothing where its targets are no classes.
pub fn answers(folder: &Path) -> Result<Option<TensorFile>, Error> {
    let Some(files) = read(folder)? else {
        return Err(with_advice(sealed::damaged(&folder.join(MANIFEST), "the file is missing")));
    };
    let file = RelativePath::new(ANSWERS);
    let Some(hash) = files.get(&file) else { return Ok(None) };
    let path = file.below(folder)?;
    hash.check(&path).map_err(with_advice)?;
    tensors::read(&path).map(Some)
}

fn with_advice(error: Error) -> Error {
    let advice = "put the file back, or train again: with --fresh, or in another folder".to_owned();
    match error {
        Error::Damaged { path, message, .. } => Error::Damaged { path, message, advice },
        other => other,
    }
}

/// What a run leaves behind, apart from its page and its time.
fn files_in(folder: &Path) -> Result<Vec<RelativePath>, Error> {
    let mut files = Vec::new();
    for part in ["", "checkpoints/", "final/"] {
        let path = folder.join(part);
        let unreadable = |source| Error::Read { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
            let is_ours = match part {
                "" => is_result(&name),
                _ => name.ends_with(".safetensors") && !name.starts_with('.'),
            };
            if is_ours {
                files.push(RelativePath::new(format!("{part}{name}")));
            }
        }
    }
    Ok(files)
}

/// Whether a file in the folder of a run is one of its results.
fn is_result(name: &str) -> bool {
    let is_density = |prefix: &str| name.starts_with(prefix) && name.ends_with(".csv");
    [CONFIG, SUMMARY, ANSWERS, ATTRIBUTION, "metrics.jsonl", "metrics.csv"].contains(&name)
        || is_density("density-")
        || is_density("nodes-")
}
