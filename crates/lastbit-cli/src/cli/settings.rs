//! Settings from flags and from a TOML file with the same names. A flag wins over the file, the
//! file over the default.

use std::fs;
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Overlays the flags that were given on the file, and both on the defaults.
pub fn resolve<T: Serialize + DeserializeOwned>(
    flags: &T,
    matches: &ArgMatches,
    file: Option<&Path>,
) -> Result<T, Error> {
    let mut settings = toml::Table::try_from(flags).expect("settings are plain data");
    let Some(path) = file else { return Ok(reread(settings).expect("flags are settings")) };
    let text =
        fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let refuse = |message: String| Error::Config { path: path.to_owned(), message };
    let given: toml::Table = toml::from_str(&text).map_err(|e| refuse(e.to_string()))?;
    for (key, value) in given {
        let id = key.replace('-', "_");
        let known = matches.try_contains_id(&id).is_ok();
        if !known || matches.value_source(&id) != Some(ValueSource::CommandLine) {
            settings.insert(key, value);
        }
    }
    // A key that is no setting is refused here, with the names of those that are.
    reread(settings).map_err(|error| refuse(error.to_string().trim_end().to_owned()))
}

fn reread<T: DeserializeOwned>(settings: toml::Table) -> Result<T, toml::de::Error> {
    settings.try_into()
}

/// Requires a positive, finite number.
pub fn positive(flag: &str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::setting(flag, value, "a number greater than 0"))
    }
}

/// Requires a finite number that is not negative.
pub fn not_negative(flag: &str, value: f64) -> Result<(), Error> {
    if value >= 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::setting(flag, value, "0 or a number greater than 0"))
    }
}

/// Requires a whole number within `low ..= high`.
pub fn within(flag: &str, value: usize, low: usize, high: usize) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::setting(flag, value, format!("a whole number from {low} to {high}")))
    }
}
