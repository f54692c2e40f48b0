//! The step of each row: which name it stands under.

use std::collections::BTreeMap;

use super::rows::Column;

/// Names that steps stand under in the logs of trainers, the surest first.
const KEYS: [&str; 6] = ["step", "global_step", "iteration", "iter", "_step", "epoch"];

/// Whole numbers above it are no longer told apart.
const MOST: f64 = 9_007_199_254_740_992.0;

/// Whether the steps of a file may stand under a name.
pub fn may_be_step(name: &str, asked: Option<&str>) -> bool {
    match asked {
        Some(asked) => name == asked || is(name, "epoch"),
        None => is_step_key(name),
    }
}

/// Whether trainers log their steps under a name.
pub fn is_step_key(name: &str) -> bool {
    KEYS.iter().any(|key| is(name, key))
}

fn is(name: &str, key: &str) -> bool {
    name.eq_ignore_ascii_case(key)
}

/// Why a column cannot be the steps, and in which row.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What stands there.
    pub found: String,
    /// The first row where it does.
    pub row: u32,
}

/// Where the steps of the rows stand.
#[derive(Debug)]
pub enum Steps {
    /// Under a name. A row without it belongs to the step of the row above.
    Key(String, Column),
    /// Nowhere: rows are numbered from 1.
    Number,
}

impl Steps {
    /// The first name that will do, and why those before it will not. One that begins below rows of the metrics will do if no
    /// other does, and if those are a heading.
    pub fn find(
        columns: &mut BTreeMap<String, Column>,
        metrics: &[&Column],
    ) -> (Self, Vec<(String, Fault)>) {
        let mut faults = Vec::new();
        let mut late = None;
        for key in KEYS {
            let Some(name) = columns.keys().find(|name| is(name, key)).cloned() else { continue };
            let column = &columns[&name];
            let first = column.rows.first().copied().unwrap_or(0);
            let mut fault = fault(column, epochs(columns, &name));
            // Several rows of one epoch are told apart by their number alone.
            if fault.is_none() && key == "epoch" && repeats(column, metrics) {
                let found = "the same in several rows of one metric".into();
                fault = Some(Fault { found, row: first });
            }
            let above = above(column, metrics);
            if fault.is_none() && above > Above::Nothing {
                let found = "the first one, below rows with metrics".into();
                fault = Some(Fault { found, row: first });
                if above == Above::Heading {
                    late.get_or_insert_with(|| (name.clone(), faults.len()));
                }
            }
            match fault {
                Some(fault) => faults.push((name, fault)),
                None => return (Self::key(columns, name), faults),
            }
        }
        match late {
            Some((name, before)) => {
                faults.truncate(before);
                (Self::key(columns, name), faults)
            }
            None => (Self::Number, faults),
        }
    }

    fn key(columns: &mut BTreeMap<String, Column>, name: String) -> Self {
        let column = columns.remove(&name).unwrap_or_default();
        Self::Key(name, column)
    }

    /// The name that was asked for, or why it will not do; `None` if no row has it.
    pub fn asked(
        columns: &mut BTreeMap<String, Column>,
        name: &str,
    ) -> Option<Result<Self, Fault>> {
        let fault = fault(columns.get(name)?, epochs(columns, name));
        Some(match fault {
            Some(fault) => Err(fault),
            None => Ok(Self::key(columns, name.to_owned())),
        })
    }

    /// The steps of rows that are asked for in their order.
    pub fn along(&self) -> Along<'_> {
        match self {
            Self::Key(_, column) => Along::of(column),
            Self::Number => Along { steps: None, next: 0 },
        }
    }
}

/// The step of one row after the other.
#[derive(Debug)]
pub struct Along<'a> {
    /// `None` where rows are numbered.
    steps: Option<&'a Column>,
    next: usize,
}

impl<'a> Along<'a> {
    fn of(steps: &'a Column) -> Self {
        Self { steps: Some(steps), next: 0 }
    }

    /// The step of a row, which does not lie above the one before; rows above the first step have none.
    pub fn step_of(&mut self, row: u32) -> Option<u64> {
        let Some(steps) = self.steps else { return Some(u64::from(row) + 1) };
        while steps.rows.get(self.next).is_some_and(|own| *own <= row) {
            self.next += 1;
        }
        Some(steps.values[self.next.checked_sub(1)?] as u64)
    }
}

/// The column of the epochs, if it is another one.
fn epochs<'a>(columns: &'a BTreeMap<String, Column>, name: &str) -> Option<&'a Column> {
    columns.iter().find(|(own, _)| is(own, "epoch") && *own != name).map(|(_, column)| column)
}

/// What is wrong with a column of steps.
fn fault(steps: &Column, epochs: Option<&Column>) -> Option<Fault> {
    for (row, value) in steps.rows.iter().zip(&steps.values) {
        if !(value.fract() == 0.0 && (0.0..MOST).contains(value)) {
            return Some(Fault { found: value.to_string(), row: *row });
        }
    }
    // A counter that starts again in each epoch is no step; a resumed run goes back in its epochs as well.
    let epoch_of = |row: u32| {
        let epochs = epochs?;
        let at = epochs.rows.binary_search(&row).ok()?;
        Some(epochs.values[at])
    };
    for (rows, values) in steps.rows.windows(2).zip(steps.values.windows(2)) {
        if values[1] < values[0]
            && epoch_of(rows[1]) > epoch_of(rows[0])
            && epoch_of(rows[0]).is_some()
        {
            let found = format!("{} after {} while the epoch goes on", values[1], values[0]);
            return Some(Fault { found, row: rows[1] });
        }
    }
    None
}

