//! Reading the user's own data: profiles and signals as .csv or .npy, images as .png or .npy.
//!
//! Nothing is read without end. A file is read if memory can hold it; a pipe or a device, such as
//! `/dev/stdin`, has no length and is read up to a bound; so is a configuration.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lastbit_formats::{csv, npy, png};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;
use crate::memory;
use crate::series::{Field, Series};

/// A file that holds something else than was expected.
pub fn refuse(path: &Path, found: impl ToString, expected: impl ToString) -> Error {
    Error::Input { path: path.to_owned(), found: found.to_string(), expected: expected.to_string() }
}

/// Bytes of a pipe or a device.
const MOST_OF_A_PIPE: u64 = 1 << 28;
/// Bytes of a configuration, or of anything else that a person writes.
const MOST_OF_A_CONFIGURATION: u64 = 1 << 20;

/// The bytes of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    // Pipes and devices have none.
    let (most, expected) = match length {
        0 => (MOST_OF_A_PIPE, "fewer of what is no file; save it to one"),
        length => {
            // The bytes, and what is made of them.
            memory::require(&path.display().to_string(), 2 * length, "give a shorter file")?;
            (length, "a file that does not grow while it is read")
        }
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(refuse(path, format!("more than {most} bytes"), expected));
    }
    Ok(bytes)
}

/// The bytes of a table of numbers, which memory can hold as well: a byte and a comma become eight bytes.
pub fn read_table(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = read(path)?;
    let entries = bytes.iter().filter(|byte| matches!(byte, b',' | b'\n')).count() + 1;
    let needed = (entries * size_of::<f64>()) as u64;
    memory::require(&path.display().to_string(), needed, "give a smaller table")?;
    Ok(bytes)
}

/// The text of a configuration.
pub fn read_toml(path: &Path) -> Result<String, Error> {
    if path.is_dir() {
        return Err(refuse(path, "a folder", "a TOML file"));
    }
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MOST_OF_A_CONFIGURATION + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST_OF_A_CONFIGURATION {
        let found = format!("more than {MOST_OF_A_CONFIGURATION} bytes");
        return Err(refuse(path, found, "a TOML file, which is shorter"));
    }
    Ok(text)
}

/// How the name ends, in small letters.
pub fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Data of the user's: in a file, or in memory.
///
/// A setting that names data is a path in files and records; of data in memory it says so, and the record has their
/// hash.
#[derive(Debug, Clone, PartialEq)]
pub enum Source<T> {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Memory(T),
}

impl<T> Source<T> {
    /// Its name in messages: the file, or that of the setting.
    pub fn name<'a>(&'a self, setting: &'a str) -> &'a Path {
        match self {
            Self::File(path) => path,
            Self::Memory(_) => Path::new(setting),
        }
    }

    /// What is in memory, or in the file, by the function that reads it.
    pub fn get(&self, read: impl Fn(&Path) -> Result<T, Error>) -> Result<T, Error>
    where
        T: Clone,
    {
        match self {
            Self::File(path) => read(path),
            Self::Memory(data) => Ok(data.clone()),
        }
    }
}

impl<T> Serialize for Source<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name("in memory").serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Source<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        PathBuf::deserialize(deserializer).map(Self::File)
    }
}

/// What a data file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Values on a line.
    Signal(Vec<f64>),
    /// Values in the plane.
    Image(Field),
}

impl Data {
    /// 1 for a signal, 2 for an image.
    pub fn dimensions(&self) -> usize {
        match self {
            Self::Signal(_) => 1,
            Self::Image(_) => 2,
        }
    }

    /// All values, an image's row by row.
    pub fn values(&self) -> &[f64] {
        match self {
            Self::Signal(values) | Self::Image(Field { values, .. }) => values,
        }
    }
}

/// Reads a signal or an image, whichever the file is.
pub fn data(path: &Path) -> Result<Data, Error> {
    match extension(path).as_str() {
        "csv" => signal(path).map(Data::Signal),
        "png" => image(path).map(Data::Image),
        "npy" => {
            let (shape, values) = npy(path)?;
            all_finite(path, &values)?;
            match shape[..] {
                [_] => Ok(Data::Signal(values)),
                [height, width] => Ok(Data::Image(Field { height, width, values })),
                _ => Err(refuse(path, shape_text(&shape), "an array of one or two dimensions")),
            }
        }
        _ => Err(refuse(path, "another kind of file", "a file ending in .csv, .npy or .png")),
    }
}

/// Reads values on a line from .csv (one column, with or without a header) or .npy.
pub fn signal(path: &Path) -> Result<Vec<f64>, Error> {
    let values = match extension(path).as_str() {
        "csv" => {
            let series = columns(path)?;
            match &series.columns[..] {
                [(_, values)] => values.clone(),
                others => {
                    let found = format!("{} columns", others.len());
                    return Err(refuse(path, found, "one column of numbers"));
                }
            }
        }
        "npy" => match npy(path)? {
            (shape, values) if shape.len() == 1 => values,
            (shape, _) => {
                return Err(refuse(path, shape_text(&shape), "an array of one dimension"));
            }
        },
        _ => return Err(refuse(path, "another kind of file", "a file ending in .csv or .npy")),
    };
    all_finite(path, &values)?;
    Ok(values)
}

