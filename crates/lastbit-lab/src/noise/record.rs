//! The analysis as a record: a cell for each training, each group and each comparison, and charts.

use std::path::Path;

use lastbit::hash_of_bits;
use serde_json::{Value, json};

use super::comparison::Comparison;
use super::spread::{Group, Spread};
use super::{Analysis, PlannedStudy, Question, TargetTest, Trainings};
use crate::error::Error;
use crate::figure::{Drawing, Figure, Strip, Strips};
use crate::plan::{Compute, Plan, Task};
use crate::progress::{Monitor, Silent};
use crate::record::{Outcome, Page, Record, Store};
use crate::runner::{Existing, Job, run};
use crate::series::Series;

/// Name of the records.
const ID: &str = "noise";

const METHOD: &str = "Sigma is the standard deviation of a group of runs, with its interval for \
     normal runs (chi-square) and by the bootstrap (BCa). Groups with seeds in common are compared \
     by sign flips of the pairs, others by splits of all runs; p is two-sided. The interval of a gain is \
     Student's of the pairs or Welch's of two groups. The smallest p of n pairs is 2/2^n: with fewer \
     than 6 pairs nothing is significant at 5 %. Minimum detectable effects, tests against a target and \
     of equivalence are those of t-tests.";

fn page(title: &str, claim: String) -> Page {
    Page {
        title: title.to_owned(),
        claim,
        method: METHOD.to_owned(),
        reference: String::new(),
        differences: vec![],
    }
}

/// Trains; the record holds what is finished, should it be killed.
pub fn trained(
    trainings: &Trainings,
    title: &str,
    settings: &Value,
    out: &Path,
    existing: Existing,
    monitor: &dyn Monitor,
) -> Result<Record, Error> {
    let job = Job {
        id: ID,
        scale: None,
        device: None,
        page: page(title, "Undecided: some runs are not finished.".to_owned()),
        plan: Plan { settings: settings.clone(), cells: training_cells(trainings) },
        not_tested: None,
        checks: &|_| vec![],
        figures: &|_| vec![],
        shows_parts: false,
    };
    Ok(run(job, out, existing, monitor)?.1)
}

fn training_cells(trainings: &Trainings) -> Vec<Task> {
    let cell = |(source, training): &(super::Source, crate::train::Training)| {
        let replicas = &training.found.settings.replicas;
        Task {
            key: source.name().to_owned(),
            settings: json!({ "source": source, "replicas": replicas }),
            steps: 1000,
            compute: Compute::Training(Box::new(training.clone())),
        }
    };
    trainings.each.iter().map(cell).collect()
}

/// Writes the record of an analysis.
pub fn keep(
    (analysis, groups, question): (&Analysis, &[Group], &Question),
    trainings: Option<&Trainings>,
    title: &str,
    settings: &Value,
    out: &Path,
) -> Result<Store, Error> {
    let mut cells = trainings.map(training_cells).unwrap_or_default();
    let (mut of_groups, mut of_comparisons) = (Vec::new(), Vec::new());
    for (i, (spread, group)) in analysis.groups.iter().zip(groups).enumerate() {
        of_groups.push(format!("spread-{}-{}", i + 1, slug(&spread.group)));
        let settings =
            json!({ "group": spread.group, "values-hash": hash_of_bits(&group.values()) });
        cells.push(task(&of_groups[i], settings, spread_outcome(spread, group)));
    }
    for (i, one) in analysis.comparisons.iter().enumerate() {
        of_comparisons.push(format!("compare-{}-{}", i + 1, slug(&one.new)));
        let settings = json!({ "base": one.base, "new": one.new });
        cells.push(task(&of_comparisons[i], settings, comparison_outcome(one)));
    }
    for (i, test) in analysis.targets.iter().enumerate() {
        let settings = json!({ "group": test.group, "side": test.side, "target": test.target });
        let key = format!("target-{}-{}", i + 1, slug(&test.group));
        cells.push(task(&key, settings, target_outcome(test)));
    }
    cells.extend(analysis.plan.as_ref().map(|plan| {
        let settings = json!({ "design": plan.design, "boundary": plan.boundary });
        task("plan", settings, plan_outcome(plan))
    }));
    let job = Job {
        id: ID,
        scale: None,
        device: None,
        page: page(title, analysis.verdict.sentences.join(" ")),
        plan: Plan { settings: settings.clone(), cells },
        not_tested: None,
        checks: &|_| vec![],
        figures: &|_| figures(analysis, groups, [&of_groups, &of_comparisons], question),
        shows_parts: false,
    };
    Ok(run(job, out, Existing::Reuse, &Silent)?.0)
}

