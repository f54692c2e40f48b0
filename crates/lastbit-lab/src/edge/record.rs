//! The search as a record: each probe a cell that is written when it is finished, then one for the
//! edge of each draw, and one for the median edge where searches were repeated.

use std::path::Path;

use lastbit::named::Named;
use lastbit::verdict::VerdictKind;
use serde_json::{Value, json};

use super::cell::{PROBES, outcome};
use super::repeats::{STABILITY, medians};
use super::{Draw, EdgeNumber, End, Over, ProbeResult, Probes, Search, SearchResult};
use crate::error::Error;
use crate::figure::{Axis, Chart, Drawing, Figure, Level, Quantity, Strip, Strips, Trace};
use crate::number::{digits, significant};
use crate::plan::{Plan, Task};
use crate::progress::Monitor;
use crate::record::{Outcome, Page, Record, Store};
use crate::runner::{Existing, Job, Runner};

/// Name of the records.
const ID: &str = "edge";

const METHOD: &str = "Each probe is a run from the initial weights with a verdict: a perturbed copy that \
     moves away, or a loss that does not fall, is an instability. Brackets by doubling and halving, then \
     by bisection; probes that leave open on which side of the edge they lie are ignored. The CFL edge \
     follows from the sharpness, weight decay included, where the last stable probe ended: the limit at \
     that minimum, if the run converged, which the norm of the gradient tells. Where searches were repeated over \
     orders of the mini-batches, order statistics of their edges give an interval for the median edge.";

/// A search that is kept in a record.
pub struct EdgeRecord<'a> {
    /// What is said above it.
    pub title: String,
    /// Settings, complete.
    pub settings: Value,
    /// The search.
    pub search: Search,
    /// Probes of each draw; draws that differ in the order of the batches alone are repeats.
    pub draws: Vec<Probes>,
    /// Folder of all records.
    pub out: &'a Path,
    /// Whether finished probes are computed again.
    pub fresh: bool,
    /// Who follows the search.
    pub monitor: &'a dyn Monitor,
}

impl EdgeRecord<'_> {
    /// Searches for each draw, and writes the record; `sentence` tells what was found.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if its monitor asked to stop; finished probes are saved.
    pub fn run(
        &self,
        sentence: impl Fn(&[(Draw, SearchResult)]) -> String,
    ) -> Result<(Store, Vec<(Draw, SearchResult)>), Error> {
        let existing = if self.fresh { Existing::Discard } else { Existing::Reuse };
        let mut job = self.job();
        let mut runner = Runner::open(&job, self.out, existing, self.monitor)?;
        let mut all = Vec::new();
        for probes in &self.draws {
            let found = self.search.run(probes.own_value(), probes.threshold(), |at| {
                job.plan.cells.push(task(probes, at));
                let place = job.plan.cells.len() - 1;
                runner.compute(&job, place..place + 1, existing)?;
                // A cell that is not there was stopped.
                let cell = runner.cell(&job.plan.cells[place].key);
                let result = cell.map(|cell| ProbeResult::read(cell, at).expect("a probe's cell"));
                let stopped = || self.monitor.stop_requested().expect("finished unless stopped");
                result.ok_or_else(|| Error::from(stopped()))
            });
            match found {
                Ok(found) => all.push((probes.draw, found)),
                Err(error) => {
                    // What was found so far can be read, whatever ended the search.
                    runner.finish(&job)?;
                    return Err(error);
                }
            }
        }
        let begin = job.plan.cells.len();
        let known = |key: &str, settings: Value, outcome: Outcome| {
            Task::simulation(key, settings, 0, move |_| Ok(outcome.clone()))
        };
        for (draw, found) in &all {
            job.plan.cells.push(known(&edge_key(*draw), draw_settings(*draw), outcome(found)));
        }
        for median in medians(&self.search, &all) {
            let settings = json!({ "seed": median.seed });
            job.plan.cells.push(known(&median.key(), settings, median.outcome()));
        }
        runner.compute(&job, begin..job.plan.cells.len(), Existing::Reuse)?;
        job.page.claim = sentence(&all);
        let figures = |record: &Record| figures(record, &self.search, &all);
        let (store, _) = runner.finish(&Job { figures: &figures, ..job })?;
        Ok((store, all))
    }

    /// The record before the first probe.
    fn job(&self) -> Job<'static> {
        Job {
            id: ID,
            scale: None,
            device: None,
            page: Page {
                title: self.title.clone(),
                claim: "Not found yet.".to_owned(),
                method: METHOD.to_owned(),
                reference: String::new(),
                differences: vec![],
            },
            plan: Plan { settings: self.settings.clone(), cells: vec![] },
            not_tested: None,
            checks: &|_| vec![],
            figures: &|_| vec![],
            shows_parts: false,
        }
    }
}

