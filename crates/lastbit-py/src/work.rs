//! Long work: on a thread of its own, with the GIL released, followed by the calling thread.
//!
//! ```text
//! worker   the laboratory's function, which tells its Monitor how far it is and asks it whether to stop
//! caller   wakes every 50 ms: handles signals (Ctrl-C asks the work to stop at its next checkpoint) and calls
//!          the Python function that shows progress
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lastbit_lab::Error;
use lastbit_lab::progress::{Monitor, StopReason, TrainingStatus};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::exception;

const WAKE_EVERY: Duration = Duration::from_millis(50);

/// How far the work is.
#[derive(Debug, Clone, Default)]
struct Position {
    label: String,
    done: u64,
    total: u64,
    status: Option<TrainingStatus>,
    notes: Vec<String>,
    changed: bool,
}

/// What worker and caller share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    ended: AtomicBool,
    position: Mutex<Position>,
}

impl Shared {
    fn with(&self, change: impl FnOnce(&mut Position)) {
        if let Ok(mut position) = self.position.lock() {
            change(&mut position);
            position.changed = true;
        }
    }

    /// What changed since the last call.
    fn news(&self) -> Option<Position> {
        let mut position = self.position.lock().ok()?;
        if !std::mem::take(&mut position.changed) {
            return None;
        }
        let news = position.clone();
        position.notes.clear();
        Some(news)
    }
}

impl Monitor for Shared {
    fn start(&self, label: &str, total: u64) {
        let label = label.to_owned();
        self.with(|position| {
            let notes = std::mem::take(&mut position.notes);
            *position = Position { label, total, notes, ..Position::default() };
        });
    }

    fn advance(&self, steps: u64) {
        self.with(|position| position.done += steps);
    }

    fn change_total(&self, steps: i64) {
        self.with(|position| position.total = position.total.saturating_add_signed(steps));
    }

    fn note(&self, line: &str) {
        self.with(|position| position.notes.push(line.to_owned()));
    }

    fn training(&self, status: TrainingStatus) {
        self.with(|position| position.status = Some(status));
    }

    fn stop_requested(&self) -> Option<StopReason> {
        self.stop.load(Ordering::Relaxed).then_some(StopReason::Interrupt)
    }
}

/// Sets the flag and wakes the caller when the worker is done, however it ended.
struct AtEnd<'a>(&'a AtomicBool, thread::Thread);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

/// Runs work to its end, or to a checkpoint if a signal handler or `show` raises. Returns its result and what was
/// raised.
///
/// `show(label, done, total, status, notes)` is called while it runs.
pub fn run<T: Send>(
    py: Python<'_>,
    show: Option<&Py<PyAny>>,
    work: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send,
) -> PyResult<(T, Option<PyErr>)> {
    let shared = Shared::default();
    let mut raised = None;
    let result = thread::scope(|scope| {
        let caller = thread::current();
        let worker = scope.spawn(|| {
            let _at_end = AtEnd(&shared.ended, caller);
            work(&shared)
        });
        while !shared.ended.load(Ordering::Acquire) {
            py.detach(|| thread::park_timeout(WAKE_EVERY));
            let checked = py.check_signals().and_then(|()| match (show, shared.news()) {
                (Some(show), Some(news)) => shown(py, show, news),
                _ => Ok(()),
            });
            if let Err(error) = checked {
                shared.stop.store(true, Ordering::Relaxed);
                raised.get_or_insert(error);
            }
        }
        py.detach(|| worker.join())
    });
    match (result, raised) {
        (Err(panic), _) => std::panic::resume_unwind(panic),
        (Ok(Ok(value)), raised) => Ok((value, raised)),
        // Stopped because something was raised: that is what the caller is to see.
        (Ok(Err(Error::Stopped(_))), Some(raised)) => Err(raised),
        (Ok(Err(error)), _) => Err(exception(error)),
    }
}

/// The result of [`run`], unless something was raised.
pub fn to_end<T: Send>(
    py: Python<'_>,
    show: Option<&Py<PyAny>>,
    work: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let (value, raised) = run(py, show, work)?;
    raised.map_or(Ok(value), Err)
}

/// The same of work that saves its parts: after Ctrl-C the exception says what is `saved`.
pub fn resumable<T: Send>(
    py: Python<'_>,
    show: Option<&Py<PyAny>>,
    saved: &str,
    work: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send,
) -> PyResult<T> {
    to_end(py, show, work).map_err(|raised| {
        if !raised.is_instance_of::<PyKeyboardInterrupt>(py) {
            return raised;
        }
        PyKeyboardInterrupt::new_err(format!(
            "Interrupted; {saved} are saved. The same call resumes from there."
        ))
    })
}

fn shown(py: Python<'_>, show: &Py<PyAny>, news: Position) -> PyResult<()> {
    let status = news.status.map(|found| {
        let status = PyDict::new(py);
        status.set_item("step", found.step)?;
        status.set_item("train_loss", found.train_loss)?;
        status.set_item("test_accuracy", found.test_accuracy)?;
        status.set_item("rel_l1", found.rel_l1)?;
        PyResult::Ok(status)
    });
    let status = status.transpose()?;
    show.call1(py, (news.label, news.done, news.total, status, news.notes))?;
    Ok(())
}
