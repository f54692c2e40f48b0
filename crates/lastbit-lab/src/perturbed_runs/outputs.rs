//! Files that a program writes to places of its own, moved into the folder of the run.
//!
//! ```text
//! E/writes          the run whose files may lie about in the working directory, while it does
//! ```
//!
//! What was there before is never taken for a result, and never removed. What an interrupted run left is moved to
//! `E/runs/NAME.interrupted-N`.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::runs::RUNS;
use crate::error::Error;
use crate::files::{create_folder, remove, write_atomically};
use crate::input::refuse;

/// Name of the note of the run that is writing.
const NOTE: &str = "writes";

/// Patterns of `--files`.
pub struct Outputs<'a> {
    patterns: &'a [String],
    out: &'a Path,
    /// The folder of the envelope, where files are not looked for.
    own: PathBuf,
}

/// Refuses patterns that lead out of the working directory.
pub fn check(patterns: &[String]) -> Result<(), Error> {
    for pattern in patterns {
        let is_below =
            Path::new(pattern).components().all(|part| matches!(part, Component::Normal(_)));
        if pattern.is_empty() || !is_below {
            let expected = "a pattern of files below the working directory, such as logs/*.jsonl";
            return Err(Error::setting("--files", pattern, expected));
        }
        glob::Pattern::new(pattern).map_err(|error| {
            let expected = "a pattern, in which * stands for any characters and ? for one";
            Error::setting("--files", format!("{pattern} ({})", error.msg), expected)
        })?;
    }
    Ok(())
}

impl<'a> Outputs<'a> {
    /// Of these patterns.
    pub fn new(patterns: &'a [String], out: &'a Path) -> Result<Self, Error> {
        let own =
            out.canonicalize().map_err(|source| Error::Read { path: out.to_owned(), source })?;
        Ok(Self { patterns, out, own })
    }

    /// Makes sure that no file is there before a run.
    pub fn begin(&self, name: &str) -> Result<(), Error> {
        if self.patterns.is_empty() {
            return Ok(());
        }
        let note = self.out.join(NOTE);
        let found = self.found()?;
        match (fs::read_to_string(&note), found.first()) {
            (Ok(interrupted), Some(_)) => {
                let interrupted = interrupted.trim();
                let names = (1..).map(|n| format!("{interrupted}.interrupted-{n}"));
                let mut folders = names.map(|name| self.out.join(RUNS).join(name));
                let free =
                    folders.find(|folder| !folder.exists()).expect("there is no end of them");
                move_all(&found, &free)?;
            }
            (Err(_), Some(first)) => {
                let expected = "no file that --files names before the run; move it away";
                return Err(refuse(first, "a file that was there before", expected));
            }
            (_, None) => {}
        }
        write_atomically(&note, format!("{name}\n").as_bytes())
    }

    /// Moves what a run wrote into its folder.
    pub fn collect(&self, folder: &Path) -> Result<(), Error> {
        if self.patterns.is_empty() {
            return Ok(());
        }
        move_all(&self.found()?, folder)?;
        remove(&self.out.join(NOTE))
    }

    /// What is there, folders before what is in them.
    fn found(&self) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        for pattern in self.patterns {
            let paths = glob::glob(pattern).expect("it was checked");
            for path in paths {
                let path = path.map_err(|error| {
                    let path = error.path().to_owned();
                    Error::Read { path, source: error.into() }
                })?;
                let is_own = path.canonicalize().is_ok_and(|path| path.starts_with(&self.own));
                if !is_own {
                    found.push(path);
                }
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

fn move_all(paths: &[PathBuf], folder: &Path) -> Result<(), Error> {
    for path in paths {
        // With the folder it lies in, it is there already.
        if path.symlink_metadata().is_err() {
            continue;
        }
        let to = folder.join(path);
        create_folder(to.parent().unwrap_or(folder))?;
        move_one(path, &to).map_err(|source| Error::Write { path: to, source })?;
    }
    Ok(())
}

fn move_one(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(from, to).and_then(|()| {
                if from.is_dir() { fs::remove_dir_all(from) } else { fs::remove_file(from) }
            })
        }
        renamed => renamed,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    fs::read_dir(from)?.try_for_each(|entry| {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))
    })
}
