//! The runs of an envelope, and the files of each.
//!
//! ```text
//! E/settings.json           what is run
//! E/runs/NAME/              what the program wrote, with stdout.log and stderr.log
//! E/runs/NAME.json          its hashes, when the run is whole
//! E/locks/NAME/lock         the process that makes it, while it does
//! E/envelope.json           the metrics of all perturbed runs, when all are whole
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::FORMAT;
use crate::error::Error;
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

    /// Whether it is whole, and its files are as they were.
    pub fn is_whole(&self, out: &Path) -> Result<bool, Error> {
        match sealed::read::<Finished>(&self.file(out), FORMAT)? {
            None => Ok(false),
            Some((finished, _)) => finished.check(&self.folder(out)).map(|()| true),
        }
    }
}

impl Finished {
    /// Of files below the folder of a run.
    pub fn of(folder: &Path, files: &[PathBuf]) -> Result<Self, Error> {
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
        Ok(Self { format: FORMAT, files: hashes })
    }

    /// Fails where a file is missing or another one.
    pub fn check(&self, folder: &Path) -> Result<(), Error> {
        self.files.iter().try_for_each(|(name, hash)| hash.check(&name.below(folder)?))
    }
}
