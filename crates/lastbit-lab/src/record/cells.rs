//! Finished cells, each in a file of its own, of which the record is put together.
//!
//! ```text
//! cells/KEY.json   format, settings of the whole record, the cell; sealed
//! ```
//!
//! Several processes may work at one record, also on several machines with a common folder. Whoever
//! finishes a cell writes it under its own name, atomically, so that no cell can be lost; where two
//! have computed the same one, they wrote the same bytes. The record is put together under a lock,
//! so that a shorter list of cells never replaces a longer one.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cell, FORMAT, Outcome, Store};
use crate::error::Error;
use crate::lock::Lock;
use crate::origin::{COMMIT, VERSION};
use crate::progress::Monitor;
use crate::relative_path::RelativePath;
use crate::sealed::{self, FileHash};

/// A cell and the record it was computed for.
#[derive(Debug, Serialize, Deserialize)]
struct Kept<S, C> {
    format: u32,
    settings: S,
    cell: C,
}

impl Cell {
    /// The file of the cell of this key, within the folder of its record.
    pub fn file(key: &str) -> RelativePath {
        RelativePath::new(format!("cells/{key}.json"))
    }
}

impl Store {
    /// Held while anything of the record is written.
    pub fn lock(&self, monitor: &dyn Monitor) -> Result<Lock, Error> {
        Lock::wait(self.folder(), monitor)
    }

    /// Writes curves and images of an outcome, and returns its cell.
    pub fn save_outcome(
        &self,
        key: &str,
        settings: &Value,
        outcome: Outcome,
    ) -> Result<Cell, Error> {
        let mut cell = Cell {
            key: RelativePath::new(key),
            settings: settings.clone(),
            version: VERSION.to_owned(),
            commit: outcome.commit.unwrap_or_else(|| COMMIT.to_owned()),
            verdict: outcome.verdict,
            hash: outcome.hash,
            run: outcome.run,
            device: outcome.device,
            hashes: outcome.hashes,
            numbers: outcome.numbers,
            series: Default::default(),
            fields: Default::default(),
            files: Default::default(),
        };
        for (name, series) in &outcome.series {
            self.save_series(&mut cell, name, series)?;
        }
        for (name, field) in &outcome.fields {
            self.save_field(&mut cell, name, field)?;
        }
        Ok(cell)
    }

    /// Writes a finished cell of a record with these settings.
    pub fn save_cell(&self, settings: &Value, cell: &Cell) -> Result<FileHash, Error> {
        let kept = Kept { format: FORMAT, settings, cell };
        sealed::write(&self.folder().join(&*Cell::file(&cell.key)), &kept)
    }

    /// The finished cell of this key with the hash of its file, if there is one of a record with these settings.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] where its file is.
    pub fn load_cell(
        &self,
        settings: &Value,
        key: &str,
    ) -> Result<Option<(Cell, FileHash)>, Error> {
        let kept = self.read_cell(&Cell::file(key))?;
        Ok(kept.filter(|(own, ..)| own == settings).map(|(_, cell, hash)| (cell, hash)))
    }

    /// What a file of a cell holds, if it is there: settings of the record, cell, hash of the file.
    pub fn read_cell(&self, file: &RelativePath) -> Result<Option<(Value, Cell, FileHash)>, Error> {
        let path = file.below(self.folder())?;
        let Some((kept, hash)) = sealed::read::<Kept<Value, Cell>>(&path, FORMAT)? else {
            return Ok(None);
        };
        if Cell::file(&kept.cell.key) != *file {
            let message = format!("it holds the cell \"{}\"", kept.cell.key);
            return Err(sealed::damaged(&path, message));
        }
        Ok(Some((kept.settings, kept.cell, hash)))
    }

    /// Fails where a file of a cell's curves and images is missing or damaged.
    pub fn check_files(&self, cell: &Cell) -> Result<(), Error> {
        for file in cell.series.values().chain(cell.fields.values()) {
            self.hash_of(cell, file)?.check(&file.below(self.folder())?)?;
        }
        Ok(())
    }

    /// The hash that a cell states of one of its files.
    pub(super) fn hash_of(&self, cell: &Cell, file: &RelativePath) -> Result<FileHash, Error> {
        let missing = || {
            let message = format!("cell \"{}\" states no hash of {file}", cell.key);
            sealed::damaged(&self.folder().join("record.json"), message)
        };
        cell.files.get(file).copied().ok_or_else(missing)
    }

    /// Forgets a finished cell.
    pub fn remove_cell(&self, key: &str) -> Result<(), Error> {
        let path = self.folder().join(&*Cell::file(key));
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Write { path, source })
            }
            _ => Ok(()),
        }
    }
}
