//! Charts and pictures of the record of a run.

use super::run::CELL;
use crate::figure::{Axis, Chart, Figure, Panel, Pictures, Trace};
use crate::record::{Outcome, Record};

/// A chart of columns of one series over the steps.
pub fn over_steps(id: &str, title: &str, series: &str, columns: &[&str], y: Axis) -> Figure {
    let trace = |column: &&str| Trace::new(column, CELL, series, "step", column);
    let traces = columns.iter().map(trace).collect();
    Figure::chart(id, title, "", Chart::new(Axis::linear("step"), y, traces))
}

/// The chart of the last-bit twin.
pub fn twin_figure() -> Figure {
    let title = "Two runs kept one last bit apart";
    over_steps("twin", title, "twin", &["rel_l1", "distance"], Axis::log("distance"))
}

/// The steps among `wanted` that the run reached, and that of its divergence if those are few.
pub fn snapshots_reached(record: &Record, wanted: impl Iterator<Item = usize>) -> Vec<usize> {
    let Some(verdict) = record.cell(CELL).and_then(|cell| cell.verdict.as_ref()) else {
        return vec![];
    };
    let mut reached: Vec<usize> = wanted.filter(|step| *step <= verdict.steps).collect();
    reached.dedup();
    if reached.len() < 2 {
        reached.extend(verdict.diverged_at.filter(|step| !reached.contains(step)));
    }
    reached
}

/// The state at some steps: curves over `x`, or pictures where the cell has fields.
pub fn state_figure(record: &Record, columns: &[&str], steps: &[String]) -> Figure {
    if record.cell(CELL).is_some_and(|cell| cell.fields.is_empty()) {
        let names = columns.iter().copied().chain(steps.iter().map(String::as_str));
        let traces = names.map(|name| Trace::new(name, CELL, "profiles", "x", name)).collect();
        let (x, y) = (Axis::linear("x"), Axis::linear("u"));
        return Figure::chart("state", "State", "", Chart::new(x, y, traces));
    }
    let panel =
        |name: &String| Panel { label: name.clone(), cell: CELL.to_owned(), field: name.clone() };
    let panels = steps.iter().map(panel).collect();
    let [low, high] =
        [Outcome::FIELD_LOW, Outcome::FIELD_HIGH].map(|name| record.number(CELL, name));
    // A field of one value, or without any that is finite, has no range of its own.
    let range = if low < high { [low, high] } else { [0.0, 1.0] };
    Figure::pictures("state", "State", "", Pictures { range, panels })
}
