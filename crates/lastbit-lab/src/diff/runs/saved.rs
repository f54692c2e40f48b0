//! Folders of checkpoints as training programs write them: files or folders of safetensors with their step in the name.
//!
//! ```text
//! step-100.safetensors            checkpoint-100/model.safetensors          epoch-3.safetensors
//! 100.safetensors                 step_100/model-00001-of-00003.safetensors, model.safetensors.index.json
//! ```
//!
//! The step is the number after `step`, `iter`, `iteration`, `checkpoint`, `ckpt` or `epoch`, in this order of preference, or
//! the whole name. Pickles (`.bin`, `.pt`, `.ckpt`) are never read: loading one runs its code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::input::{self, refuse};
use crate::relative_path::RelativePath;
use crate::tensors::{self, TensorFile};

/// How the name of the file ends that says which tensors are in which file.
const INDEX: &str = ".safetensors.index.json";

/// What a step of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A step of the optimizer.
    Step,
    /// An epoch.
    Epoch,
}

impl Unit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Epoch => "epoch",
        }
    }
}

/// The checkpoints of a folder.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// A file or a folder, by its step.
    pub places: BTreeMap<u64, PathBuf>,
    /// Whether the steps are epochs.
    pub are_epochs: bool,
    /// What looks like a checkpoint and is not read, and why.
    pub left_out: Vec<String>,
}

/// A number in a name, and what it counts.
fn step_in(name: &str) -> Option<(u64, Unit)> {
    let lower = name.to_ascii_lowercase();
    for (word, unit) in [
        ("step", Unit::Step),
        ("iteration", Unit::Step),
        ("iter", Unit::Step),
        ("checkpoint", Unit::Step),
        ("ckpt", Unit::Step),
        ("epoch", Unit::Epoch),
    ] {
        for (at, _) in lower.match_indices(word) {
            let after = lower[at + word.len()..].trim_start_matches(['-', '_', '=', '.']);
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            if let Ok(step) = after[..digits].parse() {
                return Some((step, unit));
            }
        }
    }
    let is_number = !lower.is_empty() && lower.bytes().all(|byte| byte.is_ascii_digit());
    lower.parse().ok().filter(|_| is_number).map(|step| (step, Unit::Step))
}

/// Names in a folder, in order.
fn names_in(folder: &Path) -> Result<Vec<String>, Error> {
    let unreadable = |source| Error::Read { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

impl Checkpoints {
    /// Those in a folder or in its folder `checkpoints`.
    pub fn in_folder(folder: &Path) -> Result<Self, Error> {
        let mut found = Self::default();
        let mut all = Vec::new();
        for below in [folder.to_owned(), folder.join("checkpoints")] {
            if !below.is_dir() {
                continue;
            }
            for name in names_in(&below)? {
                let path = below.join(&name);
                let stem = match name.strip_suffix(".safetensors") {
                    Some(stem) => stem,
                    None if path.is_dir() && is_checkpoint(&path) => &name,
                    None => {
                        if step_in(&name).is_some() && is_pickled(&path) {
                            found.left_out.push(format!("{name} (pickles are never read)"));
                        }
                        continue;
                    }
                };
                match step_in(stem) {
                    Some((step, unit)) => all.push((step, unit, path)),
                    None => found.left_out.push(format!("{name} (no step in its name)")),
                }
            }
        }
        // A name may have both; a folder with names of either kind is one of steps.
        found.are_epochs = !all.is_empty() && all.iter().all(|(_, unit, _)| *unit == Unit::Epoch);
        for (step, unit, path) in all {
            if unit == Unit::Epoch && !found.are_epochs {
                found.left_out.push(format!("{} (an epoch among steps)", path.display()));
            } else if let Some(other) = found.places.insert(step, path.clone()) {
                let found = format!("{} and {} of one step", other.display(), path.display());
                return Err(refuse(folder, found, "one checkpoint of each step"));
            }
        }
        Ok(found)
    }
}

/// Whether a folder has safetensors: it is a checkpoint itself.
pub fn is_checkpoint(folder: &Path) -> bool {
    let names = names_in(folder).unwrap_or_default();
    names.iter().any(|name| name.ends_with(".safetensors") || name.ends_with(INDEX))
}

/// Files of a checkpoint that only their own program can load, such as the state of an optimizer: `optimizer.pt`.
pub fn pickles(place: &Path) -> Vec<String> {
    let names = if place.is_dir() { names_in(place).unwrap_or_default() } else { vec![] };
    names.into_iter().filter(|name| is_pickle(Path::new(name))).collect()
}

fn is_pickle(path: &Path) -> bool {
    ["bin", "pt", "pth", "ckpt"].contains(&input::extension(path).as_str())
}

fn is_pickled(path: &Path) -> bool {
    is_pickle(path) && path.is_file() || !pickles(path).is_empty()
}

/// The files of a checkpoint: those of its index, or all safetensors of its folder.
pub fn files_of(place: &Path) -> Result<Vec<PathBuf>, Error> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let index = index_of(place)?;
    let names: Vec<String> = match &index {
        Some((_, index)) => {
            let files: BTreeSet<&str> = index.values().map(|file| &**file).collect();
            files.into_iter().map(str::to_owned).collect()
        }
        None => {
            let all = names_in(place)?.into_iter();
            all.filter(|name| name.ends_with(".safetensors")).collect()
        }
    };
    if names.is_empty() {
        return Err(refuse(place, "no tensors", "safetensors, such as model.safetensors"));
    }
    Ok(names.iter().map(|name| place.join(name)).collect())
}

/// Tensors and the files that they are in.
type WeightMap = BTreeMap<String, RelativePath>;

/// Which tensor is in which file, if a file of the folder says so; and that file.
fn index_of(place: &Path) -> Result<Option<(PathBuf, WeightMap)>, Error> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: WeightMap,
    }
    let names = names_in(place)?;
    let mut indices = names.iter().filter(|name| name.ends_with(INDEX));
    let (Some(name), None) = (indices.next(), indices.next()) else { return Ok(None) };
    let path = place.join(name);
    let expected = "the index of a checkpoint: {\"weight_map\": {TENSOR: FILE}}";
    let index: Index = serde_json::from_slice(&input::read(&path)?)
        .map_err(|error| refuse(&path, format!("what is no index ({error})"), expected))?;
    Ok(Some((path, index.weight_map)))
}

