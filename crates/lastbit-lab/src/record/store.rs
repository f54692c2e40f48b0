//! Records on disk.

use std::fs;
use std::path::{Path, PathBuf};

use lastbit_formats::npy;

use super::{Cell, FORMAT, Record, Scale, folder_name};
use crate::error::Error;
use crate::files::{create_folder, remove_unfinished, write_atomically};
use crate::input;
use crate::relative_path::RelativePath;
use crate::sealed::{self, FileHash};
use crate::series::{Field, Series};

/// The record, in its folder.
pub const RECORD: &str = "record.json";
/// Its settings, in its folder.
pub const SETTINGS: &str = "settings.toml";
/// Folders of its files.
pub const PARTS: [&str; 4] = ["cells", "series", "fields", "figures"];

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
        let folder = out.join(&*record.id).join(record.folder_name());
        Self::at(&folder, &PARTS)
    }

    /// Whether the folder of an exhibit has been made.
    pub fn is_there(out: &Path, id: &str, scale: Scale, device: Option<&str>) -> bool {
        out.join(id).join(folder_name(Some(scale), device, None)).exists()
    }

    /// Opens a folder for a record, with these folders in it.
    pub fn at(folder: &Path, parts: &[&str]) -> Result<Self, Error> {
        for part in parts {
            create_folder(&folder.join(part))?;
            RelativePath::new(*part).below(folder)?;
        }
        let store = Self { folder: folder.to_owned() };
        store.remove_unfinished();
        Ok(store)
    }

    /// A folder as it is: nothing is made or removed.
    pub fn open(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn remove_unfinished(&self) {
        for part in PARTS.iter().chain(&[""]) {
            remove_unfinished(&self.folder.join(part));
        }
    }

    /// The record, if there is one.
    pub fn load(&self) -> Result<Option<Record>, Error> {
        let path = RelativePath::new(RECORD).below(&self.folder)?;
        Ok(sealed::read(&path, FORMAT)?.map(|(record, _)| record))
    }

    /// Fails where the file of the record is damaged or has another format.
    pub fn check_record(&self) -> Result<(), Error> {
        sealed::check(&self.folder.join(RECORD), FORMAT)
    }

    /// Writes the record.
    pub fn save(&self, record: &Record) -> Result<(), Error> {
        sealed::write(&self.folder.join(RECORD), record).map(drop)
    }

    /// Writes the settings by themselves, as TOML.
    pub fn save_settings(&self, settings: &serde_json::Value) -> Result<FileHash, Error> {
        let text = toml::to_string_pretty(&without_nulls(settings))
            .expect("settings are tables of plain values");
        self.save_file(&RelativePath::new(SETTINGS), text.as_bytes())
    }

    /// Writes any other file of the record.
    pub fn save_file(&self, name: &RelativePath, bytes: &[u8]) -> Result<FileHash, Error> {
        write_atomically(&self.folder.join(&**name), bytes)?;
        Ok(FileHash::of(bytes))
    }

    /// Writes a curve of a cell as CSV.
    pub fn save_series(&self, cell: &mut Cell, name: &str, series: &Series) -> Result<(), Error> {
        let file = RelativePath::new(format!("series/{}-{name}.csv", cell.key));
        cell.files.insert(file.clone(), self.save_file(&file, to_csv(series).as_bytes())?);
        cell.series.insert(name.to_owned(), file);
        Ok(())
    }

    /// Writes an image of a cell as NPY.
    pub fn save_field(&self, cell: &mut Cell, name: &str, field: &Field) -> Result<(), Error> {
        let file = RelativePath::new(format!("fields/{}-{name}.npy", cell.key));
        let bytes = npy::write(&[field.height, field.width], &field.values);
        cell.files.insert(file.clone(), self.save_file(&file, &bytes)?);
        cell.fields.insert(name.to_owned(), file);
        Ok(())
    }

    /// Reads a curve of a cell back.
    pub fn read_series(&self, cell: &Cell, file: &RelativePath) -> Result<Series, Error> {
        let (path, bytes) = self.read_whole(cell, file)?;
        input::parse_columns(&path, &bytes)
    }

    /// Reads an image of a cell back.
    pub fn read_field(&self, cell: &Cell, file: &RelativePath) -> Result<Field, Error> {
        let (path, bytes) = self.read_whole(cell, file)?;
        input::parse_field(&path, &bytes)
    }

    /// The bytes of a file of a cell, if they are those that were written.
    fn read_whole(&self, cell: &Cell, file: &RelativePath) -> Result<(PathBuf, Vec<u8>), Error> {
        let path = file.below(&self.folder)?;
        let bytes = self.hash_of(cell, file)?.read(&path)?;
        Ok((path, bytes))
    }
}

