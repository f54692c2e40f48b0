//! What can go wrong outside the mathematics. Every message says what was found, what was expected
//! and what to do; every one of them but `Stopped` ends the program with exit code 2.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use lastbit_formats::Malformed;

use crate::progress::StopReason;

/// An error of the user's input or of the environment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting out of range, from a flag or a configuration file.
    #[error("{key}: found {found}, expected {expected}")]
    Setting {
        /// Flag or key.
        key: String,
        /// Its value.
        found: String,
        /// What would do.
        expected: String,
    },
    /// A configuration file that does not fit the command.
    #[error("{path}: not a valid configuration: {message}")]
    Config {
        /// The file.
        path: PathBuf,
        /// The parser's words, with line and key.
        message: String,
    },
    /// A data file that cannot be used.
    #[error("{path}: found {found}, expected {expected}")]
    Input {
        /// The file.
        path: PathBuf,
        /// What is in it.
        found: String,
        /// What would do.
        expected: String,
    },
    /// What does not fit into memory.
    #[error("{what}: needs at least {needed} of memory, {available} are available; {advice}")]
    Memory {
        /// What was asked for.
        what: String,
        /// Bytes that it takes, with their unit.
        needed: String,
        /// Bytes that there are, with their unit.
        available: String,
        /// What would need fewer.
        advice: String,
    },
    /// A file that cannot be read.
    #[error("{path}: cannot be read: {source}; check the name and the permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or folder that cannot be written.
    #[error(
        "{path}: cannot be written: {source}; make room or give another folder with --out \
         (what is already in the record stays there)"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that a flag names and that cannot be written.
    #[error("{path}: cannot be written: {source}; make room or give another place with {flag}")]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// The flag.
        flag: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A folder in which another process works.
    #[error(
        "{folder}: found {holder} at work there, expected a folder that no process writes to; wait for \
         its end or give another folder with --out"
    )]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// The process.
        holder: String,
    },
    /// A lock that another process took over.
    #[error(
        "{path}: found the lock of {holder}, expected that of this process; nothing was written since. This process \
         stood still for too long, or its lock was removed. Give the same command again to resume"
    )]
    LockLost {
        /// The owner file.
        path: PathBuf,
        /// Whose lock it is.
        holder: String,
    },
    /// A record that cannot be understood.
    #[error(
        "{path}: found a record that cannot be read ({message}), expected one written by this \
         program; {advice}"
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        message: String,
        /// What to do.
        advice: String,
    },
    /// A file that is not as this program wrote it.
    #[error("{path}: damaged: {message}; {advice}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
        /// What mends it.
        advice: String,
    },
    /// A training run that cannot be resumed: no checkpoint is whole, or its settings are others.
    #[error("{message}; {advice}")]
    NotResumable {
        /// What is wrong with which file.
        message: String,
        /// What to do.
        advice: String,
    },
    /// A device that cannot be used.
    #[error("training.device: {0}")]
    Device(#[from] lastbit_cuda::Error),
    /// A name that is not in the catalogue.
    #[error("{name}: no such exhibit; {advice}")]
    UnknownExhibit {
        /// What was asked for.
        name: String,
        /// The nearest names, or all of them.
        advice: String,
    },
    /// A report over nothing.
    #[error("{path}: found no record, expected at least one; make one with `lastbit run all`")]
    NoRecords {
        /// The folder looked in.
        path: PathBuf,
    },
    /// A report over a training that is not at its end.
    #[error(
        "{path}: found a training that has not finished, expected a record; \
         `lastbit train --out {path} --resume` goes on with it"
    )]
    Unfinished {
        /// The folder of the training.
        path: PathBuf,
    },
    /// A data set that cannot be kept.
    #[error("{path}: cannot be written: {source}; make room or give another folder with --data")]
    WriteData {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A name that no data set has.
    #[error("{name}: no such data set; {advice}")]
    UnknownDataset {
        /// What was asked for.
        name: String,
        /// The nearest names, what there is and how to get others.
        advice: String,
    },
    /// A file that could not be downloaded.
    #[error("{url}: cannot be downloaded: {message}")]
    Download {
        /// Its address.
        url: String,
        /// Why.
        message: String,
    },
    /// A package manager that did not deliver.
    #[error("`{command}` failed: {message}")]
    Client {
        /// What was run.
        command: String,
        /// What it said last.
        message: String,
    },
    /// A data set that no way led to.
    #[error(
        "{name}: found no way to it:\n  {canonical}\n  {package}\nWhere its files are at hand, \
         use `lastbit data import PATH --name {name}`"
    )]
    Unreachable {
        /// The data set.
        name: String,
        /// What its canonical address said.
        canonical: String,
        /// What the package manager said.
        package: String,
    },
    /// A program of the user that failed in one of its runs.
    #[error(
        "{run}: {message}Correct what is wrong and give the same command again: the runs that are whole are kept"
    )]
    Program {
        /// The run.
        run: String,
        /// How it failed, and what it said last; it ends with the end of a line.
        message: String,
    },
    /// Work that was stopped before its end, as its monitor asked.
    #[error("{0}")]
    Stopped(StopReason),
    /// A picture that could not be drawn.
    #[error("{path}: the figure could not be drawn: {message}")]
    Figure {
        /// The file.
        path: PathBuf,
        /// What the drawing library says.
        message: String,
    },
}

impl From<StopReason> for Error {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason)
    }
}

/// Of a model that cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Error {
    /// A file whose bytes are not what they should be.
    pub fn input(path: &Path, malformed: Malformed) -> Self {
        let Malformed { found, expected } = malformed;
        Self::Input { path: path.to_owned(), found, expected }
    }

    /// What cannot be written is no record but the file or folder that a flag names.
    #[must_use]
    pub fn of_flag(self, flag: &'static str) -> Self {
        match self {
            Self::Write { path, source } => Self::WriteFile { path, flag, source },
            other => other,
        }
    }

    /// A flag that has no effect because of something else that was asked for.
    pub fn unused(flag: &str, cause: &str) -> Self {
        Self::setting(flag, format!("it with {cause}"), "one of the two: it has no effect there")
    }

    /// A setting that is out of range.
    pub fn setting(key: &str, found: impl ToString, expected: impl ToString) -> Self {
        Self::Setting { key: key.into(), found: found.to_string(), expected: expected.to_string() }
    }
}