/// All tensors of a checkpoint, which may lie in several files.
pub fn load(place: &Path) -> Result<TensorFile, Error> {
    let mut all = TensorFile::default();
    let mut seen = BTreeSet::new();
    let index = if place.is_dir() { index_of(place)? } else { None };
    for path in files_of(place)? {
        let file = tensors::read(&path)?;
        for tensor in &file.tensors {
            if !seen.insert(tensor.name.clone()) {
                let found = format!("a second tensor {:?}", tensor.name);
                return Err(refuse(&path, found, "each tensor in one file of a checkpoint"));
            }
        }
        all.tensors.extend(file.tensors);
        all.metadata.extend(file.metadata);
    }
    if let Some((path, index)) = index
        && let Some((name, file)) = index.iter().find(|(name, _)| !seen.contains(*name))
    {
        let found = format!("the tensor {name:?} in {}, which lacks it", &**file);
        return Err(refuse(&path, found, "files that hold what the index says"));
    }
    Ok(all)
}

/// A key that orders names as people do: layer.2 before layer.10.
pub fn natural_order(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut in_number = false;
    for letter in name.chars() {
        let digit = letter.to_digit(10);
        if digit.is_none() && in_number {
            parts.push((String::new(), 0));
        }
        let (text, number) = parts.last_mut().expect("there is one");
        match digit {
            Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
            None => text.push(letter),
        }
        in_number = digit.is_some();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_in_the_names_that_trainers_give() {
        for (name, step) in [
            ("step-100", 100),
            ("checkpoint-100", 100),
            ("step_7", 7),
            ("epoch=3-step=250", 250),
            ("global_step12", 12),
            ("model_iter_0000040", 40),
            ("ckpt-9", 9),
            ("Step100", 100),
            ("0", 0),
        ] {
            assert_eq!(step_in(name), Some((step, Unit::Step)), "{name}");
        }
        assert_eq!(step_in("epoch-3"), Some((3, Unit::Epoch)));
        for name in ["model", "model-00001-of-00003", "resnet18", "", "checkpoint-last", "step"] {
            assert_eq!(step_in(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let mut names = ["h.10.w", "h.2.w", "h.2.b", "embed", "h.2"];
        names.sort_by_key(|name| natural_order(name));
        assert_eq!(names, ["embed", "h.2", "h.2.b", "h.2.w", "h.10.w"]);
    }
}
