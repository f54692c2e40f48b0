//! Is the mean of a group below (or above) a fixed target?
//!
//! A one-sided t-test of one sample: `p = P(T ≤ (mean − target)/(sigma/√n))` for "below", with a
//! confidence bound that lies on the wanted side of the target exactly if p is at most the level.
//! With several groups p-values are Holm-adjusted; bounds are of each group by itself.

use lastbit::statistics::permutation::holm;
use lastbit::statistics::power::{Design, Tails};
use lastbit::statistics::t_test::{Estimate, NoEstimate};
use serde::Serialize;

use super::amount::{amount, percent, short};
use super::spread::Group;
use super::{Question, Target};
use crate::number::digits;

lastbit::named_enum! {
    /// Side of a target.
    pub enum Side {
        /// The mean is to be below it.
        Below = "below",
        /// The mean is to be above it.
        Above = "above",
    }
}

/// What a test against a target says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The mean lies on the wanted side.
    Significant,
    /// That is not shown.
    NotSignificant,
    /// So few or such equal runs decide nothing.
    Undecided,
}

/// A group beside the target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetTest {
    /// The group.
    pub group: String,
    /// Where its mean is to be.
    pub side: Side,
    /// The target.
    pub target: f64,
    /// Runs.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// What the mean is below (or above) with confidence 1 − level.
    pub bound: Option<f64>,
    /// One-sided p-value.
    pub p: Option<f64>,
    /// Corrected for all groups tested.
    pub p_holm: Option<f64>,
    /// The verdict.
    pub decision: Decision,
    /// Why nothing can be decided.
    pub reason: Option<String>,
    /// The distance from the target that as many runs show with the chance asked for.
    pub detectable: Option<f64>,
    /// Runs that show the distance asked for.
    pub runs_needed: Option<usize>,
}

/// All groups but those that differ in rounding alone.
pub fn all(groups: &[Group], question: &Question) -> Vec<TargetTest> {
    let Some(target) = question.target else { return vec![] };
    let tested = groups.iter().filter(|group| !question.is_rounding(&group.name));
    let count = tested.clone().count();
    let mut found: Vec<TargetTest> =
        tested.map(|group| TargetTest::of(group, target, count, question)).collect();
    let adjusted = holm(&found.iter().map(|test| test.p.unwrap_or(1.0)).collect::<Vec<_>>());
    for (test, p) in found.iter_mut().zip(adjusted) {
        test.p_holm = test.p.map(|_| p);
        test.decision = match test.p_holm {
            None => Decision::Undecided,
            Some(p) if p <= question.level => Decision::Significant,
            Some(_) => Decision::NotSignificant,
        };
    }
    found
}

impl TargetTest {
    /// One of `count` groups.
    fn of(group: &Group, target: Target, count: usize, question: &Question) -> Self {
        let values = group.values();
        let n = values.len();
        let estimate = Estimate::of_mean(&values);
        let known = estimate.ok();
        let (level, power) = (question.level / count as f64, question.power);
        let sigma = known.map(|known| known.error * (n as f64).sqrt());
        let of_sigma = |sigma: f64| {
            Design::Paired.sizes(n).detectable(level, power, Tails::One).map(|found| found * sigma)
        };
        let needed =
            |gain: f64| Design::Paired.runs_needed(gain / sigma?, level, power, Tails::One);
        Self {
            group: group.name.clone(),
            side: target.side,
            target: target.value,
            n,
            mean: known.map_or(values[0], |known| known.value),
            bound: known.map(|known| match target.side {
                Side::Below => known.upper_bound(question.confidence()),
                Side::Above => known.lower_bound(question.confidence()),
            }),
            p: known.map(|known| match target.side {
                Side::Below => known.p_below(target.value),
                Side::Above => known.p_above(target.value),
            }),
            p_holm: None,
            decision: Decision::Undecided,
            reason: estimate.err().map(|why| match why {
                NoEstimate::TooFew => "one run has no spread; make at least two".to_owned(),
                NoEstimate::NoSpread => {
                    format!("all {n} runs are equal, so their spread cannot be estimated")
                }
            }),
            detectable: sigma.and_then(of_sigma),
            runs_needed: question.gain.and_then(needed),
        }
    }

    /// The verdict in words.
    pub fn sentence(&self, count: usize, question: &Question) -> String {
        let Self { group, n, side, target, .. } = self;
        let (side, target) = (side.name(), digits(*target));
        let runs = if *n == 1 { "1 run".to_owned() } else { format!("{n} runs") };
        if let Some(reason) = &self.reason {
            return format!(
                "Whether the mean of {group} is {side} {target} cannot be decided with {runs}: {reason}."
            );
        }
        let (mean, p) = (long(self.mean), self.p.unwrap_or(1.0));
        let p = match count {
            1 => format!("p = {} (one-sided t-test)", short(p)),
            _ => {
                let adjusted = short(self.p_holm.unwrap_or(1.0));
                format!("Holm-adjusted p = {adjusted} (one-sided t-test, raw {})", short(p))
            }
        };
        let which = if self.side == Side::Below { "upper" } else { "lower" };
        let confidence = percent(question.confidence());
        let bound = self
            .bound
            .map_or(String::new(), |bound| format!(", {confidence} {which} bound {}", long(bound)));
        if self.decision == Decision::Significant {
            return format!(
                "The mean of {group}, {mean} over {runs}, is significantly {side} {target}: {p}{bound}."
            );
        }
        let detectable = self.detectable.map_or(String::new(), |distance| {
            let power = percent(question.power);
            let distance = amount(distance, question);
            format!("; the minimum detectable distance of {runs} is {distance} at {power} power")
        });
        let needed = match (question.gain, self.runs_needed) {
            (Some(gain), Some(needed)) => {
                format!("; {needed} runs detect a distance of {}", amount(gain, question))
            }
            _ => String::new(),
        };
        format!(
            "The mean of {group}, {mean} over {runs}, is not significantly {side} {target}: \
             {p}{bound}{detectable}{needed}."
        )
    }
}

/// A mean beside a target: six digits, for they may agree in the first three.
fn long(value: f64) -> String {
    digits(crate::number::significant(value, 6))
}
