//! Whole lines of a file that grows; a killed process may leave the beginning of one at its end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use crate::error::Error;
use crate::train::prefix_hash::RunningHash;

/// A longer line is no row: one has some hundred bytes for each tensor of its model.
const LONGEST: u64 = 1 << 26;

/// What was read.
#[derive(Debug)]
pub struct Lines {
    /// The whole lines up to where reading stopped.
    pub hash: RunningHash,
    /// How many they are.
    pub count: usize,
    /// Whether a line without an end follows them.
    pub is_cut: bool,
}

/// Hands on line by line, until one is not wanted; `each` says what is wrong with a line.
pub fn read(
    path: &Path,
    mut each: impl FnMut(&str) -> Result<ControlFlow<()>, String>,
) -> Result<Lines, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut lines = Lines { hash: RunningHash::default(), count: 0, is_cut: false };
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut file).take(LONGEST).read_until(b'\n', &mut line).map_err(unreadable)?;
        if line.is_empty() {
            return Ok(lines);
        }
        if !line.ends_with(b"\n") && (line.len() as u64) < LONGEST {
            lines.is_cut = true;
            return Ok(lines);
        }
        let text = std::str::from_utf8(&line).map_err(|error| error.to_string());
        let wanted = text.and_then(|text| each(text.trim_end_matches('\n')));
        match wanted {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(lines),
            Err(why) => {
                return Err(Error::Input {
                    path: path.to_owned(),
                    found: format!("in line {} what is no row ({why})", lines.count + 1),
                    expected: "the rows this program wrote".to_owned(),
                });
            }
        }
        lines.hash.update(&line);
        lines.count += 1;
    }
}
