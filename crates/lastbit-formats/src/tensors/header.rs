//! The header: which tensors there are, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::{Fault, Tensor, quoted};

/// Bytes of the length in front.
const LENGTH: u64 = 8;
/// Longest header that other readers accept.
const LONGEST: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

type Metadata = BTreeMap<String, String>;

/// Reads and checks the header of a file of `length` bytes; its tensors in the order of their bytes.
pub fn read(
    bytes: &mut impl Read,
    length: u64,
) -> Result<(Metadata, Vec<(String, TensorInfo)>), Fault> {
    let expected = "a safetensors file, complete";
    if length < LENGTH {
        return Err(Fault::wrong(format!("{length} bytes"), expected));
    }
    let mut prefix = [0; LENGTH as usize];
    bytes.read_exact(&mut prefix)?;
    let size = u64::from_le_bytes(prefix);
    if size > length - LENGTH || size > LONGEST {
        // What torch.save writes: a zip archive, before PyTorch 1.6 a bare pickle of protocol 2 to 5.
        if prefix.starts_with(b"PK\x03\x04") || matches!(prefix, [0x80, 2..=5, ..]) {
            let expected = "a safetensors file; in Python, \
                            safetensors.torch.save_file(model.state_dict(), \"weights.safetensors\") \
                            writes one";
            return Err(Fault::wrong("a PyTorch pickle", expected));
        }
        let found = format!("a header of {size} bytes in a file of {length} bytes");
        return Err(Fault::wrong(found, expected));
    }
    let mut text = vec![0; size as usize];
    bytes.read_exact(&mut text)?;
    let Header { metadata, mut tensors } = serde_json::from_slice(&text).map_err(|error| {
        let message: String = error.to_string().chars().take(300).collect();
        Fault::wrong(
            format!("a header that cannot be used: {message}"),
            "a safetensors file, whose header names tensors with dtype, shape and data_offsets",
        )
    })?;
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    check(&tensors, length - LENGTH - size)?;
    Ok((metadata, tensors))
}

/// Every tensor begins where the one before it ends, fits its shape, and the last ends the file.
fn check(tensors: &[(String, TensorInfo)], length: u64) -> Result<(), Fault> {
    let mut end = 0;
    for (name, TensorInfo { dtype, shape, data_offsets: (from, to) }) in tensors {
        let name = quoted(name);
        if *from != end || to < from {
            let found = format!("tensor {name} at bytes {from} to {to}");
            return Err(Fault::wrong(found, format!("tensors without gaps, this one from {end}")));
        }
        let entries = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
        let bits = entries.and_then(|entries| entries.checked_mul(dtype.bitsize()));
        if bits.is_none() || bits != (to - from).checked_mul(8) {
            let sizes: Vec<String> = shape.iter().take(20).map(ToString::to_string).collect();
            let found = format!("tensor {name} in {} bytes", to - from);
            let expected = format!("as many as {dtype} of shape [{}] takes", sizes.join(", "));
            return Err(Fault::wrong(found, expected));
        }
        end = *to;
    }
    if end as u64 != length {
        let found = format!("{length} bytes after the header");
        return Err(Fault::wrong(found, format!("{end}, as the header says: the file is damaged")));
    }
    Ok(())
}

/// The bytes before the tensors.
pub fn of(metadata: &Metadata, tensors: &[&Tensor]) -> Vec<u8> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.to_owned(), json!(metadata));
    }
    let mut end = 0;
    for Tensor { name, shape, values } in tensors {
        let entries: usize = shape.iter().product();
        assert_eq!(entries, values.len(), "tensor {name:?}: shape {shape:?} and its values");
        let dtype = values.dtype();
        let from = end;
        end += entries * dtype.bitsize() / 8;
        let info = TensorInfo { dtype, shape: shape.clone(), data_offsets: (from, end) };
        let before = header.insert(name.clone(), json!(info));
        assert!(before.is_none() && name != METADATA, "a second tensor is named {name:?}");
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    // Spaces until the tensors begin at a multiple of 8.
    text.resize(text.len().next_multiple_of(8), b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text].concat()
}

/// The header as it stands, in its own order.
struct Header {
    metadata: Metadata,
    tensors: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

/// Reads entries one by one, so that an error names its tensor and a name does not occur twice.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header { metadata: Metadata::new(), tensors: Vec::new() };
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let named = |error| A::Error::custom(format!("{}: {error}", quoted(&name)));
            if !names.insert(name.clone()) {
                return Err(named(A::Error::custom("the name occurs twice")));
            }
            if name == METADATA {
                header.metadata = map.next_value().map_err(named)?;
            } else {
                let info = map.next_value().map_err(named)?;
                header.tensors.push((name, info));
            }
        }
        Ok(header)
    }
}
