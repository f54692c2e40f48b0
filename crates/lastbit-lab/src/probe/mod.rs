//! Measurements of a training that another program makes, such as a PyTorch script: the run directory they are
//! written to.
//!
//! The other program trains and measures; this module writes. The directory has the files of
//! [`train`](crate::train) where they mean the same, so that `lastbit report`, `lastbit verify` and
//! `lastbit.read` take both:
//!
//! ```text
//! DIR/config.toml             model, optimizer, versions, device and what is measured, as the other program states them
//!    /metrics.jsonl, .csv     one row per measured step
//!    /fingerprints.jsonl      hash of every tensor, one line per measured step; the mark of such a directory
//!    /summary.json            how the run ended
//!    /files.json              length and hash of these files; it lists summary.json when the run has ended
//!    /record.json, series     the page of the run; figures when it has ended
//!    /lock                    the process that is at work, while it is ([`crate::lock`])
//! ```
//!
//! A row is on the disk when [`ProbeRun::append`] returns: a crash loses at most the row that is being written. The page and
//! `files.json` are written again every few seconds, so that the report of a killed run shows all but its last rows.
//! Rows after the last `files.json` are no longer under a hash than their format; `lastbit verify` says how many they are.
//!
//! **Resume.** The training resumes from a checkpoint of its own; rows of the steps that it makes again are cut off.

mod answer;
mod figures;
mod fingerprint;
mod history;
pub(crate) mod lines;
mod page;
mod row;
mod run;
mod settings;
mod summary;
#[cfg(test)]
mod tests;
mod verify;

pub use fingerprint::{FINGERPRINTS, FingerprintRow};
pub use row::Row;
pub use run::{Clock, ProbeRun};
pub use settings::Settings;
pub use summary::{EdgeSummary, Note, Summary};
pub use verify::{is_left_of_probe, verify};
