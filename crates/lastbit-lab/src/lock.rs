//! Locks between processes, by files; over NFS also between machines.
//!
//! The system lets go of a lock with its process, however that ends. Where the file system knows no
//! locks, nobody can be kept out.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// The lock, or nothing if another holds it.
    pub fn try_now(path: &Path) -> Result<Option<Self>, Error> {
        let file = create(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(Self { _file: file })),
        }
    }

    /// The lock, as soon as nobody else holds it.
    pub fn wait(path: &Path) -> Result<Self, Error> {
        let file = create(path)?;
        while matches!(file.lock(), Err(error) if error.kind() == ErrorKind::Interrupted) {}
        Ok(Self { _file: file })
    }
}

fn create(path: &Path) -> Result<File, Error> {
    File::create(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::wait(&path).unwrap();
        assert!(Lock::try_now(&path).unwrap().is_none());
        drop(held);
        assert!(Lock::try_now(&path).unwrap().is_some());
    }
}