/// Reads an image from .png (grey: 0 black, 1 white; colours by their luminance) or .npy.
pub fn image(path: &Path) -> Result<Field, Error> {
    match extension(path).as_str() {
        "png" => png(path),
        "npy" => {
            let field = parse_field(path, &read(path)?)?;
            all_finite(path, &field.values)?;
            Ok(field)
        }
        _ => Err(refuse(path, "another kind of file", "a file ending in .png or .npy")),
    }
}

/// An array of two dimensions that may hold infinities and NaN.
pub fn parse_field(path: &Path, bytes: &[u8]) -> Result<Field, Error> {
    match parse_npy(path, bytes)? {
        (shape, values) if shape.len() == 2 => {
            Ok(Field { height: shape[0], width: shape[1], values })
        }
        (shape, _) => Err(refuse(path, shape_text(&shape), "an array of two dimensions")),
    }
}

fn shape_text(shape: &[usize]) -> String {
    format!("an array of shape {}", lastbit_formats::shape_text(shape))
}

/// Refuses NaN, and numbers too large to be squared.
pub fn all_finite(path: &Path, values: &[f64]) -> Result<(), Error> {
    // Squares of larger numbers overflow.
    match values.iter().position(|value| value.is_nan() || value.abs() > 1e100) {
        None => Ok(()),
        Some(at) => {
            let found = format!("{} at position {at} (counted from 0)", values[at]);
            Err(refuse(path, found, "finite numbers only, of size up to 1e100"))
        }
    }
}

/// Reads a table of numbers. A first line of which no entry is a number names the columns.
pub fn columns(path: &Path) -> Result<Series, Error> {
    parse_columns(path, &read_table(path)?)
}

/// The table in the bytes of a file.
pub fn parse_columns(path: &Path, bytes: &[u8]) -> Result<Series, Error> {
    let columns = csv::parse(bytes).map_err(|error| Error::input(path, error))?;
    Ok(Series { columns })
}

fn npy(path: &Path) -> Result<(Vec<usize>, Vec<f64>), Error> {
    parse_npy(path, &read(path)?)
}

fn parse_npy(path: &Path, bytes: &[u8]) -> Result<(Vec<usize>, Vec<f64>), Error> {
    let array = npy::parse(bytes).map_err(|error| Error::input(path, error))?;
    Ok((array.shape, array.values.into_reals()))
}

fn png(path: &Path) -> Result<Field, Error> {
    let parsed = png::parse_grey(&read(path)?);
    let ([height, width], values) = parsed.map_err(|error| Error::input(path, error))?;
    Ok(Field { height, width, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn csv_with_and_without_header() {
        for text in ["u\n0.5\n-1e-3\n", "0.5\n-1e-3\n", " 0.5 \n -0.001\n"] {
            let (_folder, path) = file("a.csv", text.as_bytes());
            assert_eq!(signal(&path).unwrap(), [0.5, -1e-3], "{text:?}");
        }
    }

    #[test]
    fn every_fault_names_the_file_and_the_place() {
        for (name, bytes, needle) in [
            ("a.csv", &b"1\nNaN\n"[..], "NaN at position 1"),
            ("a.csv", b"1\ntwo\n", "\"two\" in line 2"),
            ("a.csv", b"1,2\n3,4\n", "2 columns"),
            ("a.csv", b"1,2\n3\n", "found record with 1 field"),
            ("a.csv", b"", "an empty file"),
            ("a.npy", b"not an array", "a.npy"),
            ("a.txt", b"1\n", "another kind of file"),
        ] {
            let (_folder, path) = file(name, bytes);
            let message = signal(&path).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(needle), "{message}");
        }
        let (_folder, path) = file("a.png", b"not an image");
        assert!(image(&path).unwrap_err().to_string().contains("a.png"));
        let missing = signal(Path::new("missing.csv")).unwrap_err().to_string();
        assert!(missing.contains("missing.csv") && missing.contains("cannot be read"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn nothing_is_read_without_end() {
        for (path, part) in [
            ("/dev/zero", "more than 1048576 bytes"),
            // Random bytes are no text, which is found before the end.
            ("/dev/urandom", "cannot be read: stream did not contain valid UTF-8"),
        ] {
            let message = read_toml(Path::new(path)).unwrap_err().to_string();
            assert!(message.contains(path) && message.contains(part), "{message}");
        }
        let message = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(message.contains("/dev/zero: found more than 268435456 bytes"), "{message}");
        let (_folder, path) = file("long.toml", &[b'#'; 1 << 20]);
        assert_eq!(read_toml(&path).unwrap().len(), 1 << 20);
        // A hole in a file takes no room on disk.
        let large = File::options().write(true).open(&path).unwrap();
        large.set_len(1 << 43).unwrap();
        assert!(read_toml(&path).unwrap_err().to_string().contains("more than 1048576 bytes"));
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("long.toml: needs at least 17.6 TB of memory"), "{message}");
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe.csv");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || std::fs::write(path, "1\n2\n").unwrap()
        });
        assert_eq!(signal(&path).unwrap(), [1.0, 2.0]);
        writer.join().unwrap();
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for name in ["a.csv", "a.npy", "a.png"] {
                let (_folder, path) = file(name, &bytes);
                let _ = data(&path);
                let mut npy_like = b"\x93NUMPY\x01\x00".to_vec();
                npy_like.extend(&bytes);
                let (_folder, path) = file(name, &npy_like);
                let _ = data(&path);
            }
        }
    }
}
