//! The runs of an envelope, and the files of each.
//!
//! ```text
//! E/settings.json           what is run
//! E/runs/NAME/              what the program wrote, with stdout.log and stderr.log
//! E/runs/NAME.json          its hashes, when the run is whole
//! E/runs/NAME.perturbed     an empty file of the launcher: it perturbed something; until the run is whole
//! E/locks/NAME/lock         the process that makes it, while it does
//! E/envelope.json           the metrics of all perturbed runs, when all are whole
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::FORMAT;
use crate::error::Error;
use crate::files::remove;
use crate::relative_path::RelativePath;
use crate::sealed::{self, FileHash};

/// Folder of the runs.
pub const RUNS: &str = "runs";
/// What the program printed.
pub const LOGS: [&str; 2] = ["stdout.log", "stderr.log"];
/// Runs without a perturbation.
pub const PLAIN: usize = 2;

/// A run that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// The seed of its perturbation; 0 for none.
    pub seed: u64,
}

/// The plain runs, then those that are perturbed.
pub fn plan(perturbed: usize) -> Vec<Planned> {
    let plain = (0..PLAIN).map(|n| Planned { name: format!("plain-{n}"), seed: 0 });
    let seeds = 1..=perturbed as u64;
    plain.chain(seeds.map(|seed| Planned { name: format!("perturbed-{seed}"), seed })).collect()
}

/// What is known of a run that is whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The format.
    pub format: u32,
    /// Hashes of its logs, and of the files that its metrics are read from.
    pub files: BTreeMap<RelativePath, FileHash>,
    /// Whether the launcher said that it perturbed something.
    #[serde(default)]
    pub perturbed: bool,
}

impl Planned {
    /// Its folder.
    pub fn folder(&self, out: &Path) -> PathBuf {
        out.join(RUNS).join(&self.name)
    }

    /// The folder of its lock: not its own, which the program may remove.
    pub fn lock_folder(&self, out: &Path) -> PathBuf {
        out.join("locks").join(&self.name)
    }

    /// The file that says it is whole.
    pub fn file(&self, out: &Path) -> PathBuf {
        out.join(RUNS).join(format!("{}.json", self.name))
    }

    /// The file by which the launcher says that it perturbed something: `$LASTBIT_RUN.perturbed`.
    pub fn marker(&self, out: &Path) -> PathBuf {
        out.join(RUNS).join(format!("{}.perturbed", self.name))
    }

    /// What is known of it, if it is whole.
    pub fn finished(&self, out: &Path) -> Result<Option<Finished>, Error> {
        Ok(sealed::read(&self.file(out), FORMAT)?.map(|(finished, _)| finished))
    }

    /// Whether it is whole, and its files are as they were.
    pub fn is_whole(&self, out: &Path) -> Result<bool, Error> {
        match self.finished(out)? {
            None => Ok(false),
            Some(finished) => finished.check(&self.folder(out)).map(|()| true),
        }
    }
}

/// Whether there are whole runs in a folder.
pub fn any_is_whole(out: &Path) -> bool {
    names(out).any(|name| name.ends_with(".json"))
}

/// Removes all runs. What else lies in their folder is left.
pub fn remove_all(out: &Path) -> Result<(), Error> {
    let is_run =
        |name: &String| ["plain-", "perturbed-"].iter().any(|start| name.starts_with(start));
    names(out).filter(is_run).try_for_each(|name| remove(&out.join(RUNS).join(name)))
}

fn names(out: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(out.join(RUNS)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

impl Finished {
    /// Of files below the folder of a run.
    pub fn of(folder: &Path, files: &[PathBuf], perturbed: bool) -> Result<Self, Error> {
        let logs = LOGS.map(|name| folder.join(name));
        let mut hashes = BTreeMap::new();
        for path in logs.iter().chain(files) {
            let failed = |source| Error::Read { path: path.clone(), source };
            let below = path.strip_prefix(folder).unwrap_or(path);
            let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
            let name = RelativePath::try_from(parts.join("/"))
                .map_err(|fault| crate::input::refuse(path, fault, "a name that can be noted"))?;
            hashes.insert(name, FileHash::of_file(path).map_err(failed)?);
        }
        Ok(Self { format: FORMAT, files: hashes, perturbed })
    }

    /// Fails where a file is missing or another one.
    pub fn check(&self, folder: &Path) -> Result<(), Error> {
        self.files.iter().try_for_each(|(name, hash)| hash.check(&name.below(folder)?))
    }
}
