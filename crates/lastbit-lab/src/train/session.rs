//! A run from its request to its page: what `lastbit train` does.

use std::path::{Path, PathBuf};

use super::{
    Begin, ConfigFile, Device, Ending, Opened, Prepared, RunSummary, is_run, page, require_device,
    settings_in_checkpoints, train,
};
use crate::error::Error;
use crate::input::read_toml;
use crate::lock::Lock;
use crate::progress::{Monitor, Progress, StopReason};

/// Where settings are found.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// In a TOML file.
    File(PathBuf),
    /// In a text of TOML.
    Text {
        /// The text.
        text: String,
        /// Its name in messages. Paths in it are relative to the folder of this name, and a run that is given
        /// no folder is named after it.
        name: PathBuf,
    },
}

impl ConfigSource {
    /// Settings in JSON, under a name.
    pub fn from_json(json: &str, name: &Path) -> Result<Self, Error> {
        let refuse = |message: String| Error::Config { path: name.to_owned(), message };
        let table: toml::Table =
            serde_json::from_str(json).map_err(|error| refuse(error.to_string()))?;
        let text = toml::to_string(&table).map_err(|error| refuse(error.to_string()))?;
        Ok(Self::Text { text, name: name.to_owned() })
    }

    /// The file, or the name of the text.
    pub fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Text { name, .. } => name,
        }
    }

    /// The text.
    pub fn read(&self) -> Result<String, Error> {
        match self {
            Self::File(path) => read_toml(path),
            Self::Text { text, .. } => Ok(text.clone()),
        }
    }
}

/// A training run as it is asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Settings; those of the run or of the checkpoint to fork otherwise.
    pub config: Option<ConfigSource>,
    /// Whether the run in the folder is continued.
    pub resume: bool,
    /// A checkpoint from which a new run starts.
    pub fork: Option<PathBuf>,
    /// Changes to the settings, `section.key=value`.
    pub set: Vec<String>,
    /// Device to train on.
    pub device: Option<Device>,
    /// Folder of the data sets.
    pub data: Option<PathBuf>,
}

/// A run that can start.
pub struct Session {
    /// Settings, data and network.
    pub prepared: Prepared,
    /// Its folder.
    pub folder: PathBuf,
    begin: Begin,
    resumes: bool,
}

/// How a session ended.
pub enum SessionEnd {
    /// With the run; its summary.
    Finished(Box<RunSummary>),
    /// At a checkpoint.
    Stopped(StoppedRun),
}

/// A run that was stopped at a checkpoint.
#[derive(Debug, Clone)]
pub struct StoppedRun {
    /// Why.
    pub reason: StopReason,
    /// Steps done, all of them saved.
    pub step: usize,
    /// Steps in all.
    pub steps: usize,
    /// Its folder.
    pub folder: PathBuf,
}

impl Request {
    /// Reads settings and data. The run's folder is `out` where that was given, and one below it otherwise.
    pub fn prepare(&self, out: &Path, out_was_given: bool) -> Result<Session, Error> {
        let folder = if out_was_given { out.to_owned() } else { self.folder_below(out)? };
        let has_run = is_run(&folder)?;
        let resumes = self.resume && has_run;
        let fork = self.fork.as_deref().map(Opened::read).transpose()?;
        let found = self.settings(&folder, fork.as_ref())?;
        if !self.resume && has_run {
            // Without a device, another folder would not help.
            require_device(&found)?;
            let expected = "a folder without one; --resume continues this run, --out DIR starts \
                            another";
            let found = "a run".to_owned();
            return Err(Error::Input { path: folder, found, expected: expected.to_owned() });
        }
        let begins = fork.is_none() && !resumes;
        let prepared = Prepared::new(found, self.data.as_deref(), begins)?;
        let begin = match fork {
            Some(opened) => {
                check_goes_on(&prepared, &opened)?;
                Begin::Fork(Box::new(opened))
            }
            None if resumes => Begin::Resume,
            None => Begin::New,
        };
        Ok(Session { prepared, folder, begin, resumes })
    }

