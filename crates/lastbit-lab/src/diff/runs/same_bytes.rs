//! Whether files have the same bytes, which is known without reading their tensors.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Whether both sides have the same bytes in files of the same number.
pub fn same_bytes(a: &[PathBuf], b: &[PathBuf]) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b) {
        if !is_same_file(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_same_file(a: &Path, b: &Path) -> Result<bool, Error> {
    const BUFFER: usize = 1 << 18;
    let open = |path: &Path| -> Result<(u64, BufReader<File>), Error> {
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        Ok((length, BufReader::with_capacity(BUFFER, file)))
    };
    let ((of_a, mut in_a), (of_b, mut in_b)) = (open(a)?, open(b)?);
    if of_a != of_b {
        return Ok(false);
    }
    loop {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Read { path, source }
        };
        let (x, y) =
            (in_a.fill_buf().map_err(unreadable(a))?, in_b.fill_buf().map_err(unreadable(b))?);
        let count = x.len().min(y.len());
        if count == 0 || x[..count] != y[..count] {
            return Ok(x.is_empty() && y.is_empty());
        }
        in_a.consume(count);
        in_b.consume(count);
    }
}
