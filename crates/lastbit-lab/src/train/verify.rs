//! Checks every file of a training run.
//!
//! An ended run has the hashes of all its files in [`files.json`](super::file_list). One that goes on is checked by its
//! checkpoints: each carries its own hash and those of the metrics up to it.

use std::path::Path;

use super::checkpoint::{self, Opened, State};
use super::file_list::{FILES, FileList};
use super::metrics::{METRICS, begins_with_row};
use super::prefix_hash::PrefixHashes;
use super::run::CONFIG;
use super::settings::ConfigFile;
use super::summary::SUMMARY;
use super::timing::{self, Timing};
use crate::damage::Findings;
use crate::error::Error;
use crate::input::read_toml;
use crate::sealed::{self, FileHash, damaged};

/// Whether a folder holds a run, or what is left of one. Other programs have `checkpoints`, too.
pub fn is_left_of_run(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    let is_own = || has(CONFIG) || has(SUMMARY) || begins_with_row(folder);
    has(FILES) || folder.join("checkpoints").is_dir() && is_own()
}

/// Whether the metrics in a folder are those of a run: other programs have a `metrics.jsonl`, too. A run writes its first row
/// before its first checkpoint and its settings; one that has ended lists the file, also if that is damaged.
pub fn has_metrics_of_run(folder: &Path) -> bool {
    let lists = |list: Option<FileList>| list.is_some_and(|list| list.get(METRICS).is_some());
    let path = folder.join(METRICS);
    path.is_file() && (begins_with_row(folder) || FileList::read(folder).is_ok_and(lists))
}

/// Checks the run in a folder.
pub fn verify(folder: &Path, found: &mut Findings) {
    // Damage is mended from the last whole checkpoint, if there is one.
    let resume = match folder.parent() {
        Some(runs) if runs.ends_with("runs") => "give the command of its record again".to_owned(),
        _ => format!("`lastbit train --out {} --resume`", folder.display()),
    };
    let path = folder.join(FILES);
    let list = match FileList::read(folder) {
        Ok(None) if folder.join(SUMMARY).exists() => Err(damaged(&path, "the file is missing")),
        other => other,
    };
    match list {
        Ok(Some(list)) => {
            found.add(&path, Ok(()), "");
            for file in list.names() {
                if found.is_stopped() {
                    return;
                }
                let checked = file.below(folder).and_then(|_| list.check(folder, file));
                found.add(&folder.join(&**file), checked, &resume);
            }
            for step in checkpoint::steps_in(folder).unwrap_or_default() {
                if list.get(&checkpoint::file_of(step)).is_none() {
                    verify_checkpoint(folder, step, &resume, found);
                }
            }
            found.add(folder, check_timing(folder), &resume);
        }
        Ok(None) => {
            verify_unfinished(folder, &resume, found);
            found.note(folder.to_owned(), "a training that has not ended", &resume);
        }
        Err(error) => {
            found.add::<()>(&path, Err(error), &resume);
            verify_unfinished(folder, &resume, found);
        }
    }
}

/// The time belongs to no result, but it is checked.
fn check_timing(folder: &Path) -> Result<(), Error> {
    let path = folder.join(timing::FILE);
    let config = folder.join(CONFIG);
    let Some((timing, _)) = sealed::read::<Timing>(&path, timing::FORMAT)? else {
        return Err(damaged(&path, "the file is missing"));
    };
    if let Some(step) =
        timing.checkpoints.iter().find(|step| !checkpoint::path_of(folder, **step).exists())
    {
        return Err(damaged(&checkpoint::path_of(folder, *step), "the file is missing"));
    }
    match FileHash::of_file(&config) {
        Ok(settings) if settings != timing.settings => {
            Err(damaged(&path, format!("it does not belong to the {CONFIG} beside it")))
        }
        // That one is named by its own check.
        _ => Ok(()),
    }
}

fn verify_checkpoint(
    folder: &Path,
    step: usize,
    resume: &str,
    found: &mut Findings,
) -> Option<State> {
    let path = checkpoint::path_of(folder, step);
    let opened = Opened::read(&path).and_then(|opened| match opened.state.step {
        own if own == step => Ok(opened.state),
        own => Err(damaged(&path, format!("it is the checkpoint of step {own}"))),
    });
    found.add(&path, opened, resume)
}

/// Checks what the last whole checkpoint says; what was written after it is made again.
fn verify_unfinished(folder: &Path, resume: &str, found: &mut Findings) {
    let steps = checkpoint::steps_in(folder).unwrap_or_default();
    let mut last = None;
    for step in steps {
        last = verify_checkpoint(folder, step, resume, found).or(last);
    }
    let Some(state) = last else { return };
    let config = folder.join(CONFIG);
    let checked = read_toml(&config).and_then(|text| {
        let now = ConfigFile::parse(&text, &config, &[])?;
        match ConfigFile::parse(&state.settings, &config, &[])?.first_difference(&now) {
            Some((key, then, now)) => {
                Err(damaged(&config, format!("{key} is {now}, in the checkpoints {then}")))
            }
            None => Ok(()),
        }
    });
    found.add(&config, checked, resume);
    verify_beginnings(folder, &state.files, resume, found);
}

fn verify_beginnings(folder: &Path, files: &PrefixHashes, resume: &str, found: &mut Findings) {
    for (file, hash) in files {
        let path = folder.join(&**file);
        let checked = file.below(folder).and_then(|path| hash.check_beginning(&path));
        found.add(&path, checked, resume);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::prefix_hash::{PrefixHash, PrefixHashes};
    use super::*;
    use crate::relative_path::RelativePath;

    #[test]
    fn files_of_other_programs_with_the_same_names_are_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let write = |name: &str, text: &str| fs::write(path.join(name), text).unwrap();
        fs::create_dir(path.join("checkpoints")).unwrap();
        for text in ["", "{\"step\": 1, \"loss\": NaN}\n", "no row\n"] {
            write(METRICS, text);
            assert!(!has_metrics_of_run(path) && !is_left_of_run(path), "{text}");
        }
        let row = "{\"step\": 0, \"epoch\": 0.0, \"replica\": \"base\", \"rel_l1\": 0.0, \"distance\": 0.0, \"hash\": \"0\"}\n";
        write(METRICS, row);
        assert!(has_metrics_of_run(path) && is_left_of_run(path));
        let hash = PrefixHash::of(&path.join(METRICS)).unwrap();
        let files: PrefixHashes = [(RelativePath::new(METRICS), hash)].into_iter().collect();
        FileList::write(path, files, &[]).unwrap();
        write(METRICS, &row[1..]);
        assert!(has_metrics_of_run(path) && is_left_of_run(path));
        // What is left of a run that had not ended.
        fs::remove_file(path.join(FILES)).unwrap();
        fs::remove_file(path.join(METRICS)).unwrap();
        assert!(!is_left_of_run(path));
        write(CONFIG, "");
        assert!(!has_metrics_of_run(path) && is_left_of_run(path));
    }
}
