//! Runs of one kind, and how far they spread.

use std::collections::HashMap;

use lastbit::statistics::bootstrap;
use lastbit::statistics::permutation::fewest_runs;
use lastbit::statistics::power::{Design, Tails};
use lastbit::statistics::sample::Sample;
use lastbit::statistics::t_test::Estimate;
use lastbit_formats::results;
use serde::Serialize;

use super::{Question, ends};

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What it has in common with a run of another group.
    pub seed: Option<String>,
    /// Its result.
    pub value: f64,
}

/// Runs of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name.
    pub name: String,
    /// At least one.
    pub runs: Vec<Run>,
    /// Runs without a result, because they diverged.
    pub diverged: usize,
    /// How its runs answer, example by example, where that is known.
    pub answers: Option<Answers>,
}

/// How the runs of a group answer the test, as means over pairs of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answers {
    /// Examples of the test.
    pub examples: usize,
    /// Share of examples that get different classes.
    pub churn: f64,
    /// Share of examples that one gets right and the other wrong.
    pub disagreement: f64,
    /// The sigma of the metric if examples were right or wrong independently of each other.
    pub sigma_of_coin_tosses: f64,
}

impl Group {
    /// Runs by their group, groups in the order in which they come.
    pub fn all_of(runs: Vec<results::Run>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for results::Run { group, seed, value } in runs {
            let place = groups.iter().position(|known| known.name == group);
            let place = place.unwrap_or_else(|| {
                groups.push(Self { name: group, runs: vec![], diverged: 0, answers: None });
                groups.len() - 1
            });
            groups[place].runs.push(Run { seed, value });
        }
        groups
    }

    /// The results.
    pub fn values(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.value).collect()
    }

    /// The results of the seeds that exactly one run has.
    pub fn by_seed(&self) -> HashMap<&str, f64> {
        let mut found: HashMap<&str, Option<f64>> = HashMap::new();
        for run in &self.runs {
            let Some(seed) = &run.seed else { continue };
            found.entry(seed).and_modify(|value| *value = None).or_insert(Some(run.value));
        }
        found.into_iter().filter_map(|(seed, value)| Some((seed, value?))).collect()
    }
}

/// Where the runs of a group lie.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// The group.
    pub group: String,
    /// Runs.
    pub n: usize,
    /// Runs that diverged and have no result.
    pub diverged: usize,
    /// Mean.
    pub mean: f64,
    /// Its interval for normal runs (Student's t).
    pub mean_interval: Option<[f64; 2]>,
    /// Its BCa interval.
    pub mean_bca: Option<[f64; 2]>,
    /// Standard deviation.
    pub sigma: Option<f64>,
    /// Its interval for normal runs.
    pub sigma_interval: Option<[f64; 2]>,
    /// Its BCa interval.
    pub sigma_bca: Option<[f64; 2]>,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// The gain that this many runs a side show with the chance asked for.
    pub detectable: Option<f64>,
    /// Runs a side that show the gain asked for.
    pub runs_needed: Option<usize>,
    /// Example by example.
    pub answers: Option<Answers>,
}

impl Spread {
    /// Of a group.
    pub fn of(group: &Group, question: &Question) -> Self {
        let values = group.values();
        let sample = Sample::of(&values);
        let (confidence, resampling) = (question.confidence(), question.resampling);
        let (level, power, design) = (question.level, question.power, Design::Independent);
        let noisy = sample.sigma.filter(|sigma| *sigma > 0.0);
        // Fewer runs find nothing, however large it is.
        let fewest = fewest_runs(level);
        let needed = |gain: f64| {
            Some(design.runs_needed(gain / noisy?, level, power, Tails::Two)?.max(fewest))
        };
        let detectable = || design.sizes(sample.n).detectable(level, power, Tails::Two);
        let mean_interval = Estimate::of_mean(&values).map(|found| found.interval(confidence));
        Self {
            group: group.name.clone(),
            n: sample.n,
            diverged: group.diverged,
            mean: sample.mean,
            mean_interval: mean_interval.ok().map(ends),
            mean_bca: bootstrap::of_mean(&values, confidence, resampling).map(ends),
            sigma: sample.sigma,
            sigma_interval: sample.sigma_interval(confidence).map(ends),
            sigma_bca: bootstrap::of_sigma(&values, confidence, resampling).map(ends),
            min: sample.min,
            max: sample.max,
            detectable: noisy
                .filter(|_| sample.n >= fewest)
                .and_then(|sigma| Some(detectable()? * sigma)),
            runs_needed: question.gain.and_then(needed),
            answers: group.answers,
        }
    }
}
