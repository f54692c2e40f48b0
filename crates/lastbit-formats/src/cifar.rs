//! The binary form of CIFAR-10 and CIFAR-100.
//!
//! ```text
//! record = label (CIFAR-100: coarse label, fine label) | 1024 red | 1024 green | 1024 blue
//! ```
//!
//! A file is a row of records; planes are turned into pixels here (row, column, channel).

use crate::Malformed;

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;

/// Height, width and channels of an image.
pub const SHAPE: [usize; 3] = [SIDE, SIDE, 3];

/// Which of the two sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One label per record, below 10.
    Ten,
    /// Two labels per record; the second, below 100, is the one used.
    Hundred,
}

impl Kind {
    /// Number of classes.
    pub fn classes(self) -> usize {
        match self {
            Self::Ten => 10,
            Self::Hundred => 100,
        }
    }

    fn labels(self) -> usize {
        match self {
            Self::Ten => 1,
            Self::Hundred => 2,
        }
    }
}

/// Images with their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Images {
    /// Pixels of all images: row, column, channel.
    pub pixels: Vec<u8>,
    /// A label each.
    pub labels: Vec<u8>,
}

/// Reads all records of a file.
pub fn parse(bytes: &[u8], kind: Kind) -> Result<Images, Malformed> {
    let record = kind.labels() + 3 * PLANE;
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        let found = format!("{} bytes", bytes.len());
        return Err(Malformed::new(found, format!("records of {record} bytes")));
    }
    let mut images = Images::default();
    images.pixels.reserve_exact(bytes.len() / record * 3 * PLANE);
    for (at, record) in bytes.chunks_exact(record).enumerate() {
        let (labels, planes) = record.split_at(kind.labels());
        let label = labels[kind.labels() - 1];
        if usize::from(label) >= kind.classes() {
            let found = format!("the label {label} in record {at} (counted from 0)");
            return Err(Malformed::new(found, format!("labels below {}", kind.classes())));
        }
        images.labels.push(label);
        let pixel = |i: usize| [planes[i], planes[PLANE + i], planes[2 * PLANE + i]];
        images.pixels.extend((0..PLANE).flat_map(pixel));
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(labels: &[u8]) -> Vec<u8> {
        let planes = (0..3 * PLANE).map(|i| (i / PLANE * 100 + i % PLANE % 100) as u8);
        labels.iter().copied().chain(planes).collect()
    }

    #[test]
    fn planes_become_pixels() {
        for (kind, labels) in [(Kind::Ten, &[7][..]), (Kind::Hundred, &[3, 7])] {
            let file = [record(labels), record(labels)].concat();
            let images = parse(&file, kind).unwrap();
            assert_eq!(images.labels, [7, 7]);
            assert_eq!(images.pixels.len(), 2 * 3 * PLANE);
            assert_eq!(images.pixels[..6], [0, 100, 200, 1, 101, 201]);
        }
    }

    #[test]
    fn every_fault_says_what_is_there() {
        for (file, part) in [
            (vec![], "0 bytes"),
            (record(&[1, 2]), "3074 bytes"),
            (record(&[10]), "the label 10 in record 0"),
        ] {
            let message = parse(&file, Kind::Ten).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
