//! Checks as a record: a cell for each run, with the run and the band of each metric, and charts.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::check::{CheckResult, Curves};
use super::verdict::Verdict;
use crate::error::Error;
use crate::figure::{Axis, Chart, Figure, Level, Trace};
use crate::files::write_atomically;
use crate::plan::{Plan, Task};
use crate::progress::Silent;
use crate::record::{Outcome, Page, Store};
use crate::runner::{Existing, Job, run};
use crate::series::Series;

/// Name of the records.
const ID: &str = "check";
/// Metrics that are drawn: those that left, and the ones nearest to it.
const MOST_DRAWN: usize = 4;

const METHOD: &str = "Each run is compared with runs of the same program that differ by rounding alone. A score is the distance from \
     their mean, in standard deviations of a new run; the deviation is the largest score over all steps and metrics, relative to \
     those of the other runs nearby. It is compared with that of each run of the envelope beside all others: by its rank, \
     continued by the tail, and by the predictive t of the logarithms. The larger p counts.";

/// Writes record, figures and `check.json` into `check/HASH` below a folder, where the hash is that of the settings.
pub fn keep(
    results: &[(PathBuf, CheckResult)],
    settings: &Value,
    json: &Value,
    out: &Path,
) -> Result<Store, Error> {
    let key = |i: usize| format!("run-{}", i + 1);
    let cells = results.iter().enumerate().map(|(i, (path, result))| {
        let outcome = outcome(result);
        let settings = json!({ "run": path, "metrics": names(result) });
        Task::simulation(&key(i), settings, 1, move |_| Ok(outcome.clone()))
    });
    let cells = cells.collect();
    let many = results.len() > 1;
    let claim = |(path, result): &(PathBuf, CheckResult)| match many {
        true => format!("{}: {}", path.display(), result.sentence),
        false => result.sentence.clone(),
    };
    let page = Page {
        title: "Bug or rounding?".to_owned(),
        claim: results.iter().map(claim).collect::<Vec<_>>().join(" "),
        method: METHOD.to_owned(),
        reference: String::new(),
        differences: vec![],
    };
    let draw = || {
        let of_run = |(i, (path, result)): (usize, &(PathBuf, CheckResult))| {
            figures(&key(i), many.then_some(path.as_path()), result)
        };
        results.iter().enumerate().flat_map(of_run).collect()
    };
    let job = Job {
        id: ID,
        scale: None,
        device: None,
        page,
        plan: Plan { settings: settings.clone(), cells },
        not_tested: None,
        checks: &|_| vec![],
        figures: &|_| draw(),
        shows_parts: false,
    };
    let (store, _) = run(job, out, Existing::Discard, &Silent)?;
    let text = format!("{json:#}\n");
    write_atomically(&store.folder().join("check.json"), text.as_bytes())?;
    Ok(store)
}

fn names(result: &CheckResult) -> Vec<&str> {
    result.metrics.iter().map(|metric| metric.metric.as_str()).collect()
}

/// Series of the drawn metrics, the one that is farthest off first.
fn drawn(result: &CheckResult) -> impl Iterator<Item = (String, &str, &Curves)> {
    let all = result.metrics.iter().zip(&result.curves).enumerate().take(MOST_DRAWN);
    all.filter(|(_, (_, curves))| !curves.steps.is_empty())
        .map(|(i, (metric, curves))| (format!("metric-{}", i + 1), metric.metric.as_str(), curves))
}

fn outcome(result: &CheckResult) -> Outcome {
    let mut outcome = Outcome::default();
    for (name, value) in [
        ("deviation", result.deviation.0),
        ("limit", result.limit.0),
        ("largest_of_runs", result.largest_of_runs.0),
        ("p", result.p.0),
        ("rank_p", result.rank_p.0),
        ("tail_p", result.tail_p.0),
        ("t_p", result.t_p.0),
        ("runs", result.runs as f64),
    ] {
        outcome.number(name, value);
    }
    for (name, _, curves) in drawn(result) {
        let reach = |sign: f64| {
            let scale =
                curves.spread.iter().zip(&curves.usual).map(|(s, u)| sign * result.limit.0 * s * u);
            curves.mean.iter().zip(scale).map(|(mean, scale)| mean + scale).collect()
        };
        let deviation = |place: usize| {
            let scale = curves.spread[place] * curves.usual[place];
            ((curves.value[place] - curves.mean[place]) / scale).abs()
        };
        let series = Series::new([
            ("step", curves.steps.iter().map(|step| *step as f64).collect()),
            ("run", curves.value.clone()),
            ("mean", curves.mean.clone()),
            ("low", reach(-1.0)),
            ("high", reach(1.0)),
            ("deviation", (0..curves.steps.len()).map(deviation).collect()),
        ]);
        outcome.series.insert(name, series);
    }
    outcome
}

/// The deviations of a run, and its metrics with their bands.
fn figures(key: &str, path: Option<&Path>, result: &CheckResult) -> Vec<Figure> {
    let of = path.map_or_else(String::new, |path| format!(" ({})", path.display()));
    let deviations = drawn(result)
        .map(|(series, metric, _)| Trace::new(metric, key, &series, "step", "deviation"));
    let level = |label: &str, y: f64| y.is_finite().then(|| Level { label: label.to_owned(), y });
    let levels = [
        level("limit", result.limit.0),
        level("largest of the envelope's runs", result.largest_of_runs.0),
    ];
    let chart = Chart {
        levels: levels.into_iter().flatten().collect(),
        ..Chart::new(Axis::linear("step"), Axis::log("deviation"), deviations.collect())
    };
    let verdict = match result.verdict {
        Verdict::Inside => "Inside the envelope",
        Verdict::Outside => "Outside the envelope",
        Verdict::Undecided => "Undecided",
    };
    let caption = "How far the run is from the mean of the envelope's runs, relative to the farthest of these runs nearby. \
                   Above the limit it is outside.";
    let mut all =
        vec![Figure::chart(&format!("{key}-deviation"), &format!("{verdict}{of}"), caption, chart)];
    for (series, metric, curves) in drawn(result) {
        let trace = |label: &str, column: &str, colour: usize| Trace {
            colour: Some(colour),
            ..Trace::new(label, key, &series, "step", column)
        };
        let traces = vec![
            trace("this run", "run", 1),
            trace("mean of the envelope", "mean", 0),
            trace("lower limit", "low", 2),
            trace("upper limit", "high", 2),
        ];
        let chart = Chart::new(Axis::linear("step"), axis(metric, curves), traces);
        let caption = "The run between the limits of the envelope, the mean of its runs plus and minus the deviation that the limit \
                       allows.";
        all.push(Figure::chart(
            &format!("{key}-{series}"),
            &format!("{metric}{of}"),
            caption,
            chart,
        ));
    }
    all
}

/// Logarithmic for what is positive and changes much, such as a loss; lower limits below zero are then not drawn.
fn axis(metric: &str, curves: &Curves) -> Axis {
    const MUCH: f64 = 10.0;
    let drawn = || curves.value.iter().chain(&curves.mean).copied();
    let (least, most) = (drawn().fold(f64::INFINITY, f64::min), drawn().fold(0.0, f64::max));
    if least > 0.0 && most > MUCH * least { Axis::log(metric) } else { Axis::linear(metric) }
}
