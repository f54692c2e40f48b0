//! One process at a time works in a folder, among all processes and machines that see it.
//!
//! ```text
//! FOLDER/lock    who works here: host, process, and a counter that rises twice a second; removed at the end
//! ```
//!
//! There are two layers:
//!
//! 1. **The owner file** is made by exclusive creation, which every file system knows. Its owner raises the
//!    counter in it, and puts the file back if somebody removes it.
//! 2. **`flock` on the folder itself**, where the file system supports it. The system releases it when the process
//!    ends, and removing the owner file does not.
//!
//! A `flock` is reliable if a second one on the same folder fails while the first is held, and if the file system is
//! not one of a network: those lock folders on one machine only.
//!
//! ```text
//! acquire    flock the folder, or wait; if flock fails or is not reliable, continue without it
//!            create the file exclusively, or judge its owner and wait
//!            without a reliable flock: stay a candidate for 2.5 beats; if the file is still one's own, hold it
//! judge      an owner on this machine has ended if its process has; any other owner, if its file did not
//!            change for 30 s by the clock of the process that waits
//! displace   rename the file to a name of one's own; if it is not the file that was judged, put it back by a
//!            link, which replaces nothing
//! hold       every 0.5 s, a beat: write to the file if it is one's own, create it again if it is gone, displace
//!            a candidate; if another process holds it, the lock is lost
//! ```
//!
//! Guarantees, as long as the folder itself is not removed:
//!
//! - With a reliable `flock`, never do two processes hold the lock, even if the owner file is removed.
//! - Without it, never do two that keep up their beats. A process that stands still for more than 1.5 beats while
//!   somebody removes its file can lose the lock.
//! - A process that stands still for more than 30 s can lose the lock to another machine.
//! - A process that lost the lock learns it from [`Lock::check`] before it writes anything further, except for the
//!   one write that follows a check when the process stood still between the two.

mod mount;
mod owner;
#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Error;
use crate::files::create_folder;
use crate::progress::Monitor;
use owner::{Found, Owner, OwnerFile};

/// Name of the owner file in its folder.
pub const NAME: &str = "lock";

/// The times of the protocol.
#[derive(Debug, Clone, Copy)]
struct Times {
    beat: Duration,
    candidate: Duration,
    stale: Duration,
}

const TIMES: Times = Times {
    beat: Duration::from_millis(500),
    candidate: Duration::from_millis(1250),
    stale: Duration::from_secs(30),
};

/// [`Lock::check`] reads the file again after this time.
const FRESH: Duration = Duration::from_millis(100);
/// A file that cannot be understood is read again after this time.
const ILLEGIBLE: Duration = Duration::from_millis(5);
/// A longer wait is announced.
const QUIET: Duration = Duration::from_secs(1);
/// A stop request ends a wait that has lasted this long. Most locks are free sooner, and finished work is to be saved.
const GRACE: Duration = Duration::from_secs(5);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    folder: PathBuf,
    claim: Arc<Mutex<Claim>>,
    heart: Option<JoinHandle<()>>,
    is_abandoned: bool,
    /// Released last, after the owner file is removed.
    _flock: Option<File>,
}

impl Lock {
    /// Locks a folder, making it if need be.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process works there.
    pub fn try_now(folder: &Path, monitor: &dyn Monitor) -> Result<Self, Error> {
        Attempts::new(folder, monitor, TIMES).acquire(true)
    }

    /// Locks a folder as soon as no other process works there, making it if need be.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if the monitor asked to stop first.
    pub fn wait(folder: &Path, monitor: &dyn Monitor) -> Result<Self, Error> {
        Attempts::new(folder, monitor, TIMES).acquire(false)
    }

