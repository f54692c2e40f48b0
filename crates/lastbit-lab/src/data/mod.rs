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

use crate::error::Error;
pub use directory::directory;

/// Training and test set.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// What is trained on.
    pub train: Dataset,
    /// What is measured on.
    pub test: Dataset,
    /// The name it was asked for by.
    pub name: String,
    /// BLAKE3 of all inputs and targets; see [`hash::content_hash`].
    pub content_hash: String,
}

/// The data set of this name: an embedded one, or one from the folder of data sets, which is `dir`
/// or that of [`directory()`].
pub fn load(name: &str, dir: Option<&Path>) -> Result<Split, Error> {
    if let Some(embedded) = embedded::find(name) {
        return Ok(embedded.load());
    }
    let dir = directory(dir)?;
    if store::exists(&dir, name) {
        return store::load(&dir, name).map(|(_, split)| split);
    }
    Err(unknown(name, &dir))
}

/// Whether [`load`] will find the data set; says what to do where not.
pub fn require(name: &str) -> Result<(), Error> {
    if embedded::find(name).is_some() {
        return Ok(());
    }
    let dir = directory(None)?;
    if store::exists(&dir, name) { Ok(()) } else { Err(unknown(name, &dir)) }
}

fn unknown(name: &str, dir: &Path) -> Error {
    let embedded = embedded::EMBEDDED.iter().map(|set| set.name.to_owned());
    let on_disk = store::descriptions(dir).into_iter().filter_map(Result::ok);
    let present: Vec<String> = embedded.chain(on_disk.map(|found| found.name)).collect();
    let advice = match known::find(name) {
        Some(_) => format!("`lastbit data get {name}`"),
        None => {
            let names: Vec<&str> = known::KNOWN.iter().map(|known| known.name).collect();
            format!("`lastbit data get NAME` ({})", names.join(", "))
                + " or `lastbit data import PATH --name NAME`"
        }
    };
    Error::UnknownDataset {
        name: name.to_owned(),
        present: present.join(", "),
        directory: dir.to_owned(),
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_what_there_is() {
        let dir = tempfile::tempdir().unwrap();
        for (name, part) in
            [("mnist", "`lastbit data get mnist`"), ("mine", "`lastbit data import PATH")]
        {
            let message = load(name, Some(dir.path())).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("mnist01"), "{message}");
        }
    }
}
