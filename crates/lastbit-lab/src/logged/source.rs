//! The files that are logs, and what is made of several of them.

use std::path::Path;

use lastbit_formats::logs::table;

use super::rows::{Read, Rows};
use super::{LoggedRun, lines};
use crate::error::Error;
use crate::input::{self, extension, refuse};

const EXPECTED: &str = "a log of metrics: .jsonl, .csv";

/// The metrics of a file, or of the files of a folder.
pub fn all(path: &Path, step_key: Option<&str>) -> Result<LoggedRun, Error> {
    let file = if path.is_dir() {
        let names = ["metrics.jsonl", "metrics.csv"].map(|name| path.join(name));
        let found = names.into_iter().find(|file| file.exists());
        found.ok_or_else(|| {
            refuse(path, "a folder without metrics.jsonl and metrics.csv", EXPECTED)
        })?
    } else {
        path.to_owned()
    };
    let Read { metrics, notes, .. } = one(&file, step_key)?;
    if metrics.is_empty() {
        return Err(refuse(path, "no metrics", "numbers over steps"));
    }
    let notes = notes.into_iter().map(|note| format!("{}: {note}", file.display())).collect();
    Ok(LoggedRun { metrics, files: vec![file], notes })
}

/// The metrics of one file.
fn one(path: &Path, step_key: Option<&str>) -> Result<Read, Error> {
    let mut rows = Rows::new(step_key);
    match extension(path).as_str() {
        "jsonl" | "ndjson" => lines::read(path, &mut rows)?,
        "csv" => table_rows(path, &mut rows)?,
        _ => return Err(refuse(path, "another kind of file", EXPECTED)),
    }
    rows.finish(path)
}

fn table_rows(path: &Path, rows: &mut Rows) -> Result<(), Error> {
    let bytes = input::read(path)?;
    let mut ended = Ok(());
    let table = table::rows(&bytes, &mut |line, name, value| {
        if rows.line() != line {
            if rows.line() > 0 && ended.is_ok() {
                ended = rows.end(path);
            }
            rows.begin(line);
        }
        rows.entry(name, value);
    });
    let table = table.map_err(|error| Error::input(path, error))?;
    ended?;
    if rows.line() > 0 {
        rows.end(path)?;
    }
    if table.is_cut {
        rows.note("the last line has no end and is left out".into());
    }
    Ok(())
}
