//! Rows of a file, turned into columns: one for each metric of each replica.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::path::Path;

use lastbit_formats::listed;
use lastbit_formats::logs::Value;

use super::Metric;
use super::seams::{History, Seams, is_progress};
use super::steps::{self, Fault, Steps};
use crate::error::Error;
use crate::input::refuse;
use crate::nearest::suggestion;

/// The key that names the replica of a row.
const REPLICA: &str = "replica";

/// Numbers of all layers of a large model, for many replicas: a file that has more holds something else.
const MOST_METRICS: usize = 1_000_000;

/// The hash of the parameters, in rows of our own.
const PARAMETERS: &str = "hash";

/// The entries of one name, in the order of the rows.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// The row of each entry.
    pub rows: Vec<u32>,
    /// Its number.
    pub values: Vec<f64>,
}

impl Column {
    fn push(&mut self, row: u32, value: f64) {
        self.rows.push(row);
        self.values.push(value);
    }
}

/// The rows of a file.
#[derive(Debug, Default)]
pub struct Rows {
    /// The line, or the number, of each row in the file.
    lines: Vec<u64>,
    /// Names of metrics, by their first appearance.
    names: Vec<String>,
    ids: HashMap<String, usize>,
    /// The first row that has text under a name.
    texts: HashMap<usize, u32>,
    replicas: Vec<String>,
    replica_ids: HashMap<String, usize>,
    /// By replica and name.
    columns: Vec<Vec<Column>>,
    /// The entries of all replicas that may be steps, by name.
    steps: BTreeMap<String, Column>,
    step_key: Option<String>,
    /// What the file calls a row: `line`.
    unit: &'static str,
    /// The row that is being read: its entries, by name, and its replica.
    row: Vec<(usize, f64)>,
    replica: Option<String>,
    notes: Vec<String>,
}

