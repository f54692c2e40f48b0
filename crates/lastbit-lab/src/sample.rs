//! Small records for tests: one that holds, one that fails, one unfinished, one of trainings, with
//! all that a record may contain.

mod training;

use std::path::Path;

use lastbit::verdict::VerdictKind;
use serde_json::json;

use crate::figure::Strip;
use crate::figure::{Axis, Chart, Drawing, Figure, HeatMap, Level, Panel, Pictures, Strips, Trace};
use crate::number::Number;
use crate::record::{Band, Cell, Check, Origin, Page, Record, Scale, Store, VerdictRecord};
use crate::relative_path::RelativePath;
use crate::series::{Field, Series};

/// All of them.
pub fn all(out: &Path) -> Vec<(Store, Record)> {
    vec![restrained(out), odd(out), unfinished(out), training(out)]
}

pub use training::{accuracies, training};

/// A record that holds, with a cell of each verdict.
pub fn restrained(out: &Path) -> (Store, Record) {
    let store = Store::create(out, &record("fig-heat", "", vec![])).unwrap();
    let steps: Vec<f64> = (0..=200).map(f64::from).collect();
    let rates = [
        ("dt-0.4", 0.985, VerdictKind::Stable),
        ("dt-0.55", 1.0, VerdictKind::Restrained),
        ("dt-0.6", 1.4, VerdictKind::Diverged),
    ];
    let mut cells = Vec::new();
    for (key, rate, kind) in rates {
        // Two thirds of the powers overflow for the last one.
        let energy =
            steps.iter().map(|n| f64::powf(rate, n * n / 20.0 + n) + 0.02 * (n * 0.7).sin());
        let mut cell = cell(key, kind);
        let series = Series::new([("step", steps.clone()), ("energy", energy.collect())]);
        store.save_series(&mut cell, "energy", &series).unwrap();
        let values = (0..32 * 32).map(|k| {
            let (x, y) = (f64::from(k % 32) - 15.5, f64::from(k / 32) - 15.5);
            rate * (-(x * x + y * y) / 80.0).exp()
                * if kind == VerdictKind::Stable { 1.0 } else { (x * y).cos() }
        });
        let field = Field { height: 32, width: 32, values: values.collect() };
        store.save_field(&mut cell, "u", &field).unwrap();
        cells.push(cell);
    }
    let trace = |(key, _, _): &(&str, f64, VerdictKind)| Trace {
        label: format!("dt = {}", &key[3..]),
        cell: (*key).to_owned(),
        series: "energy".into(),
        x: "step".into(),
        y: "energy".into(),
        marks: false,
        colour: None,
    };
    let chart = |x, y| Chart {
        levels: vec![Level { label: "initial energy".into(), y: 1.0 }],
        ..Chart::new(x, y, rates.iter().map(trace).collect())
    };
    let panel = |(key, _, kind): &(&str, f64, VerdictKind)| Panel {
        label: format!("dt = {}, {kind}", &key[3..]),
        cell: (*key).to_owned(),
        field: "u".into(),
    };
    let record = Record {
        figures: vec![
            figure("energy", Drawing::Chart(chart(Axis::linear("step n"), Axis::log("energy")))),
            figure("both-log", Drawing::Chart(chart(Axis::log("step n"), Axis::log("energy")))),
            figure(
                "fields",
                Drawing::Pictures(Pictures {
                    range: [0.0, 1.0],
                    panels: rates.iter().map(panel).collect(),
                }),
            ),
        ],
        checks: vec![
            Check::number(
                "edge of stability dt",
                Origin::ClosedForm,
                0.5,
                0.5001,
                Band::Relative(0.01),
            ),
            Check::verdict(
                "verdict at `dt = 0.55`",
                Origin::Paper,
                VerdictKind::Restrained,
                Some(&verdict(VerdictKind::Restrained)),
            ),
            Check::number("energy at the end", Origin::Paper, 1e-3, 8.1e-4, Band::AtMost),
        ],
        ..record("fig-heat", "The heat equation beyond its step size", cells)
    };
    store.save(&record).unwrap();
    (store, record)
}