/// Folders below one another in which records are looked for.
const DEPTH: usize = 6;

/// Records below a folder.
#[derive(Debug, Default)]
pub struct FoundRecords {
    /// Those that can be read.
    pub whole: Vec<(Store, Record)>,
    /// What is wrong with the others.
    pub damaged: Vec<Error>,
}

/// The record that `out` itself is, if it is one, and every record below it, in the order of their
/// paths. Neither links nor hidden folders are followed, so that each is found once.
pub fn all_records(out: &Path) -> Result<FoundRecords, Error> {
    let mut found = FoundRecords::default();
    let mut open = vec![(out.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        if depth < DEPTH {
            // The last is looked at first.
            open.extend(subfolders(&folder).into_iter().rev().map(|below| (below, depth + 1)));
        }
        let store = Store::open(&folder);
        match store.load() {
            Ok(record) => found.whole.extend(record.map(|record| (store, record))),
            Err(error @ Error::Damaged { .. }) => found.damaged.push(error),
            Err(error) => return Err(error),
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
        assert_eq!(all_records(out.path()).unwrap().whole.len(), 1);
        let alone = all_records(store.folder()).unwrap().whole;
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
        store.save(&record()).unwrap();
        let path = store.folder().join(RECORD);
        let whole = fs::read_to_string(&path).unwrap();
        for (text, needle) in [
            (&whole[..whole.len() / 2], "damaged"),
            ("{\"format\": 99}", "its format is 99"),
            ("{}", "damaged"),
        ] {
            fs::write(&path, text).unwrap();
            let message = store.load().unwrap_err().to_string();
            assert!(message.contains("record.json") && message.contains(needle), "{message}");
        }
    }

    #[test]
    fn series_and_fields_read_back_bit_for_bit() {
        let out = tempfile::tempdir().unwrap();
        let store = Store::create(out.path(), &record()).unwrap();
        let odd = vec![0.1 + 0.2, 1e-300, -0.0, f64::INFINITY];
        let series = Series::new([("t", odd.clone()), ("u", vec![1.0, 2.0, 3.0, 1e22])]);
        let mut cell =
            store.save_outcome("a", &serde_json::Value::Null, Default::default()).unwrap();
        store.save_series(&mut cell, "u", &series).unwrap();
        assert_eq!(store.read_series(&cell, &cell.series["u"]).unwrap(), series);
        let field = Field { height: 2, width: 2, values: odd };
        store.save_field(&mut cell, "u", &field).unwrap();
        assert_eq!(store.read_field(&cell, &cell.fields["u"]).unwrap(), field);
        // One digit of the curve, and the image emptied.
        let path = |file: &RelativePath| store.folder().join(&**file);
        let curve = fs::read_to_string(path(&cell.series["u"])).unwrap().replacen('1', "2", 1);
        fs::write(path(&cell.series["u"]), curve).unwrap();
        fs::write(path(&cell.fields["u"]), "").unwrap();
        let faults = [
            store.read_series(&cell, &cell.series["u"]).unwrap_err(),
            store.read_field(&cell, &cell.fields["u"]).unwrap_err(),
            store.check_files(&cell).unwrap_err(),
        ];
        for (fault, name) in faults.iter().zip(["a-u.csv", "a-u.npy", "a-u.csv"]) {
            let message = fault.to_string();
            assert!(message.contains(name) && message.contains("damaged"), "{message}");
        }
    }
}
