//! `lastbit data list`.

use std::path::Path;

use serde_json::json;

use super::{shape_words, targets_words};
use crate::cli::CommandOutput;
use crate::cli::table::table;
use lastbit_lab::Error;
use lastbit_lab::data::embedded::{EMBEDDED, Embedded};
use lastbit_lab::data::known::KNOWN;
use lastbit_lab::data::store::{Answers, Description, descriptions};

/// What is embedded, what is on disk, what could be fetched.
pub fn list(dir: Option<&Path>) -> Result<CommandOutput, Error> {
    let on_disk = dir.map(descriptions).unwrap_or_default();
    let on_disk = on_disk.into_iter().collect::<Result<Vec<_>, _>>()?;
    let embedded: Vec<Description> = EMBEDDED.iter().map(describe).collect();
    let rows = |kept: &str, sets: &[Description]| -> Vec<Vec<String>> {
        sets.iter().map(|set| row(kept, set)).collect()
    };
    let all = [rows("embedded", &embedded), rows("on disk", &on_disk)].concat();
    let header = ["name", "kept", "train", "test", "inputs", "targets", "content hash", "source"];
    let mut text = table(&header, all);
    let is_here = |name: &str| on_disk.iter().any(|set| set.name == name);
    let absent: Vec<&str> =
        KNOWN.iter().map(|known| known.name).filter(|name| !is_here(name)).collect();
    let folder = match dir {
        Some(dir) => dir.display().to_string(),
        None => "none; give one with --data, or set LASTBIT_DATA or HOME".to_owned(),
    };
    text.push_str(&format!("\nFolder of data sets: {folder}\n"));
    if !absent.is_empty() {
        text.push_str(&format!("Available with `lastbit data get`: {}\n", absent.join(", ")));
    }
    let json = json!({"embedded": embedded, "on_disk": on_disk, "folder": dir, "absent": absent});
    Ok(CommandOutput::new(text, json))
}

fn describe(set: &Embedded) -> Description {
    Description {
        format: 1,
        name: set.name.to_owned(),
        shape: set.shape,
        train: set.sizes[0],
        test: set.sizes[1],
        targets: Answers::Classes(set.classes.iter().map(|name| (*name).to_owned()).collect()),
        columns: None,
        source: set.title.to_owned(),
        content_hash: set.content_hash.to_owned(),
    }
}

fn row(kept: &str, set: &Description) -> Vec<String> {
    vec![
        set.name.clone(),
        kept.to_owned(),
        set.train.to_string(),
        set.test.to_string(),
        shape_words(set.shape),
        targets_words(&set.targets),
        set.content_hash.chars().take(12).collect(),
        set.source.clone(),
    ]
}
