//! The logs of a run in its folder.
//!
//! ```text
//! metrics.jsonl                            of our own run directories: nothing else is read there
//! trainer_state.json                       Hugging Face; of its checkpoints, the last one
//! metrics.jsonl, metrics.csv               always
//! *.jsonl, *.ndjson, *.csv                 if one of their names is a step key
//! *tfevents*                               TensorBoard
//! ```
//!
//! Folders below are searched as well, three deep; hidden ones and links are not. Folders of one place called `version_0`,
//! `version_1`, … (Lightning) or `Nov19_14-05-01_HOST` (PyTorch's `SummaryWriter`) are sessions of one run that was
//! resumed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use lastbit_formats::listed;
use lastbit_formats::logs::{json, table};

use super::rows::Rows;
use super::source::{Kind, Log, state_rows};
use super::steps::may_be_step;
use crate::error::Error;
use crate::input::refuse;
use crate::{probe, train};

/// Folders below the one that is given.
const DEPTH: usize = 3;
/// Files and folders of a run; one with a data set in it has more.
const MOST_ENTRIES: usize = 100_000;
/// A step key stands within so many bytes, if there is one.
const BEGINNING: u64 = 1 << 16;

/// The logs of a run, and what was found besides.
pub fn logs(root: &Path, step_key: Option<&str>) -> Result<(Vec<Log>, Vec<String>), Error> {
    let own = root.join(train::METRICS);
    if train::has_metrics_of_run(root) || own.exists() && probe::is_left_of_probe(root) {
        let label = "metrics".to_owned();
        return Ok((vec![Log { kind: Kind::Lines, label, sessions: vec![vec![own]] }], vec![]));
    }
    let mut files = Vec::new();
    let mut count = 0;
    collect(root, DEPTH, &mut count, &mut files)?;
    let mut logs = states(root, &files)?;
    let mut skipped = Vec::new();
    // By kind and by name without what tells sessions apart: the files of each session.
    let mut found: BTreeMap<(Kind, String), BTreeMap<Session, Vec<PathBuf>>> = BTreeMap::new();
    for path in files {
        let below = path.strip_prefix(root).unwrap_or(&path);
        let parts: Vec<String> =
            below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let Some(kind) = Kind::of(&path).filter(|kind| *kind != Kind::TrainerState) else {
            continue;
        };
        if parts.iter().any(|part| is_checkpoint(part)) {
            continue;
        }
        if !is_log(&path, kind, step_key)? {
            skipped.push(parts.join("/"));
            continue;
        }
        let (session, label) = session_and_label(&parts, kind);
        found.entry((kind, label)).or_default().entry(session).or_default().push(path);
    }
    for ((kind, label), sessions) in found {
        let by_time = sessions.keys().all(|session| matches!(session, Session::Started(_)));
        let mut sessions: Vec<Vec<PathBuf>> = sessions.into_values().collect();
        if by_time {
            // The names of event files begin with the time in seconds, those of the folders with the month.
            sessions.sort_by_key(|files| files.first()?.file_name().map(ToOwned::to_owned));
        }
        logs.push(Log { kind, label, sessions });
    }
    if logs.is_empty() {
        let found = match skipped.as_slice() {
            [] => "a folder without a log of metrics".to_owned(),
            skipped => format!("no step key in {}", listed(skipped)),
        };
        let expected = "trainer_state.json, event files of TensorBoard, metrics.jsonl, metrics.csv, or other .jsonl and .csv files \
                        with a step key (--step-key names it)";
        return Err(refuse(root, found, expected));
    }
    let mut notes = Vec::new();
    if !skipped.is_empty() {
        notes.push(format!("not read, since they have no step key: {}", listed(&skipped)));
    }
    for log in logs.iter().filter(|log| log.sessions.len() > 1) {
        let folders: Vec<String> = log
            .sessions
            .iter()
            .filter_map(|files| Some(files.first()?.parent()?.display().to_string()))
            .collect();
        notes.push(format!("read as one run that was resumed: {}", listed(&folders)));
    }
    Ok((logs, notes))
}

