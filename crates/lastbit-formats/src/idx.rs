//! IDX, the format of MNIST: big-endian sizes, then bytes.
//!
//! ```text
//! 0 0 type rank | size_1 ... size_rank (4 bytes each) | values, the last index fastest
//! ```
//!
//! Only type 8 (unsigned bytes) is read: images and labels are nothing else.

use crate::{Malformed, product, shape_text};

const UNSIGNED_BYTES: u8 = 8;

/// An array of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idx<'a> {
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its values, the last index fastest.
    pub values: &'a [u8],
}

/// Reads one array.
pub fn parse(bytes: &[u8]) -> Result<Idx<'_>, Malformed> {
    let (shape, values) = header(bytes)?;
    if product(&shape) != Some(values.len()) {
        let found = format!("{} bytes of values", values.len());
        let expected = format!("as many as its header says, {}", shape_text(&shape));
        return Err(Malformed::new(found, expected));
    }
    Ok(Idx { shape, values })
}

/// The longest header: 255 sizes.
pub const LONGEST_HEADER: usize = 4 + 4 * 255;

/// Bytes of the whole file whose first ones, a header at least, are `start`; none if it is no IDX file.
pub fn declared_size(start: &[u8]) -> Option<usize> {
    let (shape, values) = header(start).ok()?;
    product(&shape)?.checked_add(start.len() - values.len())
}

/// Sizes, and the bytes behind them.
fn header(bytes: &[u8]) -> Result<(Vec<usize>, &[u8]), Malformed> {
    let [zero, also_zero, kind, rank, rest @ ..] = bytes else {
        return Err(Malformed::new(format!("{} bytes", bytes.len()), "an IDX file"));
    };
    if [*zero, *also_zero] != [0, 0] {
        let found = format!("a file that begins with the bytes {:02x?}", &bytes[..4]);
        return Err(Malformed::new(found, "an IDX file, which begins with two zeros"));
    }
    if *kind != UNSIGNED_BYTES {
        let found = format!("an IDX file of values of type {kind}");
        return Err(Malformed::new(found, "type 8, unsigned bytes"));
    }
    let Some((sizes, values)) = rest.split_at_checked(4 * usize::from(*rank)) else {
        return Err(Malformed::new("a file that ends within its header", "a whole IDX file"));
    };
    let size = |word: &[u8]| word.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
    Ok((sizes.chunks_exact(4).map(size).collect(), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_big_endian() {
        let bytes = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        let array = parse(&bytes).unwrap();
        assert_eq!((array.shape, array.values), (vec![2, 3], &[1, 2, 3, 4, 5, 6][..]));
    }

    #[test]
    fn the_header_declares_the_size() {
        let bytes = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        for start in 12..=bytes.len() {
            assert_eq!(declared_size(&bytes[..start]), Some(bytes.len()));
        }
        assert_eq!(declared_size(&bytes[..11]), None);
        assert_eq!(declared_size(&[&[0, 0, 8, 3][..], &[255; 12]].concat()), None);
    }

    #[test]
    fn every_fault_says_what_is_there() {
        for (bytes, part) in [
            (&b""[..], "0 bytes"),
            (b"\x1f\x8b\x08\x00", "[1f, 8b, 08, 00]"),
            (&[0, 0, 13, 1, 0, 0, 0, 0], "type 13"),
            (&[0, 0, 8, 3, 0, 0], "ends within its header"),
            (&[0, 0, 8, 1, 0, 0, 0, 3, 1, 2], "2 bytes of values"),
            (&[0, 0, 8, 1, 0, 0, 0, 1, 1, 2], "as many as its header says, (1)"),
            (&[0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255], "(4294967295, 4294967295)"),
        ] {
            let message = parse(bytes).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
