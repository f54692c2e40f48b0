//! Reading the user's own data: profiles and signals as .csv or .npy, images as .png or .npy.

use std::fs;
use std::path::Path;

use lastbit_formats::{csv, npy, png};

use crate::error::Error;
use crate::series::{Field, Series};

/// A file that holds something else than was expected.
pub fn refuse(path: &Path, found: impl ToString, expected: impl ToString) -> Error {
    Error::Input { path: path.to_owned(), found: found.to_string(), expected: expected.to_string() }
}

/// The bytes of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// The text of a configuration.
pub fn read_toml(path: &Path) -> Result<String, Error> {
    if path.is_dir() {
        return Err(refuse(path, "a folder", "a TOML file"));
    }
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// How the name ends, in small letters.
pub fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
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
            let field = field_unchecked(path)?;
            all_finite(path, &field.values)?;
            Ok(field)
        }
        _ => Err(refuse(path, "another kind of file", "a file ending in .png or .npy")),
    }
}

/// Reads an array of two dimensions that may hold infinities and NaN.
pub fn field_unchecked(path: &Path) -> Result<Field, Error> {
    match npy(path)? {
        (shape, values) if shape.len() == 2 => {
            Ok(Field { height: shape[0], width: shape[1], values })
        }
        (shape, _) => Err(refuse(path, shape_text(&shape), "an array of two dimensions")),
    }
}

fn shape_text(shape: &[usize]) -> String {
    format!("an array of shape {}", lastbit_formats::shape_text(shape))
}

fn all_finite(path: &Path, values: &[f64]) -> Result<(), Error> {
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
    let columns = csv::parse(&read(path)?).map_err(|error| Error::input(path, error))?;
    Ok(Series { columns })
}

fn npy(path: &Path) -> Result<(Vec<usize>, Vec<f64>), Error> {
    let array = npy::parse(&read(path)?).map_err(|error| Error::input(path, error))?;
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

    fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
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
