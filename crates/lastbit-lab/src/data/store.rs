//! Data sets on disk, in a form that other tools read.
//!
//! ```text
//! DIR/NAME/dataset.json                          what it is, its source and content hash
//! DIR/NAME/{train,test}-inputs.npy               u8 or f64 (examples, height, width, channels)
//! DIR/NAME/{train,test}-targets.npy              i64 (examples) or f64 (examples, width)
//! ```
//!
//! A folder is written beside its place and renamed into it; what is read is checked against
//! `dataset.json`, values by their hash.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::npy::{self, Values};
use lastbit_formats::{Malformed, shape_text};
use serde::{Deserialize, Serialize};

use super::hash::content_hash;
use super::{Columns, Split};
use crate::error::Error;
use crate::files::{plain, remove_unfinished, unfinished_prefix};
use crate::input::read;
use crate::relative_path::RelativePath;

const FORMAT: u32 = 1;
const PARTS: [&str; 2] = ["train", "test"];

/// What `dataset.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Version of this form.
    pub format: u32,
    /// Its name, also that of the folder.
    pub name: String,
    /// Height, width and channels of an input.
    pub shape: [usize; 3],
    /// Examples to train on.
    pub train: usize,
    /// Examples to measure on.
    pub test: usize,
    /// What belongs to an input.
    pub targets: Answers,
    /// Names of the columns, of a set that came from a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// Where it came from.
    pub source: String,
    /// BLAKE3 of inputs and targets.
    pub content_hash: String,
}

/// What is to be learnt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// One of these, by its place in the list.
    Classes(Vec<String>),
    /// So many numbers.
    Reals(usize),
}

impl Description {
    /// Describes a data set; `classes` are the names of its classes.
    pub fn of(split: &Split, classes: Vec<String>, source: String) -> Self {
        let targets = match split.train.targets {
            Targets::Classes { .. } => Answers::Classes(classes),
            Targets::Reals { width, .. } => Answers::Reals(width),
        };
        Self {
            format: FORMAT,
            name: split.name.clone(),
            shape: split.train.shape,
            train: split.train.len(),
            test: split.test.len(),
            targets,
            columns: split.columns.clone(),
            source,
            content_hash: split.content_hash.clone(),
        }
    }
}

/// Whether there is a data set of this name.
pub fn exists(dir: &Path, name: &str) -> bool {
    RelativePath::try_from(name.to_owned()).is_ok() && dir.join(name).join("dataset.json").is_file()
}

/// All data sets of the folder, in the order of their names.
pub fn descriptions(dir: &Path) -> Vec<Result<Description, Error>> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // Names of data sets have no dots; folders that are being written begin with one.
    names.retain(|name| !name.starts_with('.') && exists(dir, name));
    names.sort();
    names.iter().map(|name| describe(dir, name)).collect()
}

fn describe(dir: &Path, name: &str) -> Result<Description, Error> {
    let path = dir.join(name).join("dataset.json");
    let expected = "the description of a data set, as this program writes it";
    let refuse = |found: String| Error::input(&path, Malformed::new(found, expected));
    let found: Description =
        serde_json::from_slice(&read(&path)?).map_err(|error| refuse(error.to_string()))?;
    if found.format != FORMAT {
        return Err(refuse(format!("format {}, ours is {FORMAT}", found.format)));
    }
    if found.name != name {
        return Err(refuse(format!("the name \"{}\" in a folder \"{name}\"", found.name)));
    }
    let answers = match &found.targets {
        Answers::Classes(names) => names.len(),
        Answers::Reals(width) => *width,
    };
    if answers == 0 {
        return Err(refuse("examples without targets".to_owned()));
    }
    Ok(found)
}

