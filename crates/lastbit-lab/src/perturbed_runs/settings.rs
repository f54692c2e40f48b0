//! What is run: the same in all runs of a folder.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::command;
use super::runs::{self, PLAIN};
use crate::envelope;
use crate::error::Error;
use crate::files::remove;
use crate::input::{self, refuse};
use crate::sealed::{self, FileHash};

/// Name of the file in the folder of an envelope.
pub const FILE: &str = "settings.json";

/// The format of this file, and of those of finished runs.
pub const FORMAT: u32 = 1;

lastbit::named_enum! {
    /// How each step of the program is perturbed.
    pub enum Kind, default Ulps {
        /// Every entry of every parameter moves by a few ulps or stays, at once and after each step.
        Ulps = "ulps",
        /// One entry of one parameter moves by one ulp after each step.
        Ulp = "ulp",
        /// The update of SGD is computed as (lr/k)·(k·d) with k = 3, 5, ….
        K = "k",
    }
}

/// The settings of an envelope that say what its runs compute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The format.
    pub format: u32,
    /// The command as the user gave it.
    pub command: Vec<String>,
    /// Whether it runs through the launcher.
    pub launcher: bool,
    /// How it is perturbed.
    pub kind: String,
    /// Patterns of the files that it writes.
    pub files: Vec<String>,
    /// Perturbed runs.
    pub runs: usize,
    /// Scripts and configurations that the command names, with their hashes.
    #[serde(default)]
    pub sources: BTreeMap<String, FileHash>,
}

/// Endings of files that programs read and do not write.
const SOURCES: [&str; 7] = ["py", "sh", "toml", "yaml", "yml", "ini", "cfg"];

/// The files of a command that say what is computed, by the paths in it: `train.py`, `--config=model.yaml`.
pub fn sources(command: &[String]) -> Result<BTreeMap<String, FileHash>, Error> {
    let parts = command
        .iter()
        .flat_map(|word| [Some(word.as_str()), word.split_once('=').map(|(_, path)| path)]);
    let is_source = |path: &&str| {
        SOURCES.contains(&input::extension(Path::new(path)).as_str()) && Path::new(path).is_file()
    };
    let hashed = |path: &str| {
        let hash = FileHash::of_file(Path::new(path));
        hash.map(|hash| (path.to_owned(), hash))
            .map_err(|source| Error::Read { path: path.into(), source })
    };
    parts.flatten().filter(is_source).map(hashed).collect()
}

impl Settings {
    /// Those in a folder.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        Ok(sealed::read(&folder.join(FILE), FORMAT)?.map(|(settings, _)| settings))
    }

    /// Writes them, unless the folder has those of something else, or of more runs.
    ///
    /// Where runs are added to whole ones, the second run without a perturbation is no longer whole: made again, it shows whether
    /// the program is still the same.
    pub fn keep(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(FILE);
        let Some(found) = Self::read(folder)? else {
            let envelope = folder.join(envelope::FILE);
            if envelope.exists() {
                let expected =
                    "no file there, or that of this program; give another folder with --out";
                return Err(refuse(&envelope, "an envelope that is not of this program", expected));
            }
            return sealed::write(&path, self).map(|_| ());
        };
        let expected = "the same, for its runs are kept; give another folder with --out, or --fresh to remove them";
        if !found.is_of_the_same(self) {
            let found = format!("an envelope of {}", found.in_words());
            return Err(refuse(&path, found, expected));
        }
        if found.runs > self.runs {
            let expected = format!("at least {}, which are there or were asked for", found.runs);
            return Err(Error::setting("--runs", self.runs, expected));
        }
        let mut kept = self.clone();
        if runs::any_is_whole(folder) {
            if let Some(changed) = found.changed() {
                let found = "a file that was changed since runs of the envelope were made with it";
                return Err(refuse(Path::new(changed), found, expected));
            }
            kept.sources.clone_from(&found.sources);
        }
        if kept.runs > found.runs {
            remove(&runs::plan(kept.runs)[PLAIN - 1].file(folder))?;
        }
        if kept == found { Ok(()) } else { sealed::write(&path, &kept).map(|_| ()) }
    }

    /// Fails where the folder has become that of something else, as `--fresh` makes it.
    pub fn check_kept(&self, folder: &Path) -> Result<(), Error> {
        match Self::read(folder)? {
            Some(found) if found.is_of_the_same(self) && found.sources == self.sources => Ok(()),
            _ => {
                let expected =
                    "those that the run began with; another process has begun the envelope anew";
                Err(refuse(&folder.join(FILE), "other settings", expected))
            }
        }
    }

    /// Whether all but the number of runs and the contents of files are equal.
    fn is_of_the_same(&self, other: &Self) -> bool {
        Self { runs: other.runs, sources: other.sources.clone(), ..self.clone() } == *other
    }

    /// A file that is not as it was.
    fn changed(&self) -> Option<&str> {
        let is_changed = |(name, hash): &(&String, &FileHash)| hash.check(Path::new(name)).is_err();
        self.sources.iter().find(is_changed).map(|(name, _)| name.as_str())
    }

    fn in_words(&self) -> String {
        let launcher = if self.launcher { "" } else { ", without the launcher" };
        let files = if self.files.is_empty() {
            String::new()
        } else {
            format!(", with the files {}", self.files.join(", "))
        };
        format!("`{}`, perturbed by {}{launcher}{files}", command::shown(&self.command), self.kind)
    }
}
