//! Is a run inside an envelope?

use lastbit::statistics::envelope::{self, Comparison, Scores};
use lastbit_formats::listed;
use serde::Serialize;

use super::doubts::Doubts;
use super::file::{Band, Envelope, Reproducibility};
use super::points::Points;
use super::verdict::{Verdict, sentence, support};
use crate::error::Error;
use crate::logged::LoggedRun;
use crate::number::Number;

/// The least level that can be asked for: no envelope supports less.
const LEAST_LEVEL: f64 = 1e-6;

/// What is asked of a check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The chance that a run without a bug is found outside is to be at most this.
    pub level: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: 0.01 }
    }
}

/// A run beside an envelope.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Inside, outside or undecided.
    pub verdict: Verdict,
    /// The verdict in sentences.
    pub sentence: String,
    /// What so many runs can support, in sentences.
    pub support: String,
    /// Runs of the envelope.
    pub runs: usize,
    /// The level of this run.
    pub level: f64,
    /// The larger of `tail_p` and `t_p`.
    pub p: Number,
    /// From the rank of the run's deviation among those of the envelope's runs; at least `1/(runs + 1)`.
    pub rank_p: Number,
    /// The same, continued below that by the tail.
    pub tail_p: Number,
    /// From the predictive t of the logarithms of the deviations.
    pub t_p: Number,
    /// How far the run is off at most: its distance from the mean in standard deviations, relative to the largest that the
    /// envelope's runs have nearby.
    pub deviation: Number,
    /// The deviation beyond which a run is outside.
    pub limit: Number,
    /// Largest deviation among the envelope's runs, each beside all others.
    pub largest_of_runs: Number,
    /// What else keeps the run from being inside: parts of the envelope that it was not compared with.
    pub doubts: Vec<String>,
    /// Runs that would decide, where the run is farther off than all runs of the envelope, but not outside.
    pub runs_needed: Option<usize>,
    /// Where the run leaves first; of an undecided one where it is first farther off than all runs of the envelope.
    pub leaves: Option<Leaves>,
    /// The metrics, the one that is farthest off first.
    pub metrics: Vec<MetricResult>,
    /// What was not compared, and why.
    pub notes: Vec<String>,
    /// Run and band of each metric, in the order of `metrics`.
    #[serde(skip)]
    pub curves: Vec<Curves>,
}

/// A value of the run at a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leaves {
    /// The metric.
    pub metric: String,
    /// The step.
    pub step: u64,
    /// The run's value.
    pub value: Number,
    /// Mean of the envelope's runs.
    pub mean: Number,
    /// Standard deviation of a new run around it.
    pub spread: Number,
    /// The difference in standard deviations.
    pub score: Number,
    /// The largest such difference of the envelope's runs nearby, at least 1.
    pub usual: Number,
    /// Whether all runs of the envelope are equal here: the standard deviation is then that of the resolution and of
    /// neighbouring steps.
    pub all_equal: bool,
}

impl Leaves {
    /// The difference relative to the largest of the envelope's runs nearby.
    pub fn deviation(&self) -> f64 {
        self.score.0.abs() / self.usual.0
    }
}

/// A metric of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricResult {
    /// Name.
    pub metric: String,
    /// Steps that were compared.
    pub steps: usize,
    /// The value with the largest deviation; none where nothing was compared.
    pub farthest: Option<Leaves>,
    /// The first step beyond the limit, or at which the run alone is not finite.
    pub leaves_at: Option<u64>,
    /// Spacing of a metric that takes few values, otherwise 0.
    pub spacing: f64,
    /// Whether all runs of the envelope are equal at all steps.
    pub constant: bool,
}

/// A metric of the run with the band of the envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// Steps that were compared.
    pub steps: Vec<u64>,
    /// Values of the run.
    pub value: Vec<f64>,
    /// Mean of the envelope's runs.
    pub mean: Vec<f64>,
    /// Standard deviation of a new run around it.
    pub spread: Vec<f64>,
    /// The largest score of the envelope's runs nearby, at least 1.
    pub usual: Vec<f64>,
}

/// Compares several runs, which have names. The level is that of all together: each of `k` runs has `level/k`.
pub fn check_all(
    envelope: &Envelope,
    runs: &[(String, LoggedRun)],
    settings: Settings,
) -> Result<Vec<CheckResult>, Error> {
    let level = settings.level;
    if !(LEAST_LEVEL..0.5).contains(&level) {
        let expected = format!("a share from {LEAST_LEVEL} to below 0.5");
        return Err(Error::setting("--level", level.to_string(), expected));
    }
    let each = Settings { level: level / runs.len() as f64 };
    runs.iter().map(|(name, run)| check(envelope, name, run, each)).collect()
}

