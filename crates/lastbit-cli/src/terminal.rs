//! What a terminal shows of long work, and how it stops: progress on stderr, Ctrl-C, a time limit.
//!
//! In a terminal a bar; elsewhere plain lines, two seconds apart at first and ever rarer (some fifty in the first
//! hour, twenty in the next ten); nothing for work that takes less than a second.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lastbit_lab::progress::{Monitor, StopReason, TrainingStatus};
use signal_hook::consts::{SIGINT, SIGTERM};

const QUIET_FOR: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Text from anywhere as a terminal may show it. Names of files, columns, groups and replicas come from others: what
/// moves the cursor, changes colours or reverses letters is written as JSON does it (`\u001b`), and so is JSON itself
/// still the same.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| match c {
        '\n' | '\t' => false,
        // Marks that turn the direction of writing.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        other => other.is_control(),
    };
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_command(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Follows work on stderr; stops it at a checkpoint on Ctrl-C, on SIGTERM and at the end of a time limit.
pub struct Terminal {
    interrupted: Arc<AtomicBool>,
    deadline: Option<Instant>,
    work: Mutex<Option<Work>>,
}

/// The work that was started last.
struct Work {
    label: String,
    total: u64,
    done: u64,
    status: Option<TrainingStatus>,
    started: Instant,
    bar: Option<ProgressBar>,
    last_line: Duration,
}

impl Terminal {
    /// From now on the first Ctrl-C asks the work to stop at its next checkpoint, and the second ends the process.
    pub fn new(time_limit: Option<Duration>) -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: a signal that finds the flag set ends the process, and the first one sets it. Where the
            // system refuses a handler, its default stays, which ends the process as well.
            let _ = signal_hook::flag::register_conditional_default(signal, interrupted.clone());
            let _ = signal_hook::flag::register(signal, interrupted.clone());
        }
        Self::with(interrupted, time_limit)
    }

    /// Shows work that cannot be stopped before its end: Ctrl-C ends the process.
    pub fn showing() -> Self {
        Self::with(Arc::default(), None)
    }

    fn with(interrupted: Arc<AtomicBool>, time_limit: Option<Duration>) -> Self {
        // A limit beyond all times is none.
        let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { interrupted, deadline, work: Mutex::new(None) }
    }

    fn with_work(&self, change: impl FnOnce(&mut Work)) {
        // Whoever holds the lock is already showing progress; a count that waits for it is not lost.
        if let Ok(mut work) = self.work.lock()
            && let Some(work) = work.as_mut()
        {
            change(work);
        }
    }
}

impl Monitor for Terminal {
    fn start(&self, label: &str, total: u64) {
        if let Ok(mut current) = self.work.lock() {
            *current = Some(Work::new(label, total));
        }
    }

    fn advance(&self, steps: u64) {
        self.with_work(|work| {
            work.done += steps;
            work.show();
        });
    }

    fn change_total(&self, steps: i64) {
        self.with_work(|work| work.total = work.total.saturating_add_signed(steps));
    }

    fn finish(&self) {
        self.with_work(|work| {
            if let Some(bar) = work.bar.take() {
                bar.finish_and_clear();
            }
        });
        if let Ok(mut work) = self.work.lock() {
            *work = None;
        }
    }

    fn note(&self, line: &str) {
        match self.work.lock().as_deref() {
            Ok(Some(Work { bar: Some(bar), .. })) => {
                bar.suspend(|| eprintln!("{}", printable(line)));
            }
            _ => eprintln!("{}", printable(line)),
        }
    }

    fn training(&self, status: TrainingStatus) {
        self.with_work(|work| work.status = Some(status));
    }

    fn stop_requested(&self) -> Option<StopReason> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(StopReason::Interrupt);
        }
        let passed = self.deadline.is_some_and(|end| Instant::now() >= end);
        passed.then_some(StopReason::TimeLimit)
    }
}

impl Work {
    fn new(label: &str, total: u64) -> Self {
        Self {
            label: printable(label).into_owned(),
            total,
            done: 0,
            status: None,
            started: Instant::now(),
            bar: None,
            last_line: Duration::ZERO,
        }
    }