    /// The folder of a run that was given none: named after its file.
    fn folder_below(&self, out: &Path) -> Result<PathBuf, Error> {
        let Some(config) = &self.config else {
            return Err(if self.resume || self.fork.is_some() {
                Error::setting("--out", "none", "the folder of the run, or a CONFIG")
            } else {
                no_config()
            });
        };
        match config.name().file_stem() {
            Some(stem) => Ok(out.join("train").join(stem)),
            // Such as "..": no name of a file.
            None => Err(config.read().err().unwrap_or_else(no_config)),
        }
    }

    fn settings(&self, folder: &Path, fork: Option<&Opened>) -> Result<ConfigFile, Error> {
        let (path, text) = match (&self.config, fork) {
            (None, Some(opened)) => {
                let path = self.fork.clone().unwrap_or_default();
                (path, opened.state.settings.clone())
            }
            (Some(config), _) => (config.name().to_owned(), config.read()?),
            (None, None) => {
                let of_run = folder.join("config.toml");
                if of_run.exists() {
                    let text = read_toml(&of_run)?;
                    (of_run, text)
                } else {
                    // What a checkpoint says is what the file said.
                    let found = settings_in_checkpoints(folder)?.ok_or_else(no_config)?;
                    return self.changed(&found.to_toml(), &found.path);
                }
            }
        };
        self.changed(&text, &path).map_err(|error| match error {
            Error::Config { path, message } if self.config.is_none() && self.resume => {
                let message = format!(
                    "{message}; without this file --resume takes the settings from the last checkpoint"
                );
                Error::Config { path, message }
            }
            other => other,
        })
    }

    /// Settings with what the request changes.
    fn changed(&self, text: &str, path: &Path) -> Result<ConfigFile, Error> {
        let device = self.device.map(Device::as_setting);
        let set: Vec<String> = self.set.iter().cloned().chain(device).collect();
        ConfigFile::parse(text, path, &set)
    }
}

impl Session {
    /// Trains to the end of the run, or to a checkpoint where the monitor asks to stop, and writes its page.
    pub fn run(self, monitor: &dyn Monitor) -> Result<SessionEnd, Error> {
        let Self { prepared, folder, begin, resumes } = self;
        let steps = prepared.steps as u64;
        let progress = Progress::new(monitor, "train", steps);
        require_device(&prepared.found)?;
        let lock = Lock::try_now(&folder, monitor)?;
        if is_run(&folder)? != resumes {
            let found = "a run that another process changed while this one started".to_owned();
            let expected = "the same run as before; give the command again".to_owned();
            return Err(Error::Input { path: folder, found, expected });
        }
        let ending = train(&prepared, &lock, begin, &progress, steps)?;
        drop(progress);
        match ending {
            Ending::Finished(summary) => {
                page::write(&prepared, &lock, &summary)?;
                Ok(SessionEnd::Finished(summary))
            }
            Ending::Stopped { reason, step } => {
                let steps = prepared.steps;
                Ok(SessionEnd::Stopped(StoppedRun { reason, step, steps, folder }))
            }
        }
    }
}

fn no_config() -> Error {
    let expected = "a configuration; `lastbit train --example > config.toml` writes one";
    Error::setting("CONFIG", "none", expected)
}

/// A fork has steps left to do.
fn check_goes_on(prepared: &Prepared, opened: &Opened) -> Result<(), Error> {
    let (step, steps) = (opened.state.step, prepared.steps);
    if step < steps {
        return Ok(());
    }
    let key = if prepared.found.settings.training.epochs.is_some() { "epochs" } else { "steps" };
    let found = format!("{steps} steps in all");
    let expected = format!("more than the {step} of the checkpoint; --set training.{key}=…");
    Err(prepared.found.refuse(&format!("training.{key}"), found, expected))
}
