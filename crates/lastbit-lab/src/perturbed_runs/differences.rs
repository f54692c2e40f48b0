//! Where two runs first differ in any bit of what they logged.

use std::collections::BTreeSet;

use crate::logged::{LoggedRun, Metric};
use crate::number::Number;

/// The first step at which a metric differs, and the metric; one that only one of them logged differs from its first
/// step on.
pub fn first(a: &LoggedRun, b: &LoggedRun) -> Option<(u64, String)> {
    let names: BTreeSet<&String> = a.metrics.keys().chain(b.metrics.keys()).collect();
    let none = Metric::default();
    let of = |name: &String| {
        let [a, b] = [a, b].map(|run| run.metrics.get(name).unwrap_or(&none));
        first_step(a, b).map(|step| (step, name.clone()))
    };
    names.into_iter().filter_map(of).min()
}

fn first_step(a: &Metric, b: &Metric) -> Option<u64> {
    let points = |metric: &Metric| -> Vec<(u64, Number)> {
        metric.steps.iter().copied().zip(metric.values.iter().copied().map(Number)).collect()
    };
    let (a, b) = (points(a), points(b));
    let differs = |place: &usize| a.get(*place) != b.get(*place);
    let place = (0..a.len().max(b.len())).find(differs)?;
    [a.get(place), b.get(place)].into_iter().flatten().map(|point| point.0).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(metrics: &[(&str, &[(u64, f64)])]) -> LoggedRun {
        let metric = |points: &[(u64, f64)]| Metric {
            steps: points.iter().map(|point| point.0).collect(),
            values: points.iter().map(|point| point.1).collect(),
        };
        let metrics = metrics.iter().map(|(name, points)| ((*name).to_owned(), metric(points)));
        LoggedRun { metrics: metrics.collect(), ..LoggedRun::default() }
    }

    #[test]
    fn the_first_step_and_metric_are_named() {
        let next = f64::from_bits(1.0_f64.to_bits() + 1);
        let base = run(&[("a", &[(1, 1.0), (2, f64::NAN)]), ("b", &[(1, 3.0), (2, 4.0)])]);
        assert_eq!(first(&base, &base), None);
        for (other, expected) in [
            (run(&[("a", &[(1, next), (2, f64::NAN)]), ("b", &[(1, 3.0), (2, 4.0)])]), (1, "a")),
            (run(&[("a", &[(1, 1.0), (2, 0.0)]), ("b", &[(1, 3.0), (2, 4.5)])]), (2, "a")),
            (run(&[("a", &[(1, 1.0), (2, f64::NAN)]), ("b", &[(1, 3.0)])]), (2, "b")),
            (run(&[("a", &[(1, 1.0), (2, f64::NAN)])]), (1, "b")),
            (run(&[("a", &[(1, 1.0), (5, f64::NAN)]), ("b", &[(1, 3.0), (2, 4.0)])]), (2, "a")),
        ] {
            let expected = Some((expected.0, expected.1.to_owned()));
            assert_eq!(first(&base, &other), expected);
            assert_eq!(first(&other, &base), expected);
        }
        // Zeros of both signs are other bits.
        assert!(first(&run(&[("a", &[(1, 0.0)])]), &run(&[("a", &[(1, -0.0)])])).is_some());
    }
}
