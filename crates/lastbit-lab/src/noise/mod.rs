//! The noise floor: is a gain larger than what seeds and rounding move?
//!
//! ```text
//! runs in groups (a table of results, or trainings by source of noise)
//!    -> spread of each group -> comparisons of groups or tests against a target, shares of the variance
//!    -> verdict, plan of a sequential study
//!    -> text, JSON, record
//! ```
//!
//! The verdict is "not significant" unless a test says otherwise. Intervals have the confidence
//! `1 − level`.

mod amount;
mod check;
mod comparison;
mod planned;
mod record;
mod sources;
mod spread;
mod target;
mod verdict;

pub use amount::{amount, pairs, percent, short};
pub use check::{analyse_table, positive, read_table};
pub use comparison::{AskedGain, Comparison, Equivalence, Place};
pub use planned::{PlannedDesign, PlannedLook, PlannedStudy, with_sigma as plan_with_sigma};
pub use record::{keep, trained};
pub use sources::{Source, Trainings};
pub use spread::{Group, Run, Spread};
pub use target::{Decision, Side, TargetTest};
pub use verdict::Verdict;

use lastbit::statistics::components::{self, Grid};
use lastbit::statistics::sequential::Boundary;
use lastbit::statistics::{Interval, Resampling};
use serde::Serialize;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What the values are, such as "test accuracy".
    pub metric: String,
    /// What a difference of 1 is called; may be empty.
    pub unit: String,
    /// Of the tests.
    pub level: f64,
    /// Chance of finding a gain.
    pub power: f64,
    /// A gain to be judged or planned for.
    pub gain: Option<f64>,
    /// Whether a gain is a value that falls.
    pub lower_is_better: bool,
    /// A target with which the mean of each group is compared.
    pub target: Option<Target>,
    /// Differences up to this do not matter: are the groups equivalent?
    pub equivalent: Option<f64>,
    /// A plan of a sequential study that finds the gain.
    pub plan: Option<PlanRequest>,
    /// Groups of which the runs differ in rounding alone.
    pub rounding: Vec<String>,
    /// Which groups are compared.
    pub compare: Compare,
    /// Whether seeds in common make pairs.
    pub pairs: bool,
    /// Whether groups are columns of a grid that differ in rounding alone.
    pub grid: bool,
    /// Random numbers.
    pub resampling: Resampling,
}

/// Where a mean is to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Target {
    /// Below or above.
    pub side: Side,
    /// This value.
    pub value: f64,
}

/// How often a sequential study looks at its runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PlanRequest {
    /// Looks.
    pub looks: usize,
    /// How the level is spread over them.
    pub boundary: Boundary,
}

/// Which groups are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// None: they are sources of noise.
    Nothing,
    /// Every group with the first, apart from those that differ in rounding alone.
    WithFirst,
    /// A base and a new one.
    Pair([String; 2]),
}

impl Question {
    /// Of intervals.
    pub fn confidence(&self) -> f64 {
        1.0 - self.level
    }

    fn is_rounding(&self, group: &str) -> bool {
        self.rounding.iter().any(|own| own == group)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Each group by itself.
    pub groups: Vec<Spread>,
    /// Groups beside each other.
    pub comparisons: Vec<Comparison>,
    /// Groups beside a target.
    pub targets: Vec<TargetTest>,
    /// Rounding in the variance of the other groups.
    pub rounding_shares: Vec<RoundingShare>,
    /// Variances of a grid of seeds and roundings.
    pub grid: Option<GridShares>,
    /// The sequential study that was asked for.
    pub plan: Option<PlannedStudy>,
    /// In one sentence.
    pub verdict: Verdict,
}

/// How much of a group's variance is rounding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundingShare {
    /// The group whose variance is the total.
    pub of: String,
    /// The group that differs in rounding alone.
    pub rounding: String,
    /// From 0 to 1.
    pub share: f64,
    /// Its interval.
    pub interval: [f64; 2],
}

/// Standard deviations of a grid, and the share of rounding in the variance of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GridShares {
    /// Seeds that all groups have.
    pub seeds: usize,
    /// Between seeds.
    pub sigma_seed: f64,
    /// Between groups, the same for all seeds.
    pub sigma_group: f64,
    /// The rest: rounding.
    pub sigma_rounding: f64,
    /// Share of the last two.
    pub rounding_share: f64,
}

/// Analyses groups of runs.
pub fn analyse(groups: &[Group], question: &Question) -> Analysis {
    let spreads: Vec<Spread> = groups.iter().map(|group| Spread::of(group, question)).collect();
    let comparisons = comparison::all(groups, question);
    let targets = target::all(groups, question);
    let planned = planned::of(&spreads, &comparisons, &targets, question);
    let mut verdict = verdict::of(&spreads, &comparisons, &targets, question);
    verdict.sentences.extend(planned.as_ref().map(|planned| match planned {
        Ok(plan) => plan.sentence(question),
        Err(reason) => reason.clone(),
    }));
    Analysis {
        rounding_shares: rounding_shares(&spreads, question),
        grid: question.grid.then(|| grid(groups)).flatten(),
        plan: planned.and_then(Result::ok),
        groups: spreads,
        comparisons,
        targets,
        verdict,
    }
}

fn rounding_shares(spreads: &[Spread], question: &Question) -> Vec<RoundingShare> {
    let (rounding, others): (Vec<&Spread>, Vec<&Spread>) =
        spreads.iter().partition(|spread| question.is_rounding(&spread.group));
    let share = |part: &Spread, total: &Spread| {
        // Equal runs are finer than the test, and not without variance.
        let part_sigma = part.sigma.filter(|sigma| *sigma > 0.0)?;
        let total_sigma = total.sigma?;
        let confidence = question.confidence();
        let found = components::share(part_sigma, part.n, total_sigma, total.n, confidence)?;
        Some(RoundingShare {
            of: total.group.clone(),
            rounding: part.group.clone(),
            share: found.share,
            interval: ends(found.interval),
        })
    };
    let pairs = rounding.iter().flat_map(|part| others.iter().map(move |total| (part, total)));
    pairs.filter_map(|(part, total)| share(part, total)).collect()
}

/// The grid of the seeds that all groups have.
fn grid(groups: &[Group]) -> Option<GridShares> {
    let seeds = groups.first()?.runs.iter().filter_map(|run| run.seed.as_deref());
    let values: Vec<_> = groups.iter().map(Group::by_seed).collect();
    let row = |seed: &str| -> Option<Vec<f64>> {
        values.iter().map(|of| of.get(seed).copied()).collect()
    };
    let rows: Vec<Vec<f64>> = seeds.filter_map(row).collect();
    let found = Grid::of(&rows)?;
    Some(GridShares {
        seeds: rows.len(),
        sigma_seed: found.seed.sqrt(),
        sigma_group: found.column.sqrt(),
        sigma_rounding: found.residual.sqrt(),
        rounding_share: found.rounding_share(),
    })
}

/// As a pair, for JSON.
fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

#[cfg(test)]
mod tests;
