//! Data sets on disk, in a form that other tools read.
//!
//! ```text
//! DIR/NAME/dataset.json                          what it is, its source and content hash
//! DIR/NAME/HASH/{train,test}-inputs.npy          u8 or f64 (examples, height, width, channels)
//! DIR/NAME/HASH/{train,test}-targets.npy         i64 (examples) or f64 (examples, width)
//! ```
//!
//! `HASH` are the first digits of the content hash, so `dataset.json` says which values are meant. It is
//! replaced in one system call, after the new values are complete and before the old ones are removed:
//! a process that is killed leaves the old data set or the new one. What is read is checked against
//! `dataset.json`, values by their hash.

use std::fs;
use std::path::{Path, PathBuf};

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::npy::{self, Values};
use lastbit_formats::{Malformed, shape_text};
use serde::{Deserialize, Serialize};

use super::hash::content_hash;
use super::{Columns, Split};
use crate::error::Error;
use crate::files::{create_folder, remove, remove_unfinished, write_atomically};
use crate::input::read;
use crate::lock::Lock;
use crate::progress::Silent;
use crate::relative_path::RelativePath;
use crate::sealed;

const FORMAT: u32 = 2;
const PARTS: [&str; 2] = ["train", "test"];
const DESCRIPTION: &str = "dataset.json";

/// So many digits of the content hash name the folder of the values.
const DIGITS: usize = 16;

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

    /// Where in its folder the values lie.
    fn values_folder(&self) -> PathBuf {
        self.content_hash[..DIGITS].into()
    }
}

/// Whether there is a data set of this name.
pub fn exists(dir: &Path, name: &str) -> bool {
    RelativePath::try_from(name.to_owned()).is_ok() && dir.join(name).join(DESCRIPTION).is_file()
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
    let path = dir.join(name).join(DESCRIPTION);
    let expected = "the description of a data set, as this program writes it";
    let refuse = |found: String| Error::input(&path, Malformed::new(found, expected));
    let found = sealed::read::<Description>(&path, FORMAT)?;
    let (found, _) = found.ok_or_else(|| sealed::damaged(&path, "the file is missing"))?;
    if found.name != name {
        return Err(refuse(format!("the name \"{}\" in a folder \"{name}\"", found.name)));
    }
    // It becomes part of a path.
    if found.content_hash.len() < DIGITS
        || !found.content_hash.bytes().all(|b| b.is_ascii_hexdigit())
    {
        return Err(refuse(format!("the content hash {:?}", found.content_hash)));
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
    let values = folder.join(description.values_folder());
    let write = || -> Result<(), Error> {
        let unwritable = |source| Error::Write { path: folder.clone(), source };
        // Two processes would remove each other's values.
        let lock = Lock::try_now(&folder, &Silent)?;
        create_folder(&values)?;
        remove_unfinished(&folder);
        remove_unfinished(&values);
        for (path, bytes) in arrays(description, split) {
            write_atomically(&folder.join(path), &bytes)?;
        }
        lock.check()?;
        sealed::write(&folder.join(DESCRIPTION), description)?;
        for entry in fs::read_dir(&folder).map_err(unwritable)?.flatten() {
            if entry.path().is_dir() && entry.path() != values {
                remove(&entry.path())?;
            }
        }
        Ok(())
    };
    write().map_err(|error| match error {
        Error::Write { source, .. } => Error::WriteData { path: folder.clone(), source },
        other => other,
    })?;
    Ok(folder)
}

/// The arrays of a data set, by their files. They are made when their turn comes: all at once would be the set in memory a
/// second time.
fn arrays<'a>(
    description: &'a Description,
    split: &'a Split,
) -> impl Iterator<Item = (PathBuf, Vec<u8>)> + 'a {
    let parts = PARTS.into_iter().zip([&split.train, &split.test]);
    parts.flat_map(|(part, set)| {
        let [inputs, targets] = arrays_of(set);
        [("inputs", inputs), ("targets", targets)].map(|(kind, bytes)| {
            (description.values_folder().join(format!("{part}-{kind}.npy")), bytes)
        })
    })
}

