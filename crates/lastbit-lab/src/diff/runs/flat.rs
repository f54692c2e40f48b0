//! Settings of two runs as flat lists of keys, and the keys that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lastbit_formats::logs::json::standard;
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::input::{self, read_toml, refuse};
use crate::train::CONFIG;

/// Values as text, by their keys: `optimizer.lr`.
#[derive(Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, Setting>,
    /// Files that are there and cannot be read.
    unread: BTreeSet<&'static str>,
}

#[derive(Debug)]
struct Setting {
    text: String,
    /// The name of the file that has it.
    file: &'static str,
}

/// JSON files of settings that training programs leave beside their checkpoints.
const FILES: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "training_args.json",
    "args.json",
    "hparams.json",
    TRAINER_STATE,
];

/// That of Hugging Face's trainer.
const TRAINER_STATE: &str = "trainer_state.json";

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

/// The settings that differ. One that a side lacks is none where its file could not be read there.
pub fn differing(a: &Settings, b: &Settings) -> Vec<SettingDifference> {
    let keys: BTreeSet<&String> = a.values.keys().chain(b.values.keys()).collect();
    let difference = |key: &String| {
        let (of_a, of_b) = (a.values.get(key), b.values.get(key));
        let is_unread = |own: Option<&Setting>, other: Option<&Setting>, unread: &BTreeSet<_>| {
            own.is_none() && other.is_some_and(|other| unread.contains(other.file))
        };
        let is_known = !is_unread(of_a, of_b, &a.unread) && !is_unread(of_b, of_a, &b.unread);
        let [a, b] = [of_a, of_b].map(|side| side.map(|setting| setting.text.clone()));
        (is_known && a != b).then(|| SettingDifference { key: key.clone(), a, b })
    };
    keys.into_iter().filter_map(difference).collect()
}

impl Settings {
    /// Adds one that stands in a file.
    pub fn insert(&mut self, key: &str, file: &'static str, text: String) {
        self.values.insert(key.to_owned(), Setting { text, file });
    }

    /// Adds those of `config.toml`, if the folder has one; returns why they cannot be read.
    pub fn add_config(&mut self, folder: &Path) -> Option<String> {
        self.add_file(CONFIG, &folder.join(CONFIG), |path| {
            let table = read_toml(path)?.parse::<toml::Table>();
            let table = table.map_err(|error| Error::Config {
                path: path.to_owned(),
                message: error.message().to_owned(),
            })?;
            Ok(serde_json::to_value(table).expect("TOML is JSON"))
        })
    }

    /// Adds those of the JSON files in a folder; returns why some cannot be read.
    pub fn add_json(&mut self, folder: &Path) -> Vec<String> {
        let read = |name: &'static str| self.add_file(name, &folder.join(name), read_json);
        FILES.into_iter().filter_map(read).collect()
    }

    fn add_file(
        &mut self,
        name: &'static str,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<Value, Error>,
    ) -> Option<String> {
        if !path.is_file() {
            return None;
        }
        match read(path) {
            Ok(mut value) => {
                if let (TRAINER_STATE, Some(map)) = (name, value.as_object_mut()) {
                    map.retain(|key, _| !PROGRESS.contains(&key.as_str()));
                }
                self.flatten("", name, &value);
                None
            }
            Err(error) => {
                self.unread.insert(name);
                Some(format!("settings that are not compared: {error}"))
            }
        }
    }

    /// Lists stay whole: a list of numbers is one setting.
    fn flatten(&mut self, prefix: &str, file: &'static str, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let key = if prefix.is_empty() { key } else { &format!("{prefix}.{key}") };
                    self.flatten(key, file, value);
                }
            }
            Value::String(text) => self.insert(prefix, file, text.clone()),
            other => self.insert(prefix, file, other.to_string()),
        }
    }
}

/// JSON as Python writes it, with NaN and Infinity.
fn read_json(path: &Path) -> Result<Value, Error> {
    serde_json::from_slice(&standard(&input::read(path)?)).map_err(|error| {
        let expected = "settings in JSON, as the training program wrote them";
        refuse(path, format!("what is no JSON ({error})"), expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut settings = Settings::default();
        let mut notes = Vec::from_iter(settings.add_config(folder.path()));
        notes.extend(settings.add_json(folder.path()));
        (settings, notes)
    }

    fn found(a: &Settings, b: &Settings) -> Vec<(String, Option<String>, Option<String>)> {
        differing(a, b).into_iter().map(|one| (one.key, one.a, one.b)).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn settings_are_compared_key_by_key() {
        let settings = |text: &str, state: &str| {
            let (settings, notes) = read(&[(CONFIG, text), (TRAINER_STATE, state)]);
            assert_eq!(notes, [""; 0]);
            settings
        };
        let a = settings("[a.b]\nc = 1\nd = [1, 2]", r#"{"global_step": 1, "max_steps": 3}"#);
        let b =
            settings("[a.b]\nc = 2\nd = [1, 2]\ne = 'x'", r#"{"global_step": 9, "max_steps": 3}"#);
        let expected = [("a.b.c".into(), some("1"), some("2")), ("a.b.e".into(), None, some("x"))];
        assert_eq!(found(&a, &b), expected);
    }

    #[test]
    fn numbers_that_json_lacks_are_read_and_a_history_is_no_setting() {
        let state = |norm: &str, rate: &str| {
            let text =
                format!("{{\"log_history\": [{{\"grad_norm\": {norm}}}], \"rate\": {rate}}}");
            let (settings, notes) = read(&[(TRAINER_STATE, &text)]);
            assert_eq!(notes, [""; 0]);
            settings
        };
        let (a, b) = (state("NaN", "Infinity"), state("1.5", "NaN"));
        assert_eq!(found(&a, &b), [("rate".into(), some("inf"), some("NaN"))]);
        assert_eq!(found(&a, &state("-Infinity", "Infinity")), []);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_is_no_difference() {
        let (a, notes) = read(&[("config.json", "{"), ("args.json", "{\"x\": 1}"), (CONFIG, "=")]);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("not compared") && notes[0].contains(CONFIG), "{notes:?}");
        assert!(notes[1].contains("config.json") && notes[1].contains("what is no JSON"));
        let (b, _) = read(&[("config.json", "{\"y\": 1}"), ("args.json", "{\"z\": 1}")]);
        let expected = [("x".into(), some("1"), None), ("z".into(), None, some("1"))];
        assert_eq!((found(&a, &b), found(&b, &a).len()), (expected.into(), 2));
    }
}
