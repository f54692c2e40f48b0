//! Every exhibit at its smallest scale, computed once for all tests by one process with two threads.
//! What other processes, other threads and resumed runs write is compared with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::support::{Files, copy_folder, json, reproducible_files};

struct Catalogue {
    /// Held as long as the process lives: another one waits and does not remove what is read here.
    _lock: File,
    out: PathBuf,
    records: Value,
    report: Value,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("catalogue");
    let lock = File::create(out.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if out.exists() {
        fs::remove_dir_all(&out).unwrap();
    }
    fs::create_dir_all(&out).unwrap();
    let records = json(&out, "run all --scale smoke --threads 2 --out .")["records"].take();
    let report = json(&out, "report --out .");
    Catalogue { _lock: lock, out, records, report }
});

/// The folder of all records and their report. It belongs to all tests: none writes into it.
pub fn folder() -> &'static Path {
    &CATALOGUE.out
}

/// What `lastbit run` told of the records.
pub fn records() -> &'static [Value] {
    CATALOGUE.records.as_array().expect("a list of records")
}

/// What `lastbit report` told.
pub fn report() -> &'static Value {
    &CATALOGUE.report
}

/// The files of these exhibits, and of the training runs that their records name.
pub fn files_of(exhibits: &[&str]) -> Files {
    let mut files = Vec::new();
    for folder in folders_of(exhibits) {
        let found = reproducible_files(&self::folder().join(&folder));
        files.extend(found.into_iter().map(|(name, bytes)| (format!("{folder}/{name}"), bytes)));
    }
    files.sort();
    files
}

/// Puts these exhibits and their training runs below `out`, as if they had been computed there.
pub fn copy(exhibits: &[&str], out: &Path) {
    for folder in folders_of(exhibits) {
        copy_folder(&self::folder().join(&folder), &out.join(&folder));
    }
}

/// The folder of each exhibit and of each training run that its record names.
fn folders_of(exhibits: &[&str]) -> Vec<String> {
    let mut folders: Vec<String> = exhibits.iter().map(|id| (*id).to_owned()).collect();
    for id in exhibits {
        let record = fs::read_to_string(folder().join(id).join("smoke/record.json")).unwrap();
        let runs = record.split("\"runs/").skip(1).filter_map(|rest| rest.split('"').next());
        folders.extend(runs.map(|run| format!("runs/{run}")));
    }
    folders.sort();
    folders.dedup();
    folders
}