    fn hold(folder: &Path, claim: Claim, flock: Option<File>, times: Times) -> Self {
        let claim = Arc::new(Mutex::new(claim));
        let shared = Arc::clone(&claim);
        let heart = thread::spawn(move || keep_alive(&shared, times.beat));
        Self {
            folder: folder.to_owned(),
            claim,
            heart: Some(heart),
            is_abandoned: false,
            _flock: flock,
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves the lock to the process that this one is a fork of, which has the thread that keeps it.
    pub fn abandon(&mut self) {
        // Neither waited for nor closed: both belong to the other process.
        if let Some(heart) = self.heart.take() {
            std::mem::forget(heart);
        }
        self.is_abandoned = true;
    }

    /// Fails if the lock was lost. Called before every write.
    pub fn check(&self) -> Result<(), Error> {
        let mut claim = guard(&self.claim);
        // This clock also runs while the machine sleeps. If it was set back, the file is read.
        let is_fresh = claim.seen.elapsed().is_ok_and(|passed| passed < FRESH);
        if is_fresh && claim.lost_to.is_none() { Ok(()) } else { claim.renew() }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        let mut claim = guard(&self.claim);
        claim.is_released = true;
        // If this fails, the next process finds that the owner has ended.
        let _ = claim.file.remove(&claim.me);
        drop(claim);
        if let Some(heart) = self.heart.take() {
            heart.thread().unpark();
            let _ = heart.join();
        }
    }
}

fn guard(claim: &Mutex<Claim>) -> MutexGuard<'_, Claim> {
    claim.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The heartbeat of a lock.
fn keep_alive(claim: &Mutex<Claim>, beat: Duration) {
    loop {
        thread::park_timeout(beat);
        let mut claim = guard(claim);
        if claim.is_released || claim.lost_to.is_some() {
            return;
        }
        // A failure that lasts is reported by `Lock::check`.
        let _ = claim.renew();
    }
}

/// An owner file that this process wrote, as holder or as candidate.
#[derive(Debug)]
struct Claim {
    file: OwnerFile,
    me: Owner,
    /// When the file was last read and was ours.
    seen: SystemTime,
    lost_to: Option<String>,
    is_released: bool,
}

impl Claim {
    /// One beat. A holder whose file is gone or a candidate's puts its own back; a candidate does not.
    fn renew(&mut self) -> Result<(), Error> {
        let Self { file, me, .. } = self;
        let failed = |source| Error::Write { path: file.path.clone(), source };
        me.beat += 1;
        // More than once if candidates come between removing another and creating the file.
        for _ in 0..16 {
            if self.lost_to.is_some() {
                break;
            }
            if file.rewrite(me).map_err(failed)? {
                self.seen = SystemTime::now();
                return Ok(());
            }
            match file.read().map_err(failed)? {
                None if me.holds => drop(file.create(me).map_err(failed)?),
                Some(found) if me.holds && found.is_candidate() => {
                    file.displace(&found).map_err(failed)?;
                }
                // Between its creation and its first write, or damaged, which the last round takes for lost.
                Some(found) if me.holds && found.is_illegible() => thread::sleep(ILLEGIBLE),
                found => self.lost_to = Some(in_words(found)),
            }
        }
        let holder = self.lost_to.get_or_insert_with(|| in_words(None)).clone();
        Err(Error::LockLost { path: file.path.clone(), holder })
    }

    /// Whether the file stayed ours for as long as a holder needs to notice it.
    fn outlasts(&mut self, times: Times) -> Result<bool, Error> {
        let created = Instant::now();
        while created.elapsed() < times.candidate {
            thread::sleep(times.beat.min(times.candidate.saturating_sub(created.elapsed())));
            match self.renew() {
                Err(Error::LockLost { .. }) => return Ok(false),
                renewed => renewed?,
            }
        }
        Ok(true)
    }
}

/// Whose lock was found.
fn in_words(found: Option<Found>) -> String {
    found.map_or_else(|| "another process".to_owned(), |found| found.to_string())
}

/// What `flock` says of a folder.
enum Flock {
    Busy,
    /// Held, and reliable.
    Held(File),
    /// Held as far as it goes, or failed.
    Unreliable(Option<File>),
}

impl Flock {
    fn try_now(folder: &Path) -> Self {
        let try_lock = || {
            let file = File::open(folder).map_err(TryLockError::Error)?;
            file.try_lock().map(|()| file)
        };
        match try_lock() {
            Err(TryLockError::WouldBlock) => Self::Busy,
            Err(TryLockError::Error(_)) => Self::Unreliable(None),
            Ok(first) => match try_lock() {
                Err(TryLockError::WouldBlock) if !mount::is_network(folder) => Self::Held(first),
                _ => Self::Unreliable(Some(first)),
            },
        }
    }
}

/// Tries to acquire a lock.
struct Attempts<'a> {
    folder: &'a Path,
    file: OwnerFile,
    monitor: &'a dyn Monitor,
    times: Times,
    since: Instant,
    is_announced: bool,
    /// The owner file as it was first and last seen, and since when it has not changed.
    watched: Option<(Found, Found, Instant)>,
}

impl<'a> Attempts<'a> {
    fn new(folder: &'a Path, monitor: &'a dyn Monitor, times: Times) -> Self {
        let file = OwnerFile { path: folder.join(NAME) };
        let since = Instant::now();
        Self { folder, file, monitor, times, since, is_announced: false, watched: None }
    }

