//! The numbers behind a figure, read from the files of its record.

use std::collections::BTreeMap;

use super::{Panel, Trace};
use crate::error::Error;
use crate::record::{Cell, Field, Record, Store};

/// The points of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// Places on the horizontal axis.
    pub x: Vec<f64>,
    /// Values, as many.
    pub y: Vec<f64>,
}

/// Reads the points of a curve; none if its cell is not finished yet.
pub fn points(store: &Store, record: &Record, trace: &Trace) -> Result<Option<Points>, Error> {
    let Some(cell) = finished(store, record, &trace.cell)? else { return Ok(None) };
    let file = named(store, cell, &cell.series, &trace.series, "series")?;
    let series = store.read_series(file)?;
    let column = |name: &str| {
        let missing = || refuse(store, format!("{file} has no column \"{name}\""));
        series.column(name).map(<[f64]>::to_vec).ok_or_else(missing)
    };
    Ok(Some(Points { x: column(&trace.x)?, y: column(&trace.y)? }))
}

/// Reads the field of a picture; none if its cell is not finished yet.
pub fn field(store: &Store, record: &Record, panel: &Panel) -> Result<Option<Field>, Error> {
    let Some(cell) = finished(store, record, &panel.cell)? else { return Ok(None) };
    let file = named(store, cell, &cell.fields, &panel.field, "field")?;
    store.read_field(file).map(Some)
}

/// A record that is being computed may speak of cells to come; a complete one may not.
fn finished<'a>(store: &Store, record: &'a Record, key: &str) -> Result<Option<&'a Cell>, Error> {
    match record.cell(key) {
        None if record.is_complete() => {
            Err(refuse(store, format!("a figure names the cell \"{key}\", which is not there")))
        }
        cell => Ok(cell),
    }
}

fn named<'a>(
    store: &Store,
    cell: &Cell,
    files: &'a BTreeMap<String, String>,
    name: &str,
    kind: &str,
) -> Result<&'a str, Error> {
    let missing = || {
        let key = &cell.key;
        refuse(store, format!("a figure names the {kind} \"{name}\", which cell \"{key}\" lacks"))
    };
    files.get(name).map(String::as_str).ok_or_else(missing)
}

fn refuse(store: &Store, message: String) -> Error {
    Error::Record { path: store.folder().join("record.json"), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Drawing;
    use crate::report::sample;

    fn first_trace(record: &Record) -> Trace {
        let charts = record.figures.iter().filter_map(|figure| match &figure.drawing {
            Drawing::Chart(chart) => Some(chart),
            Drawing::Pictures(_) => None,
        });
        charts.flat_map(|chart| &chart.traces).next().unwrap().clone()
    }

    #[test]
    fn a_figure_that_names_what_is_not_there_is_refused_by_name() {
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::restrained(out.path());
        let good = first_trace(&record);
        assert!(points(&store, &record, &good).unwrap().is_some());
        for (bad, needle) in [
            (Trace { cell: "nowhere".into(), ..good.clone() }, "nowhere"),
            (Trace { series: "nothing".into(), ..good.clone() }, "nothing"),
            (Trace { y: "w".into(), ..good.clone() }, "no column \"w\""),
        ] {
            let message = points(&store, &record, &bad).unwrap_err().to_string();
            assert!(message.contains(needle), "{message}");
        }
    }

    #[test]
    fn a_curve_of_a_cell_to_come_is_left_out() {
        let out = tempfile::tempdir().unwrap();
        let (store, mut record) = sample::restrained(out.path());
        record.planned += 1;
        let to_come = Trace { cell: "to-come".into(), ..first_trace(&record) };
        assert_eq!(points(&store, &record, &to_come).unwrap(), None);
    }
}
