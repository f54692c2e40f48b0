//! The analysis as a record: a cell for each training, each group and each comparison, and charts.

use std::path::Path;

use lastbit::hash_of_bits;
use serde_json::{Value, json};

use super::comparison::Comparison;
use super::spread::{Group, Spread};
use super::{Analysis, Question, Trainings};
use crate::error::Error;
use crate::experiments::{Compute, Plan, Task};
use crate::figure::strips::Strip;
use crate::figure::{Drawing, Figure, Strips};
use crate::record::{Outcome, Page, Record, Series, Store, variant_of};
use crate::runner::{Existing, Job, run};

/// Name of the records.
const ID: &str = "noise";

const METHOD: &str = "Sigma is the standard deviation of a group of runs, with its interval for \
     normal runs (chi-square) and by the bootstrap (BCa). Groups with seeds in common are compared \
     by sign flips of the pairs, others by splits of all runs; p is two-sided. The smallest p of n \
     pairs is 2/2^n: fewer than 6 pairs show nothing at 5 %. Detectable gains are those of a t-test.";

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
) -> Result<Record, Error> {
    let job = Job {
        id: ID,
        variant: &variant_of(settings),
        page: page(title, "Not shown yet: not all runs are there.".to_owned()),
        plan: Plan { settings: settings.clone(), cells: training_cells(trainings) },
        checks: &|_| vec![],
        figures: &|_| vec![],
    };
    Ok(run(job, out, existing)?.1)
}

fn training_cells(trainings: &Trainings) -> Vec<Task> {
    let cell = |(source, training): &(super::Source, crate::train::Training)| {
        let replicas = training.found.to_json()["replicas"].clone();
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
    let names = |i: usize, name: &str| format!("spread-{}-{}", i + 1, slug(name));
    for (i, (spread, group)) in analysis.groups.iter().zip(groups).enumerate() {
        let settings =
            json!({ "group": spread.group, "values-hash": hash_of_bits(&group.values()) });
        cells.push(task(names(i, &spread.group), settings, spread_outcome(spread, group)));
    }
    for (i, one) in analysis.comparisons.iter().enumerate() {
        let key = format!("compare-{}-{}", i + 1, slug(&one.new));
        cells.push(task(key, json!({ "base": one.base, "new": one.new }), comparison_outcome(one)));
    }
    let keys: Vec<String> =
        analysis.groups.iter().enumerate().map(|(i, spread)| names(i, &spread.group)).collect();
    let job = Job {
        id: ID,
        variant: &variant_of(settings),
        page: page(title, analysis.verdict.sentences.join(" ")),
        plan: Plan { settings: settings.clone(), cells },
        checks: &|_| vec![],
        figures: &|_| vec![runs_figure(analysis, groups, &keys, question)],
    };
    Ok(run(job, out, Existing::Reuse)?.0)
}

fn task(key: String, settings: Value, outcome: Outcome) -> Task {
    Task { key, settings, steps: 1, compute: Compute::simulation(move |_| outcome.clone()) }
}

/// A name that is safe in the name of a file.
fn slug(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(letter).take(40).collect()
}

fn spread_outcome(spread: &Spread, group: &Group) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("n", spread.n as f64);
    outcome.number("mean", spread.mean);
    outcome.number("min", spread.min);
    outcome.number("max", spread.max);
    for (name, value) in [
        ("sigma", spread.sigma),
        ("detectable", spread.detectable),
        ("runs_needed", spread.runs_needed.map(|n| n as f64)),
        ("churn", spread.answers.map(|answers| answers.churn)),
        ("disagreement", spread.answers.map(|answers| answers.disagreement)),
        ("sigma_of_coin_tosses", spread.answers.map(|answers| answers.sigma_of_coin_tosses)),
    ] {
        if let Some(value) = value {
            outcome.number(name, value);
        }
    }
    for (name, ends) in [
        ("sigma", spread.sigma_interval),
        ("sigma_bca", spread.sigma_bca),
        ("mean_bca", spread.mean_bca),
    ] {
        note_interval(&mut outcome, name, ends);
    }
    for (name, value) in dots(group) {
        outcome.number(&name, value);
    }
    outcome.series.insert("runs".to_owned(), Series::new([("value", group.values())]));
    outcome
}

fn note_interval(outcome: &mut Outcome, name: &str, ends: Option<[f64; 2]>) {
    if let Some([low, high]) = ends {
        outcome.number(&format!("{name}_low"), low);
        outcome.number(&format!("{name}_high"), high);
    }
}

fn comparison_outcome(one: &Comparison) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("n", one.n as f64);
    outcome.number("gain", one.gain);
    outcome.number("p", one.p);
    outcome.number("p_holm", one.p_holm);
    outcome.number("smallest_p", one.smallest_p);
    for (name, value) in [
        ("sigma", one.sigma),
        ("detectable", one.detectable),
        ("runs_needed", one.runs_needed.map(|n| n as f64)),
    ] {
        if let Some(value) = value {
            outcome.number(name, value);
        }
    }
    note_interval(&mut outcome, "gain_bca", one.gain_bca);
    outcome
}

/// The runs of each group as dots, with the interval of their mean.
fn runs_figure(
    analysis: &Analysis,
    groups: &[Group],
    keys: &[String],
    question: &Question,
) -> Figure {
    let row = |((spread, group), key): ((&Spread, &Group), &String)| Strip {
        label: spread.group.clone(),
        values: dots(group).map(|(name, _)| (key.as_str(), name.as_str()).into()).collect(),
        interval: spread.mean_bca.map(|_| MEAN_ENDS.map(|name| (key.as_str(), name).into())),
    };
    let unit = if question.unit == "points" { ", %" } else { "" };
    let rows = analysis.groups.iter().zip(groups).zip(keys).map(row).collect();
    let label = format!("{}{unit}", question.metric);
    let strips = Strips { label, factor: 1.0, centred: false, rows };
    let caption = "A dot for each run; the bar is the BCa interval of the mean.";
    Figure::new("runs", "Runs of each group", caption, Drawing::Strips(strips))
}

/// Runs that are shown one by one; more would hide each other.
const MOST_DOTS: usize = 100;
/// Numbers of the ends of a mean's interval.
const MEAN_ENDS: [&str; 2] = ["mean_bca_low", "mean_bca_high"];

/// Names and values of the runs that are drawn: of many none.
fn dots(group: &Group) -> impl Iterator<Item = (String, f64)> {
    let shown = if group.runs.len() <= MOST_DOTS { &group.runs[..] } else { &[] };
    shown.iter().enumerate().map(|(i, run)| (format!("run-{}", i + 1), run.value))
}
