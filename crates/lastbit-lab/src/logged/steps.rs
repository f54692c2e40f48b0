//! The step of each row: which name it stands under, and what it means where steps repeat or go back.

use std::collections::BTreeMap;

use super::Metric;
use super::rows::Column;

/// Names that steps stand under in the logs of trainers, the surest first.
pub const KEYS: [&str; 6] = ["step", "global_step", "iteration", "iter", "_step", "epoch"];

/// Whole numbers above it are no longer told apart.
const MOST: f64 = 9_007_199_254_740_992.0;

/// Whether the steps of a file may stand under a name.
pub fn may_be_step(name: &str, asked: Option<&str>) -> bool {
    match asked {
        Some(asked) => name == asked || is(name, "epoch"),
        None => KEYS.iter().any(|key| is(name, key)),
    }
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
    /// The first name that will do, and why those before it will not; `repeats` says whether a metric has two values at
    /// one of these steps.
    pub fn find(
        columns: &mut BTreeMap<String, Column>,
        repeats: impl Fn(&Column) -> bool,
    ) -> (Self, Vec<(String, Fault)>) {
        let mut faults = Vec::new();
        for key in KEYS {
            let Some(name) = columns.keys().find(|name| is(name, key)).cloned() else { continue };
            let mut fault = fault(&columns[&name], epochs(columns, &name));
            // Several rows of one epoch are told apart by their number alone.
            if fault.is_none() && key == "epoch" && repeats(&columns[&name]) {
                let row = columns[&name].rows[0];
                fault = Some(Fault { found: "the same in several rows of one metric".into(), row });
            }
            match fault {
                Some(fault) => faults.push((name, fault)),
                None => {
                    let column = columns.remove(&name).unwrap_or_default();
                    return (Self::Key(name, column), faults);
                }
            }
        }
        (Self::Number, faults)
    }

    /// The name that was asked for, or why it will not do; `None` if no row has it.
    pub fn asked(
        columns: &mut BTreeMap<String, Column>,
        name: &str,
    ) -> Option<Result<Self, Fault>> {
        let fault = fault(columns.get(name)?, epochs(columns, name));
        let column = columns.remove(name)?;
        Some(match fault {
            Some(fault) => Err(fault),
            None => Ok(Self::Key(name.to_owned(), column)),
        })
    }

    /// The metric over its steps.
    pub fn place(&self, column: &Column) -> Placed {
        let mut placed = Placed::default();
        let entries = column.rows.iter().zip(&column.values);
        match self {
            Self::Number => {
                entries.for_each(|(row, value)| placed.push(u64::from(*row) + 1, *value));
            }
            Self::Key(_, steps) => {
                let mut next = 0;
                for (row, value) in entries {
                    while steps.rows.get(next).is_some_and(|own| own <= row) {
                        next += 1;
                    }
                    // Rows above the first step have none.
                    if let Some(last) = next.checked_sub(1) {
                        placed.push(steps.values[last] as u64, *value);
                    }
                }
            }
        }
        placed
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

/// A metric over its steps, and what was replaced in it.
#[derive(Debug, Default)]
pub struct Placed {
    /// The metric.
    pub metric: Metric,
    /// Values at a step that had one already.
    pub repeated: u64,
    /// The first time that steps went back: from where, to where.
    pub back: Option<(u64, u64)>,
    /// Values that were replaced because steps went back.
    pub replaced: u64,
}

impl Placed {
    /// Takes back what was logged from a step on.
    pub fn restart(&mut self, step: u64) {
        let Metric { steps, values } = &mut self.metric;
        let kept = steps.partition_point(|old| *old < step);
        if let Some(last) = steps.last().filter(|_| kept < steps.len()) {
            self.back.get_or_insert((*last, step));
            self.replaced += (steps.len() - kept) as u64;
        }
        steps.truncate(kept);
        values.truncate(kept);
    }

    /// Adds a value. A value at a step that was there already replaces it; what was logged at later steps is that of a
    /// run which was interrupted and resumed here.
    pub fn push(&mut self, step: u64, value: f64) {
        if self.metric.steps.last() == Some(&step) {
            self.repeated += 1;
            self.metric.steps.pop();
            self.metric.values.pop();
        } else {
            self.restart(step);
        }
        self.metric.steps.push(step);
        self.metric.values.push(value);
    }
}

/// What was replaced in all metrics of a log.
#[derive(Debug, Default)]
pub struct Seams {
    back: Option<(u64, u64)>,
    replaced: u64,
    repeated: Option<String>,
    repeats: u64,
}

impl Seams {
    /// Takes note of a metric.
    pub fn add(&mut self, name: &str, placed: &Placed) {
        self.back = self.back.or(placed.back);
        self.replaced += placed.replaced;
        if self.repeated.is_none() && placed.repeated > 0 {
            self.repeated = Some(name.to_owned());
        }
        self.repeats += placed.repeated;
    }

    /// What the reader should know.
    pub fn notes(self) -> Vec<String> {
        let Self { replaced, repeats, .. } = self;
        let back = self.back.map(|(from, to)| {
            let count = if replaced == 1 { "1 value".into() } else { format!("{replaced} values") };
            format!(
                "steps go back from {from} to {to}, as where a run is resumed: {count} of later steps that were \
                 logged before do not count"
            )
        });
        let repeated = self.repeated.map(|name| {
            format!("{repeats} times a metric has another value at the same step, first {name}: the last counts")
        });
        back.into_iter().chain(repeated).collect()
    }
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

    fn key(named: &[(&str, &[(u32, f64)])], repeats: bool) -> (Option<String>, usize) {
        let (steps, faults) = Steps::find(&mut columns(named), |_| repeats);
        let key = if let Steps::Key(name, _) = steps { Some(name) } else { None };
        (key, faults.len())
    }

    #[test]
    fn the_first_name_that_will_do_is_the_step() {
        let whole: &[(u32, f64)] = &[(0, 1.0), (1, 2.0)];
        let half: &[(u32, f64)] = &[(0, 0.5), (1, 1.0)];
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            key(&[("epoch", whole), ("iter", whole), ("Step", whole)], false),
            (some("Step"), 0)
        );
        assert_eq!(key(&[("epoch", whole), ("step", half)], false), (some("epoch"), 1));
        assert_eq!(key(&[("epoch", whole)], true), (None, 1));
        assert_eq!(key(&[("epoch", half)], false), (None, 1));
        for value in [-1.0, f64::NAN, f64::INFINITY, MOST] {
            assert_eq!(key(&[("step", &[(0, value)])], false), (None, 1), "{value}");
        }
    }

    #[test]
    fn a_counter_that_starts_again_in_each_epoch_is_no_step() {
        let iter: &[(u32, f64)] = &[(0, 50.0), (1, 100.0), (2, 50.0)];
        assert_eq!(
            key(&[("iter", iter), ("epoch", &[(0, 1.0), (1, 1.0), (2, 2.0)])], true),
            (None, 2)
        );
        // A resumed run goes back in both.
        let found = key(&[("iter", iter), ("epoch", &[(0, 1.0), (1, 2.0), (2, 1.0)])], true);
        assert_eq!(found, (Some("iter".to_owned()), 0));
    }

    #[test]
    fn a_row_without_a_step_belongs_to_the_one_above() {
        let steps = Steps::Key("step".into(), column(&[(1, 10.0), (3, 20.0)]));
        let placed = steps.place(&column(&[(0, 0.5), (1, 0.4), (2, 0.3), (3, 0.2), (9, 0.1)]));
        assert_eq!(placed.metric, Metric { steps: vec![10, 20], values: vec![0.3, 0.1] });
        assert_eq!(placed.repeated, 2);
        let placed = Steps::Number.place(&column(&[(0, 0.5), (2, 0.4)]));
        assert_eq!(placed.metric, Metric { steps: vec![1, 3], values: vec![0.5, 0.4] });
    }

    #[test]
    fn a_resumed_run_replaces_what_it_makes_again() {
        let mut placed = Placed::default();
        for (step, value) in [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (2, 1.2), (3, 1.3)] {
            placed.push(step, value);
        }
        let expected = Metric { steps: vec![1, 2, 3], values: vec![0.1, 1.2, 1.3] };
        assert_eq!((placed.metric, placed.back, placed.replaced), (expected, Some((4, 2)), 3));
        assert_eq!(placed.repeated, 0);
    }
}
