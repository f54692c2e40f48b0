//! `files.json`: length and hash of every file of a finished run, [sealed](crate::sealed).
//!
//! It is written last: a run with this file has ended. Not listed are `timing.json`, the files of the page, which is a
//! record, and the last checkpoint but one, which lies where the run was interrupted: all of them carry their own hashes.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checkpoint;
use super::measure::ANSWERS;
use super::prefix_hash::{PrefixHash, PrefixHashes};
use crate::error::Error;
use crate::relative_path::RelativePath;
use crate::sealed::{self, damaged};
use crate::tensors::{self, TensorFile};

/// Its name within the run.
pub const FILES: &str = "files.json";
const FORMAT: u32 = 1;

/// What a finished run is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileList {
    format: u32,
    files: PrefixHashes,
}

impl FileList {
    /// Writes that of these files and of the checkpoints of these steps. Checkpoints that were listed before keep their
    /// hashes: a run that is resumed at its end does not read all of them.
    pub fn write(folder: &Path, mut files: PrefixHashes, steps: &[usize]) -> Result<(), Error> {
        let listed = Self::read(folder).ok().flatten().map(|list| list.files).unwrap_or_default();
        files.extend(listed.into_iter().filter(|(file, _)| file.starts_with("checkpoints/")));
        for step in steps {
            let file = checkpoint::file_of(*step);
            if !files.contains_key(&*file) {
                let hash = PrefixHash::of(&folder.join(&*file))?;
                files.insert(file, hash);
            }
        }
        sealed::write(&folder.join(FILES), &Self { format: FORMAT, files }).map(drop)
    }

    /// Reads that of a run, if it has ended.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = RelativePath::new(FILES).below(folder)?;
        Ok(sealed::read(&path, FORMAT)?.map(|(list, _)| list))
    }

    /// Reads that of a run that must have ended.
    pub fn of_ended(folder: &Path) -> Result<Self, Error> {
        Self::read(folder)?.ok_or_else(|| damaged(&folder.join(FILES), "the file is missing"))
    }

    /// Length and hash of a file, if the run has it.
    pub fn get(&self, name: &str) -> Option<&PrefixHash> {
        self.files.get(name)
    }

    /// Length and hash of a file that every run has.
    pub fn require(&self, folder: &Path, name: &str) -> Result<&PrefixHash, Error> {
        self.get(name)
            .ok_or_else(|| damaged(&folder.join(FILES), format!("it does not list {name}")))
    }

    /// Whether the run has a file; fails if that is not whole.
    pub fn check(&self, folder: &Path, name: &str) -> Result<bool, Error> {
        let noted = self.get(name);
        noted.map_or(Ok(()), |hash| hash.check(&folder.join(name)))?;
        Ok(noted.is_some())
    }

    /// All files.
    pub fn names(&self) -> impl Iterator<Item = &RelativePath> {
        self.files.keys()
    }
}

/// What the replicas of an ended run answered on the test set; nothing where its targets are no classes.
pub fn answers(folder: &Path) -> Result<Option<TensorFile>, Error> {
    let is_there = FileList::of_ended(folder)?.check(folder, ANSWERS)?;
    is_there.then(|| tensors::read(&folder.join(ANSWERS))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_list_notices_changes_of_the_files_and_of_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "1").unwrap();
        let files = [(RelativePath::new("a"), PrefixHash::of(&path).unwrap())].into();
        FileList::write(folder.path(), files, &[]).unwrap();
        let list = FileList::of_ended(folder.path()).unwrap();
        assert!(
            list.check(folder.path(), "a").unwrap() && !list.check(folder.path(), "b").unwrap()
        );
        fs::write(&path, "2").unwrap();
        assert!(list.check(folder.path(), "a").unwrap_err().to_string().contains("hash"));
        let text = fs::read_to_string(folder.path().join(FILES)).unwrap();
        for (from, to) in [("\"a\"", "\"b\""), ("\"bytes\": 1", "\"bytes\": 2"), ("{", "")] {
            fs::write(folder.path().join(FILES), text.replacen(from, to, 1)).unwrap();
            let message = FileList::read(folder.path()).unwrap_err().to_string();
            assert!(message.contains(FILES) && message.contains("damaged"), "{message}");
        }
    }
}