/// Writes a data set to its folder and returns that; what was there before is replaced.
pub fn save(dir: &Path, description: &Description, split: &Split) -> Result<PathBuf, Error> {
    let folder = dir.join(&description.name);
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        remove_unfinished(dir);
        let beside = || tempfile::Builder::new().prefix(&unfinished_prefix()).tempdir_in(dir);
        let unfinished = beside()?;
        for (part, set) in PARTS.into_iter().zip([&split.train, &split.test]) {
            let [inputs, targets] = arrays(set);
            write_file(&unfinished.path().join(format!("{part}-inputs.npy")), &inputs)?;
            write_file(&unfinished.path().join(format!("{part}-targets.npy")), &targets)?;
        }
        let json = serde_json::to_string_pretty(description).expect("plain data") + "\n";
        write_file(&unfinished.path().join("dataset.json"), json.as_bytes())?;
        // A temporary folder is private to its owner; a data set is as open as any other.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(unfinished.path(), fs::Permissions::from_mode(0o755))?;
        }
        // A folder cannot be renamed onto a full one: the old one goes aside and then away.
        let aside = beside()?;
        match fs::rename(&folder, aside.path().join("old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(unfinished.keep(), &folder)
    };
    write().map_err(|error| Error::WriteData { path: folder.clone(), source: plain(error) })?;
    Ok(folder)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

fn arrays(set: &Dataset) -> [Vec<u8>; 2] {
    let [height, width, channels] = set.shape;
    let shape = [set.len(), height, width, channels];
    let inputs = match &set.inputs {
        Inputs::Bytes(bytes) => npy::write(&shape, bytes),
        Inputs::Reals(values) => npy::write(&shape, values),
    };
    let targets = match &set.targets {
        Targets::Classes { labels, .. } => {
            let labels: Vec<i64> = labels.iter().map(|label| i64::from(*label)).collect();
            npy::write(&[labels.len()], &labels)
        }
        Targets::Reals { width, values } => npy::write(&[set.len(), *width], values),
    };
    [inputs, targets]
}

/// Reads a data set and checks all of it.
pub fn load(dir: &Path, name: &str) -> Result<(Description, Split), Error> {
    let description = describe(dir, name)?;
    let folder = dir.join(name);
    let train = load_part(&folder, &description, "train", description.train)?;
    let test = load_part(&folder, &description, "test", description.test)?;
    let content_hash = content_hash(&train, &test);
    if content_hash != description.content_hash {
        let expected = format!(
            "{}, as dataset.json says; the values are damaged: get or import the data set again",
            description.content_hash
        );
        let found = format!("the content hash {content_hash}");
        return Err(Error::input(&folder, Malformed::new(found, expected)));
    }
    let columns = description.columns.clone();
    let split = Split { train, test, name: name.to_owned(), content_hash, columns };
    Ok((description, split))
}

/// Whether a folder holds a data set, or what is left of one.
pub fn is_left_of_data_set(folder: &Path) -> bool {
    ["dataset.json", "train-inputs.npy"].iter().any(|name| folder.join(name).exists())
}

/// Reads the data set in a folder and checks all of it.
pub fn check(folder: &Path) -> Result<(), Error> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    load(folder.parent().unwrap_or(Path::new("")), &name).map(drop)
}

