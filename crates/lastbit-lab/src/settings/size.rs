//! Rows by columns.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Rows by columns, written `64x48`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('x').map(|(h, w)| (h.parse(), w.parse()));
        match parts {
            Some((Ok(height), Ok(width))) => Ok(Self { height, width }),
            _ => Err(format!("found \"{text}\", expected rows x columns, such as 64x48")),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}
