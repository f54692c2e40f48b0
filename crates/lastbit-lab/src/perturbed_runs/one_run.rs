//! One run from its start to the file that says it is whole.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use super::group::Group;
use super::outputs::Outputs;
use super::runs::{Finished, LOGS, Planned};
use super::settings::Settings;
use super::{Request, command};
use crate::error::Error;
use crate::files::{create_folder, remove, sync_folder};
use crate::lock::Lock;
use crate::logged::{self, Choice};
use crate::progress::Monitor;
use crate::sealed;

/// Lines of a log that a message shows.
const LINES: usize = 6;
/// They are looked for in so many bytes at its end.
const TAIL: u64 = 4096;
/// Longer lines are cut.
const WIDTH: usize = 200;

/// How an attempt ended.
pub enum Attempt {
    /// The run is whole.
    Whole,
    /// Another process makes it.
    Elsewhere,
}

/// Makes a run, unless another process does or has.
pub fn make(
    request: &Request,
    settings: &Settings,
    words: &[String],
    run: &Planned,
    out: &Path,
    monitor: &dyn Monitor,
) -> Result<Attempt, Error> {
    let lock = match Lock::try_now(&run.lock_folder(out), monitor) {
        Err(Error::Locked { .. }) => return Ok(Attempt::Elsewhere),
        lock => lock?,
    };
    if run.is_whole(out).unwrap_or(false) {
        return Ok(Attempt::Whole);
    }
    // Such runs share the working directory.
    let shares = !request.files.is_empty();
    let _turn = shares.then(|| Lock::wait(&out.join("locks/files"), monitor)).transpose()?;
    let folder = run.folder(out);
    remove(&run.file(out))?;
    remove(&run.marker(out))?;
    remove(&folder)?;
    create_folder(&folder)?;
    let place = |source| Error::Read { path: folder.clone(), source };
    // The program may change its working directory.
    let absolute = folder.canonicalize().map_err(place)?;
    let outputs = Outputs::new(&request.files, out)?;
    outputs.begin(&run.name)?;
    let mut program = command::for_run(words, &absolute, run.seed, request.kind.name());
    let [stdout, stderr] = LOGS.map(|name| {
        let path = folder.join(name);
        File::create(&path).map_err(|source| Error::Write { path, source })
    });
    program.stdout(stdout?).stderr(stderr?);
    let started = Instant::now();
    let group = Group::start(&mut program).map_err(|error| {
        let expected = "a program that can be started";
        Error::setting("PROGRAM", format!("{} ({error})", words[0]), expected)
    })?;
    let ended = wait(group, request.timeout, monitor);
    outputs.collect(&folder)?;
    let seconds = started.elapsed().as_secs_f64();
    let failed = |what: String| {
        let program = command::shown(&request.command);
        let message = format!("`{program}` {what}; {}", said(&folder));
        Error::Program { run: run.name.clone(), message }
    };
    match ended? {
        Ended::By(status) if status.success() => {}
        Ended::By(status) => {
            return Err(failed(format!("{} after {seconds:.1} s", in_words(status))));
        }
        Ended::TimedOut(limit) => {
            return Err(failed(format!(
                "did not end within {} s (--timeout)",
                limit.as_secs_f64()
            )));
        }
    }
    // All its metrics, at any steps: which of them are wanted may be corrected later.
    let keyed = Choice { step_key: request.choice.step_key.clone(), ..Choice::default() };
    let read = logged::read(&folder, &keyed).or_else(|_| logged::read(&folder, &Choice::default()));
    let logged = read.map_err(|error| {
        let advice = "have it write its metrics to {run} in an argument or to $LASTBIT_RUN, or name its files with --files";
        failed(format!("left no metrics that can be read ({error}; {advice})"))
    })?;
    let finished = Finished::of(&folder, &logged.files, run.marker(out).exists())?;
    sync(&folder, &finished)?;
    lock.check()?;
    settings.check_kept(out)?;
    sealed::write(&run.file(out), &finished)?;
    remove(&run.marker(out))?;
    // The run is kept, also where it has none of the metrics that are asked for.
    logged::read(&folder, &request.choice).map(|_| Attempt::Whole)
}

/// Waits until the disk has the files of a run.
fn sync(folder: &Path, finished: &Finished) -> Result<(), Error> {
    for name in finished.files.keys() {
        let path = folder.join(&**name);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        let parent = path.parent().unwrap_or(folder);
        synced
            .and_then(|()| sync_folder(parent))
            .map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    Ok(())
}

/// How a program ended.
enum Ended {
    By(ExitStatus),
    TimedOut(Duration),
}

fn wait(mut group: Group, limit: Option<Duration>, monitor: &dyn Monitor) -> Result<Ended, Error> {
    let failed = |source| Error::Read { path: PathBuf::from("the program"), source };
    let started = Instant::now();
    loop {
        if let Some(status) = group.ended().map_err(failed)? {
            return Ok(Ended::By(status));
        }
        if let Some(reason) = monitor.stop_requested() {
            group.stop().map_err(failed)?;
            return Err(reason.into());
        }
        if let Some(limit) = limit.filter(|limit| started.elapsed() >= *limit) {
            group.stop().map_err(failed)?;
            return Ok(Ended::TimedOut(limit));
        }
        // A hundredth of the time that has passed is no delay.
        let pause = started.elapsed() / 100;
        thread::sleep(pause.clamp(Duration::from_millis(1), Duration::from_millis(50)));
    }
}

fn in_words(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match signal {
            4 => " (SIGILL)",
            6 => " (SIGABRT)",
            7 => " (SIGBUS)",
            8 => " (SIGFPE)",
            9 => " (SIGKILL; did memory run out?)",
            11 => " (SIGSEGV)",
            15 => " (SIGTERM)",
            _ => "",
        };
        return format!("was ended by signal {signal}{name}");
    }
    status.code().map_or_else(|| "ended".to_owned(), |code| format!("ended with exit code {code}"))
}

/// The last lines of what a program printed.
fn said(folder: &Path) -> String {
    for name in ["stderr.log", "stdout.log"] {
        let path = folder.join(name);
        let tail = tail(&path);
        let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        let shown = lines[lines.len().saturating_sub(LINES)..].iter().map(|line| {
            let cut: String = line.chars().take(WIDTH).collect();
            format!("  {cut}\n")
        });
        return format!("the last lines of {}:\n{}", path.display(), shown.collect::<String>());
    }
    format!("it printed nothing; its folder is {}\n", folder.display())
}

fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = fs::metadata(path)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
