//! The noise floor of a table of runs, by [`lastbit_lab::noise`].

use std::path::{Path, PathBuf};

use lastbit::statistics::Resampling;
use lastbit::statistics::sequential::Boundary;
use lastbit_lab::Error;
use lastbit_lab::envelope::{At, is_envelope, read_groups};
use lastbit_lab::noise::{
    Analysis, Compare, Group, PlanRequest, Question, Run, Side, Target, analyse_table, read_table,
};
use pyo3::prelude::*;

use crate::convert::named;
use crate::error::exception;

/// A group by name, with the seed and the value of each run.
type Runs = Vec<(String, Vec<(Option<String>, f64)>)>;

/// Runs of groups, or the files they are in.
#[derive(FromPyObject)]
pub enum Table {
    /// A CSV, or envelopes.
    Files(Vec<PathBuf>),
    /// Groups by name, with the seed and the value of each run.
    Runs(Runs),
}

/// Analyses a table of runs; returns the analysis as JSON.
#[pyfunction]
#[pyo3(signature = (table, *, metric, at, level, power, gain, lower_is_better, below, above, equivalent, plan, boundary,
                    rounding, compare, pairs, grid, resamples, seed))]
pub fn noise(
    py: Python<'_>,
    table: Table,
    metric: Option<String>,
    at: &str,
    level: f64,
    power: f64,
    gain: Option<f64>,
    lower_is_better: bool,
    below: Option<f64>,
    above: Option<f64>,
    equivalent: Option<f64>,
    plan: Option<usize>,
    boundary: &str,
    rounding: Vec<String>,
    compare: Option<[String; 2]>,
    pairs: bool,
    grid: bool,
    resamples: usize,
    seed: u64,
) -> PyResult<String> {
    let below = below.map(|value| Target { side: Side::Below, value });
    let target = below.or(above.map(|value| Target { side: Side::Above, value }));
    let boundary = named::<Boundary>("boundary", boundary)?;
    let at = At::parse(at).map_err(exception)?;
    let question = Question {
        metric: metric.clone().unwrap_or_else(|| "value".to_owned()),
        unit: String::new(),
        level,
        power,
        gain,
        lower_is_better,
        target,
        equivalent,
        plan: plan.map(|looks| PlanRequest { looks, boundary }),
        rounding,
        compare: match compare {
            Some(pair) => Compare::Pair(pair),
            None if grid || target.is_some() => Compare::Nothing,
            None => Compare::WithFirst,
        },
        pairs,
        grid,
        resampling: Resampling { resamples, seed },
    };
    let analysis =
        py.detach(|| analysed(table, question, metric.as_deref(), at)).map_err(exception)?;
    Ok(serde_json::to_string(&analysis).expect("an analysis is plain data"))
}

fn analysed(
    table: Table,
    mut question: Question,
    metric: Option<&str>,
    at: At,
) -> Result<Analysis, Error> {
    question.check()?;
    match table {
        Table::Files(paths) if !paths.iter().any(|path| is_envelope(path)) && paths.len() == 1 => {
            analyse_table(&read_table(&paths[0])?.0, &question, &paths[0])
        }
        Table::Files(paths) if paths.is_empty() => analyse_table(&[], &question, Path::new("runs")),
        Table::Files(paths) => {
            let found = read_groups(&paths, metric, at, question.lower_is_better)?;
            question.metric.clone_from(&found.metric);
            found.analyse(&mut question, &paths[0])
        }
        Table::Runs(runs) => {
            let run = |(seed, value)| Run { seed, value };
            let group = |(name, runs): (String, Vec<_>)| Group {
                name,
                runs: runs.into_iter().map(run).collect(),
                diverged: 0,
                answers: None,
            };
            let groups: Vec<Group> = runs.into_iter().map(group).collect();
            analyse_table(&groups, &question, Path::new("runs"))
        }
    }
}
