//! The user's own data: IDX, CIFAR, folders of PNG, NPY, CSV.

mod folder;
mod numbers;

use std::path::{Path, PathBuf};

use lastbit::data::{Dataset, Targets};
use lastbit_formats::cifar::Kind;
use lastbit_formats::{Malformed, listed};

use super::convert::{self, File, cifar_members, idx_pair};
use super::hash::content_hash;
use super::known::IDX_FILES;
use super::select::share;
use super::store::Description;
use super::{Columns, Split};
use crate::error::Error;
use crate::input::extension;
use crate::progress::Monitor;

/// What to import.
#[derive(Debug, Clone)]
pub struct Request {
    /// The file or folder.
    pub path: PathBuf,
    /// Name to keep it by.
    pub name: String,
    /// Labels of IDX images, targets of an NPY array.
    pub targets: Option<PathBuf>,
    /// Columns of a table that are targets.
    pub target: Vec<String>,
    /// Number of classes; without it, numbers are values and not labels.
    pub classes: Option<usize>,
    /// Test set of the same kind.
    pub test: Option<PathBuf>,
    /// Its labels or targets.
    pub test_targets: Option<PathBuf>,
    /// Share of the examples to hold back where there is no test set.
    pub test_share: f64,
    /// Decides which.
    pub seed: u64,
}

/// Flags that say what the targets are.
const ABOUT_TARGETS: [&str; 4] = ["--targets", "--test-targets", "--target", "--classes"];

impl Request {
    /// Refuses flags that this kind of input has no use for.
    fn refuse_unused(&self, flags: &[&str], kind: &str) -> Result<(), Error> {
        let is_given = |flag: &str| match flag {
            "--targets" => self.targets.is_some(),
            "--test-targets" => self.test_targets.is_some(),
            "--target" => !self.target.is_empty(),
            _ => self.classes.is_some(),
        };
        match flags.iter().find(|flag| is_given(flag)) {
            Some(flag) => Err(Error::unused(flag, kind)),
            None => Ok(()),
        }
    }
}

/// Examples with the names of their classes and columns.
struct Named {
    set: Dataset,
    classes: Vec<String>,
    columns: Option<Columns>,
}

impl Named {
    /// Classes that are known by their numbers.
    fn numbered(set: Dataset) -> Self {
        Self::with_columns(set, None)
    }

    fn with_columns(set: Dataset, columns: Option<Columns>) -> Self {
        let count = match set.targets {
            Targets::Classes { count, .. } => count,
            Targets::Reals { .. } => 0,
        };
        Self { set, classes: (0..count).map(|i| i.to_string()).collect(), columns }
    }
}

/// Reads and checks the user's data.
pub fn import(request: &Request, monitor: &dyn Monitor) -> Result<(Description, Split), Error> {
    let (train, test) = match whole(&request.path)? {
        Some(whole) => {
            request.refuse_unused(&ABOUT_TARGETS, "a data set of this kind")?;
            if let Some(test) = &request.test {
                let expected = format!("nothing: {} has its own test set", request.path.display());
                return Err(Error::setting("--test", test.display(), expected));
            }
            whole
        }
        None => parts(request, monitor)?,
    };
    for (path, set) in [(&request.path, &train.set), (test_path(request), &test.set)] {
        check(path, set)?;
    }
    if (train.set.shape, &train.classes, &train.columns)
        != (test.set.shape, &test.classes, &test.columns)
    {
        let of = |named: &Named| match &named.columns {
            Some(Columns { inputs, targets }) => {
                format!("inputs {} and targets {}", listed(inputs), listed(targets))
            }
            None => format!("shape {:?}, classes {:?}", named.set.shape, named.classes),
        };
        let expected = format!("those of the training set, {}", of(&train));
        return Err(Error::input(test_path(request), Malformed::new(of(&test), expected)));
    }
    let content_hash = content_hash(&train.set, &test.set);
    let name = request.name.clone();
    let columns = train.columns;
    let split = Split { train: train.set, test: test.set, name, content_hash, columns };
    let source = request.path.display().to_string();
    Ok((Description::of(&split, train.classes, source), split))
}

fn test_path(request: &Request) -> &PathBuf {
    request.test.as_ref().unwrap_or(&request.path)
}

