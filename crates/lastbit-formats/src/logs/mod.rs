//! Metrics that training programs log: JSON lines, tables, TensorBoard's event files and trainer states.
//!
//! Each parser hands on the numbers of a row by name. What a number means, and at which step it was measured, is the
//! reader's to decide.

mod crc32c;
pub mod event_writer;
pub mod events;
pub mod json;
mod protobuf;
pub mod table;
pub mod trainer_state;

/// An entry of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A number; it may be infinite or NaN.
    Number(f64),
    /// Anything else that is written there.
    Text(&'a str),
}

/// Names are no longer than this: that of a nested entry is as long as all names around it.
const LONGEST_NAME: usize = 512;