/// The files of a folder and of those below it, by name.
fn collect(
    folder: &Path,
    depth: usize,
    count: &mut usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    let unreadable = |source| Error::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    *count += entries.len();
    if *count > MOST_ENTRIES {
        let found = format!("more than {MOST_ENTRIES} files and folders");
        return Err(refuse(folder, found, "the folder of a run, or the file of its log"));
    }
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match entry.file_type().map_err(unreadable)? {
            kind if kind.is_dir() && depth > 0 => collect(&path, depth - 1, count, files)?,
            kind if kind.is_dir() => {}
            // A link to a file is one; pipes would wait.
            _ if path.is_file() && Kind::of(&path).is_some() => files.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn is_checkpoint(name: &str) -> bool {
    checkpoint_step(name).is_some()
}

fn checkpoint_step(name: &str) -> Option<u64> {
    name.strip_prefix("checkpoint-")?.parse().ok()
}

/// The last state of each trainer: that of its folder, or of its last checkpoint.
fn states(root: &Path, files: &[PathBuf]) -> Result<Vec<Log>, Error> {
    // By the folder of the trainer: the step in the name of the checkpoint, if it is one, and the file.
    let mut trainers: BTreeMap<PathBuf, Vec<(Option<u64>, PathBuf)>> = BTreeMap::new();
    for path in files {
        if path.file_name().is_none_or(|name| name != "trainer_state.json") {
            continue;
        }
        let folder = path.parent().unwrap_or(root);
        let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let step = checkpoint_step(&name).filter(|_| folder != root);
        let trainer = if step.is_some() { folder.parent().unwrap_or(root) } else { folder };
        trainers.entry(trainer.to_owned()).or_default().push((step, path.clone()));
    }
    let mut logs = Vec::new();
    for (folder, mut states) in trainers {
        // The one outside a checkpoint comes last; a sort keeps the order of equals.
        states.sort_by_key(|(step, _)| *step);
        let outer = states.first().filter(|(step, _)| step.is_none()).cloned();
        let last = states.last().filter(|(step, _)| step.is_some()).cloned();
        let path = match (outer, last) {
            (Some((_, outer)), Some((_, last))) => {
                if last_step(&last)? > last_step(&outer)? {
                    last
                } else {
                    outer
                }
            }
            (Some((_, path)), None) | (None, Some((_, path))) => path,
            (None, None) => continue,
        };
        let below = folder.strip_prefix(root).unwrap_or(&folder);
        let label = below.join("trainer_state").to_string_lossy().into_owned();
        logs.push(Log { kind: Kind::TrainerState, label, sessions: vec![vec![path]] });
    }
    Ok(logs)
}

fn last_step(path: &Path) -> Result<u64, Error> {
    state_rows(path, &mut Rows::new(None, "entry"))
}

/// Whether a file is a log of metrics: by its name, or by a step key at its beginning.
fn is_log(path: &Path, kind: Kind, step_key: Option<&str>) -> Result<bool, Error> {
    let is_known = path.file_stem().is_some_and(|stem| stem == "metrics");
    if is_known || kind == Kind::Events {
        return Ok(true);
    }
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(BEGINNING).read_to_end(&mut bytes).map_err(unreadable)?;
    let is_key = |name: &str| match step_key {
        Some(key) => name == key,
        None => may_be_step(name, None),
    };
    if kind == Kind::Table {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let names = table::rows(&bytes[..end], &mut |_, _, _| ()).map(|rows| rows.names);
        return Ok(names.is_ok_and(|names| names.iter().any(|name| is_key(name))));
    }
    let mut has_key = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // What is no row is found when the file is read, if it is a log.
        let _ = json::row(line, &mut |name, _| has_key |= is_key(name));
    }
    Ok(has_key)
}

/// What tells the sessions of a run apart, in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Session {
    /// There is one.
    Only,
    /// `version_N`.
    Version(u64),
    /// The name of its folder, with the time of its start.
    Started(String),
}

/// The session of a file, and the name of its log: the path without session and ending, or the folder of event files.
fn session_and_label(parts: &[String], kind: Kind) -> (Session, String) {
    let mut session = Session::Only;
    let (file, folders) = parts.split_last().map_or(("", parts), |(file, rest)| (file, rest));
    let mut kept: Vec<&str> = Vec::new();
    for folder in folders {
        match folder.strip_prefix("version_").and_then(|number| number.parse().ok()) {
            Some(version) => session = Session::Version(version),
            None if kind == Kind::Events && is_start_time(folder) => {
                session = Session::Started(folder.clone());
            }
            None => kept.push(folder),
        }
    }
    let stem = Path::new(file).file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    if kind != Kind::Events && (stem != "metrics" || kept.is_empty()) {
        kept.push(&stem);
    }
    let label = if kept.is_empty() { "events".to_owned() } else { kept.join("/") };
    (session, label)
}

/// `Nov19_14-05-01_HOST`.
fn is_start_time(name: &str) -> bool {
    let pattern = "Aaa00_00-00-00_";
    name.len() > pattern.len()
        && pattern.bytes().zip(name.bytes()).all(|(kind, byte)| match kind {
            b'A' => byte.is_ascii_uppercase(),
            b'a' => byte.is_ascii_lowercase(),
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}
