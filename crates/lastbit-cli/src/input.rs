//! Reading the user's own data: profiles and signals as .csv or .npy, images as .png or .npy.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use crate::error::Error;
use crate::record::{Field, Series};

fn refuse(path: &Path, found: impl ToString, expected: &str) -> Error {
    Error::Input { path: path.to_owned(), found: found.to_string(), expected: expected.to_owned() }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn extension(path: &Path) -> String {
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
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("an array of shape ({})", sizes.join(", "))
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
    const EXPECTED: &str = "a table of numbers separated by commas, with or without a header line";
    let bytes = read(path)?;
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(&bytes[..]);
    let mut columns: Vec<(String, Vec<f64>)> = Vec::new();
    for (row, line) in reader.records().enumerate() {
        let line = line.map_err(|error| refuse(path, error, EXPECTED))?;
        let numbers: Vec<Result<f64, _>> = line.iter().map(str::parse).collect();
        if row == 0 {
            let is_header = numbers.iter().all(Result::is_err);
            let name = |j: usize| {
                if is_header { line[j].to_owned() } else { format!("column {}", j + 1) }
            };
            columns = (0..line.len()).map(|j| (name(j), Vec::new())).collect();
            if is_header {
                continue;
            }
        }
        for (j, number) in numbers.into_iter().enumerate() {
            let value = number.map_err(|_| {
                refuse(path, format!("\"{}\" in line {}", &line[j], row + 1), EXPECTED)
            })?;
            columns[j].1.push(value);
        }
    }
    if columns.is_empty() {
        return Err(refuse(path, "an empty file", EXPECTED));
    }
    Ok(Series { columns })
}

fn npy(path: &Path) -> Result<(Vec<usize>, Vec<f64>), Error> {
    const EXPECTED: &str = "a NumPy array of floats or integers";
    let bytes = read(path)?;
    let file = npyz::NpyFile::new(&bytes[..]).map_err(|error| refuse(path, error, EXPECTED))?;
    let shape: Vec<usize> = file.shape().iter().map(|n| *n as usize).collect();
    let by_columns = file.order() == npyz::Order::Fortran && shape.len() == 2;
    let dtype = file.dtype().descr();
    // Every value takes at least a byte: a header that promises more than the file holds must not
    // make us reserve memory for it.
    let promised = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
    if promised.is_none_or(|values| values > bytes.len()) {
        return Err(refuse(path, shape_text(&shape), "as many values as its header says"));
    }
    let values: Vec<f64> = match dtype.trim_matches('\'').trim_start_matches(['<', '>', '|', '=']) {
        "f8" => convert(path, file, |x: f64| x)?,
        "f4" => convert(path, file, |x: f32| f64::from(x))?,
        "u1" => convert(path, file, |x: u8| f64::from(x))?,
        "u2" => convert(path, file, |x: u16| f64::from(x))?,
        "u4" => convert(path, file, |x: u32| f64::from(x))?,
        "u8" => convert(path, file, |x: u64| x as f64)?,
        "i1" => convert(path, file, |x: i8| f64::from(x))?,
        "i2" => convert(path, file, |x: i16| f64::from(x))?,
        "i4" => convert(path, file, |x: i32| f64::from(x))?,
        "i8" => convert(path, file, |x: i64| x as f64)?,
        _ => return Err(refuse(path, format!("an array of type {dtype}"), EXPECTED)),
    };
    if by_columns {
        let (height, width) = (shape[0], shape[1]);
        let transposed = (0..height * width).map(|k| values[k % width * height + k / width]);
        return Ok((shape.clone(), transposed.collect()));
    }
    Ok((shape, values))
}

fn convert<T: npyz::Deserialize>(
    path: &Path,
    file: npyz::NpyFile<&[u8]>,
    to_f64: impl Fn(T) -> f64,
) -> Result<Vec<f64>, Error> {
    let expected = "as many values as its header says";
    let values = file.into_vec::<T>().map_err(|error| refuse(path, error, expected))?;
    Ok(values.into_iter().map(to_f64).collect())
}

fn png(path: &Path) -> Result<Field, Error> {
    let bytes = read(path)?;
    let image = image::ImageReader::with_format(Cursor::new(bytes), image::ImageFormat::Png)
        .decode()
        .map_err(|error| refuse(path, error, "a PNG image"))?;
    let grey = image.into_luma16();
    let values = grey.pixels().map(|pixel| f64::from(pixel.0[0]) / f64::from(u16::MAX)).collect();
    Ok(Field { height: grey.height() as usize, width: grey.width() as usize, values })
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
