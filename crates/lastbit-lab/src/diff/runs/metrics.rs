//! Where the logs of two runs first differ: often finer than their checkpoints.

use serde::Serialize;

use crate::logged::LoggedRun;
use crate::number::Number;

/// The first logged value that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricDifference {
    /// Name of the metric.
    pub metric: String,
    /// The step.
    pub step: u64,
    /// The last step before it at which both logged it.
    pub last_equal_step: Option<u64>,
    /// Value in the first run.
    pub a: Number,
    /// Value in the second.
    pub b: Number,
}

/// Metrics that both logged at common steps, and the first value of them that differs in any bit.
pub fn first(a: &LoggedRun, b: &LoggedRun) -> (Vec<String>, Option<MetricDifference>) {
    let mut compared = Vec::new();
    let mut first: Option<MetricDifference> = None;
    for (name, of_a) in &a.metrics {
        let Some(of_b) = b.metrics.get(name) else { continue };
        let mut last_equal_step = None;
        let mut is_common = false;
        for (step, x) in of_a.steps.iter().zip(&of_a.values) {
            let Ok(place) = of_b.steps.binary_search(step) else { continue };
            is_common = true;
            let (a, b) = (Number(*x), Number(of_b.values[place]));
            if a == b {
                last_equal_step = Some(*step);
                continue;
            }
            if first.as_ref().is_none_or(|known| *step < known.step) {
                let metric = name.clone();
                first = Some(MetricDifference { metric, step: *step, last_equal_step, a, b });
            }
            break;
        }
        if is_common {
            compared.push(name.clone());
        }
    }
    (compared, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logged::Metric;

    fn run(metrics: &[(&str, &[u64], &[f64])]) -> LoggedRun {
        let metric = |(name, steps, values): &(&str, &[u64], &[f64])| {
            ((*name).to_owned(), Metric { steps: steps.to_vec(), values: values.to_vec() })
        };
        LoggedRun { metrics: metrics.iter().map(metric).collect(), ..LoggedRun::default() }
    }

    #[test]
    fn the_first_value_that_differs_is_found_over_all_metrics() {
        let a = run(&[
            ("accuracy", &[0, 4], &[0.5, 0.6]),
            ("loss", &[0, 1, 2, 3], &[f64::NAN, 1.0, 0.5, 0.25]),
            ("own", &[0], &[1.0]),
        ]);
        let b = run(&[
            ("accuracy", &[0, 4], &[0.5, 0.7]),
            ("loss", &[0, 1, 3], &[f64::NAN, 1.0, 0.25_f64.next_up()]),
            ("other", &[0], &[1.0]),
        ]);
        let (compared, found) = first(&a, &b);
        assert_eq!(compared, ["accuracy", "loss"]);
        let found = found.unwrap();
        assert_eq!((found.metric.as_str(), found.step), ("loss", 3));
        assert_eq!(found.last_equal_step, Some(1));
        assert_eq!((found.a.0, found.b.0), (0.25, 0.25_f64.next_up()));
        assert_eq!(first(&a, &a).1, None);
    }
}
