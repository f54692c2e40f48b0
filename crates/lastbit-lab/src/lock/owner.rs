//! The file that says who holds a lock.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{SOMEWHERE, process_space, unfinished_prefix};

/// An owner file is shorter.
const MOST_BYTES: u64 = 4096;

/// A process that holds a lock or would like to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Whether it holds the lock; a candidate does not yet.
    pub holds: bool,
    /// Heartbeats.
    pub beat: u64,
    host: String,
    process: u32,
    /// Clock ticks from the start of the machine to that of the process.
    started: Option<u64>,
    /// Where process numbers are its own: a machine since its start, and a name space.
    space: String,
    /// Tells two owner files of one process apart.
    nonce: String,
}

impl Owner {
    /// This process, before it holds the lock.
    pub fn candidate() -> Self {
        let process = std::process::id();
        let random = || RandomState::new().build_hasher().finish();
        Self {
            holds: false,
            beat: 0,
            host: host(),
            process,
            started: start_of(process).ok().flatten(),
            space: process_space(),
            nonce: format!("{:016x}{:016x}", random(), random()),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        format!("{}\n", serde_json::to_string(self).expect("plain data")).into_bytes()
    }

    /// Whether the process has ended, where that can be seen: among the processes of this machine.
    fn has_ended(&self) -> Option<bool> {
        let is_here = self.host == host() && self.space == process_space();
        // Without the first process, those of other users are hidden.
        if !is_here || self.space == SOMEWHERE || !Path::new("/proc/1").exists() {
            return None;
        }
        start_of(self.process).ok().map(|started| started != self.started)
    }
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}

/// When a process started, by field 22 of its `stat`; nothing if there is no such process.
fn start_of(process: u32) -> io::Result<Option<u64>> {
    let text = match fs::read_to_string(format!("/proc/{process}/stat")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    // Field 2 is the name of the program, which may contain anything.
    let mut fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    // A zombie has ended; only its parent has not yet asked how.
    let is_zombie = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    Ok(fields.nth(18).filter(|_| !is_zombie).and_then(|started| started.parse().ok()))
}

/// What was read from an owner file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    bytes: Vec<u8>,
    /// Nothing while the file is being written, or if it is damaged.
    owner: Option<Owner>,
}

impl Found {
    /// Whether its owner does not yet hold the lock.
    pub fn is_candidate(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| !owner.holds)
    }

    /// Whether it does not say whose it is: it is being written, or damaged.
    pub fn is_illegible(&self) -> bool {
        self.owner.is_none()
    }

    /// Whether the process of its owner has ended, where that can be seen.
    pub fn process_has_ended(&self) -> Option<bool> {
        self.owner.as_ref()?.has_ended()
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.owner {
            Some(owner) => {
                // A name from a file: no control characters reach the terminal.
                let host =
                    owner.host.chars().filter(|c| !c.is_control()).take(64).collect::<String>();
                write!(f, "process {} on host {host}", owner.process)
            }
            None => f.write_str("another process"),
        }
    }
}

/// The place of an owner file. Links are never followed, and no file is truncated that another wrote.
#[derive(Debug, Clone)]
pub struct OwnerFile {
    pub path: PathBuf,
}

impl OwnerFile {
    /// Creates the file; false if there is something at its place.
    pub fn create(&self, owner: &Owner) -> io::Result<bool> {
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            file => file?,
        };
        if let Err(error) = file.write_all(&owner.to_bytes()) {
            // A full disk: the lock is not ours, and nobody is to wait for it.
            fs::remove_file(&self.path)?;
            return Err(error);
        }
        Ok(true)
    }

    /// What is in the file, if it is there.
    pub fn read(&self) -> io::Result<Option<Found>> {
        read(&self.path)
    }

    /// Writes to the file if its contents are this owner's; false if they are not or it is gone.
    pub fn rewrite(&self, owner: &Owner) -> io::Result<bool> {
        let mut file = match without_links().read(true).write(true).open(&self.path) {
            Err(error) if is_not_ours(&error) => return Ok(false),
            file => file?,
        };
        let is_ours = found_in(&mut file)?.owner.is_some_and(|found| found.nonce == owner.nonce);
        if is_ours {
            let bytes = owner.to_bytes();
            file.rewind()?;
            file.write_all(&bytes)?;
            file.set_len(bytes.len() as u64)?;
        }
        Ok(is_ours)
    }

    /// Removes the file if it is this owner's.
    pub fn remove(&self, owner: &Owner) -> io::Result<()> {
        match self.read()?.and_then(|found| found.owner) {
            Some(found) if found.nonce == owner.nonce => fs::remove_file(&self.path),
            _ => Ok(()),
        }
    }

    /// Removes the file if it is still as it was `judged`.
    pub fn displace(&self, judged: &Found) -> io::Result<()> {
        let nonce = Owner::candidate().nonce;
        let aside = self.path.with_file_name(format!("{}{nonce}", unfinished_prefix()));
        match fs::rename(&self.path, &aside) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        if read(&aside)?.as_ref() != Some(judged) {
            // If this fails, its owner puts it back.
            let _ = fs::hard_link(&aside, &self.path);
        }
        fs::remove_file(&aside)
    }
}

/// Opening fails at a link, and does not wait at a pipe.
fn without_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options.read(true);
    options
}

/// The file is gone, on this machine or on the server, or belongs to another user.
fn is_not_ours(error: &io::Error) -> bool {
    use ErrorKind::{NotFound, PermissionDenied, StaleNetworkFileHandle};
    matches!(error.kind(), NotFound | PermissionDenied | StaleNetworkFileHandle)
}

fn read(path: &Path) -> io::Result<Option<Found>> {
    use ErrorKind::{NotFound, StaleNetworkFileHandle};
    let read = without_links().open(path).and_then(|mut file| found_in(&mut file));
    match read {
        Err(error) if matches!(error.kind(), NotFound | StaleNetworkFileHandle) => Ok(None),
        read => read.map(Some),
    }
}

fn found_in(file: &mut File) -> io::Result<Found> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(Found { owner: serde_json::from_slice(&bytes).ok(), bytes })
}
