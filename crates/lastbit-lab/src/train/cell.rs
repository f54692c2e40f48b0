//! A training run as a cell of a record: run or resumed, then turned into [numbers and curves](super::run_outcome).

use std::fs;
use std::path::{Path, PathBuf};

use super::prepare::Prepared;
use super::run::CONFIG;
use super::run_outcome::of_folder;
use super::settings::{ConfigFile, Device};
use super::timing::Timing;
use super::{Begin, Ending, is_run, train};
use crate::error::Error;
use crate::files::{remove, sync_folder};
use crate::lock::{self, Lock};
use crate::progress::Progress;
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
        // Another process may work at this run, for this cell or another.
        let lock = match Lock::wait(&folder, progress.monitor()) {
            Err(Error::Stopped(_)) => return Ok(None),
            lock => lock?,
        };
        if fresh || !is_run(&folder)? {
            forget(&folder)?;
        }
        let (prepared, ending) = match self.train(&lock, progress, units) {
            // What no checkpoint can mend is computed again: a cell is not lost to a damaged file.
            Err(Error::NotResumable { message, .. }) => {
                progress.monitor().note(&format!("{message}; this training begins again"));
                forget(&folder)?;
                self.train(&lock, progress, units)?
            }
            other => other?,
        };
        let summary = match ending {
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

    /// Begins the run in a folder, or resumes the one that is there.
    fn train(
        &self,
        lock: &Lock,
        progress: &Progress,
        units: u64,
    ) -> Result<(Prepared, Ending), Error> {
        let resumes = is_run(lock.folder())?;
        let prepared = Prepared::new(self.found.clone(), self.data.as_deref(), !resumes)?;
        let begin = if resumes { Begin::Resume } else { Begin::New };
        let ending = train(&prepared, lock, begin, progress, units)?;
        Ok((prepared, ending))
    }
}

/// Removes a run, but not its folder, which is locked. Its settings and checkpoints go first: what a kill leaves of it
/// is then no run, and is removed the next time.
fn forget(folder: &Path) -> Result<(), Error> {
    remove(&folder.join(CONFIG))?;
    remove(&folder.join("checkpoints"))?;
    let wrong = |source| Error::Write { path: folder.to_owned(), source };
    sync_folder(folder).map_err(wrong)?;
    let entries = fs::read_dir(folder);
    let entries = entries.map_err(|source| Error::Read { path: folder.to_owned(), source })?;
    let others = entries.flatten().filter(|entry| entry.file_name() != lock::NAME);
    others.map(|entry| entry.path()).try_for_each(|path| remove(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{Monitor, Silent};
    use crate::train::names::ReplicaNumber;
    use std::sync::Mutex;

    /// What is told while a training is computed again below `out`.
    fn notes(training: &Training, out: &Path, expected: &Outcome) -> String {
        #[derive(Default)]
        struct Notes(Mutex<Vec<String>>);
        impl Monitor for Notes {
            fn note(&self, line: &str) {
                self.0.lock().unwrap().push(line.to_owned());
            }
        }
        let notes = Notes::default();
        let progress = Progress::new(&notes, "test", 1);
        let outcome = training.compute(out, false, &progress, 1).unwrap().expect("an end");
        assert_eq!((&outcome.hash, &outcome.numbers), (&expected.hash, &expected.numbers));
        // As text: what was not measured is NaN, which equals nothing.
        assert_eq!(format!("{:?}", outcome.series), format!("{:?}", expected.series));
        notes.0.lock().unwrap().join("\n")
    }

    #[test]
    fn a_damaged_run_is_mended_or_begins_again_and_says_so() {
        let text = r#"
            data = { name = "mnist01", limit = 24, test-limit = 8 }
            network = { kind = "mlp", hidden = [3] }
            optimizer = { name = "sgd", dt = 0.1 }
            training = { steps = 4, batch = 12, metrics-every = 1, checkpoint-every = 2 }
            replicas = { k = [1, 3] }
        "#;
        let found = ConfigFile::parse(text, Path::new("own.toml"), &[]).unwrap();
        let out = tempfile::tempdir().unwrap();
        let training = Training::new(found);
        let folder = out.path().join(&*training.folder());
        let progress = Progress::new(&Silent, "test", 1);
        let first = training.compute(out.path(), false, &progress, 1).unwrap().expect("an end");
        let again = || notes(&training, out.path(), &first);
        assert_eq!(again(), "");

        let edit = |name: &str, change: &dyn Fn(&str) -> String| {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            fs::write(folder.join(name), change(&text)).unwrap();
        };
        let checkpoint = |step: usize| format!("checkpoints/step-{step}.safetensors");
        fs::write(folder.join(checkpoint(4)), "").unwrap();
        let note = again();
        assert!(note.contains("step-4") && note.contains("resuming from"), "{note}");
        fs::write(folder.join(checkpoint(2)), "").unwrap();
        fs::write(folder.join(checkpoint(4)), "").unwrap();
        let note = again();
        assert!(note.contains("step-4") && note.ends_with("this training begins again"), "{note}");
        edit("metrics.jsonl", &|text| text.replacen("\"k3\"", "\"k5\"", 1));
        let note = again();
        assert!(note.contains("no replica is called k5") && note.ends_with("again"), "{note}");
        // Settings are known without the file.
        edit(CONFIG, &|text| text.replace("0.1", "0.2"));
        assert_eq!(again(), "");
        fs::remove_file(folder.join(CONFIG)).unwrap();
        assert_eq!(again(), "");
        assert!(folder.join(CONFIG).exists());
        // A run of other settings does not belong there.
        let other = Training::new(
            ConfigFile::parse(text, Path::new("own.toml"), &["optimizer.dt=0.2".to_owned()])
                .unwrap(),
        );
        other.compute(out.path(), false, &progress, 1).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(out.path().join(&*other.folder()), &folder).unwrap();
        let note = again();
        assert!(note.contains("optimizer.dt") && note.ends_with("begins again"), "{note}");
    }

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
