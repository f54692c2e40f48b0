//! A run as event files of TensorBoard.
//!
//! ```text
//! DIR/events.out.tfevents.…               metrics of a run, which may be any that `logged` reads; its settings as a text
//! DIR/REPLICA/events.out.tfevents.…       of a run of several replicas: one of TensorBoard's runs for each
//! ```
//!
//! A spectral density is a histogram at the last step. Event files round to float32, and their times are that of the file of metrics: a
//! run does not keep those of its steps. Nothing is written where there are event files already: TensorBoard would show both.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use lastbit_formats::logs::event_writer::{EventWriter, Histogram};
use serde::Serialize;

use crate::error::Error;
use crate::files::{create_folder, write_atomically_with};
use crate::input::{read_toml, refuse};
use crate::logged::{self, Choice, LoggedRun, Metric};
use crate::train::{
    self, DENSITY, EVENT_FILES, as_code, density_files, event_file, spectral_density,
};

/// The settings of a run.
const SETTINGS: &str = "config.toml";

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exported {
    /// The event files.
    pub files: Vec<PathBuf>,
    /// Metrics in all of them.
    pub metrics: usize,
    /// Values of these.
    pub values: usize,
    /// What was not exported, and why.
    pub notes: Vec<String>,
}

/// Writes the metrics of a run, its settings and its spectral densities into event files below a folder.
pub fn tensorboard(run: &Path, choice: &Choice, out: &Path) -> Result<Exported, Error> {
    let (logged, has_replicas) = read(run, choice)?;
    let wall_time = wall_time(&logged)?;
    let settings = run.join(SETTINGS);
    let settings = if settings.is_file() { Some(read_toml(&settings)?) } else { None };
    let mut exported =
        Exported { files: vec![], metrics: 0, values: 0, notes: logged.notes.clone() };
    let parts = parts(logged, has_replicas);
    for name in parts.keys() {
        refuse_event_files(&out.join(name))?;
    }
    for (name, metrics) in &parts {
        let folder = out.join(name);
        create_folder(&folder)?;
        let path = folder.join(event_file(wall_time));
        let density = density(run, name, metrics)?;
        write_atomically_with(&path, |file| {
            let mut file = EventWriter::new(BufWriter::new(file), wall_time)?;
            if let Some(settings) = &settings {
                file.text("settings", &as_code(settings))?;
            }
            write_scalars(&mut file, metrics)?;
            if let Some((step, density)) = &density {
                file.histogram(*step, DENSITY, density)?;
            }
            file.finish()
        })?;
        exported.files.push(path);
        exported.metrics += metrics.len();
        exported.values += metrics.values().map(|metric| metric.steps.len()).sum::<usize>();
    }
    Ok(exported)
}

/// The metrics that were chosen, and whether their names begin with that of a replica, which all metrics of a run of ours tell.
fn read(run: &Path, choice: &Choice) -> Result<(LoggedRun, bool), Error> {
    if !train::has_metrics_of_run(run) {
        return Ok((logged::read(run, choice)?, false));
    }
    let all = Choice { metrics: vec![], step_key: choice.step_key.clone() };
    let mut logged = logged::read(run, &all)?;
    let has_replicas = !logged.metrics.contains_key(train::IN_EACH_ROW);
    if !choice.metrics.is_empty() {
        let of = run.display().to_string();
        logged.metrics = logged::matching(logged.metrics, &of, &choice.metrics)?;
    }
    Ok((logged, has_replicas))
}

/// When the last of the files was written, in seconds.
fn wall_time(run: &LoggedRun) -> Result<f64, Error> {
    let mut latest = 0.0;
    for path in &run.files {
        let failed = |source| Error::Read { path: path.clone(), source };
        let modified = fs::metadata(path).and_then(|data| data.modified()).map_err(failed)?;
        let seconds = modified.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        latest = f64::max(latest, seconds);
    }
    Ok(latest)
}

/// The metrics of each replica of a run of `lastbit train` that has several; of any other run all metrics, without a name.
fn parts(logged: LoggedRun, has_replicas: bool) -> BTreeMap<String, BTreeMap<String, Metric>> {
    let mut parts: BTreeMap<String, BTreeMap<String, Metric>> = BTreeMap::new();
    for (name, metric) in logged.metrics {
        let (replica, name) = match name.split_once('/') {
            Some((replica, name)) if has_replicas => (replica.to_owned(), name.to_owned()),
            _ => (String::new(), name),
        };
        parts.entry(replica).or_default().insert(name, metric);
    }
    parts
}

fn refuse_event_files(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(EVENT_FILES) {
            let expected =
                "a folder without event files; remove them, or give another with --tensorboard";
            return Err(refuse(&entry.path(), "an event file", expected));
        }
    }
    Ok(())
}

/// All metrics of a step are one event.
fn write_scalars<W: Write>(
    file: &mut EventWriter<W>,
    metrics: &BTreeMap<String, Metric>,
) -> io::Result<()> {
    let mut steps: Vec<u64> =
        metrics.values().flat_map(|metric| metric.steps.iter().copied()).collect();
    steps.sort_unstable();
    steps.dedup();
    let mut places = vec![0; metrics.len()];
    for step in steps {
        let mut values = Vec::new();
        for ((name, metric), place) in metrics.iter().zip(&mut places) {
            if metric.steps.get(*place) == Some(&step) {
                values.push((name.as_str(), metric.values[*place]));
                *place += 1;
            }
        }
        file.scalars(step, &values)?;
    }
    Ok(())
}

/// The spectral density of a replica at its last step; that of a run of one replica has its name in the file.
fn density(
    run: &Path,
    replica: &str,
    metrics: &BTreeMap<String, Metric>,
) -> Result<Option<(u64, Histogram)>, Error> {
    let replica = match replica {
        "" => only_density(run),
        replica => Some(replica.to_owned()),
    };
    let Some(replica) = replica else { return Ok(None) };
    let last = metrics.values().filter_map(|metric| metric.steps.last().copied()).max();
    let found = spectral_density(run, &replica)?;
    Ok(found.map(|density| (last.unwrap_or(0), density)))
}

/// The replica of the only spectral density in a folder.
fn only_density(run: &Path) -> Option<String> {
    let [of_none, _] = density_files("");
    let (start, end) = of_none.split_once('.')?;
    let mut names = fs::read_dir(run).ok()?.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix(start)?.strip_suffix(&format!(".{end}"))?.to_owned())
    });
    names.next().filter(|_| names.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_step_are_one_event_and_nothing_is_written_twice() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.csv");
        fs::write(&log, "step,loss,accuracy\n1,0.5,\n2,0.25,0.75\n").unwrap();
        let out = folder.path().join("board");
        let exported = tensorboard(&log, &Choice::default(), &out).unwrap();
        assert_eq!((exported.files.len(), exported.metrics, exported.values), (1, 2, 3));
        let again = logged::read(&out, &Choice::default()).unwrap();
        assert_eq!(again.metrics, logged::read(&log, &Choice::default()).unwrap().metrics);
        let refused = tensorboard(&log, &Choice::default(), &out).unwrap_err().to_string();
        assert!(refused.contains("found an event file"), "{refused}");
    }
}
