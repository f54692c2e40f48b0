//! Curves and images: tables of numbers with named columns, and fields of the plane.

use serde::{Serialize, Serializer};

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

    /// Values of a column.
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find(|(own, _)| own == name).map(|(_, values)| &values[..])
    }

    /// Takes a column out.
    pub fn take(&mut self, name: &str) -> Option<Vec<f64>> {
        let place = self.columns.iter().position(|(own, _)| own == name)?;
        Some(self.columns.remove(place).1)
    }
}

impl Serialize for Series {
    /// The columns by name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = |values: &[f64]| values.iter().map(|value| Number(*value)).collect();
        let columns = self.columns.iter();
        let columns =
            columns.map(|(name, values)| -> (&str, Vec<Number>) { (name, numbers(values)) });
        serializer.collect_map(columns)
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
