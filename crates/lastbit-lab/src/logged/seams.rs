//! Metrics over steps in the order in which they were logged, and what a resumed run replaces in them.
//!
//! A **seam** is where a metric goes back to an earlier step: the run was resumed, and its checkpoint knows nothing of
//! what any metric had from that step on. A row of an earlier step alone is no seam, such as that of an evaluation that ends late:
//! none of its metrics goes back.

use std::collections::BTreeMap;

use super::Metric;
use super::choose::is_wall_time;
use super::steps::is_step_key;

/// Whether a name is that of the clock or of a counter. They stand in rows of any kind, so they show nothing of what was
/// trained and of where it was resumed.
pub fn is_progress(name: &str) -> bool {
    is_step_key(name.rsplit('/').next().unwrap_or_default()) || is_wall_time(name)
}

/// What a program logged so far.
#[derive(Debug, Default)]
pub struct History {
    series: Vec<Series>,
    /// The step of the last value.
    last_step: u64,
    /// The first row since the steps of the rows went back last. It may lie before a seam, if metrics that are new come first.
    since: u64,
    seams: Seams,
}

#[derive(Debug)]
struct Series {
    name: String,
    is_progress: bool,
    /// The row of each value.
    rows: Vec<u64>,
    metric: Metric,
}

impl History {
    /// Another metric; returns its number.
    pub fn add(&mut self, name: &str) -> usize {
        self.add_whole(name.to_owned(), Metric::default())
    }

    fn add_whole(&mut self, name: String, metric: Metric) -> usize {
        let (is_progress, rows) = (is_progress(&name), vec![0; metric.steps.len()]);
        self.series.push(Series { name, is_progress, rows, metric });
        self.series.len() - 1
    }

    /// Adds a value of a metric. Rows come in their order.
    pub fn push(&mut self, series: usize, row: u64, step: u64, value: f64) {
        if step < self.last_step {
            self.since = row;
        }
        self.last_step = step;
        let own = &self.series[series];
        if !own.is_progress && own.metric.steps.last().is_some_and(|last| *last > step) {
            self.cut(step);
        }
        self.insert(series, row, step, value);
    }

    /// The program says that it begins at a step, before it logs this row.
    pub fn restart(&mut self, row: u64, step: u64) {
        (self.since, self.last_step) = (row, step);
        self.cut(step);
    }

    /// A seam: takes back what was logged from a step on, before the rows that belong to the resumed run.
    fn cut(&mut self, step: u64) {
        let (mut from, mut dropped) = (None, 0);
        for Series { rows, metric: Metric { steps, values }, .. } in &mut self.series {
            let (first, count) = (steps.partition_point(|old| *old < step), steps.len());
            let mut kept = first;
            for i in first..count {
                if rows[i] < self.since {
                    from = from.max(Some(steps[i]));
                } else {
                    (rows[kept], steps[kept], values[kept]) = (rows[i], steps[i], values[i]);
                    kept += 1;
                }
            }
            dropped += count - kept;
            rows.truncate(kept);
            steps.truncate(kept);
            values.truncate(kept);
        }
        if let Some(from) = from {
            self.seams.add(from, step, dropped as u64);
        }
    }

    /// A value at a step that was there already replaces it.
    fn insert(&mut self, series: usize, row: u64, step: u64, value: f64) {
        let Series { name, is_progress, rows, metric: Metric { steps, values } } =
            &mut self.series[series];
        let place = match steps.last() {
            Some(last) if *last >= step => steps.partition_point(|old| *old < step),
            _ => steps.len(),
        };
        if steps.get(place) == Some(&step) {
            // A counter may stand before the metric that goes back with it.
            if !(*is_progress && rows[place] < self.since) {
                self.seams.repeat(name);
            }
            (rows[place], values[place]) = (row, value);
        } else {
            rows.insert(place, row);
            steps.insert(place, step);
            values.insert(place, value);
        }
    }

    /// Hands over the metrics that have values, and what was replaced in them.
    pub fn finish(self, metrics: &mut BTreeMap<String, Metric>, seams: &mut Seams) {
        let series = self.series.into_iter().filter(|series| !series.metric.steps.is_empty());
        metrics.extend(series.map(|series| (series.name, series.metric)));
        seams.join(self.seams);
    }
}