    /// Tries until the lock is there; with `refuses`, until another process is known to be at work.
    fn acquire(mut self, refuses: bool) -> Result<Lock, Error> {
        create_folder(self.folder)?;
        loop {
            let (flock, is_reliable) = match Flock::try_now(self.folder) {
                Flock::Busy => {
                    let found = self.read()?;
                    self.pause(found, refuses)?;
                    continue;
                }
                Flock::Held(file) => (Some(file), true),
                Flock::Unreliable(file) => (file, false),
            };
            if let Some(claim) = self.claim(is_reliable)? {
                return Ok(Lock::hold(self.folder, claim, flock, self.times));
            }
            let Some(found) = self.read()? else { continue };
            let (is_alive, has_ended) = self.judge(&found);
            if has_ended {
                self.file.displace(&found).map_err(|source| self.failed(source))?;
            } else {
                drop(flock);
                self.pause(Some(found), refuses && is_alive)?;
            }
        }
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Write { path: self.file.path.clone(), source }
    }

    fn read(&self) -> Result<Option<Found>, Error> {
        self.file.read().map_err(|source| self.failed(source))
    }

    /// Creates the owner file and becomes holder, if there is no other file.
    fn claim(&self, is_reliable: bool) -> Result<Option<Claim>, Error> {
        let (file, me) = (self.file.clone(), Owner::candidate());
        if !file.create(&me).map_err(|source| self.failed(source))? {
            return Ok(None);
        }
        let seen = SystemTime::now();
        let mut claim = Claim { file, me, seen, lost_to: None, is_released: false };
        if !is_reliable && !claim.outlasts(self.times)? {
            return Ok(None);
        }
        claim.me.holds = true;
        // The second time shows that no holder displaced the file while the first one wrote to it.
        let is_ours = || claim.file.rewrite(&claim.me).map_err(|source| self.failed(source));
        let holds = is_ours()? && is_ours()?;
        Ok(holds.then_some(claim))
    }

    /// Whether the owner is known to be alive, and whether it has ended.
    fn judge(&mut self, found: &Found) -> (bool, bool) {
        let watched =
            self.watched.get_or_insert_with(|| (found.clone(), found.clone(), Instant::now()));
        if watched.1 != *found {
            (watched.1, watched.2) = (found.clone(), Instant::now());
        }
        match found.process_has_ended() {
            Some(has_ended) => (!has_ended, has_ended),
            None => (watched.0 != *found, watched.2.elapsed() >= self.times.stale),
        }
    }

    /// Waits a little for this owner, or gives up.
    fn pause(&mut self, found: Option<Found>, refuses: bool) -> Result<(), Error> {
        let holder = in_words(found);
        let (folder, waited) = (self.folder, self.since.elapsed());
        if refuses {
            return Err(Error::Locked { folder: folder.to_owned(), holder });
        }
        if waited >= QUIET && !self.is_announced {
            let line = format!("waiting for {holder}, which works at {}", folder.display());
            self.monitor.note(&line);
            self.is_announced = true;
        }
        if let Some(reason) = self.monitor.stop_requested().filter(|_| waited >= GRACE) {
            return Err(reason.into());
        }
        thread::sleep((waited / 8).clamp(Duration::from_millis(1), Duration::from_millis(100)));
        Ok(())
    }
}
