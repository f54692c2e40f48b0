//! `lastbit data import`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::written;
use crate::cli::CommandOutput;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::data::import::{Request, import};
use lastbit_lab::data::{embedded, store};
use lastbit_lab::validate::within;

/// More classes than these are a misprint.
const MOST_CLASSES: usize = 1 << 16;

/// What to import.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit data import curve.csv --target y --name curve
  lastbit data import x.npy --targets y.npy --name mine --test-share 0.1 --seed 3
  lastbit data import iris.csv --target species --classes 3 --name iris    species are 0, 1, 2
  lastbit data import images/train --test images/test --name shapes
  lastbit data import cifar-100-binary.tar.gz --name cifar100
  lastbit data import train-images-idx3-ubyte.gz --test t10k-images-idx3-ubyte.gz --name digits

Kinds of input, told by name and content:
  .csv      a header line; --target names the columns to learn, the others are inputs
  .npy      examples first: (n), (n, width), (n, height, width), (n, height, width, channels);
            with --targets; unsigned bytes are pixels and mean byte/255, all else is kept as f64
  folder    one sub-folder of .png images for each class, in the order of their names;
            or the four IDX files of MNIST; or the .bin files of CIFAR
  .tar.gz   CIFAR-10 or CIFAR-100 in binary form
  other     IDX images, compressed or not; labels beside them (...-labels-idx1-...) or --targets

Targets in .csv and .npy are numbers to be met, or with --classes N labels: whole numbers from 0
to N-1, not words.")]
pub struct Import {
    /// File or folder.
    path: PathBuf,

    /// Name of the data set: letters, digits, - and _.
    #[arg(long)]
    name: String,

    /// Targets of an .npy file, labels of IDX images.
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,

    /// Columns of a .csv file that are targets.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    target: Vec<String>,

    /// Number of classes: targets are labels.
    #[arg(long, value_name = "N")]
    classes: Option<usize>,

    /// Test set, of the same kind.
    #[arg(long, value_name = "PATH")]
    test: Option<PathBuf>,

    /// Targets or labels of the test set.
    #[arg(long, value_name = "FILE", requires = "test")]
    test_targets: Option<PathBuf>,

    /// Without a test set: share of the examples to hold out as one.
    #[arg(long, value_name = "SHARE", default_value = "0.2", conflicts_with = "test")]
    test_share: f64,

    /// Seed that decides which examples are held out.
    #[arg(long, default_value = "0", conflicts_with = "test")]
    seed: u64,

    /// Replace a data set of this name.
    #[arg(long)]
    replace: bool,
}

impl Import {
    /// Reads, checks and keeps it.
    pub fn answer(&self, dir: &Path) -> Result<CommandOutput, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            return Err(Error::setting("--name", &self.name, "letters, digits, - and _"));
        }
        if embedded::find(&self.name).is_some() {
            let expected = "another name: that one is embedded";
            return Err(Error::setting("--name", &self.name, expected));
        }
        if store::exists(dir, &self.name) && !self.replace {
            let expected = "a name that is free, or --replace";
            let found = format!("{}, which is in {}", self.name, dir.display());
            return Err(Error::setting("--name", found, expected));
        }
        if !(self.test_share > 0.0 && self.test_share < 1.0) {
            return Err(Error::setting("--test-share", self.test_share, "between 0 and 1"));
        }
        if let Some(classes) = self.classes {
            within("--classes", classes, 1, MOST_CLASSES)?;
        }
        let (description, split) = import(
            &Request {
                path: self.path.clone(),
                name: self.name.clone(),
                targets: self.targets.clone(),
                target: self.target.clone(),
                classes: self.classes,
                test: self.test.clone(),
                test_targets: self.test_targets.clone(),
                test_share: self.test_share,
                seed: self.seed,
            },
            &Terminal::showing(),
        )?;
        let folder = store::save(dir, &description, &split)?;
        Ok(written(&description, &folder))
    }
}
