//! What the numbers of a data set are like, as tables.

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::reduce::sum;
use serde::Serialize;

use super::Columns;

/// The first components or channels that are shown; a table of hundreds helps nobody.
const SHOWN: usize = 12;

/// Range and spread of one component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Which.
    pub name: String,
    /// Smallest value.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation, of the set itself and not of a population it stands for.
    pub std: f64,
    /// Largest value.
    pub max: f64,
}

/// Channels of the inputs (bytes as `byte/255`) and components of real targets, by their names where they
/// have some.
pub fn summaries(set: &Dataset, columns: Option<&Columns>) -> Vec<Summary> {
    let named = |kind: &str, names: Option<&Vec<String>>, i: usize| {
        let name = names.and_then(|names| names.get(i)).cloned();
        format!("{kind} {}", name.unwrap_or_else(|| (i + 1).to_string()))
    };
    let channels = set.shape[2];
    let mut all: Vec<Summary> = (0..channels.min(SHOWN))
        .map(|channel| {
            let values: Vec<f64> = match &set.inputs {
                Inputs::Bytes(bytes) => {
                    let ours = bytes.iter().skip(channel).step_by(channels);
                    ours.map(|byte| f64::from(*byte) / 255.0).collect()
                }
                Inputs::Reals(values) => {
                    values.iter().skip(channel).step_by(channels).copied().collect()
                }
            };
            summary(named("input", columns.map(|c| &c.inputs), channel), &values)
        })
        .collect();
    if let Targets::Reals { width, values } = &set.targets {
        all.extend((0..(*width).min(SHOWN)).map(|j| {
            let ours: Vec<f64> = values.iter().skip(j).step_by(*width).copied().collect();
            summary(named("target", columns.map(|c| &c.targets), j), &ours)
        }));
    }
    all
}

fn summary(name: String, values: &[f64]) -> Summary {
    let n = values.len() as f64;
    let mean = sum(values) / n;
    let squares: Vec<f64> = values.iter().map(|x| (x - mean) * (x - mean)).collect();
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Summary { name, min, mean, std: (sum(&squares) / n).sqrt(), max }
}

/// Examples of each class.
pub fn histogram(set: &Dataset) -> Vec<usize> {
    match &set.targets {
        Targets::Classes { count, labels } => {
            let mut counts = vec![0; *count];
            labels.iter().for_each(|label| counts[*label as usize] += 1);
            counts
        }
        Targets::Reals { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_and_targets_are_summed_up_apart() {
        let set = Dataset {
            shape: [1, 1, 2],
            inputs: Inputs::Reals(vec![1.0, 10.0, 3.0, 10.0]),
            targets: Targets::Reals { width: 1, values: vec![-1.0, 1.0] },
        };
        let of = |name: &str, [min, mean, std, max]: [f64; 4]| Summary {
            name: name.into(),
            min,
            mean,
            std,
            max,
        };
        let expected = [
            of("input 1", [1.0, 2.0, 1.0, 3.0]),
            of("input 2", [10.0, 10.0, 0.0, 10.0]),
            of("target 1", [-1.0, 0.0, 1.0, 1.0]),
        ];
        assert_eq!(summaries(&set, None), expected);
        let columns = Columns { inputs: vec!["x".into(), "y".into()], targets: vec!["z".into()] };
        let names = summaries(&set, Some(&columns)).into_iter().map(|summary| summary.name);
        assert_eq!(names.collect::<Vec<_>>(), ["input x", "input y", "target z"]);
        assert!(histogram(&set).is_empty());
    }
}
