//! Settings as they are found: read, changed from the command line, and traced to their file.

use std::path::{Path, PathBuf};

use lastbit::optim::method::Name;
use serde_json::Value;

use super::Settings;
use super::optimizer::users_of;
use crate::error::Error;

/// Settings together with where they were found, for messages.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// The settings.
    pub settings: Settings,
    /// Their file.
    pub path: PathBuf,
}

impl ConfigFile {
    /// Reads a text of TOML and lays `changes` (`key.key=value`) over it.
    pub fn parse(text: &str, path: &Path, changes: &[String]) -> Result<Self, Error> {
        let refuse = |message: String| Error::Config { path: path.to_owned(), message };
        let mut table: toml::Table = toml::from_str(text)
            .map_err(|error| refuse(error.to_string().trim_end().to_owned()))?;
        // What the program writes down is complete and says `mu`; only a user says `momentum`.
        let own = format!("{}: optimizer.momentum", path.display());
        check_is_used(&table, "momentum", &own)?;
        for change in changes {
            lay_over(&mut table, change)?;
        }
        spare_full_batches(&mut table);
        let settings: Settings = toml::Value::Table(table.clone())
            .try_into()
            .map_err(|error: toml::de::Error| refuse(error.to_string().trim_end().to_owned()))?;
        let found = Self { settings, path: path.to_owned() };
        found.check()?;
        for key in changes.iter().filter_map(|change| changed_of_optimizer(change)) {
            check_is_used(&table, key, &format!("--set optimizer.{key}"))?;
        }
        Ok(found)
    }

    /// An error about one key.
    pub fn refuse(&self, key: &str, found: impl ToString, expected: impl ToString) -> Error {
        Error::setting(&format!("{}: {key}", self.path.display()), found, expected)
    }

    /// The first key in which `now` differs from these settings, with both values.
    pub fn first_difference(&self, now: &Self) -> Option<(String, Value, Value)> {
        first_difference("", &self.to_json(), &now.to_json())
    }

    /// The settings as they stand in a record.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(&self.settings).expect("settings are plain data")
    }

    /// The settings as TOML, complete: what is left out is what has no default.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.settings).expect("settings are tables of plain values")
    }
}

/// The first key that differs, with both values.
fn first_difference(key: &str, then: &Value, now: &Value) -> Option<(String, Value, Value)> {
    let (Value::Object(a), Value::Object(b)) = (then, now) else {
        return (then != now).then(|| (key.to_owned(), then.clone(), now.clone()));
    };
    let keys = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
    let mut differences = keys.filter_map(|name| {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        let of = |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
        first_difference(&key, &of(a), &of(b))
    });
    differences.next()
}

/// With all examples in a batch an epoch is a step. Where nothing else is said, tests and checkpoints
/// then come a hundred times in a run, and not after every step.
fn spare_full_batches(table: &mut toml::Table) {
    let Some(toml::Value::Table(training)) = table.get_mut("training") else { return };
    let length = training.get("steps").or(training.get("epochs")).and_then(toml::Value::as_integer);
    let is_full = training.get("batch").and_then(toml::Value::as_str) == Some("full");
    if let (true, Some(steps @ 1..)) = (is_full, length) {
        for key in ["evaluate-every", "checkpoint-every"] {
            training.entry(key).or_insert(((steps - 1) / 100 + 1).into());
        }
    }
}

/// Names for one thing, or things of which there is one: a change to one replaces the other.
const ALTERNATIVES: [[&str; 2]; 4] =
    [["epochs", "steps"], ["dt", "lr"], ["mu", "momentum"], ["alpha", "weight-decay"]];

/// Refuses a key of `optimizer` that is there and that its optimizer would not look at.
fn check_is_used(table: &toml::Table, key: &str, at: &str) -> Result<(), Error> {
    let optimizer = table.get("optimizer").and_then(toml::Value::as_table);
    let value = |key: &str| optimizer.and_then(|optimizer| optimizer.get(key));
    let (Some(toml::Value::String(name)), Some(value)) = (value("name"), value(key)) else {
        return Ok(());
    };
    let users = users_of(key);
    if users.is_empty() || users.iter().any(|user| user.name() == name) {
        return Ok(());
    }
    let found = format!("{value} with the optimizer {name}");
    let shown = |user: &Name| match user {
        Name::HeavyBall => "heavy-ball (what PyTorch's SGD does with momentum)",
        other => other.name(),
    };
    let users: Vec<&str> = users.iter().map(shown).collect();
    let expected = match &users[..] {
        [one] => format!("the optimizer {one} with it"),
        [others @ .., last] => format!("the optimizer {} or {last} with it", others.join(", ")),
        [] => unreachable!("some optimizer uses it"),
    };
    Err(Error::setting(at, found, expected))
}

/// The key of `optimizer` that a change is about.
fn changed_of_optimizer(change: &str) -> Option<&str> {
    change.split_once('=')?.0.trim().strip_prefix("optimizer.")
}

/// `section.key=value`, the value as TOML has it; a bare word is taken as a string. A path in a file
/// is relative to the file, one on the command line to the current folder.
fn lay_over(table: &mut toml::Table, change: &str) -> Result<(), Error> {
    let refuse = || Error::setting("--set", change, "SECTION.KEY=VALUE, such as optimizer.lr=0.01");
    let (key, text) = change.split_once('=').ok_or_else(refuse)?;
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let mut value = match parsed {
        Ok(mut parsed) => parsed.remove("value").ok_or_else(refuse)?,
        Err(_) => toml::Value::String(text.to_owned()),
    };
    let weights = match (key.trim(), &mut value) {
        ("network.weights", value) => Some(value),
        ("network", toml::Value::Table(network)) => network.get_mut("weights"),
        _ => None,
    };
    if let Some(toml::Value::String(path)) = weights
        && let Ok(absolute) = std::path::absolute(&*path)
        && let Some(absolute) = absolute.to_str()
    {
        *path = absolute.to_owned();
    }
    let mut names: Vec<&str> = key.trim().split('.').collect();
    let last = names.pop().ok_or_else(refuse)?;
    let mut place = table;
    for name in names {
        let next = place.entry(name).or_insert_with(|| toml::Table::new().into());
        place = next.as_table_mut().ok_or_else(refuse)?;
    }
    for [one, other] in ALTERNATIVES {
        if last == one {
            place.remove(other);
        } else if last == other {
            place.remove(one);
        }
    }
    place.insert(last.to_owned(), value);
    Ok(())
}
