//! Parts of one plan at the same time.

use super::*;
use std::fs;
use std::time::Duration;

use crate::figure::{Axis, Chart, Drawing, Trace};
use crate::progress::{Silent, StopReason};
use crate::series::Series;
use serde_json::json;

const TRACES: [&str; 2] = ["first", "second"];

fn figure(id: &str, cells: &[&str]) -> Figure {
    let axis = || Axis { label: "x".into(), log: false };
    let traces = cells.iter().map(|cell| Trace::new(cell, cell, "u", "x", "x")).collect();
    Figure::new(id, id, "", Drawing::Chart(Chart::new(axis(), axis(), traces)))
}

/// Two cells; the second is finished when the figures of the first alone are being drawn. Those
/// are many, so that they would be written last if nobody waited.
fn job(out: &Path) -> Job<'static> {
    let first_of_part = out.join("fig-x/smoke/figures/part0.svg");
    let outcome = || {
        let mut outcome = Outcome::default();
        outcome.series.insert("u".into(), Series::new([("x", vec![0.0, 1.0])]));
        outcome
    };
    let task =
        |key: &str, compute| Task { key: key.to_owned(), settings: json!({}), steps: 1, compute };
    let second = move |_: &Progress| {
        // A minute, lest a failure of the first keeps the second waiting for ever.
        for _ in 0..60_000 {
            if first_of_part.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(outcome())
    };
    let cells = vec![
        task(TRACES[0], Compute::simulation(move |_| Ok(outcome()))),
        task(TRACES[1], Compute::simulation(second)),
    ];
    let text = String::new;
    let page = Page {
        title: text(),
        claim: text(),
        method: text(),
        reference: text(),
        differences: vec![],
    };
    Job {
        id: "fig-x",
        scale: Some(Scale::Smoke),
        device: None,
        page,
        plan: Plan { settings: json!({}), cells },
        not_tested: None,
        checks: &|_| vec![],
        figures: &|record| {
            let cells: Vec<&str> = record.cells.iter().map(|cell| &*cell.key).collect();
            let parts = if record.is_complete() { 0 } else { 6 };
            let names = (0..parts).map(|k| format!("part{k}")).chain(["all".to_owned()]);
            names.map(|name| figure(&name, &cells)).collect()
        },
        shows_parts: true,
    }
}

#[test]
fn figures_of_a_part_never_replace_those_of_the_whole() {
    let out = tempfile::tempdir().unwrap();
    let run = |part| {
        let run = || run_part(job(out.path()), part, out.path(), Existing::Reuse, &Silent).unwrap();
        // As in a process of its own: one cell must not wait for the thread of the other.
        rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(run)
    };
    std::thread::scope(|scope| {
        for part in [0..1, 1..2] {
            scope.spawn(move || run(part));
        }
    });
    let svg = fs::read_to_string(out.path().join("fig-x/smoke/figures/all.svg")).unwrap();
    for label in TRACES {
        assert!(svg.contains(label), "{label}");
    }
}

/// Asks to stop from the second question on.
#[derive(Default)]
struct StopSoon(std::sync::atomic::AtomicUsize);

impl Monitor for StopSoon {
    fn stop_requested(&self) -> Option<StopReason> {
        let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (asked > 0).then_some(StopReason::Interrupt)
    }
}

#[test]
fn a_simulation_that_was_stopped_leaves_no_cell_and_is_computed_by_the_next_run() {
    let out = tempfile::tempdir().unwrap();
    let job = || {
        let compute = |progress: &Progress| match progress.stop_requested() {
            Some(reason) => Err(reason.into()),
            None => Ok(Outcome::default()),
        };
        let (key, settings) = ("only".to_owned(), json!({}));
        let task = Task { key, settings, steps: 1, compute: Compute::simulation(compute) };
        let plan = Plan { settings: json!({}), cells: vec![task] };
        Job { plan, figures: &|_| vec![], ..job(out.path()) }
    };
    let (store, record) = run(job(), out.path(), Existing::Reuse, &StopSoon::default()).unwrap();
    assert!(record.cells.is_empty() && !store.folder().join("cells/only.json").exists());
    let (_, record) = run(job(), out.path(), Existing::Reuse, &Silent).unwrap();
    assert!(record.is_complete());
}

/// The record is put together now and then, not after every cell. `LASTBIT_CELLS=100000` makes as many cells, and
/// `--nocapture` shows time and memory; `LASTBIT_CELLS_OUT=FOLDER` keeps them, for a process that only reuses them.
#[test]
fn many_cells_take_few_assemblies() {
    let count = std::env::var("LASTBIT_CELLS").map_or(1000, |n| n.parse().unwrap());
    let assemblies = std::sync::atomic::AtomicUsize::new(0);
    let (temporary, kept) = (tempfile::tempdir().unwrap(), std::env::var_os("LASTBIT_CELLS_OUT"));
    let out = kept.map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let value = |record: &Record, i: usize| record.number(&format!("cell-{i}"), "value");
    let task = |i: usize| {
        let compute = move |_: &Progress| {
            let mut outcome = Outcome::default();
            outcome.number("value", i as f64);
            Ok(outcome)
        };
        let settings = json!({ "seed": i });
        Task { key: format!("cell-{i}"), settings, steps: 1, compute: Compute::simulation(compute) }
    };
    let figures = |record: &Record| {
        // As figures and checks do, each cell is looked for.
        assert_eq!(
            (0..count).filter(|i| value(record, *i) == *i as f64).count(),
            record.cells.len()
        );
        assemblies.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        vec![]
    };
    let job = || Job {
        plan: Plan { settings: json!({}), cells: (0..count).map(task).collect() },
        figures: &figures,
        ..job(&out)
    };
    for _ in 0..2 {
        let what = if out.join("fig-x/smoke/record.json").exists() { "reused" } else { "computed" };
        let started = Instant::now();
        let (_, record) = run(job(), &out, Existing::Reuse, &Silent).unwrap();
        assert!(record.is_complete());
        let memory = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory = memory.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("").to_owned();
        println!("{count} cells {what} in {:?}, {memory}", started.elapsed());
    }
    let assemblies = assemblies.into_inner();
    assert!(assemblies <= count / 10, "{assemblies} assemblies of {count} cells");
}
