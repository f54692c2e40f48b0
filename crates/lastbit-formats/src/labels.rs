//! Labels as a JSON array of numbers.

use crate::Malformed;

/// Reads `[6, 9, 9, ...]`.
pub fn parse(bytes: &[u8]) -> Result<Vec<u32>, Malformed> {
    serde_json::from_slice(bytes)
        .map_err(|error| Malformed::new(error, "a JSON array of labels, whole numbers from 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_only() {
        assert_eq!(parse(b"[6, 9,\n 0]").unwrap(), [6, 9, 0]);
        for text in ["", "[1, -2]", "[1.5]", "{\"a\": 1}", "[1, 2", "[4294967296]"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
