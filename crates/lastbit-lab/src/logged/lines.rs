//! The rows of a file of JSON objects, one in each line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use lastbit_formats::logs::json;

use super::rows::Rows;
use crate::error::Error;
use crate::input::refuse;

/// A longer line is no row of metrics.
const LONGEST: u64 = 1 << 26;

/// Reads them line by line. A last line without an end may be cut short: it counts if it is a whole object.
pub fn read(path: &Path, rows: &mut Rows) -> Result<(), Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        (&mut file).take(LONGEST).read_until(b'\n', &mut line).map_err(unreadable)?;
        if line.is_empty() {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        if !is_whole && line.len() as u64 == LONGEST {
            let found = format!("more than {LONGEST} bytes in line {number}");
            return Err(refuse(path, found, "an object of metrics in each line"));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        rows.begin(number);
        match json::row(&line, &mut |name, value| rows.entry(name, value)) {
            Ok(()) => rows.end(path)?,
            Err(_) if !is_whole => {
                rows.abandon();
                rows.note(format!("line {number} has no end and is left out"));
            }
            Err(error) => {
                let found = format!("in line {number} what is no row ({})", error.found);
                let expected = format!("{} in each line", error.expected);
                return Err(refuse(path, found, expected));
            }
        }
    }
    Ok(())
}
