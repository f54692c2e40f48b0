//! Progress and cancellation of long work: one trait that the caller implements.
//!
//! The laboratory tells a [`Monitor`] how far it is and asks it whether to stop. A time limit and Ctrl-C are the
//! same to it: work ends at the next checkpoint, from which it can be resumed.

use std::fmt;

/// Why work is asked to stop before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The user pressed Ctrl-C, or the process was asked to terminate.
    Interrupt,
    /// The time limit has passed.
    TimeLimit,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "Interrupted",
            Self::TimeLimit => "Time limit reached",
        })
    }
}

/// How a training is doing, for a live display.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingStatus {
    /// Steps done.
    pub step: usize,
    /// Mean training loss of the first replica over the epoch so far.
    pub train_loss: f64,
    /// Test accuracy of the first replica in percent, where it was evaluated.
    pub test_accuracy: Option<f64>,
    /// Largest RelL1 between a replica and the first, where there are several.
    pub rel_l1: Option<f64>,
}

/// Receives progress and decides when to stop. Called from several threads.
pub trait Monitor: Sync {
    /// Work of about `total` steps begins.
    fn start(&self, _label: &str, _total: u64) {}

    /// `steps` more are done.
    fn advance(&self, _steps: u64) {}

    /// The total changes: work turned out to be longer, or part of it had been done before.
    fn change_total(&self, _steps: i64) {}

    /// The work that was started is at its end.
    fn finish(&self) {}

    /// One line that the user should see now, such as what is being waited for.
    fn note(&self, _line: &str) {}

    /// A training wrote a row of metrics.
    fn training(&self, _status: TrainingStatus) {}

    /// Whether to stop at the next checkpoint, and why.
    fn stop_requested(&self) -> Option<StopReason> {
        None
    }
}

/// A monitor that shows nothing and never stops.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Monitor for Silent {}

/// A piece of work that a monitor follows, from its creation until it is dropped.
pub struct Progress<'a> {
    monitor: &'a dyn Monitor,
}

impl<'a> Progress<'a> {
    /// Tells the monitor that work of `total` steps begins.
    pub fn new(monitor: &'a dyn Monitor, label: &str, total: u64) -> Self {
        monitor.start(label, total);
        Self { monitor }
    }

    /// `steps` more are done.
    pub fn advance(&self, steps: u64) {
        self.monitor.advance(steps);
    }

    /// Part of it had been done before.
    pub fn skip(&self, steps: u64) {
        self.monitor.change_total(-(steps as i64));
    }

    /// More turned out to be necessary.
    pub fn extend(&self, steps: u64) {
        self.monitor.change_total(steps as i64);
    }

    /// Who follows it.
    pub fn monitor(&self) -> &'a dyn Monitor {
        self.monitor
    }

    /// Whether to stop at the next checkpoint, and why.
    pub fn stop_requested(&self) -> Option<StopReason> {
        self.monitor.stop_requested()
    }

    /// Fails if work is to stop now.
    pub fn check(&self) -> Result<(), StopReason> {
        self.stop_requested().map_or(Ok(()), Err)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.monitor.finish();
    }
}