/// A record that fails, with everything that is hard to draw.
pub fn odd(out: &Path) -> (Store, Record) {
    let store = Store::create(out, &own(record("fig-odd", "", vec![]))).unwrap();
    let x: Vec<f64> = (0..9).map(f64::from).collect();
    let columns = [
        ("x", x.clone()),
        ("constant", vec![3.0; 9]),
        ("gaps", vec![1.0, f64::NAN, 2.0, 3.0, f64::INFINITY, -1.0, 0.0, 5.0, 4.0]),
        ("huge", x.iter().map(|x| f64::powf(10.0, 38.0 * x - 2.0)).collect()),
        ("negative", x.iter().map(|x| -x - 1.0).collect()),
        ("nothing", vec![f64::NAN; 9]),
        ("ramp", x.iter().map(|x| x / 10.0).collect()),
        ("square", x.iter().map(|x| x * x / 9.0).collect()),
    ];
    let mut only = cell("only <cell>", VerdictKind::Diverged);
    store.save_series(&mut only, "odd", &Series::new(columns.clone())).unwrap();
    let empty = Series::new([("x", vec![]), ("y", vec![])]);
    store.save_series(&mut only, "empty", &empty).unwrap();
    let values = vec![f64::NAN, -2.0, 0.5, 9.0, f64::INFINITY, 0.2];
    let field = Field { height: 2, width: 3, values };
    store.save_field(&mut only, "u", &field).unwrap();
    only.numbers.insert("edge".into(), Number(f64::INFINITY));
    only.numbers.insert("ratio".into(), Number(f64::NAN));
    let trace = |series: &str, x: &str, y: &str| Trace {
        label: format!("{y} & <b>{series}</b>"),
        cell: "only <cell>".into(),
        series: series.into(),
        x: x.into(),
        y: y.into(),
        marks: y == "gaps",
        colour: None,
    };
    let one = |series, x, y, log| {
        let axis = Axis { label: "value".into(), log };
        Chart::new(Axis::linear("x < y"), axis, vec![trace(series, x, y)])
    };
    let many = Chart {
        levels: vec![Level { label: "below all".into(), y: -2.0 }],
        ..Chart::new(
            Axis::linear("x"),
            Axis::linear("all of them, in one chart"),
            (0..8)
                .map(|k| trace("odd", "x", ["constant", "gaps", "ramp", "square"][k % 4]))
                .collect(),
        )
    };
    let panel =
        |label: &str| Panel { label: label.into(), cell: "only <cell>".into(), field: "u".into() };
    let mut figures = vec![figure("many", Drawing::Chart(many))];
    for (k, y) in ["constant", "gaps", "huge", "negative", "nothing"].into_iter().enumerate() {
        for log in [false, true] {
            figures
                .push(figure(&format!("odd-{k}-{log}"), Drawing::Chart(one("odd", "x", y, log))));
        }
    }
    figures.push(figure("empty", Drawing::Chart(one("empty", "x", "y", true))));
    let panels = ["one", "two with a name that is much longer than its picture", "3", "4", "5"];
    let pictures = Pictures { range: [0.0, 1.0], panels: panels.map(panel).into() };
    figures.push(figure("pictures", Drawing::Pictures(pictures)));
    let page = record("fig-odd", "<script>alert(1)</script> & {{untouched}}", vec![only]);
    let checks =
        vec![Check::number("NaN never holds", Origin::Paper, 0.5, f64::NAN, Band::Relative(0.1))];
    let record = Record { figures, checks, ..own(page) };
    store.save(&record).unwrap();
    (store, record)
}

