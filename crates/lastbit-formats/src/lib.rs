//! Parsers of files that others wrote.
//!
//! Each is a function from bytes to values or to [`Malformed`]. Invariants:
//!
//! - No bytes make a parser panic.
//! - No header makes it reserve memory that the bytes themselves do not justify: sizes are computed
//!   with checked arithmetic and compared with the length of the input first. A compressed image may
//!   grow by what its compression can do, for deflate 1032-fold ([`MOST_INFLATION`]); a compressed
//!   file grows to the bound that its reader gives.
//! - No files: whoever reads a file adds its name to the error.

pub mod archive;
pub mod cifar;
pub mod csv;
pub mod idx;
pub mod labels;
pub mod logs;
pub mod npy;
pub mod png;
pub mod results;
pub mod tensors;

/// Deflate spends at least 2 bits on a copy of at most 258 bytes: one byte in means at most 1032
/// out.
pub const MOST_INFLATION: usize = 1032;

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct Malformed {
    /// What is there.
    pub found: String,
    /// What would do.
    pub expected: String,
}

impl Malformed {
    /// Says what is there and what would do.
    pub fn new(found: impl ToString, expected: impl ToString) -> Self {
        Self { found: found.to_string(), expected: expected.to_string() }
    }
}

/// Number of values of an array, if it fits.
fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n))
}

/// Property tests draw the same cases at every run.
#[cfg(test)]
fn fixed_seed() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..Default::default()
    }
}

/// Names for a message: the first of them, and how many more there are.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A shape as numpy prints it.
pub fn shape_text(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("({})", sizes.join(", "))
}