/// Training and test set where only the first may be given.
fn parts(request: &Request, monitor: &dyn Monitor) -> Result<(Named, Named), Error> {
    let train = examples(&request.path, request.targets.as_deref(), request, None, monitor)?;
    if let Some(path) = &request.test {
        let test = examples(path, request.test_targets.as_deref(), request, Some(&train), monitor)?;
        return Ok((train, test));
    }
    let examples = train.set.len();
    let held_back = (request.test_share * examples as f64).round() as usize;
    if held_back == 0 || held_back >= examples {
        let expected =
            format!("a share of the {examples} examples that leaves some on either side");
        return Err(Error::setting("--test-share", request.test_share, expected));
    }
    let Named { set, classes, columns } = train;
    let (train, test) = share(&set, held_back, request.seed);
    let named = |set: Dataset| Named { set, classes: classes.clone(), columns: columns.clone() };
    Ok((named(train), named(test)))
}

/// Examples of one file or folder. A test set has as many classes as the training set `before` it.
fn examples(
    path: &Path,
    targets: Option<&Path>,
    request: &Request,
    before: Option<&Named>,
    monitor: &dyn Monitor,
) -> Result<Named, Error> {
    if path.is_dir() {
        request.refuse_unused(&ABOUT_TARGETS, "a folder of images")?;
        return folder::read(path, monitor);
    }
    match extension(path).as_str() {
        "npy" => {
            request.refuse_unused(&["--target"], "an .npy file")?;
            numbers::npy(path, targets, request.classes).map(Named::numbered)
        }
        "csv" => {
            request.refuse_unused(&["--targets", "--test-targets"], "a .csv file")?;
            let (set, columns) = numbers::csv(path, &request.target, request.classes)?;
            Ok(Named::with_columns(set, Some(columns)))
        }
        _ => {
            request.refuse_unused(&["--target"], "IDX images")?;
            let images = File::open(path)?;
            let labels = match targets {
                Some(path) => path.to_owned(),
                None => labels_beside(path)?,
            };
            let classes = request.classes.or(before.map(|named| named.classes.len()));
            idx_pair(&images, &File::open(&labels)?, classes).map(Named::numbered)
        }
    }
}

/// The labels of `...-images-idx3-ubyte` are in `...-labels-idx1-ubyte`.
fn labels_beside(images: &Path) -> Result<PathBuf, Error> {
    let name = images.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !name.contains("images-idx3") {
        let expected =
            "a .npy, .csv or .tar.gz file, a folder, or IDX images with --targets LABELS";
        return Err(Error::input(images, Malformed::new("another kind of file", expected)));
    }
    Ok(images.with_file_name(name.replace("images-idx3", "labels-idx1")))
}

/// A data set that brings its own test set: an archive or folder of CIFAR, a folder of IDX files.
fn whole(path: &Path) -> Result<Option<(Named, Named)>, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".tar.gz") || name.ends_with(".tgz") || name.ends_with(".tar") {
        let archive = File::open(path)?;
        let hundred = cifar_members(&archive, &cifar_files(Kind::Hundred)[0]).is_ok();
        let kind = if hundred { Kind::Hundred } else { Kind::Ten };
        return cifar(kind, |names| cifar_members(&archive, names)).map(Some);
    }
    for kind in [Kind::Ten, Kind::Hundred] {
        if path.join(&cifar_files(kind)[0][0]).is_file() {
            let read = |names: &[String]| names.iter().map(|n| File::open(&path.join(n))).collect();
            return cifar(kind, read).map(Some);
        }
    }
    for ending in ["", ".gz"] {
        let [images, labels, test_images, test_labels] =
            IDX_FILES.map(|name| path.join(format!("{name}{ending}")));
        if images.is_file() {
            let train = idx_pair(&File::open(&images)?, &File::open(&labels)?, None)?;
            let train = Named::numbered(train);
            let (images, labels) = (File::open(&test_images)?, File::open(&test_labels)?);
            let test = idx_pair(&images, &labels, Some(train.classes.len()))?;
            return Ok(Some((train, Named::numbered(test))));
        }
    }
    Ok(None)
}

/// Names of the files to train on and to test on.
pub fn cifar_files(kind: Kind) -> [Vec<String>; 2] {
    match kind {
        Kind::Ten => {
            let train = (1..=5).map(|i| format!("data_batch_{i}.bin")).collect();
            [train, vec!["test_batch.bin".to_owned()]]
        }
        Kind::Hundred => [vec!["train.bin".to_owned()], vec!["test.bin".to_owned()]],
    }
}

fn cifar(
    kind: Kind,
    files: impl Fn(&[String]) -> Result<Vec<File>, Error>,
) -> Result<(Named, Named), Error> {
    let [train, test] = cifar_files(kind);
    let part = |names: &[String]| convert::cifar(&files(names)?, kind).map(Named::numbered);
    Ok((part(&train)?, part(&test)?))
}

fn check(path: &Path, set: &Dataset) -> Result<(), Error> {
    if set.is_empty() || set.input_len() == 0 {
        return Err(Error::input(path, Malformed::new("no numbers", "examples")));
    }
    Ok(())
}
