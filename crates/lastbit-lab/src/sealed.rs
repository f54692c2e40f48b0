//! JSON files that carry a hash of their own bytes, so that damage is noticed.
//!
//! ```text
//! {
//!   …
//!   "blake3": "HASH"
//! }
//! ```
//!
//! `HASH` is the BLAKE3 hash of all bytes before its line, in hexadecimal. Other tools check it with
//! `head -n -2 FILE | b3sum`. The seal guards against accidents, not against somebody who computes it again.

use std::fmt;
use std::fs::{self, File};
use std::io::{
    self, BufRead, BufReader, BufWriter, Cursor, IntoInnerError, Read, Seek, SeekFrom, Write,
};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;
use crate::files::write_atomically_with;

/// What stands around the hash of a file at its end.
const BEFORE: &[u8] = b"  \"blake3\": \"";
const AFTER: &[u8] = b"\"\n}\n";
const DIGITS: usize = 64;

/// The BLAKE3 hash of the bytes of a file, 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileHash(blake3::Hash);

impl FileHash {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// Of what a file holds.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(Self(hasher.finalize()))
    }

    /// Fails where a file is missing or does not have this hash.
    pub fn check(self, path: &Path) -> Result<(), Error> {
        let found = Self::of_file(path).map_err(|source| unreadable(path, source))?;
        self.check_equal(path, found)
    }

    /// The bytes of a file; fails where it is missing or does not have this hash.
    pub fn read(self, path: &Path) -> Result<Vec<u8>, Error> {
        let bytes = fs::read(path).map_err(|source| unreadable(path, source))?;
        self.check_equal(path, Self::of(&bytes)).map(|()| bytes)
    }

    fn check_equal(self, path: &Path, found: Self) -> Result<(), Error> {
        if self == found {
            return Ok(());
        }
        Err(damaged(path, format!("found contents with the hash {found}, expected {self}")))
    }
}

impl fmt::Debug for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FileHash {
    /// Twelve digits are enough to tell two files apart; files hold all of them.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}…", &self.0.to_hex()[..12])
    }
}

impl Serialize for FileHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_hex())
    }
}

impl<'de> Deserialize<'de> for FileHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        blake3::Hash::from_hex(&digits).map(Self).map_err(serde::de::Error::custom)
    }
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => damaged(path, "the file is missing"),
        _ => Error::Read { path: path.to_owned(), source },
    }
}

/// A file that is not as this program wrote it.
pub fn damaged(path: &Path, message: impl Into<String>) -> Error {
    let advice = "give the command that wrote it again, and it is computed anew".to_owned();
    Error::Damaged { path: path.to_owned(), message: message.into(), advice }
}

/// Writes data with a seal, and returns the hash of the whole file.
///
/// # Panics
///
/// If the data is no JSON object with at least one key.
pub fn write(path: &Path, data: &impl Serialize) -> Result<FileHash, Error> {
    let mut hash = None;
    write_atomically_with(path, |file| {
        let mut out = BufWriter::new(Writer::new(file));
        serde_json::to_writer_pretty(&mut out, data)?;
        hash = Some(out.into_inner().map_err(IntoInnerError::into_error)?.seal()?);
        Ok(())
    })?;
    Ok(hash.expect("the file is written"))
}

/// Hashes what passes, and holds back the end of the object until the seal is there.
struct Writer<W> {
    out: W,
    hasher: blake3::Hasher,
    held: Vec<u8>,
}

/// How a pretty-printed object ends.
const END: &[u8] = b"\n}";

impl<W: Write> Writer<W> {
    fn new(out: W) -> Self {
        Self { out, hasher: blake3::Hasher::new(), held: Vec::new() }
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }

