use super::*;
use std::fs;

use crate::progress::{Silent, StopReason};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A hundredth of the real times, except for the beat: the machine may be busy.
const SHORT: Times = Times {
    beat: Duration::from_millis(20),
    candidate: Duration::from_millis(50),
    stale: Duration::from_millis(600),
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn wait(folder: &Path) -> Lock {
    Attempts::new(folder, &Silent, SHORT).acquire(false).unwrap()
}

fn holder(folder: &Path) -> Result<(), String> {
    Lock::try_now(folder, &Silent).map(drop).map_err(|error| error.to_string())
}

/// An owner file that a process on another machine would leave.
fn leave(folder: &Path, holds: bool, beat: u64) -> String {
    let text = format!(
        "{{\"holds\":{holds},\"beat\":{beat},\"host\":\"elsewhere\",\"process\":7,\"started\":1,\
         \"space\":\"00000000\",\"nonce\":\"n\"}}\n"
    );
    // At once: nobody is to read a part of it.
    let aside = folder.join("aside");
    fs::write(&aside, &text).unwrap();
    fs::rename(aside, folder.join(NAME)).unwrap();
    text
}

fn until(is_so: impl Fn() -> bool) {
    for _ in 0..5_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("it did not happen within ten seconds");
}

#[test]
fn one_holds_it_until_it_is_dropped() {
    let folder = folder();
    let held = wait(folder.path());
    held.check().unwrap();
    let refused = holder(folder.path()).unwrap_err();
    let process = format!("process {} on host ", std::process::id());
    assert!(refused.contains(&process) && refused.contains("wait"), "{refused}");
    drop(held);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    holder(folder.path()).unwrap();
}

/// Threads stand for processes: a `flock` belongs to an open file, and an owner file to a claim.
#[test]
fn many_hold_it_one_at_a_time() {
    let folder = folder();
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let lock = wait(folder.path());
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    lock.check().unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(most.into_inner(), 1);
}

#[test]
fn a_removed_file_admits_nobody_and_is_put_back() {
    let folder = folder();
    let held = wait(folder.path());
    let path = folder.path().join(NAME);
    for _ in 0..3 {
        fs::remove_file(&path).unwrap();
        assert!(holder(folder.path()).is_err());
        until(|| path.exists());
    }
    held.check().unwrap();
}

/// As where `flock` fails: the owner file alone decides.
#[test]
fn without_flock_a_candidate_gives_way_to_the_holder() {
    let folder = folder();
    let claim = |times| Attempts::new(folder.path(), &Silent, times).claim(false).unwrap();
    let held = Lock::hold(folder.path(), claim(SHORT).unwrap(), None, SHORT);
    assert!(claim(SHORT).is_none(), "the file is there");
    for _ in 0..5 {
        fs::remove_file(folder.path().join(NAME)).unwrap();
        assert!(claim(Times { candidate: Duration::from_secs(2), ..SHORT }).is_none());
        held.check().unwrap();
    }
}

#[test]
fn the_file_of_a_process_that_has_ended_is_displaced_at_once() {
    let folder = folder();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let text = serde_json::to_value(Owner::candidate()).unwrap();
    let of = |process: u32| {
        let mut text = text.clone();
        (text["process"], text["holds"]) = (process.into(), true.into());
        fs::write(folder.path().join(NAME), text.to_string()).unwrap();
    };
    child.wait().unwrap();
    of(child.id());
    holder(folder.path()).unwrap();
    // A process that has taken over the number started at another time.
    of(std::process::id());
    assert!(holder(folder.path()).is_err());
    let mut other: serde_json::Value = text.clone();
    (other["started"], other["holds"]) = (1.into(), true.into());
    fs::write(folder.path().join(NAME), other.to_string()).unwrap();
    holder(folder.path()).unwrap();
}

#[test]
fn another_machine_is_judged_by_its_heartbeat() {
    let folder = folder();
    for damaged in [None, Some(""), Some("\0\0\0\0"), Some("{\"holds\":")] {
        match damaged {
            Some(text) => fs::write(folder.path().join(NAME), text).unwrap(),
            None => drop(leave(folder.path(), true, 5)),
        }
        let started = Instant::now();
        wait(folder.path());
        assert!(started.elapsed() >= SHORT.stale);
    }
    // While the counter rises, whoever asks is refused.
    leave(folder.path(), true, 0);
    let beats = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while beats.fetch_add(1, Ordering::SeqCst) < 200 {
                leave(folder.path(), true, beats.load(Ordering::SeqCst) as u64);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let refused = Attempts::new(folder.path(), &Silent, SHORT).acquire(true).unwrap_err();
        assert!(refused.to_string().contains("process 7 on host elsewhere"), "{refused}");
        beats.store(200, Ordering::SeqCst);
    });
}

#[test]
fn who_has_lost_the_lock_is_told_and_leaves_the_other_one_alone() {
    let folder = folder();
    let held = wait(folder.path());
    let other = leave(folder.path(), true, 0);
    thread::sleep(2 * FRESH);
    let message = held.check().unwrap_err().to_string();
    assert!(message.contains("process 7 on host elsewhere"), "{message}");
    drop(held);
    assert_eq!(fs::read_to_string(folder.path().join(NAME)).unwrap(), other);
}

#[test]
fn displacing_puts_back_what_is_not_what_was_judged() {
    let folder = folder();
    let file = OwnerFile { path: folder.path().join(NAME) };
    leave(folder.path(), true, 1);
    let judged = file.read().unwrap().unwrap();
    let now = leave(folder.path(), true, 2);
    file.displace(&judged).unwrap();
    assert_eq!(fs::read_to_string(&file.path).unwrap(), now);
    file.displace(&file.read().unwrap().unwrap()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
#[cfg(unix)]
fn links_are_neither_followed_nor_truncated() {
    let folder = folder();
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, folder.path().join(NAME)).unwrap();
    let message = holder(folder.path()).unwrap_err();
    assert!(message.contains("lock: cannot be written"), "{message}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn a_stop_ends_the_wait() {
    struct Stopping(Mutex<Vec<String>>);
    impl Monitor for Stopping {
        fn note(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
        fn stop_requested(&self) -> Option<StopReason> {
            Some(StopReason::Interrupt)
        }
    }
    let folder = folder();
    let monitor = Stopping(Mutex::default());
    let _held = wait(folder.path());
    let stopped = Lock::wait(folder.path(), &monitor).unwrap_err();
    assert!(matches!(stopped, Error::Stopped(StopReason::Interrupt)), "{stopped}");
    let said = monitor.0.into_inner().unwrap();
    let expected = format!("waiting for process {} on host ", std::process::id());
    assert!(said.len() == 1 && said[0].starts_with(&expected), "{said:?}");
}
