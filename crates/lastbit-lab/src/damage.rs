//! What a check of files finds: those that are whole, damaged, or worth a word.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Error;
use crate::progress::Progress;

/// Something about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// What is the matter with it.
    pub message: String,
    /// What mends it.
    pub mend: String,
}

/// What was found of all files.
pub struct Findings<'a> {
    /// Files that are as they were written.
    pub whole: usize,
    /// Files that are missing or not as they were written.
    pub damaged: Vec<Finding>,
    /// Files that no other names, and work that is not at its end.
    pub notes: Vec<Finding>,
    progress: &'a Progress<'a>,
}

impl<'a> Findings<'a> {
    /// Of no file yet; each one that is checked is a step of the progress.
    pub fn new(progress: &'a Progress<'a>) -> Self {
        Self { whole: 0, damaged: vec![], notes: vec![], progress }
    }

    /// Whether the check was asked to stop before its end.
    pub fn is_stopped(&self) -> bool {
        self.progress.stop_requested().is_some()
    }

    /// Counts a file as whole, or as damaged by what the check of it says; returns what was read.
    pub fn add<T>(&mut self, path: &Path, checked: Result<T, Error>, mend: &str) -> Option<T> {
        self.progress.advance(1);
        let (path, message) = match checked {
            Ok(value) => {
                self.whole += 1;
                return Some(value);
            }
            Err(Error::Damaged { path, message, .. } | Error::Record { path, message, .. }) => {
                (path, message)
            }
            Err(Error::Input { path, found, expected }) => {
                (path, format!("found {found}, expected {expected}"))
            }
            Err(Error::Read { path, source }) => (path, format!("cannot be read: {source}")),
            Err(other) => (path.to_owned(), other.to_string()),
        };
        self.damaged.push(Finding { path, message, mend: mend.to_owned() });
        None
    }

    /// Something that is no damage.
    pub fn note(&mut self, path: PathBuf, message: &str, mend: &str) {
        let (message, mend) = (message.to_owned(), mend.to_owned());
        self.notes.push(Finding { path, message, mend });
    }
}
