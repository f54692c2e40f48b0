//! The comparison as a table over steps, and as a record with the figure of the distance.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{GrowthOfDistance, RunDiff, StepRow};
use crate::error::Error;
use crate::figure::{Axis, Chart, Figure, Level, Segment, Trace};
use crate::lock::Lock;
use crate::number::{Number, shortest};
use crate::plot::write_figures;
use crate::progress::Silent;
use crate::record::{Outcome, Page, Record, Store};
use crate::series::Series;
use crate::simulate::SATURATED;

/// Name of the record, and of its cell.
const ID: &str = "diff";
const CELL: &str = "runs";
const PARTS: [&str; 2] = ["series", "figures"];
const DISTANCE: &str = "distance";
const COUNT: &str = "tensors";
/// Numbers of the fitted line.
const FIT: [&str; 4] = ["fit_from_step", "fit_from", "fit_to_step", "fit_to"];

/// A line for each step that is listed.
pub fn csv(found: &RunDiff) -> Vec<u8> {
    let mut text = "step,status,by,tensors,tensors_different,rel_l1,distance,max_ulps,edge_ratio_a,edge_ratio_b\n".to_owned();
    for row in &found.steps {
        let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let count = |count: Option<usize>| count.map(|n| n.to_string()).unwrap_or_default();
        let number = |value: Option<Number>| value.map(|n| shortest(n.0)).unwrap_or_default();
        let ulps = row.distance.and_then(|at| at.max_ulps).map(|n| n.to_string());
        let fields = [
            row.step.to_string(),
            word(json!(row.status)),
            word(json!(row.by)),
            count(row.tensors),
            count(row.tensors_different),
            number(row.distance.map(|at| at.rel_l1)),
            number(row.distance.map(|at| at.relative)),
            ulps.unwrap_or_default(),
            number(row.edge_ratio[0]),
            number(row.edge_ratio[1]),
        ];
        text += &(fields.join(",") + "\n");
    }
    text.into_bytes()
}

/// Writes `record.json`, the series and the figures into a folder, which `lastbit report` shows. Says whether there is a figure.
pub fn keep(found: &RunDiff, out: &Path) -> Result<bool, Error> {
    let lock = Lock::try_now(out, &Silent)?;
    let store = Store::at(lock.folder(), &PARTS)?;
    let settings = json!({ "a": found.a, "b": found.b });
    let cell = store.save_outcome(CELL, &settings, outcome(found))?;
    let page = Page {
        title: format!("{} and {}", found.a.folder.display(), found.b.folder.display()),
        claim: found.verdict.clone(),
        method: "Steps that both runs have are compared by hashes, by the bytes of their files, or tensor by tensor. The \
                 distance is that of all parameters: the norm of the difference over the norm of the first run."
            .to_owned(),
        reference: String::new(),
        differences: vec![],
    };
    let mut record = Record {
        cells: [cell].into_iter().collect(),
        figures: figure(found).into_iter().collect(),
        ..Record::new(ID, None, None, page, settings, 1)
    };
    record.files = write_figures(&store, &record)?;
    lock.check()?;
    store.save(&record)?;
    Ok(!record.figures.is_empty())
}

fn outcome(found: &RunDiff) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("common_steps", found.common_steps as f64);
    outcome.number("different_steps", found.different_steps as f64);
    if let Some(step) = found.first_different_step {
        outcome.number("first_different_step", step as f64);
    }
    if let GrowthOfDistance::Fitted { per_step, standard_error, from, to, .. } = &found.growth {
        outcome.number("growth_per_step", per_step.0);
        outcome.number("growth_standard_error", standard_error.0);
        for (name, value) in FIT.iter().zip([from[0], from[1], to[0], to[1]]) {
            outcome.number(name, value.0);
        }
    }
    let mut series = BTreeMap::new();
    let known = |of: &dyn Fn(&StepRow) -> Option<f64>| -> (Vec<f64>, Vec<f64>) {
        found.steps.iter().filter_map(|row| Some((row.step as f64, of(row)?))).unzip()
    };
    let (steps, distances) = known(&|row| row.distance.map(|at| at.relative.0));
    if !steps.is_empty() {
        let (_, rel_l1) = known(&|row| row.distance.map(|at| at.rel_l1.0));
        let columns = [("step", steps), ("distance", distances), ("rel_l1", rel_l1)];
        series.insert(DISTANCE.to_owned(), Series::new(columns));
    }
    let (steps, counts) = known(&|row| row.tensors_different.map(|count| count as f64));
    if !steps.is_empty() {
        series.insert(
            COUNT.to_owned(),
            Series::new([("step", steps), ("tensors_different", counts)]),
        );
    }
    outcome.series = series;
    outcome
}

/// The distance where it is known, else how many tensors differ; none where nothing does.
fn figure(found: &RunDiff) -> Option<Figure> {
    let unit = found.unit.name();
    let positive = |row: &StepRow| row.distance.is_some_and(|at| at.relative.0 > 0.0);
    if found.steps.iter().any(positive) {
        let curve =
            |label: &str, column: &str| Trace::new(label, CELL, DISTANCE, "step", column).marked();
        let traces = vec![curve("relative distance", "distance"), curve("RelL1", "rel_l1")];
        let levels = vec![Level { label: "end of the fit".to_owned(), y: SATURATED }];
        let mut chart =
            Chart { levels, ..Chart::new(Axis::linear(unit), Axis::log("distance"), traces) };
        if let GrowthOfDistance::Fitted { per_step, standard_error, .. } = &found.growth {
            let [x0, y0, x1, y1] = FIT.map(|name| (CELL, name).into());
            chart.lines.push(Segment {
                label: format!("{per_step} ± {standard_error} per {unit}"),
                trace: "relative distance".to_owned(),
                from: [x0, y0],
                to: [x1, y1],
            });
        }
        let caption = "Of all parameters: the norm of the difference over the norm of the first run, and RelL1. Dashed: the \
                       exponential that was fitted while the distance was small.";
        return Some(Figure::chart(DISTANCE, "Distance of the two runs", caption, chart));
    }
    let count = |row: &StepRow| row.tensors_different.is_some_and(|count| count > 0);
    found.steps.iter().any(count).then(|| {
        let traces = vec![Trace::new("tensors", CELL, COUNT, "step", "tensors_different").marked()];
        let chart = Chart::new(Axis::linear(unit), Axis::linear("tensors that differ"), traces);
        let caption =
            "Only hashes of the tensors were saved, so that how far they are apart is not known.";
        Figure::chart(COUNT, "Tensors that differ", caption, chart)
    })
}