/// Appends what a resumed run logged to other files; returns what the reader should know. Its first row may be at a step far
/// below, such as that of a constant, so that here as well the first step to which a metric goes back is the seam.
pub fn resume(all: &mut BTreeMap<String, Metric>, next: BTreeMap<String, Metric>) -> Vec<String> {
    let goes_back_to = |(name, metric): (&String, &Metric)| {
        let (first, last) = (*metric.steps.first()?, *all.get(name)?.steps.last()?);
        (first < last && !is_progress(name)).then_some(first)
    };
    let seam = next.iter().filter_map(goes_back_to).min();
    let mut history = History::default();
    let mut numbers = BTreeMap::new();
    for (name, metric) in std::mem::take(all) {
        numbers.insert(name.clone(), history.add_whole(name, metric));
    }
    const ROW: u64 = 1;
    if let Some(step) = seam {
        history.restart(ROW, step);
    }
    for (name, metric) in next {
        let series = numbers.get(&name).copied().unwrap_or_else(|| history.add(&name));
        for (step, value) in metric.steps.into_iter().zip(metric.values) {
            history.insert(series, ROW, step, value);
        }
    }
    let mut seams = Seams::default();
    history.finish(all, &mut seams);
    seams.notes()
}

/// What was replaced in a log.
#[derive(Debug, Default)]
pub struct Seams {
    count: u64,
    /// From where to where steps went back first.
    first: Option<(u64, u64)>,
    dropped: u64,
    /// Values at a step that had one already, and the first metric with one.
    repeats: u64,
    repeated: Option<String>,
}

impl Seams {
    fn add(&mut self, from: u64, to: u64, dropped: u64) {
        self.count += 1;
        self.first.get_or_insert((from, to));
        self.dropped += dropped;
    }

    fn repeat(&mut self, name: &str) {
        self.repeats += 1;
        self.repeated.get_or_insert_with(|| name.to_owned());
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.or(other.first);
        self.dropped += other.dropped;
        self.repeats += other.repeats;
        self.repeated = self.repeated.take().or(other.repeated);
    }