    fn show(&mut self) {
        let elapsed = self.started.elapsed();
        if elapsed < QUIET_FOR {
            return;
        }
        self.total = self.total.max(self.done);
        if std::io::stderr().is_terminal() {
            let label = &self.label;
            let bar = self.bar.get_or_insert_with(|| new_bar(label));
            bar.set_length(self.total);
            bar.set_position(self.done);
            bar.set_message(self.status.map(in_words).unwrap_or_default());
        } else if let Some(line) = self.line(elapsed) {
            eprintln!("{line}");
        }
    }

    /// The line that is due after this time, if one is; none for work that is done.
    fn line(&mut self, elapsed: Duration) -> Option<String> {
        let next = self.last_line + LINE_EVERY.max(self.last_line / 8);
        if self.done >= self.total || elapsed < next {
            return None;
        }
        self.last_line = elapsed;
        let left = (self.total - self.done) as f64 / self.done.max(1) as f64;
        let left = elapsed.as_secs_f64() * left;
        let percent = 100 * self.done / self.total;
        let status = self.status.map(in_words).unwrap_or_default();
        Some(format!("{}: {percent} %, about {left:.0} s left{status}", self.label))
    }
}

fn new_bar(label: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let template = "{prefix} {wide_bar} {percent} %, {eta} left{msg}";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    bar.set_prefix(label.to_owned());
    bar
}

/// How a training is doing, to be put behind its progress.
fn in_words(status: TrainingStatus) -> String {
    let mut text = format!("; step {}, loss {:.4}", status.step, status.train_loss);
    if let Some(accuracy) = status.test_accuracy {
        text += &format!(", test accuracy {accuracy:.2} %");
    }
    if let Some(distance) = status.rel_l1 {
        text += &format!(", RelL1 {distance:.1e}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_commands_a_terminal_gets_to_it() {
        for plain in ["one line", "two\nlines\tand a tab", "σ ± 0.1 … 日本"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        }
        for (text, shown) in [
            ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
            ("\u{9b}2J\x07\r\x7f\0", "\\u009b2J\\u0007\\u000d\\u007f\\u0000"),
            ("a\u{202e}txt.exe", "a\\u202etxt.exe"),
        ] {
            assert_eq!(printable(text), shown);
            // JSON stays the same value.
            let json = serde_json::json!({ "name": text }).to_string();
            let back: serde_json::Value = serde_json::from_str(&printable(&json)).unwrap();
            assert_eq!(back["name"], text);
        }
        assert_eq!(Work::new("\x1b]0;title\x07", 1).label, "\\u001b]0;title\\u0007");
    }

    #[test]
    fn a_time_limit_asks_the_work_to_stop() {
        assert_eq!(Terminal::new(None).stop_requested(), None);
        assert_eq!(Terminal::new(Some(Duration::MAX)).stop_requested(), None);
        let passed = Terminal::new(Some(Duration::ZERO));
        assert_eq!(passed.stop_requested(), Some(StopReason::TimeLimit));
    }

    #[test]
    fn lines_are_rare_and_there_is_none_for_work_that_is_done() {
        let after = Duration::from_secs;
        let mut work = Work::new("train", 100);
        work.done = 50;
        assert_eq!(work.line(after(1)), None);
        assert_eq!(work.line(after(10)).unwrap(), "train: 50 %, about 10 s left");
        assert_eq!(work.line(after(11)), None);
        work.done = 99;
        assert_eq!(work.line(after(12)).unwrap(), "train: 99 %, about 0 s left");
        work.done = 100;
        assert!((20..200).all(|seconds| work.line(after(seconds)).is_none()));
    }

    #[test]
    fn a_training_is_described_by_what_was_measured() {
        let status =
            TrainingStatus { step: 40, train_loss: 1.25, test_accuracy: None, rel_l1: None };
        assert_eq!(in_words(status), "; step 40, loss 1.2500");
        let both = TrainingStatus { test_accuracy: Some(31.5), rel_l1: Some(1.5e-7), ..status };
        let expected = "; step 40, loss 1.2500, test accuracy 31.50 %, RelL1 1.5e-7";
        assert_eq!(in_words(both), expected);
    }
}