fn load_part(
    folder: &Path,
    description: &Description,
    part: &str,
    examples: usize,
) -> Result<Dataset, Error> {
    let array = |kind: &str, expected: &[usize]| {
        let path = folder.join(format!("{part}-{kind}.npy"));
        let array = npy::parse(&read(&path)?).map_err(|error| Error::input(&path, error))?;
        if array.shape != expected {
            let found = format!("an array of shape {}", shape_text(&array.shape));
            let expected = format!("{}, as dataset.json says", shape_text(expected));
            return Err(Error::input(&path, Malformed::new(found, expected)));
        }
        Ok((path, array.values))
    };
    let shape = description.shape;
    let (_, inputs) = array("inputs", &[examples, shape[0], shape[1], shape[2]])?;
    let inputs = match inputs {
        Values::Bytes(bytes) => Inputs::Bytes(bytes),
        Values::Reals(values) => Inputs::Reals(values),
    };
    let targets = match &description.targets {
        Answers::Reals(width) => {
            let (_, values) = array("targets", &[examples, *width])?;
            Targets::Reals { width: *width, values: values.into_reals() }
        }
        Answers::Classes(names) => {
            let (path, values) = array("targets", &[examples])?;
            let labels = super::convert::labels(&values.into_reals(), names.len())
                .map_err(|error| Error::input(&path, error))?;
            Targets::Classes { count: names.len(), labels }
        }
    };
    Ok(Dataset { shape, inputs, targets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regression() -> Split {
        let set = |n: usize| Dataset {
            shape: [1, 1, 1],
            inputs: Inputs::Reals((0..n).map(|i| 0.1 * i as f64).collect()),
            targets: Targets::Reals {
                width: 1,
                values: (0..n).map(|i| 1.0 / (3.0 + i as f64)).collect(),
            },
        };
        split(set(5), set(2))
    }

    fn images() -> Split {
        let set = |n: usize| Dataset {
            shape: [2, 3, 1],
            inputs: Inputs::Bytes((0..6 * n).map(|i| (37 * i) as u8).collect()),
            targets: Targets::Classes { count: 3, labels: (0..n as u32).map(|i| i % 3).collect() },
        };
        split(set(7), set(4))
    }

    fn split(train: Dataset, test: Dataset) -> Split {
        let content_hash = content_hash(&train, &test);
        Split { train, test, name: "mine".into(), content_hash, columns: None }
    }

    fn saved(split: &Split) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let classes = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let description = Description::of(split, classes, "a test".into());
        save(dir.path(), &description, split).unwrap();
        assert_eq!(describe(dir.path(), "mine").unwrap(), description);
        dir
    }

    #[test]
    fn what_is_saved_is_loaded_to_the_bit() {
        for split in [regression(), images()] {
            let dir = saved(&split);
            assert_eq!(load(dir.path(), "mine").unwrap().1, split);
            let names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
            assert_eq!(names.len(), 1, "nothing unfinished is left");
            assert_eq!(descriptions(dir.path()).len(), 1);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_killed_process_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        // No process has a number as large as this; the prefix is ".unfinished-SPACE-PROCESS-".
        let name = unfinished_prefix().rsplitn(3, '-').last().unwrap().to_owned() + "-99999999-x";
        let left = dir.path().join(name);
        fs::create_dir(&left).unwrap();
        fs::write(left.join("train-inputs.npy"), "a part").unwrap();
        save(dir.path(), &Description::of(&images(), vec![], String::new()), &images()).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn saving_again_replaces_what_was_there() {
        let dir = saved(&images());
        let description = Description::of(&regression(), vec![], "again".into());
        save(dir.path(), &description, &regression()).unwrap();
        assert_eq!(load(dir.path(), "mine").unwrap().1, regression());
    }

    #[test]
    fn every_damage_is_named() {
        type Damage = fn(&mut Vec<u8>);
        let last: Damage = |bytes| *bytes.last_mut().unwrap() ^= 1;
        let cut: Damage = |bytes| bytes.truncate(bytes.len() - 3);
        let high: Damage = |bytes| {
            let label = bytes.len() - 8;
            bytes[label] = 200;
        };
        let shorter: Damage = |bytes| *bytes = npy::write(&[6, 2, 3, 1], &[0_u8; 36]);
        let no_targets: Damage = |bytes| {
            let mut json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            json["targets"] = serde_json::json!({"reals": 0});
            *bytes = json.to_string().into_bytes();
        };
        for (file, damage, part) in [
            ("train-inputs.npy", last, "content hash"),
            ("train-inputs.npy", cut, "bytes of values"),
            ("train-inputs.npy", shorter, "(6, 2, 3, 1)"),
            ("test-targets.npy", high, "200"),
            ("dataset.json", cut, "EOF"),
            ("dataset.json", no_targets, "without targets"),
        ] {
            let dir = saved(&images());
            let path = dir.path().join("mine").join(file);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let message = load(dir.path(), "mine").unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("mine"), "{message}");
        }
    }
}
