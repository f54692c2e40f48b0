//! How a run ended: the last row of each replica, growth of the distances, spread of the accuracy.

use std::collections::BTreeMap;
use std::path::Path;

use lastbit::statistics::sample::Sample;
use serde::{Deserialize, Serialize};

use super::checkpoint::Origin;
use super::metrics::{AttributionSummary, Row};
use super::mini_batch::MiniBatchThreshold;
use super::prepare::Prepared;
use super::thinned::Thinned;
use crate::error::Error;
use crate::files::write_atomically;
use crate::number::Number;
use crate::simulate::SATURATED;

/// How each replica ended, in the folder of its run.
pub const SUMMARY: &str = "summary.json";

/// What `summary.json` says of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Hash of the settings.
    pub settings_hash: String,
    /// Name of the data set.
    pub data: String,
    /// Hash of its contents.
    pub data_hash: String,
    /// Parameters of the network.
    pub parameters: usize,
    /// Steps done.
    pub steps: usize,
    /// Steps that were asked for; fewer are done where all replicas diverged.
    pub steps_planned: usize,
    /// Over the replicas that did not diverge.
    pub test_accuracy: Option<AccuracySpread>,
    /// How each replica ended; nothing of one that had diverged before the run was forked.
    pub replicas: Vec<Option<ReplicaSummary>>,
    /// Stability thresholds of the learning rate of the last step, where sharpness was measured with mini-batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mini_batch_threshold: Option<MiniBatchThreshold>,
    /// Why replicas diverged from the first, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attribution: Vec<AttributionSummary>,
    /// The checkpoint it began from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// Commit of the program that made the last step.
    pub commit: String,
}

/// How a replica ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaSummary {
    /// Its last row, without single tensors.
    #[serde(flatten)]
    pub last: Row,
    /// Median of the relative gradient fluctuation over the evaluations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_gradient_fluctuation: Option<Number>,
    /// The largest sharpness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sharpness: Option<SharpnessPeak>,
}

/// Where the sharpness was largest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SharpnessPeak {
    /// Steps done.
    pub step: usize,
    /// Largest eigenvalue of the Hessian.
    pub sharpness: Number,
}

/// Test accuracies of the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AccuracySpread {
    /// Mean.
    pub mean: Number,
    /// Sample standard deviation; none of one replica.
    pub std: Option<Number>,
    /// Smallest.
    pub min: Number,
    /// Largest.
    pub max: Number,
    /// Replicas with an accuracy.
    pub replicas: usize,
}

impl AccuracySpread {
    /// Nothing of nothing.
    fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let sample = Sample::of(values);
        Some(Self {
            mean: Number(sample.mean),
            std: sample.sigma.map(Number),
            min: Number(sample.min),
            max: Number(sample.max),
            replicas: sample.n,
        })
    }
}

/// What a summary needs of the rows of one replica; its size does not depend on their number.
#[derive(Debug, Clone, Default)]
pub struct History {
    distances: Rising,
    fluctuations: Fluctuations,
    sharpest: Option<SharpnessPeak>,
    last: Option<Row>,
}

/// Distances to the first replica while they grow: those that [`ExponentialFit::of_plain_twin`] looks at. Of very many the fit
/// sees a [selection](super::thinned).
///
/// [`ExponentialFit::of_plain_twin`]: lastbit::growth::ExponentialFit::of_plain_twin
#[derive(Debug, Clone, Default)]
pub struct Rising {
    points: Thinned<(usize, f64)>,
    is_saturated: bool,
}

impl Rising {
    /// Takes note of a distance.
    pub fn push(&mut self, step: usize, distance: f64) {
        self.is_saturated |= distance > SATURATED || distance.is_nan();
        if !self.is_saturated && distance > 0.0 {
            self.points.push(f64::NAN, (step, distance));
        }
    }

    /// The distances so far.
    pub fn points(&self) -> Vec<(usize, f64)> {
        self.points.evenly().copied().collect()
    }
}

/// Relative gradient fluctuations along a run; of very many [some](super::thinned).
#[derive(Debug, Clone, Default)]
pub struct Fluctuations(Thinned<f64>);

impl Fluctuations {
    /// Takes note of a row.
    pub fn add(&mut self, row: &Row) {
        // Without a gradient there is none to fluctuate. NaN would also have a place in the order by
        // its sign, which the rows that a resumed run reads do not keep.
        let fluctuation = row.gradient_fluctuation.map(|number| number.0);
        if let Some(value) = fluctuation.filter(|value| !value.is_nan()) {
            self.0.push(f64::NAN, value);
        }
    }

