//! A program run several times, each time with another perturbation of the size of rounding and nothing else changed.
//!
//! ```text
//! command -> two runs without a perturbation: is the program bit-reproducible?
//!         -> n perturbed runs: each reads LASTBIT_PERTURB, and writes its metrics
//!         -> logged::read of each -> Envelope::of -> envelope.json
//! ```
//!
//! What a program finds in its environment:
//!
//! ```text
//! LASTBIT_PERTURB         the seed of its perturbation; 0 for none
//! LASTBIT_PERTURB_KIND    how it is to be perturbed
//! LASTBIT_RUN             the folder of the run, also in place of {run} in an argument
//! ```
//!
//! Python programs are run through `lastbit.torch.launch`, which perturbs every optimizer of PyTorch that they create.
//! Each run that is whole is kept, so that an interrupted envelope resumes, and more runs widen it. Several processes and
//! machines may make runs of one envelope; the last one finds all, and writes the envelope.

mod command;
mod differences;
mod group;
mod one_run;
mod outputs;
mod reached;
mod result;
mod runs;
mod settings;
mod training;
mod verify;

pub use result::{Made, Spread};
pub use runs::{PLAIN, plan};
pub use settings::Kind;
pub use training::TrainingRequest;
pub use training::make as of_training;
pub use verify::{is_left_of_envelope, is_of_program, verify};

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::envelope::{self, Envelope, Reproducibility};
use crate::error::Error;
use crate::files::{remove, remove_unfinished};
use crate::input::refuse;
use crate::lock::Lock;
use crate::logged::{self, Choice, LoggedRun};
use crate::progress::{Monitor, Progress};
use crate::runner::Existing;
use crate::validate::within;
use one_run::Attempt;
use runs::Planned;
use settings::Settings;

/// Perturbed runs that there are at least: two have a spread.
const LEAST: usize = 2;
/// Perturbed runs that there are at most.
const MOST: usize = 1000;

/// An envelope as it is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Perturbed runs.
    pub runs: usize,
    /// How they are perturbed.
    pub kind: Kind,
    /// Whether a Python program is run through the launcher.
    pub launcher: bool,
    /// Patterns of files that the program writes to the working directory.
    pub files: Vec<String>,
    /// Which metrics, over which steps.
    pub choice: Choice,
    /// Programs that run at once.
    pub jobs: usize,
    /// A run that takes longer has failed.
    pub timeout: Option<Duration>,
    /// Whether further runs are made after one that failed.
    pub keep_going: bool,
    /// Places of the runs to make in the plan; all otherwise.
    pub part: Option<Range<usize>>,
    /// What becomes of the runs that are there.
    pub existing: Existing,
}

impl Request {
    fn check(&self) -> Result<(), Error> {
        if self.command.is_empty() {
            let expected =
                "a program and its arguments after --, or a configuration of `lastbit train`";
            return Err(Error::setting("PROGRAM", "none", expected));
        }
        within("--runs", self.runs, LEAST, MOST)?;
        within("--jobs", self.jobs, 1, MOST)?;
        if self.timeout.is_some_and(|limit| limit.is_zero()) {
            return Err(Error::setting("--timeout", "0 s", "a time such as 90s or 2h"));
        }
        if !self.files.is_empty() && self.jobs > 1 {
            let expected =
                "1 with --files: runs that write to the same places go one after the other";
            return Err(Error::setting("--jobs", self.jobs, expected));
        }
        outputs::check(&self.files)
    }
}

