//! Inside, outside or undecided, and in which words.

use super::check::{CheckResult, Leaves};
use super::doubts::Doubts;
use crate::noise::short;
use crate::number::{Number, shortest};

lastbit::named_enum! {
    /// Could rounding alone have made the run?
    pub enum Verdict {
        /// It is no farther off than runs of the envelope are.
        Inside = "inside",
        /// Rounding alone makes such a run with a chance of at most the level.
        Outside = "outside",
        /// It is farther off than all runs of the envelope, but these are too few for the level.
        Undecided = "undecided",
    }
}

/// The verdict in sentences.
pub fn sentence(found: &CheckResult, doubts: &Doubts) -> String {
    let level = percent(found.level);
    let n = found.runs;
    let [deviation, largest] = [found.deviation, found.largest_of_runs].map(|x| short(x.0));
    let limit = limit(found);
    match (found.verdict, &found.leaves) {
        (Verdict::Inside, _) => format!(
            "Inside: rounding alone could have made this run. Its deviation is {deviation}, those of the {n} runs of the \
             envelope are up to {largest}; the limit at a level of {level} is {limit}."
        ),
        (Verdict::Outside, Some(leaves)) if !leaves.value.0.is_finite() => format!(
            "Outside: {} is {} at step {}, where all {n} runs of the envelope are finite.",
            leaves.metric, leaves.value, leaves.step
        ),
        (Verdict::Outside, Some(leaves)) => format!(
            "Outside: {} leaves at step {}: {}. The deviation of the run is {deviation}{}, {n} runs that differ by \
             rounding alone reach {largest}, and the limit at a level of {level} is {limit} (p = {}).",
            leaves.metric,
            leaves.step,
            off(leaves, n),
            farthest(found),
            short(found.p.0),
        ),
        _ => format!("Undecided: {}", undecided(found, doubts)),
    }
}

/// Where a run is, and where the others are.
fn off(leaves: &Leaves, n: usize) -> String {
    let [value, mean] = [leaves.value, leaves.mean].map(|x| shortest(x.0));
    if leaves.all_equal {
        return format!("it is {value}, where all {n} runs of the envelope have {mean}");
    }
    format!(
        "{value} is {} standard deviations off the mean {mean} of the envelope (standard deviation {}), whose runs are at \
         most {} off nearby",
        short(leaves.score.0),
        short(leaves.spread.0),
        short(leaves.usual.0),
    )
}

/// Where the deviation of the run is that large.
fn farthest(found: &CheckResult) -> String {
    let farthest = found.metrics.first().and_then(|metric| metric.farthest.as_ref());
    farthest.map_or_else(String::new, |at| format!(" (of {} at step {})", at.metric, at.step))
}

fn undecided(found: &CheckResult, doubts: &Doubts) -> String {
    let n = found.runs;
    let [deviation, largest] = [found.deviation, found.largest_of_runs].map(|x| short(x.0));
    let words = found.doubts.join("; ");
    if doubts.no_spread {
        let differs = match &found.leaves {
            Some(leaves) => {
                format!(
                    "The run differs from them first in {} at step {}",
                    leaves.metric, leaves.step
                )
            }
            None => "The run is equal to them".to_owned(),
        };
        return format!("{words} {differs}.");
    }
    if found.deviation.0 <= found.largest_of_runs.0 {
        return format!(
            "as far as it was compared, the run is inside (its deviation is {deviation}, those of the {n} runs of the \
             envelope are up to {largest}), but {words}."
        );
    }
    let first = found.leaves.as_ref().map_or_else(String::new, |leaves| {
        format!("; first in {}, at step {}", leaves.metric, leaves.step)
    });
    let besides = if words.is_empty() { words } else { format!(" Besides, {words}.") };
    format!(
        "the run is farther off than all {n} runs of the envelope (its deviation is {deviation}, theirs are up to \
         {largest}{first}), but {n} runs cannot tell this from rounding at a level of {}: p = {}. {}{besides}",
        percent(found.level),
        short(found.p.0),
        needed(found),
    )
}

fn needed(found: &CheckResult) -> String {
    match found.runs_needed {
        Some(runs) => format!(
            "An envelope of {runs} runs would decide, if no further run is farther off than those at hand."
        ),
        None => {
            "The deviations of its runs are too far apart; more runs lower the limit.".to_owned()
        }
    }
}

fn limit(found: &CheckResult) -> String {
    if found.limit.0.is_finite() { short(found.limit.0) } else { "out of reach".to_owned() }
}

/// What so many runs can support.
pub fn support(found: &CheckResult) -> String {
    let Number(largest) = found.largest_of_runs;
    format!(
        "{} runs alone show no p below {}; lower ones extrapolate the tail of their deviations. At a level of {} a run is \
         outside beyond a deviation of {}, {} times the largest of the envelope's own runs.",
        found.runs,
        percent(1.0 / (found.runs + 1) as f64),
        percent(found.level),
        limit(found),
        short(found.limit.0 / largest),
    )
}

fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}
