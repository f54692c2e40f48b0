//! Progress on stderr: a bar in a terminal, elsewhere plain lines, two seconds apart at first and
//! ever rarer (some fifty in the first hour, twenty in the next ten), nothing for work that takes
//! less than a second.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const QUIET_FOR: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Counts steps of work that may be spread over threads.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: AtomicU64,
    done: AtomicU64,
    started: Instant,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    bar: Option<ProgressBar>,
    last_line: Duration,
}

impl Progress {
    /// Nothing is shown before the first second has passed.
    pub fn new(label: &str, total: u64) -> Self {
        Self {
            label: label.to_owned(),
            total: AtomicU64::new(total),
            done: AtomicU64::new(0),
            started: Instant::now(),
            shown: Mutex::new(Shown { bar: None, last_line: Duration::ZERO }),
        }
    }

    /// `steps` more are done.
    pub fn advance(&self, steps: u64) {
        let done = self.done.fetch_add(steps, Ordering::Relaxed) + steps;
        let elapsed = self.started.elapsed();
        if elapsed < QUIET_FOR {
            return;
        }
        // Whoever holds the lock is already showing progress.
        let Ok(mut shown) = self.shown.try_lock() else { return };
        let total = self.total.load(Ordering::Relaxed).max(done);
        if std::io::stderr().is_terminal() {
            let bar = shown.bar.get_or_insert_with(|| self.bar());
            bar.set_length(total);
            bar.set_position(done);
        } else if elapsed >= shown.last_line + LINE_EVERY.max(shown.last_line / 8) {
            shown.last_line = elapsed;
            let left = elapsed.as_secs_f64() * (total - done) as f64 / done.max(1) as f64;
            let percent = 100 * done / total.max(1);
            eprintln!("{}: {percent} %, about {left:.0} s left", self.label);
        }
    }

    /// Part of it had been done before.
    pub fn skip(&self, steps: u64) {
        self.total.fetch_sub(steps, Ordering::Relaxed);
    }

    /// More turned out to be necessary.
    pub fn extend(&self, steps: u64) {
        self.total.fetch_add(steps, Ordering::Relaxed);
    }

    fn bar(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{prefix} {wide_bar} {percent} %, {eta} left")
                .expect("the template is well formed"),
        );
        bar.set_prefix(self.label.clone());
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Ok(shown) = self.shown.lock()
            && let Some(bar) = &shown.bar
        {
            bar.finish_and_clear();
        }
    }
}