/// What of the metrics lies above the first row of a key, and so has no step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Above {
    Nothing,
    /// One value of a metric at most, such as the number of parameters.
    Heading,
    /// Values of one metric in several rows.
    Series,
}

fn above(steps: &Column, metrics: &[&Column]) -> Above {
    let Some(first) = steps.rows.first() else { return Above::Nothing };
    let of = |column: &&Column| match column.rows.partition_point(|row| row < first) {
        0 => Above::Nothing,
        1 => Above::Heading,
        _ => Above::Series,
    };
    metrics.iter().map(of).max().unwrap_or(Above::Nothing)
}

/// Whether a metric has two values at one of these steps.
fn repeats(steps: &Column, metrics: &[&Column]) -> bool {
    metrics.iter().any(|column| {
        let mut along = Along::of(steps);
        let mut last = None;
        column.rows.iter().any(|row| {
            let step = along.step_of(*row);
            let is_repeated = step.is_some() && step == last;
            last = step;
            is_repeated
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(entries: &[(u32, f64)]) -> Column {
        let (rows, values) = entries.iter().copied().unzip();
        Column { rows, values }
    }

    fn columns(named: &[(&str, &[(u32, f64)])]) -> BTreeMap<String, Column> {
        named.iter().map(|(name, entries)| ((*name).to_owned(), column(entries))).collect()
    }

    fn key(named: &[(&str, &[(u32, f64)])], metric: &[(u32, f64)]) -> (Option<String>, usize) {
        let (steps, faults) = Steps::find(&mut columns(named), &[&column(metric)]);
        let key = if let Steps::Key(name, _) = steps { Some(name) } else { None };
        (key, faults.len())
    }

    #[test]
    fn the_first_name_that_will_do_is_the_step() {
        let whole: &[(u32, f64)] = &[(0, 1.0), (1, 2.0)];
        let half: &[(u32, f64)] = &[(0, 0.5), (1, 1.0)];
        let some = |name: &str| Some(name.to_owned());
        let twice: &[(u32, f64)] = &[(0, 0.1), (1, 0.2), (2, 0.3)];
        assert_eq!(
            key(&[("epoch", whole), ("iter", whole), ("Step", whole)], whole),
            (some("Step"), 0)
        );
        assert_eq!(key(&[("epoch", whole), ("step", half)], whole), (some("epoch"), 1));
        assert_eq!(key(&[("epoch", whole)], twice), (None, 1));
        assert_eq!(key(&[("iter", whole)], twice), (some("iter"), 0));
        assert_eq!(key(&[("epoch", half)], whole), (None, 1));
        for value in [-1.0, f64::NAN, f64::INFINITY, MOST] {
            assert_eq!(key(&[("step", &[(0, value)])], whole), (None, 1), "{value}");
        }
    }

    #[test]
    fn a_counter_that_starts_again_in_each_epoch_is_no_step() {
        let iter: &[(u32, f64)] = &[(0, 50.0), (1, 100.0), (2, 50.0)];
        assert_eq!(
            key(&[("iter", iter), ("epoch", &[(0, 1.0), (1, 1.0), (2, 2.0)])], iter),
            (None, 2)
        );
        // A resumed run goes back in both.
        let found = key(&[("iter", iter), ("epoch", &[(0, 1.0), (1, 2.0), (2, 1.0)])], iter);
        assert_eq!(found, (Some("iter".to_owned()), 0));
    }

    #[test]
    fn a_key_below_rows_with_metrics_is_none_unless_they_are_a_heading() {
        let (epoch, step): (&[_], &[_]) = (&[(0, 1.0), (1, 2.0)], &[(2, 500.0)]);
        let some = |name: &str| Some(name.to_owned());
        for metric in [&[(0, 0.5), (1, 0.4)][..], &[(0, 0.5)]] {
            assert_eq!(key(&[("epoch", epoch), ("step", step)], metric), (some("epoch"), 1));
        }
        assert_eq!(key(&[("step", step)], &[(0, 0.5), (1, 0.4)]), (None, 1));
        assert_eq!(key(&[("step", step)], &[(0, 0.5), (2, 0.4)]), (some("step"), 0));
        // An evaluation at the start and at the end of the first epoch.
        let epoch: &[_] = &[(0, 0.0), (2, 0.0)];
        assert_eq!(
            key(&[("epoch", epoch), ("step", step)], &[(0, 0.5), (2, 0.4)]),
            (some("step"), 0)
        );
    }

    #[test]
    fn a_row_without_a_step_belongs_to_the_one_above() {
        let column = column(&[(1, 10.0), (3, 20.0)]);
        let steps = |steps: &Steps| {
            let mut along = steps.along();
            [0, 1, 1, 2, 3, 9].map(|row| along.step_of(row))
        };
        let expected = [None, Some(10), Some(10), Some(10), Some(20), Some(20)];
        assert_eq!(steps(&Steps::Key("step".into(), column)), expected);
        assert_eq!(steps(&Steps::Number), [1, 2, 2, 3, 4, 10].map(Some));
    }
}