/// Compares a run, which has a name, with the runs of an envelope.
pub fn check(
    envelope: &Envelope,
    name: &str,
    run: &LoggedRun,
    settings: Settings,
) -> Result<CheckResult, Error> {
    let mut notes = notes(envelope, run);
    let mut points: Vec<Points> = Vec::new();
    for (metric, band) in &envelope.metrics {
        let Some(own) = run.metrics.get(metric) else { continue };
        match Points::of(metric, band, own) {
            Some(found) => points.push(found),
            None => notes.push(format!("{metric}: the run has none of the envelope's steps")),
        }
    }
    if points.iter().all(|found| found.steps.is_empty() && found.not_finite.is_none()) {
        return Err(nothing_to_compare(envelope, name, run, !points.is_empty()));
    }
    let metrics: Vec<envelope::Metric> = points
        .iter()
        .map(|found| envelope::Metric {
            runs: &found.runs,
            new: &found.new,
            spacing: found.spacing,
        })
        .collect();
    let comparison = envelope::compare(&metrics);
    notes.extend(goes_on(envelope, run));
    notes.extend(is_equal_to(envelope, &points));
    for found in &mut points {
        notes.append(&mut found.notes);
    }
    Ok(judged(&comparison, points, &Doubts::of(envelope, run), notes, settings.level))
}

/// Says what the run has instead of the metrics and steps of the envelope.
fn nothing_to_compare(envelope: &Envelope, name: &str, run: &LoggedRun, in_common: bool) -> Error {
    let between = |steps: &[u64]| match steps {
        [] => "none".to_owned(),
        [first, .., last] => format!("{first} to {last}"),
        [only] => only.to_string(),
    };
    let of_both = envelope.metrics.iter().find_map(|(metric, band)| {
        run.metrics.get(metric).map(|own| (metric, between(&own.steps), between(&band.steps)))
    });
    let (found, expected) = match of_both {
        _ if in_common => (
            "no step at which all runs of the envelope are finite".to_owned(),
            "an envelope whose runs do not diverge".to_owned(),
        ),
        Some((metric, own, steps)) => {
            (format!("{metric} at the steps {own}"), format!("steps of the envelope: {steps}"))
        }
        None => {
            let own: Vec<&String> = run.metrics.keys().collect();
            let known: Vec<&String> = envelope.metrics.keys().collect();
            (
                format!("the metrics {}", listed(&own)),
                format!("some of the envelope: {}", listed(&known)),
            )
        }
    };
    Error::setting(name, found, expected)
}

/// What a reader should know of both.
fn notes(envelope: &Envelope, run: &LoggedRun) -> Vec<String> {
    let of_envelope = envelope.warnings.iter().map(|note| format!("of the envelope: {note}"));
    let mut notes: Vec<String> = run.notes.iter().cloned().chain(of_envelope).collect();
    let unknown = |metric: &&String| !envelope.metrics.contains_key(*metric);
    let unknown: Vec<&String> = run.metrics.keys().filter(unknown).collect();
    if !unknown.is_empty() {
        notes.push(format!("not compared, for the envelope has none of it: {}", listed(&unknown)));
    }
    if let Some(Reproducibility::Differs { metric, step }) = &envelope.reproducibility {
        notes.push(format!(
            "the program of the envelope is not bit-reproducible ({metric} differs from step {step}); the envelope \
             contains that noise, too"
        ));
    }
    notes
}

/// Says that a run is longer than the envelope.
fn goes_on(envelope: &Envelope, run: &LoggedRun) -> Option<String> {
    let last_steps = |(metric, band): (&String, &Band)| {
        let own = run.metrics.get(metric)?;
        Some((band.steps.last().copied()?, own.steps.last().copied()?))
    };
    let (lasts, owns): (Vec<u64>, Vec<u64>) =
        envelope.metrics.iter().filter_map(last_steps).unzip();
    let (last, own) = (lasts.into_iter().max()?, owns.into_iter().max()?);
    (own > last).then(|| {
        format!("the envelope ends at step {last}; what the run logged beyond, up to step {own}, was not compared")
    })
}

