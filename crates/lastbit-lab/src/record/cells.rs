//! Finished cells, each in a file of its own, of which the record is put together.
//!
//! ```text
//! cells/KEY.json   format, settings of the whole record, the cell
//! ```
//!
//! Several processes may work at one record, also on several machines with a common folder. Whoever
//! finishes a cell writes it under its own name, atomically, so that no cell can be lost; where two
//! have computed the same one, they wrote the same bytes. The record is put together under a lock,
//! so that a shorter list of cells never replaces a longer one.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::{read_versioned, to_json};
use super::{Cell, FORMAT, Outcome, Store};
use crate::error::Error;
use crate::files::{create_folder, sync_folder, unfinished_prefix, write_atomically};
use crate::lock::Lock;
use crate::origin::{COMMIT, VERSION};
use crate::progress::Monitor;

/// A cell and the record it was computed for.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: u32,
    settings: Value,
    cell: Cell,
}

impl Store {
    /// Held while anything of the record is written.
    pub fn lock(&self, monitor: &dyn Monitor) -> Result<Lock, Error> {
        Lock::wait(self.folder(), monitor)
    }

    fn cells(&self) -> PathBuf {
        self.folder().join("cells")
    }

    fn cell_path(&self, key: &str) -> PathBuf {
        self.cells().join(format!("{key}.json"))
    }

    /// Makes the folder of cells.
    pub fn create_cells(&self) -> Result<(), Error> {
        create_folder(&self.cells())
    }

    /// Makes the folder of cells, if it is not there, out of the record alone: what earlier versions
    /// of the program left. A record that cannot be read is refused.
    pub fn adopt_cells(&self) -> Result<(), Error> {
        let Some(record) = self.load()? else { return self.create_cells() };
        if self.cells().is_dir() {
            return Ok(());
        }
        let failed = |source| Error::Write { path: self.cells(), source };
        let beside = self.folder().join(unfinished_prefix() + "cells");
        create_folder(&beside)?;
        for cell in record.cells {
            let path = beside.join(format!("{}.json", cell.key));
            let kept = Kept { format: FORMAT, settings: record.settings.clone(), cell };
            write_atomically(&path, to_json(&kept).as_bytes())?;
        }
        fs::rename(beside, self.cells()).and_then(|()| sync_folder(self.folder())).map_err(failed)
    }

    /// Writes curves and images of an outcome, and returns its cell.
    pub fn save_outcome(
        &self,
        key: &str,
        settings: &Value,
        outcome: Outcome,
    ) -> Result<Cell, Error> {
        let mut cell = Cell {
            key: key.to_owned(),
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
        };
        for (name, series) in &outcome.series {
            cell.series.insert(name.clone(), self.save_series(key, name, series)?);
        }
        for (name, field) in &outcome.fields {
            cell.fields.insert(name.clone(), self.save_field(key, name, field)?);
        }
        Ok(cell)
    }

    /// Writes a finished cell of a record with these settings.
    pub fn save_cell(&self, settings: &Value, cell: Cell) -> Result<(), Error> {
        let path = self.cell_path(&cell.key);
        let kept = Kept { format: FORMAT, settings: settings.clone(), cell };
        write_atomically(&path, to_json(&kept).as_bytes())
    }

    /// The finished cell of this key, if there is one of a record with these settings.
    pub fn load_cell(&self, settings: &Value, key: &str) -> Result<Option<Cell>, Error> {
        let kept: Option<Kept> = read_versioned(&self.cell_path(key))?;
        Ok(kept.filter(|kept| kept.settings == *settings && kept.cell.key == key).map(|k| k.cell))
    }

    /// Forgets a finished cell.
    pub fn remove_cell(&self, key: &str) -> Result<(), Error> {
        let path = self.cell_path(key);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Write { path, source })
            }
            _ => Ok(()),
        }
    }
}