fn arrays_of(set: &Dataset) -> [Vec<u8>; 2] {
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
    let folder = dir.join(name).join(description.values_folder());
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
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    folder.join(DESCRIPTION).exists()
        || below.into_iter().any(|entry| entry.path().join("train-inputs.npy").exists())
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

    fn described(split: &Split) -> Description {
        Description::of(split, ["a", "b", "c"].map(str::to_owned).to_vec(), "a test".into())
    }

    fn saved(split: &Split) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &described(split), split).unwrap();
        assert_eq!(describe(dir.path(), "mine").unwrap(), described(split));
        dir
    }

    /// Names of what lies in the folder of the data set.
    fn entries(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir.join("mine")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_saved_is_loaded_to_the_bit() {
        for split in [regression(), images()] {
            let dir = saved(&split);
            assert_eq!(load(dir.path(), "mine").unwrap().1, split);
            assert_eq!(entries(dir.path()), [&split.content_hash[..DIGITS], DESCRIPTION]);
            assert_eq!(descriptions(dir.path()).len(), 1);
        }
    }

    #[test]
    fn a_kill_at_any_step_leaves_the_old_set_or_the_new_one() {
        let (old, new) = (images(), regression());
        let description = described(&new);
        let all = arrays(&description, &new).count() + 1;
        for written in 0..=all {
            let dir = saved(&old);
            let folder = dir.path().join("mine");
            fs::create_dir_all(folder.join(description.values_folder())).unwrap();
            for (path, bytes) in arrays(&description, &new).take(written) {
                write_atomically(&folder.join(path), &bytes).unwrap();
            }
            if written == all {
                sealed::write(&folder.join(DESCRIPTION), &description).unwrap();
            }
            let expected = if written == all { &new } else { &old };
            assert_eq!(load(dir.path(), "mine").unwrap().1, *expected, "after {written} files");
            // Nothing stands in the way of the next one, and nothing of either stays behind.
            save(dir.path(), &description, &new).unwrap();
            assert_eq!(load(dir.path(), "mine").unwrap().1, new);
            assert_eq!(entries(dir.path()), [&new.content_hash[..DIGITS], DESCRIPTION]);
        }
    }

    #[test]
    fn damaged_values_are_replaced_by_the_same_ones() {
        let dir = saved(&images());
        let values = dir.path().join("mine").join(described(&images()).values_folder());
        fs::write(values.join("train-inputs.npy"), "damaged").unwrap();
        assert!(load(dir.path(), "mine").is_err());
        save(dir.path(), &described(&images()), &images()).unwrap();
        assert_eq!(load(dir.path(), "mine").unwrap().1, images());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_killed_process_left_is_removed() {
        let dir = saved(&images());
        // No process has a number as large as this; the prefix is ".unfinished-SPACE-PROCESS-".
        let prefix = crate::files::unfinished_prefix();
        let name = prefix.rsplitn(3, '-').last().unwrap().to_owned() + "-99999999-x";
        let left = dir.path().join("mine").join(described(&images()).values_folder()).join(name);
        fs::write(&left, "a part").unwrap();
        save(dir.path(), &described(&images()), &images()).unwrap();
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
        for (file, damage, part) in [
            ("train-inputs.npy", last, "content hash"),
            ("train-inputs.npy", cut, "bytes of values"),
            ("train-inputs.npy", shorter, "(6, 2, 3, 1)"),
            ("test-targets.npy", high, "200"),
            (DESCRIPTION, last, "damaged"),
            (DESCRIPTION, cut, "damaged"),
        ] {
            let dir = saved(&images());
            let folder = dir.path().join("mine");
            let values = folder.join(described(&images()).values_folder());
            let path = if file == DESCRIPTION { folder.join(file) } else { values.join(file) };
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let message = load(dir.path(), "mine").unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("mine"), "{message}");
        }
    }

    #[test]
    fn a_description_that_somebody_else_sealed_is_refused_by_what_it_says() {
        for (hash, targets, part) in [
            (None, Some(Answers::Reals(0)), "without targets"),
            (Some("../../../../../../secrets"), None, "the content hash \"../"),
        ] {
            let dir = saved(&images());
            let mut description = described(&images());
            description.content_hash = hash.unwrap_or(&description.content_hash).to_owned();
            description.targets = targets.unwrap_or(description.targets);
            sealed::write(&dir.path().join("mine").join(DESCRIPTION), &description).unwrap();
            let message = load(dir.path(), "mine").unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("mine"), "{message}");
        }
    }
}
