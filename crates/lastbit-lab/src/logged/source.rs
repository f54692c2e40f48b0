//! One log: a file, or files of one kind that continue each other.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use lastbit_formats::logs::events::{self, Event};
use lastbit_formats::logs::{table, trainer_state};

use super::lines;
use super::rows::{Read, Rows};
use super::seams::{self, History, Seams};
use crate::error::Error;
use crate::input::{self, extension, refuse};

/// What a log is written in. The first that has a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `trainer_state.json` of Hugging Face.
    TrainerState,
    /// A JSON object in each line.
    Lines,
    /// A table with a line of names.
    Table,
    /// TensorBoard's event files, which have 32 bits for most numbers.
    Events,
}

impl Kind {
    /// By the name of a file.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        match extension(path).as_str() {
            _ if name.contains("tfevents") => Some(Self::Events),
            "json" => Some(Self::TrainerState),
            "jsonl" | "ndjson" => Some(Self::Lines),
            "csv" => Some(Self::Table),
            _ => None,
        }
    }
}

/// A log.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// What it is written in.
    pub kind: Kind,
    /// Its name below the folder of the run, for metrics that other logs have as well.
    pub label: String,
    /// The files of each session: a resumed run may write to other files.
    pub sessions: Vec<Vec<PathBuf>>,
}

impl Log {
    /// The log in a file.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let Some(kind) = Kind::of(path) else {
            let expected = "a log of metrics: .jsonl, .ndjson, .csv, trainer_state.json or an event file of TensorBoard";
            return Err(refuse(path, "another kind of file", expected));
        };
        Ok(Self { kind, label: String::new(), sessions: vec![vec![path.to_owned()]] })
    }

    /// Its metrics.
    pub fn read(&self, step_key: Option<&str>) -> Result<Read, Error> {
        let mut sessions = self.sessions.iter().map(|files| session(self.kind, files, step_key));
        let mut all = sessions.next().transpose()?.unwrap_or_default();
        for session in sessions {
            continue_with(&mut all, session?);
        }
        Ok(all)
    }

    /// All its files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.sessions.iter().flatten()
    }
}

/// Appends what a resumed run logged.
fn continue_with(all: &mut Read, next: Read) {
    all.notes.extend(next.notes);
    all.notes.extend(seams::resume(&mut all.metrics, next.metrics));
}

fn session(kind: Kind, files: &[PathBuf], step_key: Option<&str>) -> Result<Read, Error> {
    if kind == Kind::Events {
        return read_events(files);
    }
    let mut all = Read::default();
    for path in files {
        let mut rows =
            Rows::new(step_key, if kind == Kind::TrainerState { "entry" } else { "line" });
        match kind {
            Kind::TrainerState => state_rows(path, &mut rows).map(drop),
            Kind::Table => table_rows(path, &mut rows),
            Kind::Lines | Kind::Events => lines::read(path, &mut rows),
        }?;
        let mut read = rows.finish(path)?;
        read.notes.iter_mut().for_each(|note| *note = format!("{}: {note}", path.display()));
        continue_with(&mut all, read);
    }
    Ok(all)
}

/// The rows of a table.
fn table_rows(path: &Path, rows: &mut Rows) -> Result<(), Error> {
    let bytes = input::read(path)?;
    let mut added = Ok(());
    let table = table::rows(&bytes, &mut |line, name, value| {
        if added.is_ok() {
            added = rows.add(line, name, value, path);
        }
    });
    let table = table.map_err(|error| Error::input(path, error))?;
    added.and_then(|()| rows.end(path))?;
    if table.is_cut {
        rows.note("the last line has no end and is left out".into());
    }
    Ok(())
}

/// The rows of a trainer state; returns its last step.
pub fn state_rows(path: &Path, rows: &mut Rows) -> Result<u64, Error> {
    let bytes = input::read(path)?;
    let mut added = Ok(());
    let step = trainer_state::parse(&bytes, &mut |row, name, value| {
        if added.is_ok() {
            added = rows.add(row, name, value, path);
        }
    });
    let step = step.map_err(|error| Error::input(path, error))?;
    added.and_then(|()| rows.end(path))?;
    Ok(step)
}

/// The scalars of the event files of a folder, in the order of their names, which begin with their time.
fn read_events(files: &[PathBuf]) -> Result<Read, Error> {
    let mut history = History::default();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut notes = Vec::new();
    let mut row = 0;
    for path in files {
        let bytes = input::read(path)?;
        let end = events::parse(&bytes, &mut |event| {
            row += 1;
            match event {
                Event::Scalar { step, tag, value } => {
                    let series = match numbers.get(tag) {
                        Some(series) => *series,
                        None => *numbers.entry(tag.to_owned()).or_insert(history.add(tag)),
                    };
                    history.push(series, row, step, value);
                }
                Event::Start { step } => history.restart(row, step),
            }
        });
        let end = end.map_err(|error| {
            let advice = "; write the log again, or remove the file from the folder";
            refuse(path, error.found, error.expected + advice)
        })?;
        if let Some(at) = end.cut_at {
            let path = path.display();
            notes.push(format!("{path}: the last record (byte {at}) has no end and is left out"));
        }
    }
    let (mut metrics, mut seams) = (BTreeMap::new(), Seams::default());
    history.finish(&mut metrics, &mut seams);
    let folder = files.first().and_then(|file| file.parent()).unwrap_or(Path::new(""));
    notes.extend(seams.notes().into_iter().map(|note| format!("{}: {note}", folder.display())));
    Ok(Read { metrics, notes })
}