/// A record of which one cell is still to come.
pub fn unfinished(out: &Path) -> (Store, Record) {
    let store = Store::create(out, &record("tab-noise", "", vec![])).unwrap();
    let mut cell = cell("k-1", VerdictKind::Stable);
    cell.verdict = None;
    let made = record("tab-noise", "The noise floor of an accuracy", vec![cell]);
    let entry = |cell: &str| vec![(cell, "courant").into(), (cell, "energy").into(), 0.5.into()];
    let map = HeatMap {
        label: "one row is to come".into(),
        row_heading: "cell <b>".into(),
        column_heading: "number".into(),
        rows: vec!["k-1".into(), "k-3".into()],
        columns: vec!["courant".into(), "energy".into(), "paper".into()],
        entries: vec![entry("k-1"), entry("k-3")],
        factor: 1.0,
        decimals: 3,
        margins: None,
    };
    let row = |label: &str, cell: &str| Strip {
        label: label.into(),
        values: entry(cell),
        interval: None,
    };
    let rows = vec![row("k = 1 & <i>done</i>", "k-1"), row("k = 3, to come", "k-3")];
    let strips = Strips { label: "all".into(), factor: 1.0, centred: false, rows };
    let figures =
        vec![figure("to-come", Drawing::HeatMap(map)), figure("few", Drawing::Strips(strips))];
    let record = Record { planned: 2, figures, ..made };
    store.save(&record).unwrap();
    (store, record)
}

fn figure(id: &str, drawing: Drawing) -> Figure {
    let caption = "Each curve is one step size; beyond the edge the energy stays bounded because \
                   the clipped values cannot grow.";
    let title = format!("Energy over the steps, {id}");
    Figure::new(id, &title, caption, drawing)
}

fn verdict(kind: VerdictKind) -> VerdictRecord {
    VerdictRecord {
        kind,
        doubt: None,
        diverged_at: (kind == VerdictKind::Diverged).then_some(77),
        growth_per_step: Number(if kind == VerdictKind::Stable { -0.0151 } else { 0.336 }),
        growth_standard_error: Number(1.2e-5),
        resolution: Number(1e-4),
        unstable_share: Number(0.25),
        steps: 200,
    }
}

/// A cell of this key and verdict.
pub fn cell(key: &str, kind: VerdictKind) -> Cell {
    Cell {
        key: RelativePath::new(key),
        settings: json!({"dt": 0.1, "grid": {"n": 32}}),
        version: "0.1.0".into(),
        commit: "0123456789ab".into(),
        verdict: Some(verdict(kind)),
        hash: Some("5d41402abc4b2a76b9719d911017c592".into()),
        run: None,
        device: None,
        hashes: Default::default(),
        numbers: [
            ("courant".to_owned(), Number(0.1 + 0.2)),
            ("energy".to_owned(), Number(1.25e-16)),
        ]
        .into(),
        series: [].into(),
        fields: [].into(),
        files: [].into(),
    }
}

fn record(id: &str, title: &str, cells: Vec<Cell>) -> Record {
    let page = Page {
        title: title.to_owned(),
        claim: "Below `dt = dx²/2` every mode decays; above it the highest mode grows, and only \
                    a non-linear term can hold it."
            .into(),
        method: "Explicit Euler on a periodic grid of 32 points, from a Gaussian, for three \
                     step sizes.\n\nA twin that differs in the last bit runs along."
            .into(),
        reference: "Section 3, equation (7), figure 2".into(),
        differences: vec!["32 points instead of 128, so that it takes a second.".into()],
    };
    let settings = json!({"steps": 200, "grid": {"n": 32, "dx": 0.1}, "rates": [0.4, 0.55, 0.6]});
    let made = Record::new(id, Some(Scale::Smoke), None, page, settings, cells.len());
    Record { cells: cells.into_iter().collect(), ..made }
}

/// The same as a record of a run of one's own.
fn own(record: Record) -> Record {
    Record { scale: None, settings_hash: Some("0123456789abcdef".into()), ..record }
}