/// What is made of the rows of a file.
#[derive(Debug, Default)]
pub struct Read {
    /// The metrics by name.
    pub metrics: BTreeMap<String, Metric>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Rows {
    /// No rows; `step_key` is the name that was asked for, and a `unit` is where a row stands.
    pub fn new(step_key: Option<&str>, unit: &'static str) -> Self {
        Self { step_key: step_key.map(str::to_owned), unit, ..Self::default() }
    }

    /// Takes an entry of a row; another line begins another row.
    pub fn add(&mut self, line: u64, name: &str, value: Value, path: &Path) -> Result<(), Error> {
        if self.lines.last() != Some(&line) {
            if !self.lines.is_empty() {
                self.end(path)?;
            }
            self.begin(line);
        }
        self.entry(name, value);
        Ok(())
    }

    /// Where the row that is being read stands.
    fn place(&self) -> String {
        format!("{} {}", self.unit, self.lines.last().copied().unwrap_or(0))
    }

    /// A row begins, at a line of the file.
    pub fn begin(&mut self, line: u64) {
        self.lines.push(line);
    }

    /// An entry of the row.
    pub fn entry(&mut self, name: &str, value: Value) {
        if name == REPLICA {
            self.replica = Some(match value {
                Value::Text(text) => text.to_owned(),
                Value::Number(number) => number.to_string(),
            });
            return;
        }
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => {
                self.names.push(name.to_owned());
                self.ids.insert(name.to_owned(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        match value {
            Value::Number(number) => self.row.push((id, number)),
            Value::Text(_) => {
                self.texts.entry(id).or_insert(self.lines.len() as u32 - 1);
            }
        }
    }

    /// The row is whole, if there is one.
    pub fn end(&mut self, path: &Path) -> Result<(), Error> {
        let Some(row) = self.lines.len().checked_sub(1) else { return Ok(()) };
        let metrics = self.names.len().saturating_mul(self.replicas.len());
        if metrics > MOST_METRICS || self.lines.len() >= u32::MAX as usize {
            let found =
                format!("more than {MOST_METRICS} metrics or 2^32 rows up to {}", self.place());
            return Err(refuse(path, found, "a log of metrics, which has fewer"));
        }
        let row = row as u32;
        let name = self.replica.take().unwrap_or_default();
        let replica = match self.replica_ids.get(&name) {
            Some(id) => *id,
            None => {
                self.replica_ids.insert(name.clone(), self.replicas.len());
                self.replicas.push(name);
                self.columns.push(Vec::new());
                self.replicas.len() - 1
            }
        };
        let columns = &mut self.columns[replica];
        for (id, value) in self.row.drain(..) {
            if columns.len() <= id {
                columns.resize_with(id + 1, Column::default);
            }
            columns[id].push(row, value);
            let name = &self.names[id];
            if steps::may_be_step(name, self.step_key.as_deref()) {
                self.steps.entry(name.clone()).or_default().push(row, value);
            }
        }
        Ok(())
    }

    /// The row is not whole and does not count.
    pub fn abandon(&mut self) {
        self.lines.pop();
        self.row.clear();
        self.replica = None;
        let count = self.lines.len() as u32;
        self.texts.retain(|_, row| *row < count);
    }

    /// Something the reader should know.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The metrics over their steps.
    pub fn finish(mut self, path: &Path) -> Result<Read, Error> {
        self.leave_out_texts();
        let steps = self.find_steps(path)?;
        let mut read = Read::default();
        let mut seams = Seams::default();
        let is_one = self.replicas.len() == 1;
        for (replica, columns) in self.replicas.iter().zip(std::mem::take(&mut self.columns)) {
            let mut history = History::default();
            for name in &self.names {
                let is_plain = is_one || replica.is_empty();
                history.add(&if is_plain { name.clone() } else { format!("{replica}/{name}") });
            }
            let is_metric = |(id, _): &(usize, &Column)| match &steps {
                Steps::Key(key, _) => *key != self.names[*id],
                Steps::Number => true,
            };
            let columns = columns.iter().enumerate().filter(is_metric);
            let mut along = steps.along();
            in_order_of_rows(columns, |id, row, value| {
                if let Some(step) = along.step_of(row) {
                    history.push(id, u64::from(row), step, value);
                }
            });
            history.finish(&mut read.metrics, &mut seams);
        }
        self.notes.extend(seams.notes());
        read.notes = self.notes;
        Ok(read)
    }

    /// Names with text are no metrics, and no steps. Which they are is said, but of a hash in each row of ours.
    fn leave_out_texts(&mut self) {
        let mut texts = Vec::new();
        for (id, row) in &self.texts {
            let name = &self.names[*id];
            self.steps.remove(name);
            let mut has_numbers = false;
            for columns in &mut self.columns {
                if let Some(column) = columns.get_mut(*id) {
                    has_numbers |= !column.rows.is_empty();
                    *column = Column::default();
                }
            }
            if has_numbers {
                let (line, unit) = (self.lines[*row as usize], self.unit);
                self.notes.push(format!("{name} is left out, since {unit} {line} has text there"));
            } else if name != PARAMETERS {
                texts.push(name.as_str());
            }
        }
        self.notes.sort();
        if !texts.is_empty() {
            texts.sort_unstable();
            self.notes.push(format!("left out, since it is text: {}", listed(&texts)));
        }
    }

    /// Where the steps stand.
    fn find_steps(&mut self, path: &Path) -> Result<Steps, Error> {
        if let Some(key) = self.step_key.clone() {
            let found = Steps::asked(&mut self.steps, &key);
            let line = |fault: &Fault| self.lines[fault.row as usize];
            return match found {
                Some(Ok(steps)) => {
                    self.note_rows_without(&steps);
                    Ok(steps)
                }
                Some(Err(fault)) => {
                    let found = format!(
                        "{} in {} {} of {}",
                        fault.found,
                        self.unit,
                        line(&fault),
                        path.display()
                    );
                    let expected = format!(
                        "whole numbers under {key} that grow along the file; name another key"
                    );
                    Err(Error::setting("--step-key", found, expected))
                }
                None => {
                    let known = || self.names.iter().map(String::as_str);
                    let advice = suggestion(&key, known()).unwrap_or_else(|| {
                        format!("one of {}", listed(&known().collect::<Vec<_>>()))
                    });
                    let found = format!("{key}, which {} has no numbers under", path.display());
                    Err(Error::setting(
                        "--step-key",
                        found,
                        format!("a name in that file; {advice}"),
                    ))
                }
            };
        }
        let of_replicas = self.columns.iter().flat_map(|columns| self.names.iter().zip(columns));
        let metrics: Vec<&Column> =
            of_replicas.filter(|(name, _)| !is_progress(name)).map(|(_, column)| column).collect();
        let (steps, faults) = Steps::find(&mut self.steps, &metrics);
        for (name, fault) in &faults {
            let (line, unit) = (self.lines[fault.row as usize], self.unit);
            self.notes.push(format!("{name} is no step, since {unit} {line} has {}", fault.found));
        }
        self.note_rows_without(&steps);
        Ok(steps)
    }

    /// Says which rows have no step of their own.
    fn note_rows_without(&mut self, steps: &Steps) {
        let Steps::Key(key, steps) = steps else {
            return self.note("there is no step key: rows are numbered from 1".into());
        };
        let first = steps.rows.first().map_or(self.lines.len(), |row| *row as usize);
        let mut above: BTreeSet<u32> = BTreeSet::new();
        let mut names = BTreeSet::new();
        for columns in &self.columns {
            for (name, column) in self.names.iter().zip(columns) {
                let rows = column.rows.iter().take_while(|row| (**row as usize) < first);
                above.extend(rows);
                if column.rows.first().is_some_and(|row| (*row as usize) < first) {
                    names.insert(name);
                }
            }
        }
        match (above.len(), listed(&Vec::from_iter(names))) {
            (0, _) => {}
            (1, names) => self
                .note(format!("1 row has no {key} and is left out, above the first one: {names}")),
            (rows, names) => self.note(format!(
                "{rows} rows have no {key} and are left out, above the first one: {names}"
            )),
        }
        // A row may have the key twice.
        let with_key = steps.rows.chunk_by(|a, b| a == b).count();
        match self.lines.len() - first - with_key {
            0 => {}
            1 => self.note(format!("1 row has no {key}: it belongs to that of the row above")),
            rows => {
                self.note(format!(
                    "{rows} rows have no {key}: they belong to that of the row above"
                ));
            }
        }
    }
}

/// Hands on the entries of columns row by row.
fn in_order_of_rows<'a>(
    columns: impl Iterator<Item = (usize, &'a Column)>,
    mut each: impl FnMut(usize, u32, f64),
) {
    let columns: Vec<(usize, &Column)> = columns.collect();
    let first =
        |(i, (_, column)): (usize, &(usize, &Column))| Some(Reverse((*column.rows.first()?, i, 0)));
    let mut heap: BinaryHeap<_> = columns.iter().enumerate().filter_map(first).collect();
    while let Some(mut next) = heap.peek_mut() {
        let Reverse((row, i, at)) = *next;
        let (id, column) = columns[i];
        each(id, row, column.values[at]);
        match column.rows.get(at + 1) {
            Some(row) => *next = Reverse((*row, i, at + 1)),
            None => drop(PeekMut::pop(next)),
        }
    }
}
