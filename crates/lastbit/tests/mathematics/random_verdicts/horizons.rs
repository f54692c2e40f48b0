//! Runs that are stopped after few steps or many, decided or not.

use std::ops::Range;

use lastbit::verdict::Horizon;

use super::tally::{Tally, steps_suffice};
use super::{Case, Draw, quadratics, schemes};

fn judge_random(cases: Range<u64>) {
    let mut tally = Tally::default();
    for case in cases {
        let mut draw = Draw::new(31, case);
        let steps = draw.log_uniform(8.0, 5000.0) as usize;
        // Other cases than those of the other tests.
        let of = 1_000_000 + case;
        let Case { what, rate, judge } =
            if draw.is_one_in(2) { quadratics::random(of) } else { schemes::random(of) };
        let judged = judge(Horizon::exactly(steps));
        let what = format!("{case}: {steps} steps of {what}");
        tally.add_linear(&judged, rate, steps_suffice(rate, steps), &what);
    }
    tally.report("horizons");
}

#[test]
fn a_run_that_is_stopped_is_never_judged_against_its_eigenvalues() {
    judge_random(0..300);
}

/// `cargo test --release -p lastbit --test mathematics random_verdicts::horizons -- --ignored --nocapture`
#[test]
#[ignore = "ten thousand cases"]
fn ten_thousand_runs_that_are_stopped_are_never_judged_against_their_eigenvalues() {
    judge_random(0..10_000);
}
