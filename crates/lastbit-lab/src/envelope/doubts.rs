//! What keeps a run that is not outside from being inside: parts of the envelope that it was not compared with.

use std::collections::BTreeMap;

use lastbit_formats::listed;

use super::file::Envelope;
use crate::logged::LoggedRun;

/// So many of the steps of a metric are compared at least.
const SHARE: f64 = 0.05;

/// What was not compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doubts {
    /// All runs of the envelope are equal in everything, so that it does not tell what rounding does.
    pub no_spread: bool,
    /// Metrics of the envelope that the run does not have.
    pub missing: Vec<String>,
    /// Metrics that end before those of the envelope do, by the last step of both. One that was logged every tenth step may
    /// end nine steps before.
    pub ends_early: BTreeMap<(u64, u64), Vec<String>>,
    /// Metrics of which less than a [`SHARE`] of the envelope's steps was compared: how many, and how many there are.
    pub hardly: Vec<(String, usize, usize)>,
}

impl Doubts {
    /// Of a run beside an envelope.
    pub fn of(envelope: &Envelope, run: &LoggedRun) -> Self {
        let mut found = Self { no_spread: envelope.has_no_spread(), ..Self::default() };
        for (metric, band) in &envelope.metrics {
            let Some(own) = run.metrics.get(metric) else {
                found.missing.push(metric.clone());
                continue;
            };
            let longest_gap = own.steps.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
            if let (Some(end), Some(last)) = (own.steps.last(), band.steps.last())
                && last.saturating_sub(*end) >= longest_gap
            {
                found.ends_early.entry((*end, *last)).or_default().push(metric.clone());
                continue;
            }
            let is_common = |step: &&u64| own.steps.binary_search(step).is_ok();
            let (common, all) = (band.steps.iter().filter(is_common).count(), band.steps.len());
            if (common as f64) < SHARE * all as f64 {
                found.hardly.push((metric.clone(), common, all));
            }
        }
        found
    }

    /// In words, each of which may stand after "but".
    pub fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.no_spread {
            words.push(
                "all runs of the envelope are equal at all steps, so it does not tell what rounding does: was the program \
                 perturbed?"
                    .to_owned(),
            );
        }
        if !self.missing.is_empty() {
            words.push(format!("the run has no {}", listed(&self.missing)));
        }
        for ((own, last), metrics) in &self.ends_early {
            words.push(format!(
                "the run ends at step {own}, the envelope at step {last} ({})",
                listed(metrics)
            ));
        }
        for (metric, common, all) in &self.hardly {
            words.push(format!("the run has {common} of the {all} steps of {metric}"));
        }
        words
    }
}

impl Envelope {
    /// Whether all runs are equal in all metrics at all steps.
    fn has_no_spread(&self) -> bool {
        let is_constant = |values: &[Vec<_>]| values.windows(2).all(|pair| pair[0] == pair[1]);
        self.metrics.values().all(|band| is_constant(&band.values))
    }
}
