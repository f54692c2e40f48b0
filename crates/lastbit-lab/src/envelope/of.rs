//! An envelope of runs, and one that is widened by more of them.

use std::collections::BTreeMap;

use lastbit_formats::listed;

use super::file::{Band, Envelope, FORMAT, Reproducibility};
use super::thinned::thinned;
use crate::error::Error;
use crate::logged::{LoggedRun, Metric, matching};
use crate::number::Number;
use crate::words::counted;

/// Runs that an envelope has at least: two have a spread.
pub const LEAST_RUNS: usize = 2;
/// Runs that it has at most: a check compares each with all others.
const MOST_RUNS: usize = 1000;

impl Envelope {
    /// The metrics and steps that all runs have; of many steps some hundred.
    pub fn of(
        runs: &[(String, LoggedRun)],
        command: Vec<String>,
        perturbation: String,
        reproducibility: Option<Reproducibility>,
    ) -> Result<Self, Error> {
        let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
        check_names(&names)?;
        let mut notes = Vec::new();
        // Metrics that some runs lack, by these runs.
        let mut lacking: BTreeMap<Vec<&str>, Vec<&String>> = BTreeMap::new();
        let mut metrics = BTreeMap::new();
        let all = runs.iter().flat_map(|(_, run)| run.metrics.keys());
        let mut all: Vec<&String> = all.collect();
        all.sort();
        all.dedup();
        for metric in all {
            let of_runs: Option<Vec<&Metric>> =
                runs.iter().map(|(_, run)| run.metrics.get(metric)).collect();
            let Some(of_runs) = of_runs else {
                let lacks: Vec<&str> = runs
                    .iter()
                    .filter(|(_, run)| !run.metrics.contains_key(metric))
                    .map(|(name, _)| name.as_str())
                    .collect();
                lacking.entry(lacks).or_default().push(metric);
                continue;
            };
            let common = common_steps(&of_runs);
            let longest = of_runs.iter().map(|one| one.steps.len()).max().unwrap_or(0);
            if common.is_empty() {
                notes.push(format!("{metric} is left out: the runs have no step of it in common"));
                continue;
            }
            if common.len() < longest {
                let missing = counted(longest - common.len(), "step");
                notes.push(format!("{metric}: {missing} left out that not all runs have"));
            }
            let steps: Vec<u64> =
                thinned(common.len()).into_iter().map(|place| common[place]).collect();
            let values = of_runs.iter().map(|one| values_at(one, &steps)).collect();
            metrics.insert(metric.clone(), Band { steps, values });
        }
        for (runs, metrics) in lacking {
            notes.push(format!(
                "left out, for {} did not log it: {}",
                listed(&runs),
                listed(&metrics)
            ));
        }
        if metrics.is_empty() {
            let found = if notes.is_empty() {
                "runs without metrics".to_owned()
            } else {
                format!("no metric in common ({})", notes.join("; "))
            };
            return Err(Error::setting("runs", found, "a metric that all runs logged"));
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let format = FORMAT;
        let runs = names;
        let warnings = Vec::new();
        Ok(Self {
            format,
            version,
            command,
            perturbation,
            runs,
            reproducibility,
            metrics,
            notes,
            warnings,
        })
    }

    /// The same with more runs, which have all its metrics and steps.
    pub fn widened(mut self, runs: &[(String, LoggedRun)]) -> Result<Self, Error> {
        self.runs.extend(runs.iter().map(|(name, _)| name.clone()));
        check_names(&self.runs)?;
        for (metric, band) in &mut self.metrics {
            for (name, run) in runs {
                let lacks = |what: String| {
                    let expected = "the metrics and steps of the envelope in each further run";
                    Error::setting("runs", format!("{name} without {what}"), expected)
                };
                let own = run.metrics.get(metric).ok_or_else(|| lacks(metric.clone()))?;
                if let Some(step) =
                    band.steps.iter().find(|step| own.steps.binary_search(step).is_err())
                {
                    return Err(lacks(format!("step {step} of {metric}")));
                }
                band.values.push(values_at(own, &band.steps));
            }
        }
        Ok(self)
    }

    /// The same with some of its metrics, by name or pattern; with all if none are asked for.
    pub fn chosen(mut self, asked: &[String]) -> Result<Self, Error> {
        if !asked.is_empty() {
            self.metrics = matching(self.metrics, "the envelope", asked)?;
        }
        Ok(self)
    }

    /// What does not fit in a file that was read.
    pub(super) fn check_shape(&self) -> Result<(), String> {
        if !(LEAST_RUNS..=MOST_RUNS).contains(&self.runs.len()) {
            return Err(format!("{} runs", self.runs.len()));
        }
        for (metric, band) in &self.metrics {
            if !band.steps.is_sorted_by(|a, b| a < b) {
                return Err(format!("steps of {metric} that do not increase"));
            }
            if band.values.len() != self.runs.len() {
                return Err(format!("values of {} runs for {metric}", band.values.len()));
            }
            if let Some(values) = band.values.iter().find(|own| own.len() != band.steps.len()) {
                return Err(format!("{} values of {metric}", values.len()));
            }
        }
        Ok(())
    }
}

fn check_names(names: &[String]) -> Result<(), Error> {
    if !(LEAST_RUNS..=MOST_RUNS).contains(&names.len()) {
        let found = names.len().to_string();
        return Err(Error::setting("runs", found, "from 2 to 1000 runs; 8 are a good start"));
    }
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        Some((_, name)) => Err(Error::setting("runs", format!("{name} twice"), "different names")),
        None => Ok(()),
    }
}

/// Steps that all have.
fn common_steps(of_runs: &[&Metric]) -> Vec<u64> {
    let (first, others) = of_runs.split_first().expect("at least two runs");
    let in_all = |step: &u64| others.iter().all(|other| other.steps.binary_search(step).is_ok());
    first.steps.iter().copied().filter(in_all).collect()
}

/// Values at steps that the metric has.
fn values_at(metric: &Metric, steps: &[u64]) -> Vec<Number> {
    let value = |step: &u64| {
        let place = metric.steps.binary_search(step).expect("a step of this metric");
        Number(metric.values[place])
    };
    steps.iter().map(value).collect()
}
