//! Records on disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lastbit_formats::npy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FORMAT, Record, Scale, folder_name};
use crate::error::Error;
use crate::files::{create_folder, remove_unfinished, write_atomically};
use crate::input;
use crate::series::{Field, Series};

/// The folder of one record.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder of a record below `out`, making it if need be.
    ///
    /// A folder that cannot be written is found out here, before anything is computed.
    pub fn create(out: &Path, record: &Record) -> Result<Self, Error> {
        let folder = out.join(&record.id).join(record.folder_name());
        Self::at(&folder, &["series", "fields", "figures"])
    }

    /// Whether the folder of an exhibit has been made.
    pub fn is_there(out: &Path, id: &str, scale: Scale, device: Option<&str>) -> bool {
        out.join(id).join(folder_name(Some(scale), device, None)).exists()
    }

    /// Opens a folder for a record, with these folders in it.
    pub fn at(folder: &Path, parts: &[&str]) -> Result<Self, Error> {
        for part in parts {
            create_folder(&folder.join(part))?;
        }
        let store = Self { folder: folder.to_owned() };
        store.remove_unfinished();
        Ok(store)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn remove_unfinished(&self) {
        for part in ["", "cells", "series", "fields", "figures"] {
            remove_unfinished(&self.folder.join(part));
        }
    }

    fn record_path(&self) -> PathBuf {
        self.folder.join("record.json")
    }

    /// The record, if there is one.
    pub fn load(&self) -> Result<Option<Record>, Error> {
        read_versioned(&self.record_path())
    }

    /// Writes the record.
    pub fn save(&self, record: &Record) -> Result<(), Error> {
        write_atomically(&self.record_path(), to_json(record).as_bytes())
    }

    /// Writes the settings by themselves, as TOML.
    pub fn save_settings(&self, settings: &serde_json::Value) -> Result<(), Error> {
        let text = toml::to_string_pretty(&without_nulls(settings))
            .expect("settings are tables of plain values");
        write_atomically(&self.folder.join("settings.toml"), text.as_bytes())
    }

    /// Writes any other file of the record.
    pub fn save_file(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        write_atomically(&self.folder.join(name), bytes)
    }

    /// Writes a curve as CSV and returns its name within the folder.
    pub fn save_series(&self, cell: &str, name: &str, series: &Series) -> Result<String, Error> {
        let file = format!("series/{cell}-{name}.csv");
        self.save_file(&file, to_csv(series).as_bytes())?;
        Ok(file)
    }

    /// Writes an image as NPY and returns its name within the folder.
    pub fn save_field(&self, cell: &str, name: &str, field: &Field) -> Result<String, Error> {
        let file = format!("fields/{cell}-{name}.npy");
        self.save_file(&file, &npy::write(&[field.height, field.width], &field.values))?;
        Ok(file)
    }

    /// Reads a curve back.
    pub fn read_series(&self, file: &str) -> Result<Series, Error> {
        input::columns(&self.folder.join(file))
    }

    /// Reads an image back.
    pub fn read_field(&self, file: &str) -> Result<Field, Error> {
        input::field_unchecked(&self.folder.join(file))
    }
}

/// Folders below one another in which records are looked for.
const DEPTH: usize = 6;

/// The record that `out` itself is, if it is one, and every record below it, in the order of their
/// paths. Neither links nor hidden folders are followed, so that each is found once.
pub fn all_records(out: &Path) -> Result<Vec<(Store, Record)>, Error> {
    let mut found = Vec::new();
    let mut open = vec![(out.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        if depth < DEPTH {
            // The last is looked at first.
            open.extend(subfolders(&folder).into_iter().rev().map(|below| (below, depth + 1)));
        }
        let store = Store { folder };
        if let Some(record) = store.load()? {
            found.push((store, record));
        }
    }
    Ok(found)
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let is_shown = |entry: &fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| is_shown(entry) && is_folder(entry))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// A record that cannot be understood.
pub fn damaged(path: &Path, message: String) -> Error {
    let advice = "move it away, or give the command that wrote it --fresh to start over".to_owned();
    Error::Record { path: path.to_owned(), message, advice }
}

/// What is in a JSON file of ours, if there is one.
pub(super) fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
    };
    let refuse = |message: String| damaged(path, message);
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(other) => return Err(refuse(format!("its format is {other}, ours is {FORMAT}"))),
        None => return Err(refuse("it has no key \"format\"".to_owned())),
    }
    serde_json::from_value(value).map(Some).map_err(|error| refuse(error.to_string()))
}

