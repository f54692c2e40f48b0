//! `files.json`: length and hash of every file of a finished run.
//!
//! ```text
//! {"files": {NAME: {"bytes": …, "blake3": …}, …}, "blake3": …}
//! ```
//!
//! The last hash is that of the lines `NAME BYTES BLAKE3`, in the order of the names. Not listed: checkpoints and
//! `timing.json`, which carry their own, and the page, which is a record and carries its own too.

use std::fs;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::file_hash::{FileHash, FileHashes, RunningHash};
use crate::error::Error;
use crate::files::write_atomically;

/// Its name within the run.
pub const FILES: &str = "files.json";

/// What a finished run is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileList {
    files: FileHashes,
    blake3: String,
}

impl FileList {
    /// Writes that of these files.
    pub fn write(folder: &Path, files: FileHashes) -> Result<(), Error> {
        let blake3 = hash_of(&files);
        let list = serde_json::to_string_pretty(&Self { files, blake3 }).expect("plain data");
        write_atomically(&folder.join(FILES), format!("{list}\n").as_bytes())
    }

    /// Reads that of a finished run, and checks that it is unchanged.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILES);
        let text = fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let refuse = |found: String| Error::Input {
            path: path.clone(),
            found,
            expected: "the list this program wrote; `lastbit train --resume` on the folder of \
                       the run writes it again"
                .to_owned(),
        };
        let list: Self = serde_json::from_slice(&text)
            .map_err(|error| refuse(format!("a list that cannot be read ({error})")))?;
        let is_plain = |name: &str| {
            Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
        };
        if let Some(name) = list.names().find(|name| !is_plain(name)) {
            return Err(refuse(format!("the name {name}")));
        }
        let hash = hash_of(&list.files);
        if hash == list.blake3 {
            Ok(list)
        } else {
            Err(refuse(format!("a list with the hash {hash}")))
        }
    }

    /// Length and hash of a file, if the run has it.
    pub fn get(&self, name: &str) -> Option<&FileHash> {
        self.files.get(name)
    }

    /// Length and hash of a file that every run has.
    pub fn require(&self, folder: &Path, name: &str) -> Result<&FileHash, Error> {
        self.get(name).ok_or_else(|| Error::Input {
            path: folder.join(FILES),
            found: format!("no {name}"),
            expected: "a list with it".to_owned(),
        })
    }

    /// Whether the run has a file; fails if that is not whole.
    pub fn check(&self, folder: &Path, name: &str) -> Result<bool, Error> {
        let noted = self.get(name);
        noted.map_or(Ok(()), |hash| hash.check(&folder.join(name)))?;
        Ok(noted.is_some())
    }

    /// All files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

fn hash_of(files: &FileHashes) -> String {
    let mut all = RunningHash::default();
    for (name, FileHash { bytes, blake3 }) in files {
        all.update(format!("{name} {bytes} {blake3}\n").as_bytes());
    }
    all.hash().blake3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_notices_changes_of_the_files_and_of_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "1").unwrap();
        let files = [("a".to_owned(), FileHash::of(&path).unwrap())].into();
        FileList::write(folder.path(), files).unwrap();
        let list = FileList::read(folder.path()).unwrap();
        assert!(
            list.check(folder.path(), "a").unwrap() && !list.check(folder.path(), "b").unwrap()
        );
        fs::write(&path, "2").unwrap();
        assert!(list.check(folder.path(), "a").unwrap_err().to_string().contains("hash"));
        let outside = [("../a".to_owned(), FileHash::of(&path).unwrap())].into();
        FileList::write(folder.path(), outside).unwrap();
        assert!(FileList::read(folder.path()).unwrap_err().to_string().contains("the name ../a"));
        let text = fs::read_to_string(folder.path().join(FILES)).unwrap().replace("../a", "a");
        for (from, to) in [("\"a\"", "\"b\""), ("\"bytes\": 1", "\"bytes\": 2"), ("{", "")] {
            fs::write(folder.path().join(FILES), text.replacen(from, to, 1)).unwrap();
            let message = FileList::read(folder.path()).unwrap_err().to_string();
            assert!(message.contains(FILES) && message.contains("--resume"), "{message}");
        }
    }
}