    fn seal(mut self) -> io::Result<FileHash> {
        assert_eq!(self.held, END, "a sealed file is an object");
        self.pass(b",\n")?;
        let digits = self.hasher.finalize().to_hex();
        self.pass(&[BEFORE, digits.as_bytes(), AFTER].concat())?;
        Ok(FileHash(self.hasher.finalize()))
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let ready = self.held.len().saturating_sub(END.len());
        let rest = self.held.split_off(ready);
        let passed = std::mem::replace(&mut self.held, rest);
        self.pass(&passed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads a sealed file of this format with the hash of its bytes, if it is there.
///
/// # Errors
///
/// [`Error::Damaged`] where the seal is broken, [`Error::Record`] where the file has another format.
pub fn read<T: DeserializeOwned>(path: &Path, format: u32) -> Result<Option<(T, FileHash)>, Error> {
    let Some(bytes) = if_there(path, fs::read(path))? else { return Ok(None) };
    check_seal(path, &mut Cursor::new(&bytes), format)?;
    let data =
        serde_json::from_slice(&bytes).map_err(|error| damaged(path, in_words(&bytes, &error)))?;
    Ok(Some((data, FileHash::of(&bytes))))
}

/// Fails as [`read`] does where the seal is broken or the file has another format. A large file needs no memory.
pub fn check(path: &Path, format: u32) -> Result<(), Error> {
    let Some(file) = if_there(path, File::open(path))? else { return Ok(()) };
    check_seal(path, &mut BufReader::new(file), format)
}

fn if_there<T>(path: &Path, found: io::Result<T>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

fn check_seal(path: &Path, file: &mut (impl BufRead + Seek), format: u32) -> Result<(), Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let seal = seal_of(file).map_err(failed)?;
    if seal.as_ref().is_some_and(|(stated, found)| stated != found) {
        return Err(damaged(path, "its contents do not have the hash that stands at its end"));
    }
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    file.rewind().map_err(failed)?;
    match serde_json::from_reader::<_, Version>(file) {
        Ok(Version { format: found }) if found != format => Err(Error::Record {
            path: path.to_owned(),
            message: format!("its format is {found}, ours is {format}"),
            advice: "move it away, or give the command that wrote it --fresh to start over"
                .to_owned(),
        }),
        _ if seal.is_none() => Err(damaged(path, "it does not end with its hash")),
        _ => Ok(()),
    }
}

/// The digits at the end of a file, if there are any, and those of the hash of all before their line.
fn seal_of(file: &mut (impl BufRead + Seek)) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let length = file.seek(SeekFrom::End(0))?;
    let Some(body) = length.checked_sub((BEFORE.len() + DIGITS + AFTER.len()) as u64) else {
        return Ok(None);
    };
    file.rewind()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.by_ref().take(body))?;
    let mut seal = Vec::new();
    file.read_to_end(&mut seal)?;
    let digits = seal.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    Ok(digits.map(|digits| (digits.to_vec(), hasher.finalize().to_hex().as_bytes().to_vec())))
}

/// What the parser says, and the text it had read of the line: the key and the value that it refuses.
fn in_words(bytes: &[u8], error: &serde_json::Error) -> String {
    const SHOWN: usize = 100;
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1));
    let read = line.map_or(&b""[..], |line| &line[..error.column().min(line.len())]);
    let shown = String::from_utf8_lossy(&read[read.len().saturating_sub(SHOWN)..]);
    format!("{error}: {}", shown.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Data {
        format: u32,
        name: String,
        values: Vec<f64>,
    }

    fn data() -> Data {
        Data { format: 3, name: "a \"}\n".into(), values: vec![0.1, 1e300] }
    }

    #[test]
    fn a_sealed_file_reads_back_and_other_tools_can_check_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let hash = write(&path, &data()).unwrap();
        assert_eq!(read::<Data>(&path, 3).unwrap(), Some((data(), hash)));
        assert_eq!(FileHash::of_file(&path).unwrap(), hash);
        let text = fs::read_to_string(&path).unwrap();
        // As `head -n -2 FILE | b3sum` has it.
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (seal, body) = (lines[lines.len() - 2], lines[..lines.len() - 2].concat());
        assert_eq!(seal, format!("  \"blake3\": \"{}\"\n", blake3::hash(body.as_bytes()).to_hex()));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["values"][1], 1e300);
        assert_eq!(read::<Data>(&folder.path().join("none.json"), 3).unwrap(), None);
    }

    #[test]
    fn every_flipped_bit_and_every_length_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        write(&path, &data()).unwrap();
        let whole = fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read::<Data>(&path, 3).unwrap_err().to_string()
        };
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&bytes).contains("x.json"), "bit {bit}");
        }
        for length in 0..whole.len() {
            assert!(refused(&whole[..length]).contains("damaged"), "{length} bytes");
        }
        assert!(refused(&[&whole[..], b"\n"].concat()).contains("damaged"));
    }

    #[test]
    fn another_format_is_named_and_a_refused_value_is_shown_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        write(&path, &Data { format: 9, ..data() }).unwrap();
        let message = read::<Data>(&path, 3).unwrap_err().to_string();
        assert!(message.contains("its format is 9, ours is 3"), "{message}");
        fs::write(&path, "{\"format\": 2}").unwrap();
        assert!(read::<Data>(&path, 3).unwrap_err().to_string().contains("its format is 2"));
        write(&path, &serde_json::json!({"format": 3, "name": 7})).unwrap();
        let message = read::<Data>(&path, 3).unwrap_err().to_string();
        assert!(message.contains("\"name\": 7"), "{message}");
    }
}
