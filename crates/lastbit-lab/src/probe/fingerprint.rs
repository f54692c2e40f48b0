//! Hashes of the bits of a model, tensor by tensor.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The file, in the directory of a run.
pub const FINGERPRINTS: &str = "fingerprints.jsonl";

/// A line of `fingerprints.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FingerprintRow {
    /// Steps done.
    pub step: u64,
    /// Hash of names and hashes of all tensors.
    pub hash: String,
    /// Hash of each tensor.
    pub tensors: TensorHashes,
}

/// The first 32 digits of BLAKE3 of the bits of each tensor, by name and in the order of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TensorHashes(pub Vec<(String, String)>);

impl FingerprintRow {
    /// The line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a fingerprint is plain data") + "\n"
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }
}

impl Serialize for TensorHashes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, hash)| (name, hash)))
    }
}

impl<'de> Deserialize<'de> for TensorHashes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = TensorHashes;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("hashes by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TensorHashes, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(TensorHashes(all))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