    /// Median of the relative gradient fluctuation; none where it was not measured.
    pub fn median(&self) -> Option<Number> {
        let mut values: Vec<f64> = self.0.evenly().copied().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(Number(values[middle])),
            _ => Some(Number((values[middle - 1] + values[middle]) / 2.0)),
        }
    }
}

impl History {
    /// Takes note of a row.
    pub fn add(&mut self, row: Row) {
        self.distances.push(row.step, row.distance.0);
        self.fluctuations.add(&row);
        if let Some(Number(value)) = row.sharpness().filter(|number| !number.0.is_nan())
            && self.sharpest.is_none_or(|most| value > most.sharpness.0)
        {
            self.sharpest = Some(SharpnessPeak { step: row.step, sharpness: Number(value) });
        }
        self.last = Some(row);
    }

    /// Distances to the first replica so far, and that of a row that is not noted yet.
    pub fn distances_and(&self, row: &Row) -> Vec<(usize, f64)> {
        let mut points = self.distances.points();
        if !self.distances.is_saturated {
            points.push((row.step, row.distance.0));
        }
        points
    }

    fn summary(&self) -> Option<ReplicaSummary> {
        let last = self.last.clone()?;
        let none = BTreeMap::new;
        Some(ReplicaSummary {
            last: Row { rel_l1_of: none(), agreeing_bits_of: none(), ..last },
            median_gradient_fluctuation: self.fluctuations.median(),
            max_sharpness: self.sharpest,
        })
    }
}

impl RunSummary {
    /// The summary of a run after `steps` steps.
    pub fn new(
        prepared: &Prepared,
        steps: usize,
        histories: &[History],
        forked_from: Option<Origin>,
        commit: String,
    ) -> Self {
        let accuracies: Vec<f64> = histories
            .iter()
            .filter_map(|history| history.last.as_ref().filter(|row| row.diverged.is_none()))
            .filter_map(|row| row.test_accuracy.map(|number| number.0))
            .collect();
        let settings = prepared.found.to_toml();
        Self {
            settings_hash: blake3::hash(settings.as_bytes()).to_hex()[..32].to_owned(),
            data: prepared.found.settings.data.name.clone(),
            data_hash: prepared.data_hash.clone(),
            parameters: prepared.network.len(),
            steps,
            steps_planned: prepared.steps,
            test_accuracy: AccuracySpread::of(&accuracies),
            replicas: histories.iter().map(History::summary).collect(),
            mini_batch_threshold: prepared.found.settings.sharpness.and_then(|_| {
                let mut rates = histories.iter().filter_map(|history| history.last.as_ref()?.dt);
                rates.next_back().and_then(|rate| MiniBatchThreshold::of(prepared, rate.0))
            }),
            attribution: Vec::new(),
            forked_from,
            commit,
        }
    }

    /// Writes it into the folder of its run.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("a summary is plain data");
        write_atomically(&folder.join(SUMMARY), format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::growth::Growth;

    #[test]
    fn spread_is_that_of_a_sample() {
        assert_eq!(AccuracySpread::of(&[]), None);
        let spread = |values: &[f64]| AccuracySpread::of(values).unwrap();
        assert_eq!(spread(&[0.5]).std, None);
        let equal = spread(&[0.998; 3]);
        assert_eq!((equal.mean, equal.std), (Number(0.998), Some(Number(0.0))));
        let found = spread(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(found.mean, Number(2.5));
        // Σ(x − 2.5)² = 5 over 3; both exact up to the root's and the division's rounding.
        assert!((found.std.unwrap().0 - (5.0_f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!((found.min, found.max), (Number(1.0), Number(4.0)));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        let mut found = Fluctuations::default();
        assert_eq!(found.median(), None);
        [3.0, 1.0].into_iter().for_each(|value| found.0.push(f64::NAN, value));
        assert_eq!(found.median(), Some(Number(2.0)));
        found.0.push(f64::NAN, 9.0);
        assert_eq!(found.median(), Some(Number(3.0)));
    }

    #[test]
    fn the_fit_sees_the_growth_up_to_saturation() {
        let distances = [0.0, 1e-9, 1e-8, 0.0, 1e-7, 0.9, 1e-6, f64::NAN];
        let all: Vec<(usize, f64)> = distances.into_iter().enumerate().collect();
        for length in 0..all.len() {
            let mut rising = Rising::default();
            all[..length].iter().for_each(|(step, distance)| rising.push(*step, *distance));
            let fit = |points: &[(usize, f64)]| Growth::of_plain_twin(points, SATURATED);
            assert_eq!(fit(&rising.points()), fit(&all[..length]), "{length}");
        }
    }
}
