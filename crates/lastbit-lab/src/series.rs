//! Curves and images: tables of numbers with named columns, and fields of the plane.

use crate::number::Number;

/// A table of numbers with named columns of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Name and values of each column.
    pub columns: Vec<(String, Vec<f64>)>,
}

impl Series {
    /// A series of these columns.
    ///
    /// # Panics
    ///
    /// If the columns differ in length.
    pub fn new<const N: usize>(columns: [(&str, Vec<f64>); N]) -> Self {
        let columns: Vec<_> = columns.into_iter().map(|(name, v)| (name.to_owned(), v)).collect();
        let lengths: Vec<usize> = columns.iter().map(|(_, values)| values.len()).collect();
        assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "column lengths {lengths:?}");
        Self { columns }
    }

    /// The columns by name, for `--json`.
    pub fn to_json(&self) -> serde_json::Map<String, serde_json::Value> {
        let column = |(name, values): &(String, Vec<f64>)| {
            let values = values.iter().map(|value| serde_json::json!(Number(*value)));
            (name.clone(), values.collect())
        };
        self.columns.iter().map(column).collect()
    }

    /// Values of a column.
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find(|(own, _)| own == name).map(|(_, values)| &values[..])
    }
}

/// An image of numbers, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// `height × width` values.
    pub values: Vec<f64>,
}