/// Makes the runs that are not whole, and the envelope when all are.
///
/// Where the monitor asks to stop, the runs at work are ended; the same request resumes with them.
///
/// # Errors
///
/// [`Error::Program`] names a run that failed; all others are kept.
pub fn make(request: &Request, out: &Path, monitor: &dyn Monitor) -> Result<Made, Error> {
    request.check()?;
    let launched = if request.launcher { command::launched(&request.command)? } else { None };
    let words = launched.as_ref().unwrap_or(&request.command);
    let settings = Settings {
        format: settings::FORMAT,
        command: request.command.clone(),
        launcher: launched.is_some(),
        kind: request.kind.name().to_owned(),
        files: request.files.clone(),
        runs: request.runs,
        sources: settings::sources(&request.command)?,
    };
    {
        let lock = Lock::wait(out, monitor)?;
        if request.existing == Existing::Discard {
            discard(out, &lock)?;
        }
        settings.keep(out)?;
        remove_unfinished(out);
        remove_unfinished(&out.join(runs::RUNS));
    }
    let all = plan(request.runs);
    let part = request.part.clone().unwrap_or(0..all.len());
    let open: Vec<&Planned> = all[part].iter().filter(|run| !is_kept(run, out, monitor)).collect();
    if launched.is_some() && !open.is_empty() {
        command::check_launcher(words)?;
        let line =
            format!("running `{}`, which perturbs PyTorch's optimizers", command::shown(words));
        monitor.note(&line);
    }
    let progress = Progress::new(monitor, "envelope", open.len() as u64);
    let (plain, perturbed): (Vec<_>, Vec<_>) = open.into_iter().partition(|run| run.seed == 0);
    let work = Work { request, settings: &settings, words, out, progress: &progress };
    work.make_all(&plain)?;
    if !plain.is_empty() && all[..PLAIN].iter().all(|run| run.file(out).exists()) {
        check_unchanged(&all[..PLAIN], out)?;
    }
    work.make_all(&perturbed)?;
    drop(progress);
    gather(request, is_launched(&request.command, launched.is_some()), &all, out, monitor)
}

/// Whether the launcher is to say that it perturbed the runs.
fn is_launched(command: &[String], through_launcher: bool) -> bool {
    through_launcher || command.iter().any(|word| word == command::LAUNCHER)
}

/// Whether a run is whole; one that is damaged is named.
fn is_kept(run: &Planned, out: &Path, monitor: &dyn Monitor) -> bool {
    run.is_whole(out).unwrap_or_else(|error| {
        monitor.note(&format!("{error}; {} is made again", run.name));
        false
    })
}

/// Removes an envelope with its runs, if it is one.
fn discard(out: &Path, lock: &Lock) -> Result<(), Error> {
    if Settings::read(out)?.is_none() {
        return Ok(());
    }
    lock.check()?;
    remove(&out.join(envelope::FILE))?;
    runs::remove_all(out)?;
    remove(&out.join(settings::FILE))
}

/// Fails where the runs without a perturbation differ although those of the envelope that is there were equal: one of them was made again
/// since.
fn check_unchanged(plain: &[Planned], out: &Path) -> Result<(), Error> {
    let Some(envelope) = Envelope::read(&out.join(envelope::FILE))? else { return Ok(()) };
    if envelope.reproducibility != Some(Reproducibility::BitIdentical) {
        return Ok(());
    }
    let read = |run: &Planned| -> Result<LoggedRun, Error> {
        let mut logged = logged::read(&run.folder(out), &Choice::default())?;
        logged.metrics.retain(|metric, _| envelope.metrics.contains_key(metric));
        Ok(logged)
    };
    let Some((step, metric)) = differences::first(&read(&plain[0])?, &read(&plain[1])?) else {
        return Ok(());
    };
    // With the program as it was, it is made again.
    remove(&plain[1].file(out))?;
    let found = format!(
        "another {metric} from step {step} on than {} has, which was equal before",
        plain[0].name
    );
    let expected = "the program, libraries and machine that made the other runs; or --fresh, to make all of them again";
    Err(refuse(&plain[1].folder(out), found, expected))
}

/// What is run, and where.
struct Work<'a> {
    request: &'a Request,
    settings: &'a Settings,
    words: &'a [String],
    out: &'a Path,
    progress: &'a Progress<'a>,
}

