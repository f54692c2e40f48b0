//! A time limit: work stops at the next place from which it can go on.

use std::time::{Duration, Instant};

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now; never where no limit is given, or one beyond all times.
    pub fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Whether it is time to stop.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}
