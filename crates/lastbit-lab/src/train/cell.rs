//! A training run as a cell of a record: run or resumed, then turned into [numbers and curves](super::run_outcome).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::manifest;
use super::prepare::Prepared;
use super::run::CONFIG;
use super::run_outcome::of_folder;
use super::settings::{ConfigFile, Device};
use super::timing::Timing;
use super::{Begin, Ending, is_run, train};
use crate::error::Error;
use crate::files::remove_folder;
use crate::lock::Lock;
use crate::progress::{Monitor, Progress};
use crate::record::Outcome;
use crate::relative_path::RelativePath;

/// A training run that stands behind a cell.
#[derive(Debug, Clone)]
pub struct Training {
    /// Its settings.
    pub found: ConfigFile,
    /// Threads it is to run on, to show that nothing depends on them; such a run is one of its own.
    pub threads: Option<usize>,
    /// Folder of its data set, where it is not the usual one.
    pub data: Option<PathBuf>,
}

impl Training {
    /// On as many threads as there are.
    pub fn new(found: ConfigFile) -> Self {
        Self { found, threads: None, data: None }
    }

    /// Where the run lies below the folder of all records: runs of equal settings are one.
    pub fn folder(&self) -> RelativePath {
        let hash = &blake3::hash(self.found.to_toml().as_bytes()).to_hex()[..16];
        let threads = self.threads.map(|n| format!("-{n}-threads")).unwrap_or_default();
        RelativePath::new(format!("runs/{hash}{threads}"))
    }

    /// The same training on another device: a run of its own.
    pub fn on(mut self, device: Device) -> Result<Self, Error> {
        let change = device.as_setting();
        self.found = ConfigFile::parse(&self.found.to_toml(), &self.found.path, &[change])?;
        Ok(self)
    }

    /// Trains below `out`, going on with what is there unless it is to be `fresh`; the whole is
    /// `units` of the progress. Nothing where it was stopped first.
    pub fn compute(
        &self,
        out: &Path,
        fresh: bool,
        progress: &Progress,
        units: u64,
    ) -> Result<Option<Outcome>, Error> {
        let run = || self.run(out, fresh, progress, units);
        let Some(threads) = self.threads else { return run() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|error| Error::setting("--threads", threads, format!("fewer ({error})")))?
            .install(run)
    }

    fn run(
        &self,
        out: &Path,
        fresh: bool,
        progress: &Progress,
        units: u64,
    ) -> Result<Option<Outcome>, Error> {
        let folder = out.join(&*self.folder());
        let _turn = turn(&folder, progress.monitor())?;
        let resumes =
            !fresh && is_whole(&folder, progress.monitor())? && has_settings(&folder, &self.found)?;
        if !resumes {
            forget(&folder)?;
        }
        let prepared = Prepared::new(self.found.clone(), self.data.as_deref(), !resumes)?;
        let begin = if resumes { Begin::Resume } else { Begin::New };
        let summary = match train(&prepared, &folder, begin, progress, units)? {
            Ending::Finished(summary) => summary,
            Ending::Stopped { reason, step } => {
                let (folder, steps) = (folder.display(), prepared.steps);
                let line = format!("{folder}: {reason} after step {step} of {steps}, saved");
                progress.monitor().note(&line);
                return Ok(None);
            }
        };
        let outcome = of_folder(&prepared, &folder)?;
        let device = Timing::read(&folder).and_then(|timing| timing.device);
        let (run, commit) = (Some(self.folder()), Some(summary.commit));
        Ok(Some(Outcome { run, commit, device, ..outcome }))
    }
}

/// Waits until no other process works at this run, for this cell or another. The lock lies beside
/// the folder, which is removed where it holds no run of these settings.
fn turn(folder: &Path, monitor: &dyn Monitor) -> Result<Lock, Error> {
    let path = folder.with_extension("lock");
    if let Some(runs) = folder.parent() {
        fs::create_dir_all(runs)
            .map_err(|source| Error::Write { path: runs.to_owned(), source })?;
    }
    if let Some(lock) = Lock::try_now(&path)? {
        return Ok(lock);
    }
    monitor.note(&format!("{}: waiting for another process to finish this run", folder.display()));
    Lock::wait(&path)
}

/// Whether nothing is damaged of what an ended run left; else the user is told.
fn is_whole(folder: &Path, monitor: &dyn Monitor) -> Result<bool, Error> {
    match manifest::check_before_resuming(folder) {
        Err(Error::Damaged { path, message, .. }) => {
            let path = path.display();
            monitor.note(&format!("{path}: damaged: {message}; this run is trained again"));
            Ok(false)
        }
        result => result.map(|()| true),
    }
}

/// Removes a run. Its settings go first: what a kill leaves of the folder is then no run, and is
/// removed the next time.
fn forget(folder: &Path) -> Result<(), Error> {
    let path = folder.join(CONFIG);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Write { path, source }),
        _ => remove_folder(folder),
    }
}

/// Whether there is a run of these settings in a folder.
fn has_settings(folder: &Path, found: &ConfigFile) -> Result<bool, Error> {
    if !is_run(folder) {
        return Ok(false);
    }
    let path = folder.join(CONFIG);
    let text = fs::read_to_string(&path);
    let text = text.map_err(|source| Error::Read { path: path.clone(), source })?;
    Ok(ConfigFile::parse(&text, &path, &[])?.first_difference(found).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use crate::train::names::ReplicaNumber;

    #[test]
    fn sharpness_is_told_in_curves_and_numbers() {
        let text = r#"
            data = { name = "mnist01", limit = 24, test-limit = 8 }
            network = { kind = "mlp", hidden = [3] }
            optimizer = { name = "sgd", dt = 0.1 }
            training = { steps = 5, batch = 12 }
            sharpness = { every = 2, top = 2, layers = true, density = true }
            replicas = { k = [1, 3] }
        "#;
        let found = ConfigFile::parse(text, Path::new("own.toml"), &[]).unwrap();
        let out = tempfile::tempdir().unwrap();
        let progress = Progress::new(&Silent, "test", 1);
        let training = Training::new(found);
        let outcome = training.compute(out.path(), false, &progress, 1).unwrap();
        let outcome = outcome.expect("nothing stops it");
        let series = &outcome.series["k1-sharpness"];
        let column = |name: &str| {
            let found = series.columns.iter().find(|(column, _)| column == name);
            found.unwrap_or_else(|| panic!("no column {name}")).1.clone()
        };
        assert_eq!(column("step"), [0.0, 2.0, 4.0, 5.0]);
        let sharpness = column("sharpness");
        assert_eq!(outcome.numbers[&ReplicaNumber::LastSharpness.of("k1")].0, sharpness[3]);
        let largest = sharpness.iter().copied().fold(f64::NAN, f64::max);
        assert_eq!(outcome.numbers[&ReplicaNumber::MaxSharpness.of("k1")].0, largest);
        for name in
            ["sharpness_2", "residual", "edge_ratio", "products", "fc1.weight", "fc2.weight"]
        {
            assert!(column(name).iter().all(|value| value.is_finite()), "{name}");
        }
        assert!(outcome.series.contains_key("k1-density"));
        // Only the first replica is measured unless all are asked for.
        assert!(!outcome.series.contains_key("k3-sharpness"));
        assert!(!outcome.numbers.contains_key(&ReplicaNumber::MaxSharpness.of("k3")));
    }
}
