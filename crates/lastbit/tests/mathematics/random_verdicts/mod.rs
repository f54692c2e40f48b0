//! Random runs whose answer is known in closed form: a verdict must be right or undecided.
//!
//! ```text
//! quadratics    descent, heavy ball, Nesterov; the roots of each mode
//! schemes       linear schemes on finite meshes; the eigenvalues of the mesh
//! offsets       Beltrami and heat on data with an offset; the same data without it, in f64
//! horizons      quadratics and schemes, stopped after few steps or many
//! brackets      certified steps of random schemes; their textbook conditions
//! ```
//!
//! A few hundred cases of each kind run always, ten thousand on demand:
//! `cargo test --release -p lastbit --test mathematics random_verdicts -- --ignored --nocapture ten_thousand`
//!
//! Stable means up to the resolution that a verdict names; slower growth is counted, not wrong. The rule was
//! mended on the cases 0 … 9999. Of as many others of each kind (from 77,000,000 on) two were wrong; they
//! stand as tests that are ignored as known to be wrong.

mod brackets;
mod horizons;
mod offsets;
mod quadratics;
mod schemes;
mod tally;

use std::convert::Infallible;
use std::ops::Range;

use lastbit::Dynamics;
use lastbit::rng::Stream;
use lastbit::verdict::{Horizon, Judgement, judge};
use tally::{Tally, steps_suffice};

/// A run with its closed form.
struct Case {
    /// For messages.
    what: String,
    rate: Rate,
    judge: Box<dyn FnOnce(Horizon) -> Judgement>,
}

/// `ln ρ`, the exact rate at which differences grow in the end, as an interval: coefficients that are
/// rounded, or eigenvalues that coincide, leave some of it open.
#[derive(Debug, Clone, Copy)]
struct Rate {
    least: f64,
    most: f64,
}

fn judged<D: Dynamics<Error = Infallible> + 'static>(
    mut run: D,
) -> Box<dyn FnOnce(Horizon) -> Judgement> {
    Box::new(move |horizon| {
        let Ok(judged) = judge(&mut run, horizon, &mut []);
        judged
    })
}

/// Judges runs of 100 to 399 steps, by default extended up to 20 times; `steps_of` is the kind of their draws.
#[track_caller]
fn judge_linear(kind: &str, random: fn(u64) -> Case, steps_of: u64, cases: Range<u64>) {
    let mut tally = Tally::default();
    for case in cases {
        let Case { what, rate, judge } = random(case);
        let steps = 100 + Draw::new(steps_of, case).below(300);
        let judged = judge(Horizon::of(steps));
        let suffices = steps_suffice(rate, 20 * steps);
        tally.add_linear(&judged, rate, suffices, &format!("{case}: {what}"));
    }
    tally.report(kind);
}

/// Random numbers in the order in which they are asked for.
struct Draw {
    stream: Stream,
    next: u64,
}

impl Draw {
    fn new(kind: u64, case: u64) -> Self {
        Self { stream: Stream::new(case, kind), next: 0 }
    }

    fn counter(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn normal(&mut self) -> f64 {
        let counter = self.counter();
        self.stream.normal(counter)
    }

    fn uniform(&mut self, from: f64, to: f64) -> f64 {
        let counter = self.counter();
        from + (to - from) * self.stream.uniform(counter)
    }

    fn log_uniform(&mut self, from: f64, to: f64) -> f64 {
        libm::exp(self.uniform(libm::log(from), libm::log(to)))
    }

    /// `0 … bound − 1`.
    fn below(&mut self, bound: usize) -> usize {
        let counter = self.counter();
        self.stream.below(counter, bound as u64) as usize
    }

    fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A factor on either side of an edge: from a hundred thousandth off it to a tenth of it or eleven
    /// times as far.
    fn around_the_edge(&mut self) -> f64 {
        if self.is_one_in(2) {
            1.0 - 0.9 * self.log_uniform(1e-5, 1.0)
        } else {
            1.0 + 10.0 * self.log_uniform(1e-6, 1.0)
        }
    }
}
