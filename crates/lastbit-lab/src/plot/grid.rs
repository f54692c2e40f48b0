//! A table of numbers with coloured cells, and the numbers in it.

use super::spread::Spread;
use super::{colour, source};
use crate::error::Error;
use crate::figure::{HeatMap, Quantity};
use crate::record::{Record, Store};

/// The numbers of a heat map, multiplied by its factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Row by row; none where the cell is not finished.
    pub entries: Vec<Vec<Option<f64>>>,
    /// Standard deviation of each row over its finished entries; none of fewer than two.
    pub of_rows: Vec<Option<f64>>,
    /// The same of each column.
    pub of_columns: Vec<Option<f64>>,
    /// Least and greatest finite entry.
    pub range: Option<[f64; 2]>,
}

impl Grid {
    /// Reads the numbers.
    pub fn read(store: &Store, record: &Record, map: &HeatMap) -> Result<Self, Error> {
        let (rows, columns) = (map.rows.len(), map.columns.len());
        if rows == 0
            || columns == 0
            || map.entries.len() != rows
            || map.entries.iter().any(|row| row.len() != columns)
        {
            let lengths: Vec<usize> = map.entries.iter().map(Vec::len).collect();
            let message = format!(
                "a heat map has {rows} names of rows and {columns} of columns, and rows of \
                 {lengths:?} entries; expected as many, and at least one of each"
            );
            return Err(source::refuse(store, message));
        }
        let scaled = |entry: &Quantity| {
            let value = source::quantity(store, record, entry)?;
            Ok(value.map(|value| map.factor * value))
        };
        let row = |row: &Vec<Quantity>| row.iter().map(scaled).collect::<Result<Vec<_>, Error>>();
        Ok(Self::of(map.entries.iter().map(row).collect::<Result<_, Error>>()?, columns))
    }

    fn of(entries: Vec<Vec<Option<f64>>>, columns: usize) -> Self {
        let spread = |values: Vec<f64>| Spread::of(&values).and_then(|spread| spread.std);
        let of_rows = entries.iter().map(|row| spread(row.iter().flatten().copied().collect()));
        let column = |k: usize| entries.iter().filter_map(|row| row[k]).collect();
        let finite = || entries.iter().flatten().flatten().copied().filter(|v| v.is_finite());
        let low = finite().fold(f64::INFINITY, f64::min);
        let high = finite().fold(f64::NEG_INFINITY, f64::max);
        Self {
            of_rows: of_rows.collect(),
            of_columns: (0..columns).map(|k| spread(column(k))).collect(),
            range: (low <= high).then_some([low, high]),
            entries,
        }
    }

    /// Shade of an entry; none where it is no finite number.
    pub fn shade(&self, value: f64) -> Option<[u8; 3]> {
        let [low, high] = self.range.filter(|_| value.is_finite())?;
        // Equal numbers have no order; they stand in the middle.
        let place = if low < high { (value - low) / (high - low) } else { 0.5 };
        Some(colour::shade(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn spreads_are_of_what_is_there() {
        let grid = Grid::of(vec![vec![Some(1.0), Some(3.0)], vec![None, Some(f64::NAN)]], 2);
        assert_eq!(grid.of_rows, [Some(f64::sqrt(2.0)), None]);
        assert_eq!(grid.of_columns[0], None);
        assert!(grid.of_columns[1].unwrap().is_nan(), "a number that is none must be seen");
        assert_eq!(grid.range, Some([1.0, 3.0]));
        assert_eq!(grid.shade(1.0), Some(colour::shade(0.0)));
        assert_eq!((grid.shade(f64::NAN), grid.shade(f64::INFINITY)), (None, None));
        let equal = Grid::of(vec![vec![Some(2.0), Some(2.0)]], 2);
        assert_eq!(equal.shade(2.0), Some(colour::shade(0.5)));
        assert_eq!(Grid::of(vec![vec![None]], 1).range, None);
    }

    #[test]
    fn entries_that_do_not_fit_their_names_are_refused() {
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::training(out.path());
        let mut map = sample::accuracies(2);
        assert!(Grid::read(&store, &record, &map).is_ok());
        map.entries[1].pop();
        let message = Grid::read(&store, &record, &map).unwrap_err().to_string();
        assert!(message.contains("2 names of rows and 6 of columns"), "{message}");
        assert!(message.contains("[6, 5]"), "{message}");
        let nothing = HeatMap { rows: vec![], entries: vec![], ..map };
        let message = Grid::read(&store, &record, &nothing).unwrap_err().to_string();
        assert!(message.contains("0 names of rows"), "{message}");
    }

    #[test]
    fn entries_of_cells_to_come_are_empty() {
        let out = tempfile::tempdir().unwrap();
        let (store, mut record) = sample::training(out.path());
        record.cells.retain(|cell| cell.key != "seed1");
        let grid = Grid::read(&store, &record, &sample::accuracies(3)).unwrap();
        assert!(grid.entries[1].iter().all(Option::is_none) && grid.of_rows[1].is_none());
        assert!(grid.entries[2].iter().all(Option::is_some) && grid.of_columns[0].is_some());
    }
}
