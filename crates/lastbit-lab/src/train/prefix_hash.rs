//! Length and hash of the beginning of a file, which may be all of it: files of a run grow.
//!
//! ```text
//! bytes    how many bytes, from the first
//! blake3   the first 32 digits of their BLAKE3 hash: `head -c BYTES FILE | b3sum --length 16`
//! ```
//!
//! A file that grows is hashed while it is written, so a checkpoint notes its beginning at no cost. Reading checks the hash in
//! the same pass, in memory that does not depend on the length.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::relative_path::RelativePath;

/// A longer line is no row: one has some hundred bytes for each tensor of its network.
const LONGEST_LINE: u64 = 1 << 24;

/// Length and hash of a file or of its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixHash {
    /// Bytes.
    pub bytes: u64,
    /// First 32 digits of their BLAKE3 hash.
    pub blake3: String,
}

/// By the name of the file within its run.
pub type PrefixHashes = BTreeMap<RelativePath, PrefixHash>;

impl PrefixHash {
    /// That of a whole file.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let mut read = RunningHash::default();
        read.read_all(&mut open(path)?, path)?;
        Ok(read.hash())
    }

    /// Fails unless the whole file has this length and hash.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        let found = Self::of(path)?;
        if found == *self { Ok(()) } else { Err(self.refuse(path, &found)) }
    }

    /// Fails unless the file begins with these bytes.
    pub fn check_beginning(&self, path: &Path) -> Result<RunningHash, Error> {
        let mut read = RunningHash::default();
        read.read_all(&mut open(path)?.take(self.bytes), path)?;
        if read.hash() == *self { Ok(read) } else { Err(self.refuse(path, &read.hash())) }
    }

    /// Hands on the lines of the beginning one by one, and fails unless it has this hash. `each` says what is wrong with a
    /// line.
    pub fn check_lines(
        &self,
        path: &Path,
        mut each: impl FnMut(usize, &str) -> Result<(), String>,
    ) -> Result<RunningHash, Error> {
        let mut read = RunningHash::default();
        let mut file = open(path)?.take(self.bytes);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line);
            if length.map_err(|source| Error::Read { path: path.to_owned(), source })? == 0 {
                break;
            }
            read.update(&line);
            let text = std::str::from_utf8(&line).map_err(|error| error.to_string());
            let is_whole = |text: &&str| text.ends_with('\n');
            let text = text.and_then(|text| {
                Some(text).filter(is_whole).ok_or_else(|| "a line without an end".to_owned())
            });
            text.and_then(|text| each(number, text.trim_end_matches('\n'))).map_err(|why| {
                Error::Input {
                    path: path.to_owned(),
                    found: format!("in line {number} what is no row of this run ({why})"),
                    expected: "the rows this program wrote".to_owned(),
                }
            })?;
        }
        if read.hash() == *self { Ok(read) } else { Err(self.refuse(path, &read.hash())) }
    }

    fn refuse(&self, path: &Path, found: &Self) -> Error {
        let Self { bytes, blake3 } = self;
        let found = if found.bytes == *bytes {
            format!("contents with the hash {}", found.blake3)
        } else {
            format!("{} bytes", found.bytes)
        };
        let expected = format!("the {bytes} bytes with the hash {blake3} that this program wrote");
        Error::Input { path: path.to_owned(), found, expected }
    }
}

/// A file that is not there is damage like any other.
fn open(path: &Path) -> Result<BufReader<File>, Error> {
    File::open(path).map(BufReader::new).map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::Input {
            path: path.to_owned(),
            found: "no such file".to_owned(),
            expected: "the one this program wrote".to_owned(),
        },
        _ => Error::Read { path: path.to_owned(), source },
    })
}

/// The hash of a file that grows.
#[derive(Debug, Clone, Default)]
pub struct RunningHash {
    bytes: u64,
    hasher: blake3::Hasher,
}

impl RunningHash {
    /// Adds what comes next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Length and hash so far.
    pub fn hash(&self) -> PrefixHash {
        PrefixHash { bytes: self.bytes, blake3: self.hasher.finalize().to_hex()[..32].to_owned() }
    }

    fn read_all(&mut self, file: &mut impl BufRead, path: &Path) -> Result<(), Error> {
        loop {
            let buffer = file.fill_buf();
            let buffer = buffer.map_err(|source| Error::Read { path: path.to_owned(), source })?;
            let length = buffer.len();
            if length == 0 {
                return Ok(());
            }
            self.update(buffer);
            file.consume(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_beginning_is_checked_by_bytes_and_by_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, "a\nb\n").unwrap();
        let whole = PrefixHash::of(&path).unwrap();
        assert_eq!(whole.blake3, blake3::hash(b"a\nb\n").to_hex()[..32]);
        fs::write(&path, "a\nb\nc\n").unwrap();
        assert!(whole.check(&path).is_err(), "longer than noted");
        let mut read = whole.check_beginning(&path).unwrap();
        read.update(b"c\n");
        assert_eq!(read.hash(), PrefixHash::of(&path).unwrap());
        let mut lines = Vec::new();
        let note = |number: usize, line: &str| {
            lines.push((number, line.to_owned()));
            Ok(())
        };
        whole.check_lines(&path, note).unwrap();
        assert_eq!(lines, [(1, "a".to_owned()), (2, "b".to_owned())]);
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, "a\nb\n").unwrap();
        let noted = PrefixHash::of(&path).unwrap();
        let refused = |bytes: &[u8], part: &str| {
            fs::write(&path, bytes).unwrap();
            let lines = noted.check_lines(&path, |_, _| Ok(())).unwrap_err().to_string();
            assert!(lines.contains("rows") && lines.contains(part), "{lines}");
            assert!(noted.check_beginning(&path).is_err() && noted.check(&path).is_err());
        };
        refused(b"a\nc\n", "contents with the hash");
        refused(b"a\n", "2 bytes");
        refused(b"", "0 bytes");
        refused(b"a\nbb", "line 2");
        refused(b"\xff\nb\n", "line 1");
        let wrong = noted.check_lines(&path, |number, _| Err(format!("row {number}")));
        assert!(wrong.unwrap_err().to_string().contains("line 1"));
        fs::remove_file(&path).unwrap();
        assert!(noted.check(&path).unwrap_err().to_string().contains("no such file"));
    }
}
