//! Every file is written beside its place and renamed into it, so that a reader or a crash sees the
//! old file or the new one and never a part.
//!
//! After a power cut, too: contents are on the disk before the rename, and the rename is before
//! [`write_atomically`] returns. So are new folders. What is written later never survives without what was written
//! before it.
//!
//! ```text
//! .unfinished-SPACE-PROCESS-…   being written; what a killed process left of it is removed
//! ```
//!
//! Several machines may share a folder. `SPACE` is where the number of the process means something:
//! the machine since its start, and the name space of process numbers.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::error::Error;

const UNFINISHED: &str = ".unfinished-";

/// The [`process_space`] where the system does not say.
pub const SOMEWHERE: &str = "somewhere";

/// Eight digits for the processes among which ours is.
pub fn process_space() -> String {
    let machine = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let numbers = fs::read_link("/proc/self/ns/pid");
    let (Ok(machine), Ok(numbers)) = (machine, numbers) else { return SOMEWHERE.to_owned() };
    let both = format!("{machine}{}", numbers.display());
    blake3::hash(both.as_bytes()).to_hex()[..8].to_owned()
}

fn prefix(process: u32) -> String {
    format!("{UNFINISHED}{}-{process}-", process_space())
}

/// What the names of files and folders begin with while this process writes them.
pub fn unfinished_prefix() -> String {
    prefix(std::process::id())
}

/// Whether the writer of an unfinished file may still be at work. Where it cannot be looked up, on
/// another machine, an hour is taken to be enough for any file.
fn is_being_written(path: &Path, name: &str) -> bool {
    let ours = format!("{UNFINISHED}{}-", process_space());
    if let (Some(rest), true) = (name.strip_prefix(&ours), Path::new("/proc/self").exists()) {
        return Path::new("/proc").join(rest.split('-').next().unwrap_or("")).exists();
    }
    let age = fs::metadata(path).and_then(|data| data.modified()).map(|time| time.elapsed());
    // A file from the future, by the clock of another machine, is new.
    age.is_ok_and(|age| age.map_or(true, |age| age.as_secs() < 3600))
}

/// Removes what killed processes left unfinished in a folder.
pub fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with(UNFINISHED) && !is_being_written(&path, &name) {
            // What cannot be removed is in nobody's way.
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Waits until the disk has what was created, renamed and removed in a folder.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened.
    if cfg!(unix) {
        match fs::File::open(folder)?.sync_all() {
            // Some file systems know no such thing.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// The folder that a file or folder lies in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a folder and those above it that are missing; the disk has them then.
pub fn create_folder(path: &Path) -> Result<(), Error> {
    let create = || {
        let new: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        fs::create_dir_all(path)?;
        new.into_iter()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(parent)
            .try_for_each(sync_folder)
    };
    create().map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Removes a file, or a folder with all that is in it, if it is there.
pub fn remove(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Writes `bytes` to `path` through a temporary file in the same folder.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_atomically_with(path, |file| file.write_all(bytes))
}

/// Writes what `contents` writes to `path`, through a temporary file in the same folder.
pub fn write_atomically_with(
    path: &Path,
    contents: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<(), Error> {
    let folder = parent(path);
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(&unfinished_prefix()).tempfile_in(folder)?;
        contents(file.as_file_mut())?;
        file.as_file().sync_data()?;
        // A temporary file is private to its owner; a result is as open as any other file.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        file.persist(path)?;
        sync_folder(folder)
    };
    write().map_err(|error| Error::Write { path: path.to_owned(), source: plain(error) })
}

/// The system's error, without the name of the temporary file, which nobody has asked for.
pub fn plain(error: io::Error) -> io::Error {
    // The library that makes it writes `WHY at path "NAME"`.
    match error.to_string().split_once(" at path ") {
        Some((why, _)) => io::Error::new(error.kind(), why),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    fn left(folder: &Path, prefix: &str) -> PathBuf {
        let path = folder.join(format!("{prefix}abc"));
        fs::write(&path, "half").unwrap();
        path
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_killed_process_left_unfinished_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        // No process has the number 0; our own is at work.
        let (dead, ours) =
            (left(folder.path(), &prefix(0)), left(folder.path(), &unfinished_prefix()));
        remove_unfinished(folder.path());
        assert!(!dead.exists() && ours.exists());
    }

    #[test]
    fn what_another_machine_writes_is_left_alone_for_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        // Ours has eight digits.
        let other = left(folder.path(), ".unfinished-ffffffff0-0-");
        let change_time = |time: SystemTime| {
            fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
            remove_unfinished(folder.path());
        };
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let now = SystemTime::now();
        for time in [now + minutes(10), now, now - minutes(50)] {
            change_time(time);
            assert!(other.exists());
        }
        change_time(now - minutes(70));
        assert!(!other.exists());
    }
}
