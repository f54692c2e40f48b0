//! When a run was made, how long it took, on how many threads and on which device: nothing that a result depends on.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::write_atomically;

/// The file, in the folder of its run.
pub const TIMING: &str = "timing.json";

/// The time that the last call of [`train`](super::train) took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// When it began.
    pub started_unix_seconds: u64,
    /// How long it took.
    pub seconds: f64,
    /// Steps it made.
    pub steps: usize,
    /// Threads of the CPU.
    pub threads: usize,
    /// The device with its driver, where that was not the CPU.
    pub device: Option<String>,
}

impl Timing {
    /// That of a run; none where there is none, or where it was changed.
    pub fn read(folder: &Path) -> Option<Self> {
        let Hashed { timing, blake3 } =
            serde_json::from_str(&fs::read_to_string(folder.join(TIMING)).ok()?).ok()?;
        (timing.hash() == blake3).then_some(timing)
    }

    /// Writes it into the folder of its run.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let hashed = Hashed { timing: self.clone(), blake3: self.hash() };
        let text = serde_json::to_string_pretty(&hashed).expect("plain data");
        write_atomically(&folder.join(TIMING), format!("{text}\n").as_bytes())
    }

    fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("plain data");
        blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
    }
}

/// The file: with the hash of the other members, written without spaces.
#[derive(Serialize, Deserialize)]
struct Hashed {
    #[serde(flatten)]
    timing: Timing,
    blake3: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let timing = Timing {
            started_unix_seconds: 1,
            seconds: 0.1 + 0.2,
            steps: 3,
            threads: 2,
            device: Some("A".to_owned()),
        };
        timing.write(folder.path()).unwrap();
        assert_eq!(Timing::read(folder.path()), Some(timing));
        let path = folder.path().join(TIMING);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"A\"", "\"B\"")).unwrap();
        assert_eq!(Timing::read(folder.path()), None);
    }
}
