//! What the other program states of its training: `config.toml`.

use std::path::Path;

use serde_json::Value;

use crate::error::Error;
use crate::files::write_atomically;
use crate::input::read_toml;
use crate::train::CONFIG;

/// Tables of settings; `model` names what is trained, and stays the same in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings(toml::Table);

impl Settings {
    /// From JSON; nulls are left out by the caller.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let refuse =
            |message: String| Error::Config { path: Path::new("settings").into(), message };
        let table: toml::Table = serde_json::from_str(json).map_err(|e| refuse(e.to_string()))?;
        // What cannot be written is found out before anything is.
        toml::to_string(&table).map_err(|error| refuse(error.to_string()))?;
        Ok(Self(table))
    }

    /// Those of a run.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(CONFIG);
        let refuse = |error: toml::de::Error| Error::Config {
            path: path.clone(),
            message: error.message().to_owned(),
        };
        read_toml(&path)?.parse().map(Self).map_err(refuse)
    }

    /// Writes them into the directory of a run.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        write_atomically(&folder.join(CONFIG), self.to_toml().as_bytes())
    }

    /// The text of `config.toml`.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.0).expect("it was written before")
    }

    /// For a record.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(&self.0).expect("TOML is JSON")
    }

    /// A text or number in a table, as text.
    pub fn text(&self, table: &str, key: &str) -> Option<String> {
        match self.0.get(table)?.get(key)? {
            toml::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// What differs in `now`: `table.key`, the value here, the value there.
    pub fn differences(&self, now: &Self) -> Vec<[String; 3]> {
        let flat = |settings: &Self| {
            let mut all = std::collections::BTreeMap::new();
            for (name, table) in &settings.0 {
                match table {
                    toml::Value::Table(table) => all.extend(
                        table.iter().map(|(key, v)| (format!("{name}.{key}"), v.to_string())),
                    ),
                    other => drop(all.insert(name.clone(), other.to_string())),
                }
            }
            all
        };
        let (then, now) = (flat(self), flat(now));
        let keys: std::collections::BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        let value = |of: &std::collections::BTreeMap<String, String>, key: &String| {
            of.get(key).cloned().unwrap_or_else(|| "none".to_owned())
        };
        keys.into_iter()
            .filter(|key| then.get(*key) != now.get(*key))
            .map(|key| [key.clone(), value(&then, key), value(&now, key)])
            .collect()
    }
}
