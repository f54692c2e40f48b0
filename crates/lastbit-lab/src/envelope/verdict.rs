//! Inside, outside or undecided, and in which words.

use super::check::{CheckResult, Leaves};
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
pub fn sentence(found: &CheckResult) -> String {
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
            "Outside: {} leaves at step {}: {}. The deviation of the run is {deviation}, {n} runs that differ by \
             rounding alone reach {largest}, and the limit at a level of {level} is {limit} (p = {}).",
            leaves.metric,
            leaves.step,
            off(leaves),
            short(found.p.0),
        ),
        (_, leaves) => format!(
            "Undecided: the run is farther off than all {n} runs of the envelope (its deviation is {deviation}, theirs are \
             up to {largest}{}), but {n} runs cannot tell this from rounding at a level of {level}: p = {}. {}",
            leaves.as_ref().map_or_else(String::new, |leaves| format!(
                "; first {} at step {}",
                leaves.metric, leaves.step
            )),
            short(found.p.0),
            needed(found),
        ),
    }
}

/// Where a run is, and where the others are.
fn off(leaves: &Leaves) -> String {
    format!(
        "{} is {} standard deviations off the mean {} of the envelope (standard deviation {}), whose runs are at most {} off \
         nearby",
        shortest(leaves.value.0),
        short(leaves.score.0),
        shortest(leaves.mean.0),
        short(leaves.spread.0),
        short(leaves.usual.0),
    )
}

fn needed(found: &CheckResult) -> String {
    match found.runs_needed {
        Some(runs) => format!(
            "An envelope of {runs} runs would decide, if no further run is farther off than those at hand."
        ),
        None => String::new(),
    }
}

fn limit(found: &CheckResult) -> String {
    if found.limit.0.is_finite() { short(found.limit.0) } else { "out of reach".to_owned() }
}

/// What so many runs can support.
pub fn support(found: &CheckResult) -> String {
    let Number(largest) = found.largest_of_runs;
    format!(
        "{} runs support a level of {} by their rank alone; below it the tail of their deviations is extrapolated. At {} \
         a run is outside beyond a deviation of {}, {} times the largest of the envelope's own runs.",
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
