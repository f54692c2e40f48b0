//! Settings from flags and from a TOML file with the same names. A flag wins over the file, the
//! file over the default.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use lastbit_lab::Error;
use lastbit_lab::input::read_toml;
use lastbit_lab::settings::Given;

/// The innermost command that was called: what was given, and what could have been.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// Arguments as they were given.
    pub matches: &'a ArgMatches,
    /// The command.
    pub command: &'a clap::Command,
}

impl<'a> Called<'a> {
    /// Goes down to the innermost command.
    pub fn innermost(matches: &'a ArgMatches, command: &'a clap::Command) -> Self {
        match matches.subcommand() {
            Some((name, inner)) => {
                let sub = command.find_subcommand(name).expect("a command that was parsed exists");
                Self::innermost(inner, sub)
            }
            None => Self { matches, command },
        }
    }

    /// Whether a flag stands on the command line.
    pub fn is_given(&self, id: &str) -> bool {
        self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// Does something that asks which flags were given. A file may hold others: those of records hold all settings.
    pub fn with<T>(&self, work: impl FnOnce(Given) -> T) -> T {
        work(Given::new(&|name| self.is_given(&name.replace('-', "_"))))
    }

    /// Names a file may use: the settings of the command, not what says how it is run.
    fn keys(&self) -> Vec<String> {
        let no_settings =
            ["json", "threads", "out", "config", "expect", "fresh", "csv", "map", "help"];
        let ids = self.command.get_arguments().map(|argument| argument.get_id().as_str());
        ids.filter(|id| !no_settings.contains(id)).map(|id| id.replace('_', "-")).collect()
    }

    /// An error of a setting, with file and key where the value came from the file of `--config`.
    pub fn with_file(&self, error: Error) -> Error {
        let Error::Setting { key: flag, found, expected } = error else { return error };
        match self.file_of(&flag) {
            Some((path, key)) => Error::Input { path, found: format!("{key} = {found}"), expected },
            None => Error::Setting { key: flag, found, expected },
        }
    }

    /// The file of `--config` and the key, if the value of a flag came from there.
    fn file_of(&self, flag: &str) -> Option<(PathBuf, String)> {
        let mut arguments = self.command.get_arguments();
        arguments.find(|argument| argument.get_long() == Some("config"))?;
        let path: &PathBuf = self.matches.get_one("config")?;
        let given: toml::Table = toml::from_str(&read_toml(path).ok()?).ok()?;
        let key = flag.strip_prefix("--").filter(|key| given.contains_key(*key))?;
        (!self.is_given(&key.replace('-', "_"))).then(|| (path.clone(), key.to_owned()))
    }
}

/// Overlays the flags that were given on the file, and both on the defaults; settings have the names of the flags.
pub fn resolve<T: DeserializeOwned>(
    flags: &impl Serialize,
    called: Called,
    file: Option<&Path>,
) -> Result<T, Error> {
    let mut settings = toml::Table::try_from(flags).expect("settings are plain data");
    let Some(path) = file else { return Ok(reread(settings).expect("flags are settings")) };
    let text = read_toml(path)?;
    let refuse = |message: String| Error::Config { path: path.to_owned(), message };
    let given: toml::Table =
        toml::from_str(&text).map_err(|error| refuse(error.to_string().trim_end().to_owned()))?;
    let keys = called.keys();
    for (key, value) in given {
        if !keys.contains(&key) {
            let expected = keys.join(", ");
            return Err(refuse(format!("found the key \"{key}\", expected one of {expected}")));
        }
        let id = key.replace('-', "_");
        if !called.is_given(&id) {
            settings.insert(key, value);
        }
    }
    reread(settings).map_err(|error| refuse(error.to_string().trim_end().to_owned()))
}

fn reread<T: DeserializeOwned>(settings: toml::Table) -> Result<T, toml::de::Error> {
    settings.try_into()
}
