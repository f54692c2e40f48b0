//! The numbers behind a figure, read from the files of its record.

use std::collections::BTreeMap;

use super::png;
use crate::error::Error;
use crate::figure::{Axis, Chart, Panel, Quantity, Segment, Trace};
use crate::record::{Cell, RECORD, Record, Store};
use crate::sealed::damaged;
use crate::series::Field;

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
    let series = store.read_series(cell, file)?;
    let column = |name: &str| {
        let missing = || refuse(store, format!("{file} has no column \"{name}\""));
        series.column(name).map(<[f64]>::to_vec).ok_or_else(missing)
    };
    Ok(Some(Points { x: column(&trace.x)?, y: column(&trace.y)? }))
}

/// Reads the field of a picture; none if its cell is not finished yet.
fn field(store: &Store, record: &Record, panel: &Panel) -> Result<Option<Field>, Error> {
    let Some(cell) = finished(store, record, &panel.cell)? else { return Ok(None) };
    let file = named(store, cell, &cell.fields, &panel.field, "field")?;
    store.read_field(cell, file).map(Some)
}

/// Reads the field of a picture as a PNG, too.
pub fn picture(
    store: &Store,
    record: &Record,
    panel: &Panel,
    range: [f64; 2],
) -> Result<Option<(Field, Vec<u8>)>, Error> {
    let Some(field) = field(store, record, panel)? else { return Ok(None) };
    let file = png::of_field(&field, range).map_err(|error| {
        let path = store.folder().join("fields");
        Error::Figure { path, message: error.to_string() }
    })?;
    Ok(Some((field, file)))
}

/// Reads a number; none if its cell is not finished yet.
pub fn quantity(store: &Store, record: &Record, quantity: &Quantity) -> Result<Option<f64>, Error> {
    match quantity {
        Quantity::Stated(number) => Ok(Some(number.0)),
        Quantity::Measured { cell, number } => {
            let Some(cell) = finished(store, record, cell)? else { return Ok(None) };
            named(store, cell, &cell.numbers, number, "number").map(|number| Some(number.0))
        }
    }
}

/// A line with the place of its curve in the chart; none if a cell is not finished yet or the axes
/// cannot show an end.
///
/// It has points between its ends, because a reader may change the scaling of the axes.
pub fn line(
    store: &Store,
    record: &Record,
    chart: &Chart,
    segment: &Segment,
) -> Result<Option<(usize, Points)>, Error> {
    let Segment { trace, from, to, .. } = segment;
    let curve = chart.traces.iter().position(|own| own.label == *trace);
    let missing =
        || refuse(store, format!("a line names the curve \"{trace}\", which is not there"));
    let curve = curve.ok_or_else(missing)?;
    let mut ends = Vec::new();
    for end in from.iter().chain(to) {
        ends.extend(quantity(store, record, end)?);
    }
    let [x0, y0, x1, y1] = ends[..] else { return Ok(None) };
    // Even along x itself: an exponential in x stays one, bent, where the horizontal axis is
    // logarithmic.
    let points = between([x0, x1], &Axis::linear("")).zip(between([y0, y1], &chart.y));
    Ok(points.map(|(x, y)| (curve, Points { x, y })))
}

/// Points of a line on one axis.
fn between([from, to]: [f64; 2], axis: &Axis) -> Option<Vec<f64>> {
    const PIECES: u32 = 48;
    let shown = |end: f64| end.is_finite() && (!axis.log || end > 0.0);
    let at = |k: u32| match f64::from(k) / f64::from(PIECES) {
        // The ends are what they are, without a rounding.
        0.0 => from,
        1.0 => to,
        share if axis.log => libm::exp(libm::log(from) + (libm::log(to) - libm::log(from)) * share),
        share => from + (to - from) * share,
    };
    (shown(from) && shown(to)).then(|| (0..=PIECES).map(at).collect())
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

fn named<'a, T>(
    store: &Store,
    cell: &Cell,
    things: &'a BTreeMap<String, T>,
    name: &str,
    kind: &str,
) -> Result<&'a T, Error> {
    let missing = || {
        let key = &cell.key;
        refuse(store, format!("a figure names the {kind} \"{name}\", which cell \"{key}\" lacks"))
    };
    things.get(name).ok_or_else(missing)
}

/// A figure that does not fit its record.
pub fn refuse(store: &Store, message: String) -> Error {
    damaged(&store.folder().join(RECORD), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Drawing;
    use crate::sample;

    fn first_trace(record: &Record) -> Trace {
        let charts = record.figures.iter().filter_map(|figure| match &figure.drawing {
            Drawing::Chart(chart) => Some(chart),
            _ => None,
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
    fn a_number_that_is_not_there_is_refused_by_name() {
        let out = tempfile::tempdir().unwrap();
        let (store, mut record) = sample::restrained(out.path());
        let read = |record: &Record, given: Quantity| quantity(&store, record, &given);
        assert_eq!(read(&record, 2.5.into()).unwrap(), Some(2.5));
        let found = read(&record, ("dt-0.4", "courant").into()).unwrap();
        assert_eq!(found, Some(record.number("dt-0.4", "courant")));
        for (bad, needle) in [(("nowhere", "courant"), "nowhere"), (("dt-0.4", "w"), "\"w\"")] {
            let message = read(&record, bad.into()).unwrap_err().to_string();
            assert!(message.contains(needle), "{message}");
        }
        record.planned += 1;
        assert_eq!(read(&record, ("nowhere", "courant").into()).unwrap(), None);
    }

    #[test]
    fn a_line_is_straight_in_the_scaling_of_the_axes() {
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::restrained(out.path());
        let trace = first_trace(&record);
        let ends = |y0: f64, y1: f64| Segment {
            label: "fit".into(),
            trace: trace.label.clone(),
            from: [0.0.into(), y0.into()],
            to: [48.0.into(), y1.into()],
        };
        let chart = Chart::new(Axis::linear("x"), Axis::log("y"), vec![trace.clone()]);
        let read = |segment: &Segment| line(&store, &record, &chart, segment);
        let (curve, points) = read(&ends(1e-8, 1.0)).unwrap().unwrap();
        assert_eq!((curve, points.x[1], points.y[0], points.y[48]), (0, 1.0, 1e-8, 1.0));
        // The logarithms are correct to an ulp of 18, the exponential multiplies that by its value.
        assert!((points.y[24] / 1e-4 - 1.0).abs() < 1e-14, "{}", points.y[24]);
        let bent = Chart { x: Axis::log("x"), ..chart.clone() };
        let (_, on_log_axis) = line(&store, &record, &bent, &ends(1e-8, 1.0)).unwrap().unwrap();
        assert_eq!(on_log_axis, points, "the same exponential on any horizontal axis");
        assert_eq!(read(&ends(0.0, 1.0)).unwrap(), None);
        assert_eq!(read(&ends(1.0, f64::NAN)).unwrap(), None);
        let of_none = Segment { trace: "nobody".into(), ..ends(1.0, 2.0) };
        assert!(read(&of_none).unwrap_err().to_string().contains("\"nobody\""));
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
