//! Deviations and p-values of envelopes against numpy and scipy.
//!
//! `tests/golden/envelope.json` is made by `python reference/envelope_numpy.py`.

use lastbit::statistics::envelope::{Metric, compare};

use crate::json::{golden, items, number, numbers};

#[test]
fn deviations_scores_p_values_and_limits() {
    let golden = golden(include_str!("../golden/envelope.json"));
    for case in items(&golden["cases"]) {
        let name = &case["name"];
        let runs: Vec<Vec<Vec<f64>>> = items(&case["metrics"])
            .iter()
            .map(|metric| items(&metric["runs"]).iter().map(numbers).collect())
            .collect();
        let new: Vec<Vec<f64>> =
            items(&case["metrics"]).iter().map(|metric| numbers(&metric["new"])).collect();
        let metrics: Vec<Metric> = items(&case["metrics"])
            .iter()
            .zip(runs.iter().zip(&new))
            .map(|(metric, (runs, new))| Metric { runs, new, spacing: number(&metric["spacing"]) })
            .collect();
        let found = compare(&metrics);
        // The values of a case have a spread of at least 1e-7 of themselves, so that a rounding of ε in their mean
        // is one of 2e-9 in a score.
        let close = |found: f64, expected: f64| {
            assert!(
                (found - expected).abs() <= 1e-8 * expected.abs(),
                "{name}: {found}, {expected}"
            );
        };
        close(found.deviation, number(&case["deviation"]));
        for (found, expected) in found.of_runs.iter().zip(numbers(&case["of_runs"])) {
            close(*found, expected);
        }
        for (scores, metric) in found.metrics.iter().zip(items(&case["metrics"])) {
            let expected = numbers(&metric["score"]);
            assert_eq!(scores.score.len(), expected.len());
            for (found, expected) in scores.score.iter().zip(expected) {
                assert!((found - expected).abs() <= 1e-8 * (1.0 + expected.abs()), "{name}");
            }
            for (found, expected) in scores.usual.iter().zip(numbers(&metric["usual"])) {
                close(*found, expected);
            }
        }
        close(found.rank_p(), number(&case["rank_p"]));
        close(found.tail_p(), number(&case["tail_p"]));
        // A t of up to 60 with 15 degrees of freedom: its tail goes as t^-16, and T has an error of 1e-9.
        let t_p = number(&case["t_p"]);
        assert!((found.t_p() - t_p).abs() <= 1e-6 * t_p, "{name}: {} and {t_p}", found.t_p());
        for limit in items(&case["limits"]) {
            close(found.limit(number(&limit["level"])), number(&limit["limit"]));
        }
    }
}