/// Names the run of the envelope that the run is, bit for bit, as far as they were compared: it shows nothing.
fn is_equal_to(envelope: &Envelope, points: &[Points]) -> Option<String> {
    let is_same = |i: &usize| points.iter().all(|found| found.runs[*i] == found.new);
    let all_equal = points.iter().all(Points::is_constant);
    let name = &envelope.runs[(0..envelope.runs.len()).find(is_same)?];
    (!all_equal)
        .then(|| format!("the run is equal to {name} of the envelope in all that was compared"))
}

fn judged(
    comparison: &Comparison,
    points: Vec<Points>,
    doubts: &Doubts,
    notes: Vec<String>,
    level: f64,
) -> CheckResult {
    let limit = comparison.limit(level);
    let largest_of_runs = comparison.largest_of_runs();
    let not_finite = points.iter().any(|found| found.not_finite.is_some());
    let in_doubt = doubts.in_words();
    let is_farther = comparison.deviation > largest_of_runs;
    let verdict = if not_finite || (comparison.p() <= level && !doubts.no_spread) {
        Verdict::Outside
    } else if is_farther || !in_doubt.is_empty() {
        Verdict::Undecided
    } else {
        Verdict::Inside
    };
    let beyond = match verdict {
        Verdict::Outside => limit,
        Verdict::Inside | Verdict::Undecided => largest_of_runs,
    };
    let mut leaves: Option<Leaves> = None;
    let mut metrics = Vec::new();
    for (found, scores) in points.into_iter().zip(&comparison.metrics) {
        let at = |place: usize| Leaves {
            metric: found.metric.clone(),
            step: found.steps[place],
            value: Number(found.new[place]),
            mean: Number(scores.mean[place]),
            spread: Number(scores.spread[place]),
            score: Number(scores.score[place]),
            usual: Number(scores.usual[place]),
            all_equal: found.runs.iter().all(|run| run[place] == found.runs[0][place]),
        };
        let size = |place: usize| scores.relative(place);
        let farthest = (0..found.steps.len()).reduce(|a, b| if size(b) > size(a) { b } else { a });
        let first_beyond =
            |bound: f64| (0..found.steps.len()).find(|place| size(*place) > bound).map(at);
        let not_a_number = found.not_finite.map(|(step, value)| Leaves {
            metric: found.metric.clone(),
            step,
            value: Number(value),
            mean: Number(f64::NAN),
            spread: Number(f64::NAN),
            score: Number(f64::NAN),
            usual: Number(f64::NAN),
            all_equal: false,
        });
        let earliest = |a: Option<Leaves>, b: Option<Leaves>| {
            a.into_iter().chain(b).min_by_key(|leaves| leaves.step)
        };
        let own = earliest(not_a_number.clone(), first_beyond(limit));
        if verdict != Verdict::Inside {
            leaves = earliest(leaves, earliest(not_a_number, first_beyond(beyond)));
        }
        let constant = found.is_constant();
        let result = MetricResult {
            metric: found.metric.clone(),
            steps: found.steps.len(),
            farthest: farthest.map(at),
            leaves_at: own.map(|leaves| leaves.step),
            spacing: found.spacing,
            constant,
        };
        let (steps, value) = (found.steps, found.new);
        let Scores { mean, spread, usual, .. } = scores.clone();
        metrics.push((result, Curves { steps, value, mean, spread, usual }));
    }
    // Stable: metrics that are equally far off stay in the order of their names.
    let off = |result: &MetricResult| result.farthest.as_ref().map_or(0.0, Leaves::deviation);
    metrics.sort_by(|(a, _), (b, _)| off(b).total_cmp(&off(a)));
    let (metrics, curves) = metrics.into_iter().unzip();
    let mut found = CheckResult {
        verdict,
        sentence: String::new(),
        support: String::new(),
        runs: comparison.of_runs.len(),
        level,
        p: Number(comparison.p()),
        rank_p: Number(comparison.rank_p()),
        tail_p: Number(comparison.tail_p()),
        t_p: Number(comparison.t_p()),
        deviation: Number(comparison.deviation),
        limit: Number(limit),
        largest_of_runs: Number(largest_of_runs),
        runs_needed: (is_farther && verdict == Verdict::Undecided && !doubts.no_spread)
            .then(|| comparison.runs_needed(level))
            .flatten(),
        doubts: in_doubt,
        leaves,
        metrics,
        notes,
        curves,
    };
    found.sentence = sentence(&found, doubts);
    found.support = support(&found);
    found
}
