//! What rounding alone can do to a training: the metrics of several runs of one program that differ by
//! rounding-level perturbations and nothing else.

mod file;

pub use file::{Band, Envelope, FORMAT, Reproducibility};

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::input::refuse;

/// Name of the file in the folder of an envelope.
pub const FILE: &str = "envelope.json";

/// Reads the envelope of a file, or of the folder that `lastbit envelope` wrote.
pub fn open(path: &Path) -> Result<Envelope, Error> {
    let file = if path.is_dir() { path.join(FILE) } else { PathBuf::from(path) };
    let expected = "an envelope; `lastbit envelope --out DIR -- PROGRAM` makes one";
    Envelope::read(&file)?.ok_or_else(|| refuse(&file, "no file", expected))
}