fn task(probes: &Probes, at: f64) -> Task {
    let (own, steps) = (probes.clone(), probes.horizon.steps);
    let key = key(probes.draw, probes.over, at);
    Task::simulation(&key, settings(probes, at), steps, move |progress| {
        Ok(own.run(at, progress)?.1)
    })
}

/// Key of the cell of a probe.
fn key(draw: Draw, over: Over, at: f64) -> String {
    format!("{}-{over}-{at}", draw.key())
}

/// Key of the cell of the edges of a draw.
fn edge_key(draw: Draw) -> String {
    format!("edge-{}", draw.key())
}

fn draw_settings(draw: Draw) -> Value {
    match draw.batch {
        None => json!({ "seed": draw.seed }),
        Some(batch) => json!({ "seed": draw.seed, "batch-seed": batch }),
    }
}

fn settings(probes: &Probes, at: f64) -> Value {
    let mut settings = draw_settings(probes.draw);
    settings[probes.over.name()] = json!(at);
    settings
}

fn figures(record: &Record, search: &Search, found: &[(Draw, SearchResult)]) -> Vec<Figure> {
    let Some((draw, first)) = found.first() else { return vec![] };
    let over = search.over;
    let name = over.name();
    let mut figures = vec![bands(search, found), growth(name, found)];
    figures.extend(stability(search, found));
    let curves = |series: &str, column: &str| -> Vec<Trace> {
        let mut probes: Vec<&ProbeResult> = first.probes.iter().collect();
        probes.sort_by(|a, b| a.at.total_cmp(&b.at));
        let trace = |probe: &&ProbeResult| {
            let key = key(*draw, over, probe.at);
            let has = record.cell(&key).is_some_and(|cell| cell.series.contains_key(series));
            let at = digits(significant(probe.at, 12));
            let label = format!("{name} = {at}, {}", probe.verdict.kind);
            has.then(|| Trace::new(&label, &key, series, "step", column))
        };
        probes.iter().filter_map(trace).collect()
    };
    let of_first = if found.len() > 1 { " of the first search" } else { "" };
    let chart = |traces, axis| Chart::new(Axis::linear("step"), axis, traces);
    figures.push(Figure::chart(
        "loss",
        &format!("Loss of the probes{of_first}"),
        "Of the batch before each step, without weight decay.",
        chart(curves("curves", "loss"), Axis::log("loss")),
    ));
    let twins = curves("twin", "distance");
    if !twins.is_empty() {
        figures.push(Figure::chart(
            "twins",
            &format!("Probes{of_first}, and runs kept one last bit away"),
            "Distance of the states over their size.",
            chart(twins, Axis::log("distance")),
        ));
    }
    figures
}

