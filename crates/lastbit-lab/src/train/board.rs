//! Event files of TensorBoard while a training runs, where `[logging] tensorboard = true` asks for them.
//!
//! ```text
//! RUN/tensorboard/REPLICA/events.out.tfevents.SECONDS.lastbit-N      N: sessions so far
//! ```
//!
//! Each row of metrics becomes an event as it is written. A session that resumes begins a file of its own, which says from which step on
//! it counts; TensorBoard then drops what an interrupted session had logged beyond its checkpoint. The files are for looking at: they
//! have times, and no hash.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use lastbit_formats::logs::event_writer::{EventWriter, Histogram};
use lastbit_formats::logs::{Value, json};

use super::metrics::Row;
use super::prepare::Prepared;
use super::sharpness::{density_files, read_density};
use crate::error::Error;
use crate::files::create_folder;

/// Beginning of the name of an event file.
pub const EVENT_FILES: &str = "events.out.tfevents.";
/// The name of a spectral density.
pub const DENSITY: &str = "spectral_density";
/// Folder of the event files in that of a run.
const FOLDER: &str = "tensorboard";
/// What a row has beside its metrics.
const NO_METRICS: [&str; 3] = ["step", "replica", "hash"];

/// The event file of each replica.
#[derive(Debug)]
pub struct Board {
    replicas: Vec<(String, PathBuf, EventWriter<File>)>,
}

impl Board {
    /// Begins a file for each replica, if the settings ask for it; what counts from a step on, if the run resumes.
    pub fn begin(
        prepared: &Prepared,
        folder: &Path,
        resumes_after: Option<usize>,
    ) -> Result<Option<Self>, Error> {
        if !prepared.found.settings.logging.tensorboard {
            return Ok(None);
        }
        let mut replicas = Vec::new();
        for named in &prepared.variants.named {
            let folder = folder.join(FOLDER).join(&named.name);
            create_folder(&folder)?;
            let session = fs::read_dir(&folder).into_iter().flatten().count();
            let path = folder.join(format!("{}-{session}", event_file(now())));
            let begin = || {
                let mut file = EventWriter::new(File::create(&path)?, now())?;
                match resumes_after {
                    Some(step) => file.start(step as u64 + 1)?,
                    None => file.text("settings", &as_code(&prepared.found.to_toml()))?,
                }
                std::io::Result::Ok(file)
            };
            let file = begin().map_err(|source| Error::Write { path: path.clone(), source })?;
            replicas.push((named.name.clone(), path, file));
        }
        Ok(Some(Self { replicas }))
    }

    /// Adds rows.
    pub fn append(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let metrics = numbers(&serde_json::to_string(row).expect("a row is plain data"));
            let metrics: Vec<(&str, f64)> =
                metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            for (name, path, file) in &mut self.replicas {
                if *name == row.replica {
                    file.wall_time = now();
                    file.scalars(row.step as u64, &metrics)
                        .map_err(|source| Error::Write { path: path.clone(), source })?;
                }
            }
        }
        Ok(())
    }

    /// Adds the spectral densities that the last step wrote into the folder of the run.
    pub fn end(&mut self, folder: &Path, step: usize) -> Result<(), Error> {
        for (name, path, file) in &mut self.replicas {
            if let Some(density) = spectral_density(folder, name)? {
                file.wall_time = now();
                file.histogram(step as u64, DENSITY, &density)
                    .map_err(|source| Error::Write { path: path.clone(), source })?;
            }
        }
        Ok(())
    }
}

/// The numbers of a line of metrics, by the names that a reader of it gives them: `curvature/sharpness/0`.
fn numbers(line: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let mut note = |name: &str, value: Value| match value {
        Value::Number(number) if !NO_METRICS.contains(&name) => {
            found.push((name.to_owned(), number));
        }
        Value::Number(_) | Value::Text(_) => {}
    };
    json::row(line.as_bytes(), &mut note).expect("a row is an object of metrics");
    found
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The name of an event file that begins at this time, in seconds; TensorBoard reads files in the order of their names.
pub fn event_file(wall_time: f64) -> String {
    format!("{EVENT_FILES}{:010}.lastbit", wall_time as u64)
}

/// The spectral density of a replica, if it was measured.
pub fn spectral_density(run: &Path, replica: &str) -> Result<Option<Histogram>, Error> {
    if !run.join(&density_files(replica)[0]).is_file() {
        return Ok(None);
    }
    let series = read_density(run, replica)?;
    let column = |name: &str| series.columns.iter().find(|(own, _)| own == name);
    let (Some((_, lambda)), Some((_, density))) = (column("lambda"), column("density")) else {
        return Ok(None);
    };
    Ok(Some(histogram(lambda, density)))
}

/// The part of the spectrum between two points has the mean of their densities.
fn histogram(lambda: &[f64], density: &[f64]) -> Histogram {
    let amount = |place: usize| {
        0.5 * (density[place] + density[place + 1]) * (lambda[place + 1] - lambda[place])
    };
    Histogram {
        least: lambda.first().copied().unwrap_or(0.0),
        limits: lambda.iter().skip(1).copied().collect(),
        amounts: (0..lambda.len().saturating_sub(1)).map(amount).collect(),
    }
}

/// In Markdown, code is indented.
pub fn as_code(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_density_keeps_its_mass() {
        let found = histogram(&[-1.0, 0.0, 2.0], &[0.0, 0.5, 0.25]);
        assert_eq!((found.least, &found.limits[..]), (-1.0, &[0.0, 2.0][..]));
        assert_eq!(found.amounts, [0.25, 0.75]);
    }

    #[test]
    fn numbers_of_a_row_have_the_names_of_a_log() {
        let row = serde_json::json!({"loss": 0.5, "hash": "ab", "curvature": {"sharpness": [1.0, "NaN"]}, "none": null});
        let found = numbers(&row.to_string());
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["loss", "curvature/sharpness/0", "curvature/sharpness/1"]);
        assert!(found[0].1 == 0.5 && found[2].1.is_nan());
    }
}