/// A record, or one of its cells, as it is written.
pub(super) fn to_json(data: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(data).expect("a record is plain data");
    text.push('\n');
    text
}

/// TOML has no null: a setting that is absent is left out. So are hashes of data, which are no
/// settings: the file can be given back to the command.
fn without_nulls(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let kept = map.iter().filter(|(key, v)| !v.is_null() && !key.ends_with("-hash"));
            kept.map(|(key, v)| (key.clone(), without_nulls(v))).collect()
        }
        serde_json::Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Shortest digits that read back to the same bits.
pub fn to_csv(series: &Series) -> String {
    let names: Vec<&str> = series.columns.iter().map(|(name, _)| name.as_str()).collect();
    let rows = series.columns.first().map_or(0, |(_, values)| values.len());
    let mut text = names.join(",") + "\n";
    for row in 0..rows {
        let values: Vec<String> =
            series.columns.iter().map(|(_, column)| format!("{:?}", column[row])).collect();
        text.push_str(&values.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Page, settings_hash};

    fn record() -> Record {
        let text = || "text".to_owned();
        let page = Page {
            title: text(),
            claim: text(),
            method: text(),
            reference: text(),
            differences: vec![],
        };
        let settings = serde_json::json!({"dt": 0.1, "absent": null});
        Record::new("fig-x", Some(Scale::Smoke), None, page, settings, 0)
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(out.path(), &record()).unwrap();
        assert_eq!(store.load().unwrap(), None);
        store.save(&record()).unwrap();
        assert_eq!(store.load().unwrap(), Some(record()));
        assert_eq!(all_records(out.path()).unwrap().len(), 1);
        let alone = all_records(store.folder()).unwrap();
        assert_eq!(alone.into_iter().map(|(_, record)| record).collect::<Vec<_>>(), [record()]);
    }

    #[test]
    fn folders_are_named_by_scale_and_device_or_by_the_settings() {
        let of = |scale, device| Record { scale, device, ..record() };
        assert_eq!(of(Some(Scale::Desk), None).folder_name(), "desk");
        assert_eq!(of(Some(Scale::Desk), Some("cuda".to_owned())).folder_name(), "desk-cuda");
        let own = Record::new("pde-x", None, None, record().page, record().settings, 1);
        assert_eq!(own.folder_name(), settings_hash(&own.settings));
        assert_eq!(own.folder_name().len(), 12);
    }

    #[test]
    fn truncated_and_foreign_records_are_refused_by_name() {
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(out.path(), &record()).unwrap();
        let whole = to_json(&record());
        for (text, needle) in [
            (&whole[..whole.len() / 2], "EOF"),
            ("{\"format\": 99}", "its format is 99"),
            ("{}", "no key \"format\""),
        ] {
            fs::write(store.record_path(), text).unwrap();
            let message = store.load().unwrap_err().to_string();
            assert!(message.contains("record.json") && message.contains(needle), "{message}");
            assert!(message.contains("--fresh"), "{message}");
        }
    }

    #[test]
    fn series_and_fields_read_back_bit_for_bit() {
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(out.path(), &record()).unwrap();
        let odd = vec![0.1 + 0.2, 1e-300, -0.0, f64::INFINITY];
        let series = Series::new([("t", odd.clone()), ("u", vec![1.0, 2.0, 3.0, 1e22])]);
        let file = store.save_series("a", "u", &series).unwrap();
        assert_eq!(store.read_series(&file).unwrap(), series);
        let field = Field { height: 2, width: 2, values: odd };
        let file = store.save_field("a", "u", &field).unwrap();
        assert_eq!(store.read_field(&file).unwrap(), field);
    }
}
