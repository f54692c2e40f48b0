//! `lastbit run … --slurm`: the cells of a plan as a Slurm job array, in one script.
//!
//! The script (`slurm.sh` beside this file, with its places filled in) has three roles: started by
//! hand it submits itself, as a task of the array it computes a part, and as the last job it puts
//! the record together and writes the report.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::CommandOutput;
use lastbit_lab::Error;
use lastbit_lab::data::directory;
use lastbit_lab::files::write_atomically;

/// Slurm refuses longer arrays where nobody has changed its `MaxArraySize`.
const MOST_TASKS: usize = 1000;

/// Threads of a task where none are asked for.
const THREADS: usize = 8;

/// What a script is about.
pub struct Script<'a> {
    /// Exhibits.
    pub ids: &'a [String],
    /// Scale.
    pub scale: &'a str,
    /// Cells in all.
    pub cells: usize,
    /// Tasks asked for.
    pub tasks: Option<usize>,
    /// Threads of a task asked for.
    pub threads: Option<usize>,
    /// Folder of records.
    pub out: &'a Path,
}

impl Script<'_> {
    /// The script, written to `file` if there is one.
    pub fn answer(&self, file: Option<&Path>) -> Result<CommandOutput, Error> {
        let script = self.text()?;
        let mut json = json!({"cells": self.cells, "tasks": self.tasks(), "script": script});
        let text = match file {
            None => script,
            Some(path) => {
                write_atomically(path, script.as_bytes())
                    .map_err(|error| error.of_flag("--slurm"))?;
                json["file"] = json!(path);
                let path = quoted("--slurm", path)?;
                format!("{} cells in {} tasks: bash {path}\n", self.cells, self.tasks())
            }
        };
        Ok(CommandOutput::new(text, json))
    }

    fn tasks(&self) -> usize {
        self.tasks.unwrap_or(self.cells).min(self.cells).clamp(1, MOST_TASKS)
    }

    fn text(&self) -> Result<String, Error> {
        let ids = self.ids.join(" ");
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("lastbit"));
        let data = match directory(None) {
            Ok(folder) => format!("export LASTBIT_DATA={}\n", absolute("LASTBIT_DATA", &folder)?),
            Err(_) => String::new(),
        };
        let name = match self.ids {
            [id] => format!("lastbit-{id}"),
            _ => "lastbit".to_owned(),
        };
        let places = [
            ("@command@", format!("lastbit run {ids} --scale {}", self.scale)),
            ("@cells@", self.cells.to_string()),
            ("@tasks@", self.tasks().to_string()),
            ("@last@", (self.tasks() - 1).to_string()),
            ("@name@", name),
            ("@threads@", self.threads.unwrap_or(THREADS).to_string()),
            ("@ids@", ids),
            ("@scale@", self.scale.to_owned()),
            ("@program@", absolute("the path of lastbit", &program)?),
            ("@out@", absolute("--out", self.out)?),
            ("@data@", data),
        ];
        Ok(filled(include_str!("slurm.sh"), &places))
    }
}

/// The template with its places filled in; what is filled in is not looked at again.
pub fn filled(template: &str, places: &[(&str, String)]) -> String {
    let mut rest = template;
    let mut text = String::new();
    let next = |rest: &str| {
        let found =
            places.iter().filter_map(|(place, value)| Some((rest.find(place)?, place, value)));
        found.min_by_key(|(at, ..)| *at)
    };
    while let Some((at, place, value)) = next(rest) {
        text.push_str(&rest[..at]);
        text.push_str(value);
        rest = &rest[at + place.len()..];
    }
    text + rest
}

/// A path for a shell, from the root.
pub fn absolute(key: &str, path: &Path) -> Result<String, Error> {
    let path = std::path::absolute(path)
        .map_err(|error| Error::setting(key, path.display(), format!("a path ({error})")))?;
    quoted(key, &path)
}

/// A path, or any other word, for a shell.
pub fn quoted(key: &str, path: &Path) -> Result<String, Error> {
    let text = path.to_str().and_then(|text| shlex::try_quote(text).ok());
    let refuse = || Error::setting(key, path.display(), "a path of text that a shell can be given");
    text.map(Cow::into_owned).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(out: &str, tasks: Option<usize>) -> String {
        let ids = ["fig-heat".to_owned()];
        let out = Path::new(out);
        let script = Script { ids: &ids, scale: "smoke", cells: 4, tasks, threads: None, out };
        script.text().unwrap()
    }

    #[test]
    fn every_place_is_filled_and_paths_stay_as_they_are() {
        let text = script("/my results/@last@ and $HOME", None);
        assert!(text.contains("\nout='/my results/@last@ and $HOME'\n"), "{text}");
        assert!(script("/plain", None).contains("\nout=/plain\n"));
        let known = ["\"$@\"", "[@]", "USR1@120"];
        let plain = known.iter().fold(script("/plain", None), |text, part| text.replace(part, ""));
        assert!(!plain.contains('@'), "{plain}");
    }

    #[test]
    fn there_are_no_more_tasks_than_cells() {
        assert!(script("/out", Some(3)).contains("--array=0-2\n"));
        assert!(script("/out", Some(9)).contains("--array=0-3\n"));
        assert!(script("/out", None).contains("--cells 0..0/4\n"));
    }
}