/// Where each verdict was found, the bracket and the prediction, along the parameter.
fn bands(search: &Search, found: &[(Draw, SearchResult)]) -> Figure {
    let over = search.over;
    let mut rows = Vec::new();
    for kind in VerdictKind::ALL {
        let of_draw = |(draw, found): &(Draw, SearchResult)| {
            let own = found.probes.iter().filter(|probe| probe.verdict.kind == *kind);
            own.map(|probe| (*draw, probe.at)).collect::<Vec<_>>()
        };
        let mut probes: Vec<(Draw, f64)> = found.iter().flat_map(of_draw).collect();
        probes.sort_by(|a, b| a.1.total_cmp(&b.1));
        let quantity = |(draw, at): &(Draw, f64)| {
            Quantity::from((key(*draw, over, *at).as_str(), over.name()))
        };
        if let (Some(lowest), Some(highest)) = (probes.first(), probes.last()) {
            rows.push(Strip {
                label: kind.name().to_owned(),
                values: probes.iter().map(quantity).collect(),
                interval: Some([quantity(lowest), quantity(highest)]),
            });
        }
    }
    for end in [End::Largest, End::Smallest] {
        let with_end = found.iter().filter(|(_, found)| found.edges.iter().any(|(e, _)| *e == end));
        let cells: Vec<String> = with_end.map(|(draw, _)| edge_key(*draw)).collect();
        let number = |cell: &String, what: EdgeNumber| {
            Quantity::from((cell.as_str(), what.of(end).as_str()))
        };
        let row = |label: String, what: EdgeNumber, interval| Strip {
            label,
            values: cells.iter().map(|cell| number(cell, what)).collect(),
            interval,
        };
        let bracket = match &cells[..] {
            [] => continue,
            [only] => Some([number(only, EdgeNumber::Holds), number(only, EdgeNumber::Fails)]),
            _ => None,
        };
        rows.push(row(format!("{end} edge"), EdgeNumber::Edge, bracket));
        if end == End::Largest {
            rows.push(row("by the sharpness".to_owned(), EdgeNumber::Predicted, None));
        }
    }
    for median in medians(search, found) {
        if median.high.0.is_finite() {
            let key = median.key();
            let end =
                |what: EdgeNumber| Quantity::from((key.as_str(), what.of(End::Largest).as_str()));
            rows.push(Strip {
                label: "median edge".to_owned(),
                values: vec![],
                interval: Some([end(EdgeNumber::MedianLow), end(EdgeNumber::MedianHigh)]),
            });
        }
    }
    let strips = Strips::new(over.name(), rows);
    Figure::new(
        "verdicts",
        &format!("Verdicts over {over}"),
        "A dot for each probe; the bar of a verdict spans its probes, that of an edge its bracket, that of \
         the median edge over orders of the batches its confidence interval. By the sharpness: where the stable \
         probe nearest to the edge ended.",
        Drawing::Strips(strips),
    )
}

fn growth(name: &str, found: &[(Draw, SearchResult)]) -> Figure {
    let trace = |(draw, _): &(Draw, SearchResult)| {
        let cell = edge_key(*draw);
        Trace::new(&draw.to_string(), &cell, PROBES, "at", "growth_per_step").marked()
    };
    let mut chart = Chart::new(
        Axis::log(name),
        Axis::linear("growth of a twin, per step"),
        found.iter().map(trace).collect(),
    );
    chart.levels.push(Level { label: "neither grows nor shrinks".to_owned(), y: 0.0 });
    Figure::chart(
        "growth",
        &format!("Growth of a small difference over {name}"),
        "Over the second half of each probe. A cycle that forgets the last bit is unstable by its energy \
         although twins approach each other.",
        chart,
    )
}

/// In how many orders of the batches the property holds, over the learning rate; nothing without repeats.
fn stability(search: &Search, found: &[(Draw, SearchResult)]) -> Option<Figure> {
    let (name, property) = (search.over.name(), search.property.name());
    let medians = medians(search, found);
    let mut traces = Vec::new();
    for median in &medians {
        let of = if medians.len() > 1 { format!(", seed {}", median.seed) } else { String::new() };
        for (column, label) in
            [("holds", property.to_owned()), ("fails", format!("not {property}"))]
        {
            let label = label + &of;
            traces.push(Trace::new(&label, &median.key(), STABILITY, "at", column).marked());
        }
    }
    let chart = Chart::new(Axis::log(name), Axis::linear("orders of the batches"), traces);
    (!medians.is_empty()).then(|| {
        Figure::chart(
            "stability",
            &format!("How many orders of the batches are {property} over {name}"),
            "By the edge of each order. The rest is undecided: the value lies inside the bracket of that order.",
            chart,
        )
    })
}
