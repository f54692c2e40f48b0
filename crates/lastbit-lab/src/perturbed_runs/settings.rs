//! What is run: the same in all runs of a folder.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::command;
use crate::error::Error;
use crate::input::refuse;
use crate::sealed;

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
}

impl Settings {
    /// Those in a folder.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        Ok(sealed::read(&folder.join(FILE), FORMAT)?.map(|(settings, _)| settings))
    }

    /// Writes them, unless the folder has those of something else, or of more runs.
    pub fn keep(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(FILE);
        let expected = "the same, for its runs are kept; give another folder with --out, or --fresh to remove them";
        match Self::read(folder)? {
            Some(found) if found == *self => return Ok(()),
            Some(found) if (Self { runs: self.runs, ..found.clone() }) != *self => {
                return Err(refuse(
                    &path,
                    format!("an envelope of {}", found.in_words()),
                    expected,
                ));
            }
            Some(found) if found.runs > self.runs => {
                let expected =
                    format!("at least {}, which are there or were asked for", found.runs);
                return Err(Error::setting("--runs", self.runs, expected));
            }
            _ => {}
        }
        sealed::write(&path, self).map(|_| ())
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
