//! What rounding alone can do to a training: the metrics of several runs of one program that differ by
//! rounding-level perturbations and nothing else; and whether rounding could have made another run.
//!
//! ```text
//! runs -> Envelope::of: metrics and steps that all have, thinned -> file -> widened by more runs
//! Envelope, run -> check: points that are comparable -> lastbit::statistics::envelope -> verdict -> text, JSON, record
//! ```

mod check;
mod doubts;
mod file;
mod groups;
mod of;
mod points;
mod record;
mod spacing;
#[cfg(test)]
mod tests;
mod thinned;
mod verdict;

pub use check::{CheckResult, Curves, Leaves, MetricResult, Settings, check, check_all};
pub use file::{Band, Envelope, FORMAT, Reproducibility};
pub use groups::{At, EnvelopeGroups, is_envelope, read_groups};
pub use record::keep;
pub use verdict::Verdict;

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::input::{self, refuse};

/// Name of the file in the folder of an envelope.
pub const FILE: &str = "envelope.json";

/// Reads the envelope of a file, or of the folder that `lastbit envelope` wrote.
pub fn open(path: &Path) -> Result<Envelope, Error> {
    let file = if path.is_dir() { path.join(FILE) } else { PathBuf::from(path) };
    let expected = "an envelope; `lastbit envelope --out DIR -- PROGRAM` makes one";
    let envelope = match Envelope::read(&file) {
        Ok(found) => found.ok_or_else(|| refuse(&file, "no file", expected))?,
        Err(_) if !has_the_keys(&file)? => {
            return Err(refuse(&file, "a file that is no envelope", expected));
        }
        Err(error) => return Err(error),
    };
    envelope.check_shape().map_err(|found| refuse(&file, found, expected))?;
    Ok(envelope)
}

/// Whether a file, damaged or not, was an envelope: it has the keys of one.
fn has_the_keys(file: &Path) -> Result<bool, Error> {
    let bytes = input::read(file)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(["\"format\"", "\"perturbation\"", "\"metrics\""].iter().all(|key| text.contains(key)))
}
