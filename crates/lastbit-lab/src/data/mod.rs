//! Data sets: embedded, downloaded or the user's own, in one form on disk.
//!
//! ```text
//! get, import -> convert -> Split -> store (folder of .npy) -> load -> training
//! assets (xz) -------------------------------------------------> load
//! ```
//!
//! A data set is known by its name and checked by its content hash, whichever way it came.

mod convert;
mod directory;
pub mod embedded;
mod fetch;
pub mod get;
mod hash;
pub mod import;
pub mod known;
mod packages;
mod select;
pub mod sheet;
pub mod statistics;
pub mod store;

use std::path::Path;

use lastbit::data::Dataset;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::nearest::suggestion;
pub use directory::{directory, find_directory};

/// Training and test set.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// What is trained on.
    pub train: Dataset,
    /// What is measured on.
    pub test: Dataset,
    /// The name it was asked for by.
    pub name: String,
    /// BLAKE3 of all inputs and targets; see `data/hash.rs`.
    pub content_hash: String,
    /// Names of the columns, of a set that came from a table.
    pub columns: Option<Columns>,
}

/// Names of the columns of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// Of the inputs.
    pub inputs: Vec<String>,
    /// Of the targets.
    pub targets: Vec<String>,
}

/// The data set of this name: an embedded one, or one from the folder of data sets, which is `dir`
/// or that of [`directory()`].
pub fn load(name: &str, dir: Option<&Path>) -> Result<Split, Error> {
    if let Some(embedded) = embedded::find(name) {
        return Ok(embedded.load());
    }
    let dir = find_directory(dir);
    match &dir {
        Some(dir) if store::exists(dir, name) => store::load(dir, name).map(|(_, split)| split),
        _ => Err(unknown(name, dir.as_deref())),
    }
}

/// Whether [`load`] will find the data set; says what to do where not.
pub fn require(name: &str) -> Result<(), Error> {
    if embedded::find(name).is_some() {
        return Ok(());
    }
    let dir = find_directory(None);
    let exists = dir.as_ref().is_some_and(|dir| store::exists(dir, name));
    if exists { Ok(()) } else { Err(unknown(name, dir.as_deref())) }
}

fn unknown(name: &str, dir: Option<&Path>) -> Error {
    let embedded = embedded::EMBEDDED.iter().map(|set| set.name.to_owned());
    let on_disk = dir.map(store::descriptions).unwrap_or_default().into_iter().flatten();
    let present: Vec<String> = embedded.chain(on_disk.map(|found| found.name)).collect();
    let on_disk = dir.map(|dir| format!(" or in {}", dir.display())).unwrap_or_default();
    let expected = format!("expected one of {} (embedded{on_disk})", present.join(", "));
    let advice = match known::find(name) {
        Some(_) => format!("{expected}; get it with `lastbit data get {name}`"),
        None => {
            let known: Vec<&str> = known::KNOWN.iter().map(|known| known.name).collect();
            let all = present.iter().map(String::as_str).chain(known.iter().copied());
            let suggestion = suggestion(name, all).map(|it| it + " ").unwrap_or_default();
            format!(
                "{suggestion}{expected}; get others with `lastbit data get NAME` ({}) or \
                 `lastbit data import PATH --name NAME`",
                known.join(", ")
            )
        }
    };
    Error::UnknownDataset { name: name.to_owned(), advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_what_there_is() {
        let dir = tempfile::tempdir().unwrap();
        for (name, part) in [
            ("mnist", "`lastbit data get mnist`"),
            ("minst", "did you mean mnist"),
            ("mine", "`lastbit data import PATH"),
        ] {
            let message = load(name, Some(dir.path())).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("mnist01"), "{message}");
        }
    }
}
