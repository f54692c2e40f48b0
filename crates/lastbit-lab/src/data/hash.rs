//! The content hash of a data set: the same however it came and wherever it is kept.
//!
//! ```text
//! BLAKE3 of, for train and then test:
//!   "train 60000 28x28x1 u8 classes 10\n"      (or "f64"; or "reals 1" for target values)
//!   inputs, row, column, channel               (bytes; or f64, lowest byte first)
//!   labels as u32, or targets as f64           (lowest byte first)
//! ```

use lastbit::data::{Dataset, Inputs, Targets};

/// The hash, in hexadecimal digits.
pub fn content_hash(train: &Dataset, test: &Dataset) -> String {
    let mut hasher = blake3::Hasher::new();
    for (part, set) in [("train", train), ("test", test)] {
        add(&mut hasher, part, set);
    }
    hasher.finalize().to_hex().to_string()
}

fn add(hasher: &mut blake3::Hasher, part: &str, set: &Dataset) {
    let [height, width, channels] = set.shape;
    let inputs = match set.inputs {
        Inputs::Bytes(_) => "u8",
        Inputs::Reals(_) => "f64",
    };
    let targets = match set.targets {
        Targets::Classes { count, .. } => format!("classes {count}"),
        Targets::Reals { width, .. } => format!("reals {width}"),
    };
    let n = set.len();
    let line = format!("{part} {n} {height}x{width}x{channels} {inputs} {targets}\n");
    hasher.update(line.as_bytes());
    match &set.inputs {
        Inputs::Bytes(bytes) => drop(hasher.update(bytes)),
        Inputs::Reals(values) => add_words(hasher, values, f64::to_le_bytes),
    }
    match &set.targets {
        Targets::Classes { labels, .. } => add_words(hasher, labels, u32::to_le_bytes),
        Targets::Reals { values, .. } => add_words(hasher, values, f64::to_le_bytes),
    }
}

fn add_words<T: Copy, const N: usize>(
    hasher: &mut blake3::Hasher,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) {
    // Pieces, so that the bytes of a large set are not all in memory a second time.
    for piece in values.chunks(8192) {
        let bytes: Vec<u8> = piece.iter().flat_map(|value| bytes(*value)).collect();
        hasher.update(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_bytes_in_the_module_doc() {
        let set = |label: u32| Dataset {
            shape: [1, 1, 2],
            inputs: Inputs::Reals(vec![0.5, -1.0]),
            targets: Targets::Classes { count: 3, labels: vec![label] },
        };
        let mut bytes = Vec::new();
        for (part, label) in [("train", 2_u32), ("test", 1)] {
            bytes.extend(format!("{part} 1 1x1x2 f64 classes 3\n").as_bytes());
            bytes.extend(0.5_f64.to_le_bytes());
            bytes.extend((-1.0_f64).to_le_bytes());
            bytes.extend(label.to_le_bytes());
        }
        let expected = blake3::hash(&bytes).to_hex().to_string();
        assert_eq!(content_hash(&set(2), &set(1)), expected);
        assert_ne!(content_hash(&set(1), &set(2)), expected);
    }
}