impl Work<'_> {
    /// Makes these runs, several at once.
    fn make_all(&self, open: &[&Planned]) -> Result<(), Error> {
        let monitor = self.progress.monitor();
        let next = AtomicUsize::new(0);
        let failed: Mutex<Vec<(usize, Error)>> = Mutex::default();
        let work = || {
            while monitor.stop_requested().is_none() {
                if !self.request.keep_going && !failed.lock().expect(UNPOISONED).is_empty() {
                    return;
                }
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = open.get(place) else { return };
                match one_run::make(self.request, self.settings, self.words, run, self.out, monitor)
                {
                    Ok(Attempt::Whole) => self.progress.advance(1),
                    Ok(Attempt::Elsewhere) => self.progress.skip(1),
                    Err(Error::Stopped(_)) => return,
                    Err(error) => {
                        if self.request.keep_going {
                            monitor.note(&format!("{error}; the other runs are made"));
                        }
                        failed.lock().expect(UNPOISONED).push((place, error));
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.request.jobs.min(open.len()) {
                scope.spawn(work);
            }
        });
        let failed = failed.into_inner().expect(UNPOISONED);
        failed.into_iter().min_by_key(|(place, _)| *place).map_or(Ok(()), |(_, error)| Err(error))
    }
}

const UNPOISONED: &str = "a run that panicked has ended the program";

/// The envelope of all runs, if they are whole.
fn gather(
    request: &Request,
    is_launched: bool,
    all: &[Planned],
    out: &Path,
    monitor: &dyn Monitor,
) -> Result<Made, Error> {
    let whole = all.iter().filter(|run| run.file(out).exists()).count();
    let mut made = Made {
        folder: out.to_owned(),
        file: None,
        whole,
        planned: all.len(),
        reproducibility: None,
        reached: None,
        metrics: vec![],
        notes: vec![],
        stopped: monitor.stop_requested().filter(|_| whole < all.len()),
    };
    if whole < all.len() {
        return Ok(made);
    }
    let read = |run: &Planned| {
        let read = logged::read(&run.folder(out), &request.choice)?;
        Ok((run.name.clone(), read))
    };
    let mut logged = all.iter().map(read).collect::<Result<Vec<(String, LoggedRun)>, Error>>()?;
    let perturbed = logged.split_off(PLAIN);
    let [(_, first), (_, second)] = &logged[..] else { unreachable!("there are {PLAIN}") };
    let reproducibility = match differences::first(first, second) {
        None => Reproducibility::BitIdentical,
        Some((step, metric)) => Reproducibility::Differs { metric, step },
    };
    made.reached = match reproducibility {
        Reproducibility::BitIdentical => Some(reached::by_bits(first, &perturbed)),
        Reproducibility::Differs { .. } => {
            let said = reached::by_markers(&all[PLAIN..], out)?;
            (said || is_launched).then_some(said)
        }
    };
    let (command, kind) = (request.command.clone(), request.kind.name().to_owned());
    let mut envelope = Envelope::of(&perturbed, command, kind, Some(reproducibility.clone()))?;
    envelope.notes.extend(notes_of(&perturbed, all, out));
    envelope.warnings.extend(reached::note(made.reached, &reproducibility));
    made.reproducibility = Some(reproducibility);
    made.keep(&envelope, out, monitor)?;
    Ok(made)
}

/// What reading the runs had to say, once for all of them.
fn notes_of(logged: &[(String, LoggedRun)], all: &[Planned], out: &Path) -> BTreeSet<String> {
    let folder = |name: &String| {
        let run = all.iter().find(|run| run.name == *name).expect("a run of the plan");
        run.folder(out).display().to_string()
    };
    let of_run = |(name, run): &(String, LoggedRun)| {
        let folder = folder(name);
        run.notes.iter().map(|note| note.replace(&folder, command::PLACE)).collect::<Vec<_>>()
    };
    logged.iter().flat_map(of_run).collect()
}

impl Made {
    /// Writes the envelope.
    fn keep(
        &mut self,
        envelope: &Envelope,
        out: &Path,
        monitor: &dyn Monitor,
    ) -> Result<(), Error> {
        let lock = Lock::wait(out, monitor)?;
        let file = out.join(envelope::FILE);
        lock.check()?;
        envelope.write(&file)?;
        self.file = Some(file);
        self.metrics = Spread::all(envelope);
        self.notes = [&envelope.notes[..], &envelope.warnings].concat();
        Ok(())
    }
}
