//! Settings of two runs as flat lists of keys, and the keys that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::input::{self, read_toml, refuse};
use crate::train::CONFIG;

/// Values as text, by their keys: `optimizer.lr`.
pub type Settings = BTreeMap<String, String>;

/// JSON files of settings that training programs leave beside their checkpoints.
const FILES: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "training_args.json",
    "args.json",
    "hparams.json",
    "trainer_state.json",
];

/// What a trainer's state says of its progress: no setting.
const PROGRESS: [&str; 10] = [
    "log_history",
    "global_step",
    "epoch",
    "total_flos",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
    "is_local_process_zero",
    "is_world_process_zero",
    "stateful_callbacks",
];

/// A setting that is not the same in both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingDifference {
    /// Its key.
    pub key: String,
    /// In the first run, if it is there.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// The settings that differ.
pub fn differing(a: &Settings, b: &Settings) -> Vec<SettingDifference> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter()
        .filter(|key| a.get(*key) != b.get(*key))
        .map(|key| SettingDifference {
            key: key.clone(),
            a: a.get(key).cloned(),
            b: b.get(key).cloned(),
        })
        .collect()
}

/// Adds those of `config.toml`, if the folder has one.
pub fn add_config(folder: &Path, settings: &mut Settings) -> Result<(), Error> {
    let path = folder.join(CONFIG);
    if path.is_file() {
        let table: toml::Table = read_toml(&path)?.parse().map_err(|error: toml::de::Error| {
            Error::Config { path: path.clone(), message: error.message().to_owned() }
        })?;
        flatten("", &serde_json::to_value(table).expect("TOML is JSON"), settings);
    }
    Ok(())
}

/// Adds those of the JSON files in a folder.
pub fn add_json(folder: &Path, settings: &mut Settings) -> Result<(), Error> {
    for name in FILES {
        let path = folder.join(name);
        if !path.is_file() {
            continue;
        }
        let expected = "settings in JSON, as the training program wrote them";
        let mut value: Value = serde_json::from_slice(&input::read(&path)?)
            .map_err(|error| refuse(&path, format!("what is no JSON ({error})"), expected))?;
        if let (true, Some(map)) = (name == "trainer_state.json", value.as_object_mut()) {
            map.retain(|key, _| !PROGRESS.contains(&key.as_str()));
        }
        flatten("", &value, settings);
    }
    Ok(())
}

/// Lists stay whole: a list of numbers is one setting.
fn flatten(prefix: &str, value: &Value, into: &mut Settings) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, into);
            }
        }
        Value::String(text) => drop(into.insert(prefix.to_owned(), text.clone())),
        other => drop(into.insert(prefix.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_compared_key_by_key() {
        let folder = tempfile::tempdir().unwrap();
        let settings = |text: &str, state: &str| {
            std::fs::write(folder.path().join(CONFIG), text).unwrap();
            std::fs::write(folder.path().join("trainer_state.json"), state).unwrap();
            let mut settings = Settings::new();
            add_config(folder.path(), &mut settings).unwrap();
            add_json(folder.path(), &mut settings).unwrap();
            settings
        };
        let a = settings("[a.b]\nc = 1\nd = [1, 2]", r#"{"global_step": 1, "max_steps": 3}"#);
        let b =
            settings("[a.b]\nc = 2\nd = [1, 2]\ne = 'x'", r#"{"global_step": 9, "max_steps": 3}"#);
        let found = differing(&a, &b);
        let shown: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|one| (one.key.as_str(), one.a.as_deref(), one.b.as_deref()))
            .collect();
        assert_eq!(shown, [("a.b.c", Some("1"), Some("2")), ("a.b.e", None, Some("x"))]);
        std::fs::write(folder.path().join("config.json"), "{").unwrap();
        let error = add_json(folder.path(), &mut Settings::new()).unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("what is no JSON"), "{error}");
    }
}