fn task(key: &str, settings: Value, outcome: Outcome) -> Task {
    Task::simulation(key, settings, 1, move |_| Ok(outcome.clone()))
}

/// A name that is safe in the name of a file.
fn slug(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(letter).take(40).collect()
}

fn spread_outcome(spread: &Spread, group: &Group) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("n", spread.n as f64);
    outcome.number(MEAN, spread.mean);
    outcome.number("min", spread.min);
    outcome.number("max", spread.max);
    note_known(
        &mut outcome,
        &[
            (SIGMA, spread.sigma),
            (DETECTABLE, spread.detectable),
            (NEEDED, spread.runs_needed.map(|n| n as f64)),
            ("churn", spread.answers.map(|answers| answers.churn)),
            ("disagreement", spread.answers.map(|answers| answers.disagreement)),
            ("sigma_of_coin_tosses", spread.answers.map(|answers| answers.sigma_of_coin_tosses)),
        ],
    );
    for (name, ends) in [
        (SIGMA, spread.sigma_interval),
        ("sigma_bca", spread.sigma_bca),
        (MEAN, spread.mean_interval),
        ("mean_bca", spread.mean_bca),
    ] {
        note_interval(&mut outcome, name, ends);
    }
    for (name, value) in dots(RUN, &group.values()) {
        outcome.number(&name, value);
    }
    outcome.series.insert("runs".to_owned(), Series::new([("value", group.values())]));
    outcome
}

/// Names of numbers that figures show: of a group its standard deviation, the interval of its mean and its single runs;
/// of a comparison the interval of its mean gain and its single gains.
const SIGMA: &str = "sigma";
const MEAN: &str = "mean";
const RUN: &str = "run";
const GAIN: &str = "gain";
/// What as many runs detect, and how many detect the gain asked for.
const DETECTABLE: &str = "detectable";
const NEEDED: &str = "runs_needed";
/// Zero, for the row of a chart of gains that shows where it is.
const NO_GAIN: &str = "no_gain";

/// Names of both ends of the interval of a number.
fn ends_of(name: &str) -> [String; 2] {
    [format!("{name}_low"), format!("{name}_high")]
}

fn note_known(outcome: &mut Outcome, numbers: &[(&str, Option<f64>)]) {
    for (name, value) in numbers {
        if let Some(value) = value {
            outcome.number(name, *value);
        }
    }
}

fn note_interval(outcome: &mut Outcome, name: &str, ends: Option<[f64; 2]>) {
    for (end, value) in ends_of(name).iter().zip(ends.into_iter().flatten()) {
        outcome.number(end, value);
    }
}

fn comparison_outcome(one: &Comparison) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("n", one.n as f64);
    outcome.number(GAIN, one.gain);
    outcome.number("p", one.p);
    outcome.number("p_holm", one.p_holm);
    outcome.number("smallest_p", one.smallest_p);
    let runs_needed = one.runs_needed.map(|n| n as f64);
    note_known(
        &mut outcome,
        &[
            (SIGMA, one.sigma),
            (DETECTABLE, one.detectable),
            (NEEDED, runs_needed),
            ("p_t", one.p_t),
        ],
    );
    outcome.number(NO_GAIN, 0.0);
    note_interval(&mut outcome, GAIN, one.gain_interval);
    note_interval(&mut outcome, "gain_bca", one.gain_bca);
    if let Some(tested) = one.equivalence {
        outcome.number("equivalence_margin", tested.margin);
        let tests = [("equivalence_p", tested.p), ("equivalence_p_holm", tested.p_holm)];
        note_known(&mut outcome, &tests);
        note_interval(&mut outcome, "equivalence", tested.interval);
    }
    for (name, value) in dots(GAIN, &one.gains) {
        outcome.number(&name, value);
    }
    outcome
}

fn target_outcome(test: &TargetTest) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("n", test.n as f64);
    outcome.number(MEAN, test.mean);
    let runs_needed = test.runs_needed.map(|n| n as f64);
    note_known(&mut outcome, &[("bound", test.bound), ("p", test.p), ("p_holm", test.p_holm)]);
    note_known(&mut outcome, &[(DETECTABLE, test.detectable), (NEEDED, runs_needed)]);
    outcome
}

