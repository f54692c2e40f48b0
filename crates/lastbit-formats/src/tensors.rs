//! Tensors in files, in the safetensors format that PyTorch reads and writes.
//!
//! ```text
//! 8 bytes          length n of the header, little end first
//! n bytes          JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//!                         "__metadata__": {"key": "text", …}}
//! the rest         the tensors, without gaps
//! ```
//!
//! Types and entries of the header come from the `safetensors` crate. The rest of it is not used:
//! its reader takes the last of two tensors of one name and does not say which tensor is wrong, its
//! writer orders metadata by chance, and both need all bytes in memory beside the values.

mod header;
mod values;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

pub use safetensors::Dtype;
pub use values::Values;

use crate::Malformed;

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TensorFile {
    /// Text of the writer's own.
    pub metadata: BTreeMap<String, String>,
    /// The tensors, in the order of their bytes.
    pub tensors: Vec<Tensor>,
}

/// An array with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name; no other tensor of the file has it.
    pub name: String,
    /// Sizes of its dimensions, slowest first; none for a single number.
    pub shape: Vec<usize>,
    /// As many values as the product of the shape.
    pub values: Values,
}

/// Why bytes cannot be read as tensors.
#[derive(Debug)]
pub enum Fault {
    /// They cannot be had.
    Unreadable(io::Error),
    /// They are not what they should be.
    Wrong(Malformed),
}

impl Fault {
    fn wrong(found: impl ToString, expected: impl ToString) -> Self {
        Self::Wrong(Malformed::new(found, expected))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Reads tensors from `length` bytes. Whatever the bytes are, it reserves no more memory for values
/// than there are bytes, and does not panic.
pub fn parse(mut bytes: impl Read, length: u64) -> Result<TensorFile, Fault> {
    let (metadata, entries) = header::read(&mut bytes, length)?;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, info) in entries {
        let count = info.shape.iter().product();
        let values = Values::read(info.dtype, count, &mut bytes).map_err(|fault| match fault {
            Fault::Wrong(Malformed { found, expected }) => {
                Fault::wrong(format!("{found} in tensor {}", quoted(&name)), expected)
            }
            unreadable @ Fault::Unreadable(_) => unreadable,
        })?;
        tensors.push(Tensor { name, shape: info.shape, values });
    }
    Ok(TensorFile { metadata, tensors })
}

/// Writes tensors.
///
/// Tensors of larger entries come first, as the format recommends, so that each starts at a multiple
/// of the size of its entries; those of one size keep their order. The same tensors give the same
/// bytes.
///
/// # Errors
///
/// Those of `out`.
///
/// # Panics
///
/// If a shape does not fit its values, or two tensors have one name.
pub fn write(file: &TensorFile, out: &mut dyn Write) -> io::Result<()> {
    let mut tensors: Vec<&Tensor> = file.tensors.iter().collect();
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.values.dtype().bitsize()));
    out.write_all(&header::of(&file.metadata, &tensors))?;
    tensors.iter().try_for_each(|tensor| tensor.values.write(&mut *out))
}

/// A name as it may stand in a message: of bounded length, with what is no letter escaped.
fn quoted(name: &str) -> String {
    const LONGEST: usize = 100;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

#[cfg(test)]
mod tests;
