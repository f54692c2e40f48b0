//! How a run ended: the last row of each replica, growth of the distances, spread of the accuracy.

use lastbit::statistics::sample::Sample;
use serde_json::{Value, json};

use super::checkpoint::Origin;
use super::metrics::Row;
use super::prepare::Prepared;
use crate::number::Number;

/// What a summary needs of the rows of one replica.
#[derive(Debug, Clone, Default)]
pub struct History {
    distances: Vec<(usize, f64)>,
    fluctuations: Vec<f64>,
    /// Step and value of the largest sharpness.
    sharpest: Option<(usize, f64)>,
    last: Option<Row>,
}

impl History {
    /// Takes note of a row.
    pub fn add(&mut self, row: Row) {
        self.distances.push((row.step, row.distance.0));
        // Without a gradient there is none to fluctuate. NaN would also have a place in the order by
        // its sign, which the rows that a resumed run reads do not keep.
        let fluctuation = row.gradient_fluctuation.map(|number| number.0);
        self.fluctuations.extend(fluctuation.filter(|value| !value.is_nan()));
        if let Some(Number(value)) = row.sharpness().filter(|number| !number.0.is_nan())
            && self.sharpest.is_none_or(|(_, most)| value > most)
        {
            self.sharpest = Some((row.step, value));
        }
        self.last = Some(row);
    }

    /// Distances to the first replica so far, and that of a row that is not noted yet.
    pub fn distances_and(&self, row: &Row) -> Vec<(usize, f64)> {
        let mut points = self.distances.clone();
        points.push((row.step, row.distance.0));
        points
    }

    /// Median of the relative gradient fluctuation; none where it was not measured.
    pub fn median_fluctuation(&self) -> Option<Number> {
        let mut values = self.fluctuations.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(Number(values[middle])),
            _ => Some(Number((values[middle - 1] + values[middle]) / 2.0)),
        }
    }
}

/// The summary.
pub fn of(
    prepared: &Prepared,
    step: usize,
    forked_from: &Option<Origin>,
    histories: &[History],
) -> Value {
    let replica = |history: &History| {
        let mut value = json!(history.last);
        if let Value::Object(fields) = &mut value {
            fields.remove("rel_l1_of");
            fields.remove("agreeing_bits_of");
            if let Some(median) = history.median_fluctuation() {
                fields.insert("median_gradient_fluctuation".to_owned(), json!(median));
            }
            if let Some((step, value)) = history.sharpest {
                let most = json!({ "step": step, "sharpness": Number(value) });
                fields.insert("max_sharpness".to_owned(), most);
            }
        }
        value
    };
    let accuracies: Vec<f64> = histories
        .iter()
        .filter_map(|history| history.last.as_ref().filter(|row| row.diverged.is_none()))
        .filter_map(|row| row.test_accuracy.map(|number| number.0))
        .collect();
    let settings = prepared.found.to_toml();
    let mut summary = json!({
        "settings_hash": blake3::hash(settings.as_bytes()).to_hex()[..32].to_owned(),
        "data": prepared.found.settings.data.name,
        "data_hash": prepared.data_hash,
        "parameters": prepared.network.len(),
        "steps": step,
        "steps_planned": prepared.steps,
        "test_accuracy": spread(&accuracies),
        "replicas": histories.iter().map(replica).collect::<Vec<_>>(),
    });
    if let Some(origin) = forked_from {
        summary["forked_from"] = json!(origin);
    }
    summary
}

/// Mean, sample standard deviation and range; nothing of nothing, no deviation of one.
fn spread(values: &[f64]) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    let sample = Sample::of(values);
    json!({
        "mean": Number(sample.mean),
        "std": sample.sigma.map(Number),
        "min": Number(sample.min),
        "max": Number(sample.max),
        "replicas": sample.n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_that_of_a_sample() {
        assert_eq!(spread(&[]), Value::Null);
        assert_eq!(spread(&[0.5])["std"], Value::Null);
        let equal = spread(&[0.998; 3]);
        assert_eq!((equal["mean"].clone(), equal["std"].clone()), (json!(0.998), json!(0.0)));
        let found = spread(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(found["mean"], 2.5);
        // Σ(x − 2.5)² = 5 over 3; both exact up to the root's and the division's rounding.
        assert!((found["std"].as_f64().unwrap() - (5.0_f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!((found["min"].clone(), found["max"].clone()), (json!(1.0), json!(4.0)));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        let mut history = History { fluctuations: vec![3.0, 1.0], ..History::default() };
        assert_eq!(history.median_fluctuation(), Some(Number(2.0)));
        history.fluctuations.push(9.0);
        assert_eq!(history.median_fluctuation(), Some(Number(3.0)));
        assert_eq!(History::default().median_fluctuation(), None);
    }
}