fn plan_outcome(plan: &PlannedStudy) -> Outcome {
    let mut outcome = Outcome::default();
    for (name, value) in [
        (SIGMA, plan.sigma),
        (GAIN, plan.gain),
        ("runs_of_one_look", plan.runs_of_one_look as f64),
        ("false_positives", plan.false_positives),
        ("power", plan.power),
        ("expected_runs_without_gain", plan.expected_runs_without_gain),
        ("expected_runs_with_gain", plan.expected_runs_with_gain),
    ] {
        outcome.number(name, value);
    }
    let column = |of: &dyn Fn(&super::PlannedLook) -> f64| plan.looks.iter().map(of).collect();
    let looks = Series::new([
        ("n", column(&|look| look.n as f64)),
        ("t", column(&|look| look.t)),
        ("p", column(&|look| look.p)),
        ("stopped_without_gain", column(&|look| look.stopped_without_gain)),
        ("stopped_with_gain", column(&|look| look.stopped_with_gain)),
    ]);
    outcome.series.insert("looks".to_owned(), looks);
    outcome
}

/// Strips of numbers of these cells: runs, sigmas, and gains where there are any.
fn figures(
    analysis: &Analysis,
    groups: &[Group],
    [of_groups, of_comparisons]: [&[String]; 2],
    question: &Question,
) -> Vec<Figure> {
    let interval =
        |key: &str, name: &str| Some(ends_of(name).map(|end| (key, end.as_str()).into()));
    let runs = groups.iter().zip(of_groups).enumerate().map(|(i, (group, key))| Strip {
        label: group.name.clone(),
        values: dots(RUN, &group.values()).map(|(name, _)| (&key[..], &name[..]).into()).collect(),
        interval: analysis.groups[i].mean_interval.and_then(|_| interval(key, MEAN)),
    });
    let sigmas = analysis.groups.iter().zip(of_groups).filter_map(|(spread, key)| {
        spread.sigma?;
        let values = vec![(key.as_str(), SIGMA).into()];
        let interval = spread.sigma_interval.and_then(|_| interval(key, SIGMA));
        Some(Strip { label: spread.group.clone(), values, interval })
    });
    let mut gains: Vec<Strip> = vec![];
    for (one, key) in analysis.comparisons.iter().zip(of_comparisons) {
        let of_pairs: Vec<_> =
            dots(GAIN, &one.gains).map(|(name, _)| (&key[..], &name[..]).into()).collect();
        // Without pairs, or with very many, the mean is all there is to show.
        let mean = vec![(key.as_str(), GAIN).into()];
        gains.push(Strip {
            label: format!("{} - {}", one.new, one.base),
            values: if of_pairs.is_empty() { mean } else { of_pairs },
            interval: one.gain_interval.and_then(|_| interval(key, GAIN)),
        });
    }
    if let Some(key) = of_comparisons.first() {
        let values = vec![(key.as_str(), NO_GAIN).into()];
        gains.push(Strip::new("no gain", values));
    }
    let (metric, unit) = match question.unit.as_str() {
        "points" => (format!("{}, %", question.metric), ", points"),
        _ => (question.metric.clone(), ""),
    };
    let strips = |id: &str, title: &str, caption: &str, label: &str, rows: Vec<Strip>| {
        Figure::new(id, title, caption, Drawing::Strips(Strips::new(label, rows)))
    };
    let drawn = [
        strips(
            "runs",
            "Runs of each group",
            "A dot for each run; the bar is the interval of the mean (Student's t).",
            &metric,
            runs.collect(),
        ),
        strips(
            "sigma",
            "Sigma of each group",
            "The bar is the interval of sigma for normal runs.",
            &format!("sigma{unit}"),
            sigmas.collect(),
        ),
        strips(
            "gains",
            "Gains",
            "A dot for each pair, or for the difference of the means; the bar is the interval of the mean \
             gain (Student's t of pairs, Welch's of two groups). The last row is zero.",
            &format!("gain{unit}"),
            gains,
        ),
    ];
    let is_empty = |figure: &Figure| matches!(&figure.drawing, Drawing::Strips(strips) if strips.rows.is_empty());
    drawn.into_iter().filter(|figure| !is_empty(figure)).collect()
}

/// Values that are shown one by one; more would hide each other.
const MOST_DOTS: usize = 100;

/// Names and values of what is drawn as dots: of many none.
fn dots(name: &str, values: &[f64]) -> impl Iterator<Item = (String, f64)> {
    let shown = if values.len() <= MOST_DOTS { values } else { &[] };
    shown.iter().enumerate().map(move |(i, value)| (format!("{name}-{}", i + 1), *value))
}
