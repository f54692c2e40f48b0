//! What the rows of a run say so far.

use super::row::{Column, Row};
use super::summary::{EdgeSummary, Note};
use crate::number::Number;
use crate::series::Series;
use crate::train::thinned::Thinned;

/// Layers whose curves are shown: those with the largest last sharpness.
const MOST_LAYERS: usize = 8;
/// Notes that are kept; a run that notes more repeats itself.
const MOST_NOTES: usize = 100;

/// The rows of a run; of very many [some](crate::train::thinned).
#[derive(Debug, Default)]
pub struct History {
    rows: Thinned<Row>,
    /// The last row.
    pub last: Option<Row>,
    /// What could not be measured.
    pub notes: Vec<Note>,
}

impl History {
    /// Takes note of a row.
    pub fn add(&mut self, row: Row) {
        if let Some(note) = row.note.as_ref().filter(|_| self.notes.len() < MOST_NOTES) {
            self.notes.push(Note { step: row.step, note: note.clone() });
        }
        let key = row.edge_ratio.or(row.loss).map_or(f64::NAN, |number| number.0);
        self.last = Some(row.clone());
        self.rows.push(key, row);
    }

    /// Rows so far.
    pub fn count(&self) -> usize {
        self.rows.seen()
    }

    /// Steps at which something was measured, and what.
    pub fn measured(&self, of: impl Fn(&Row) -> Option<Number>) -> Vec<(u64, f64)> {
        self.rows.kept().filter_map(|row| Some((row.step, of(row)?.0))).collect()
    }

    /// The last row in which something was measured.
    pub fn last_with<T>(&self, of: impl Fn(&Row) -> Option<T>) -> Option<(&Row, T)> {
        self.rows.kept().filter_map(|row| Some((row, of(row)?))).last()
    }

    /// The edge ratio along the run; none where it was not measured.
    pub fn edge(&self) -> Option<EdgeSummary> {
        let all = self.measured(|row| row.edge_ratio.filter(|ratio| !ratio.0.is_nan()));
        let (last_step, last) = *all.last()?;
        let (max_step, max) = all.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        // At least one measurement, and a quarter of them rounded up.
        let late = &all[all.len() - all.len().div_ceil(4)..];
        Some(EdgeSummary {
            measurements: all.len(),
            last: Number(last),
            last_step,
            max: Number(max),
            max_step,
            first_step_at_edge: all.iter().find(|(_, ratio)| *ratio >= 1.0).map(|(step, _)| *step),
            late_median: Number(median(late.iter().map(|(_, ratio)| *ratio).collect())),
            late_from_step: late[0].0,
            late_measurements: late.len(),
        })
    }

    /// A curve: the rows in which the first of these columns was measured.
    pub fn curve(&self, columns: &[Column]) -> Option<Series> {
        let (_, of_first) = columns[0];
        let rows: Vec<&Row> = self.rows.kept().filter(|row| of_first(row).is_some()).collect();
        let steps = rows.iter().map(|row| row.step as f64).collect();
        let mut all = vec![("step".to_owned(), steps)];
        all.extend(columns.iter().map(|(name, of)| {
            let value = |row: &&Row| of(row).map_or(f64::NAN, |number| number.0);
            ((*name).to_owned(), rows.iter().map(value).collect())
        }));
        (!rows.is_empty()).then_some(Series { columns: all })
    }

    /// Names and curves of the sharpest layers. Columns have numbers: a name may hold a comma, or be a number itself.
    pub fn layers(&self) -> Option<(Vec<String>, Series)> {
        let rows: Vec<&Row> = self.rows.kept().filter(|row| !row.sharpness_of.is_empty()).collect();
        let mut last: Vec<(&String, f64)> =
            rows.last()?.sharpness_of.iter().map(|(name, number)| (name, number.0)).collect();
        last.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut columns =
            vec![("step".to_owned(), rows.iter().map(|row| row.step as f64).collect())];
        let names: Vec<String> =
            last.into_iter().take(MOST_LAYERS).map(|(name, _)| name.clone()).collect();
        columns.extend(names.iter().enumerate().map(|(i, name)| {
            let value = |row: &&Row| row.sharpness_of.get(name).map_or(f64::NAN, |n| n.0);
            (format!("layer_{}", i + 1), rows.iter().map(value).collect())
        }));
        Some((names, Series { columns }))
    }
}

/// The median, which for an even number lies between two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
