//! Times of several sides that take turns in one process.
//!
//! On a shared machine the speed drifts. Turns of a few milliseconds let the drift hit all sides alike, and the
//! median over rounds of the ratio within a round cancels it.

use std::time::{Duration, Instant};

/// One side of a comparison.
pub type Side<'a> = Box<dyn FnMut() + 'a>;

/// Seconds per call of each side, by rounds in which every side has its turn.
pub struct Rounds(Vec<Vec<f64>>);

impl Rounds {
    /// Alternates the sides until so much time has passed.
    pub fn of(sides: &mut [Side], time: Duration) -> Self {
        let timed = |side: &mut Side, calls: usize| {
            let start = Instant::now();
            (0..calls).for_each(|_| side());
            start.elapsed().as_secs_f64() / calls as f64
        };
        // A turn takes about 2 ms: long beside the clock and beside refilling the cache that the
        // other sides have taken, short beside the drift of the machine.
        let calls: Vec<usize> = sides
            .iter_mut()
            .map(|side| (2e-3 / timed(side, 3)).clamp(3.0, 10_000.0) as usize)
            .collect();
        let end = Instant::now() + time;
        let mut rounds = Vec::new();
        while rounds.len() < 9 || Instant::now() < end {
            rounds.push(sides.iter_mut().zip(&calls).map(|(side, &n)| timed(side, n)).collect());
        }
        Self(rounds)
    }

    /// Median time of a call.
    pub fn seconds(&self, side: usize) -> f64 {
        median(self.0.iter().map(|round| round[side]).collect())
    }

    /// Median over rounds of the time of `a` over that of `b`.
    pub fn ratio(&self, a: usize, b: usize) -> f64 {
        median(self.0.iter().map(|round| round[a] / round[b]).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