    /// What the reader should know.
    pub fn notes(self) -> Vec<String> {
        let Self { count, dropped, repeats, .. } = self;
        let back = self.first.map(|(from, to)| {
            let values = if dropped == 1 { "1 value".into() } else { format!("{dropped} values") };
            let more = if count == 1 { String::new() } else { format!(", and {} more times", count - 1) };
            format!(
                "steps go back from {from} to {to}{more}, as where a run is resumed: {values} that were logged before, at \
                 that step or later, do not count"
            )
        });
        let repeated = self.repeated.map(|name| {
            format!("{repeats} times a metric has another value at the same step, first {name}: the last counts")
        });
        back.into_iter().chain(repeated).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metrics of rows of one value each, and the notes.
    fn history(rows: &[(&str, u64, f64)]) -> (BTreeMap<String, Metric>, Vec<String>) {
        let mut history = History::default();
        let mut numbers = BTreeMap::new();
        for (row, (name, step, value)) in (0..).zip(rows) {
            let series = *numbers.entry(*name).or_insert_with(|| history.add(name));
            history.push(series, row, *step, *value);
        }
        let (mut metrics, mut seams) = (BTreeMap::new(), Seams::default());
        history.finish(&mut metrics, &mut seams);
        (metrics, seams.notes())
    }

    fn metric(steps: &[u64], values: &[f64]) -> Metric {
        Metric { steps: steps.to_vec(), values: values.to_vec() }
    }

    #[test]
    fn a_resumed_run_replaces_what_it_makes_again_in_all_metrics() {
        let rows = [
            ("loss", 1, 0.1),
            ("loss", 2, 0.2),
            ("eval", 2, 6.0),
            ("epoch", 2, 1.0),
            ("loss", 3, 0.3),
            ("eval", 3, 7.0),
            ("epoch", 3, 1.5),
            ("loss", 3, 1.3),
        ];
        let (metrics, notes) = history(&rows);
        assert_eq!(metrics["eval"], metric(&[2, 3], &[6.0, 7.0]));
        assert_eq!(metrics["loss"], metric(&[1, 2, 3], &[0.1, 0.2, 1.3]));
        // An equal step is no seam.
        assert!(notes.len() == 1 && notes[0].contains("1 times"), "{notes:?}");
        let resumed = [&rows[..7], &[("loss", 2, 1.2), ("loss", 3, 1.3)]].concat();
        let (metrics, notes) = history(&resumed);
        assert_eq!(metrics.keys().collect::<Vec<_>>(), ["loss"]);
        assert_eq!(metrics["loss"], metric(&[1, 2, 3], &[0.1, 1.2, 1.3]));
        assert!(notes[0].contains("from 3 to 2, as") && notes[0].contains("6 values"), "{notes:?}");
        assert_eq!(notes.len(), 1);
        // Metrics that are new come first in the resumed run.
        let resumed =
            [&rows[..7], &[("grad", 2, 9.0), ("loss", 2, 1.2), ("loss", 1, 1.1)]].concat();
        let (metrics, notes) = history(&resumed[..9]);
        assert_eq!(metrics.keys().collect::<Vec<_>>(), ["grad", "loss"]);
        assert_eq!(metrics["loss"], metric(&[1, 2], &[0.1, 1.2]));
        assert!(notes[0].contains("from 3 to 2, as"), "{notes:?}");
        let (metrics, notes) = history(&resumed);
        assert_eq!(metrics, [("loss".to_owned(), metric(&[1], &[1.1]))].into());
        assert!(notes[0].contains("from 3 to 2, and 1 more times"), "{notes:?}");
    }

    #[test]
    fn a_late_row_of_another_kind_is_no_seam() {
        let rows = [
            ("loss", 100, 0.5),
            ("epoch", 100, 1.0),
            ("eval", 90, 7.0),
            ("epoch", 90, 0.9),
            ("loss", 110, 0.4),
            ("eval", 100, 8.0),
            ("test", 10, 9.0),
        ];
        let (metrics, notes) = history(&rows);
        assert_eq!(metrics["loss"], metric(&[100, 110], &[0.5, 0.4]));
        assert_eq!(metrics["eval"], metric(&[90, 100], &[7.0, 8.0]));
        assert_eq!(metrics["epoch"], metric(&[90, 100], &[0.9, 1.0]));
        assert_eq!((metrics["test"].steps[0], notes.len()), (10, 0));
    }

    #[test]
    fn a_counter_before_the_metric_that_goes_back_is_that_of_the_resumed_run() {
        let rows = [
            ("epoch", 1, 0.1),
            ("loss", 1, 0.5),
            ("epoch", 2, 0.2),
            ("loss", 2, 0.4),
            ("epoch", 1, 0.3),
            ("loss", 1, 0.6),
        ];
        let (metrics, notes) = history(&rows);
        assert_eq!(metrics["epoch"], metric(&[1], &[0.3]));
        assert_eq!((&metrics["loss"], notes.len()), (&metric(&[1], &[0.6]), 1));
        assert!(notes[0].contains("from 2 to 1"), "{notes:?}");
    }

    #[test]
    fn other_files_resume_at_the_first_step_to_which_a_metric_goes_back() {
        let named = |all: &[(&str, Metric)]| -> BTreeMap<String, Metric> {
            all.iter().map(|(name, metric)| ((*name).to_owned(), metric.clone())).collect()
        };
        let constant = || metric(&[0], &[-1.0]);
        let mut all = named(&[
            ("hp", constant()),
            ("loss", metric(&[1, 2, 3], &[0.1, 0.2, 0.3])),
            ("eval", metric(&[1, 3], &[6.0, 7.0])),
        ]);
        let next = named(&[("hp", constant()), ("loss", metric(&[2], &[1.2]))]);
        let notes = resume(&mut all, next);
        let expected = named(&[
            ("hp", constant()),
            ("loss", metric(&[1, 2], &[0.1, 1.2])),
            ("eval", metric(&[1], &[6.0])),
        ]);
        assert_eq!(all, expected);
        assert!(notes[0].contains("from 3 to 2") && notes[0].contains("3 values"), "{notes:?}");
    }
}
