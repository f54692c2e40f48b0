//! What the exhibits on the bounds of the linear equation share.

use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::checkerboard_net::{linear, settings, task};
use crate::error::Error;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::{Plan, Task};
use crate::progress::Progress;
use crate::record::{Band, Check, Origin, Outcome, Record, Scale};
use crate::simulate::kernel::{KernelRun, Over};

/// A run: key, its decay in units of the smallest and of the largest stable one, the verdict due.
pub type Probe = (&'static str, f64, f64, VerdictKind);

/// The runs of a figure.
pub fn plan(run: &KernelRun, probes: &[Probe]) -> Plan {
    let [min, max] = exact(run);
    let cell = |(key, of_min, of_max, _): &Probe| {
        let alpha = of_min * min + of_max * max;
        task(key, json!({"alpha": alpha}), run.with(Over::AlphaMin, alpha))
    };
    let mut settings = settings(run);
    settings["dt"] = json!(run.dt);
    settings["alpha"] = json!({"min": min, "max": max});
    Plan { settings, cells: probes.iter().map(cell).collect() }
}

/// The smallest and the largest stable decay, from the spectrum.
pub fn exact(run: &KernelRun) -> [f64; 2] {
    [Over::AlphaMin, Over::AlphaMax].map(|over| run.predicted_edge(over).unwrap_or(f64::NAN))
}

/// Each run has its verdict.
pub fn checks(record: &Record, probes: &[Probe]) -> Vec<Check> {
    let check = |(key, _, _, expected): &Probe| {
        let alpha = record
            .cell(key)
            .map_or(f64::NAN, |cell| cell.settings["alpha"].as_f64().unwrap_or(f64::NAN));
        let name = format!("verdict at alpha = {alpha:.4e} ({key})");
        Check::verdict(&name, Origin::Paper, *expected, record.judged(key))
    };
    probes.iter().map(check).collect()
}

/// The norm of the kernel over the steps.
pub fn figure(record: &Record) -> Figure {
    let trace = |key: &str| Trace::new(key, key, "curves", "step", "norm");
    let traces = record.cells.iter().map(|cell| trace(&cell.key)).collect();
    let chart = Chart::new(Axis::linear("step"), Axis::log("norm of K"), traces);
    let caption = "Between the bounds the kernel decays; outside it grows.";
    Figure::chart("norm", "Norm of the kernel", caption, chart)
}

/// A row of a table: width of the window, key, the paper's smallest and largest stable decay.
pub type Row = (usize, &'static str, f64, f64);

/// The rows of a table; on smaller images at smoke scale, with smaller windows.
pub fn table_plan(scale: Scale, rows: &[Row], nesterov: bool) -> Plan {
    let rows = match scale {
        Scale::Smoke => vec![(8, "8x8"), (16, "16x16")],
        Scale::Desk | Scale::Paper => rows.iter().map(|(w, key, ..)| (*w, *key)).collect(),
    };
    let cells = rows.iter().map(|(w, key)| row(key, linear(scale, *w, nesterov), 0.01)).collect();
    Plan { settings: settings(&linear(scale, 16, nesterov)), cells }
}

/// Exact bounds on a window, and both edges found by running.
fn row(key: &str, run: KernelRun, tolerance: f64) -> Task {
    let settings = json!({"window": run.window.0, "tolerance": tolerance});
    Task::simulation(key, settings, 20 * run.steps, move |progress| {
        edges(&run, tolerance, progress)
    })
}

fn edges(run: &KernelRun, tolerance: f64, progress: &Progress) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    for name in BOUNDS {
        let over = if name == "alpha_min" { Over::AlphaMin } else { Over::AlphaMax };
        outcome.number(&exact_name(name), run.predicted_edge(over).unwrap_or(f64::NAN));
        let found = run.search_edge(over, (None, None), tolerance, progress)?;
        let running = found.map_or(f64::NAN, |found| found.bracket.middle());
        outcome.number(&running_name(name), running);
    }
    Ok(outcome)
}

/// Both ends of the stable weight decays.
pub const BOUNDS: [&str; 2] = ["alpha_min", "alpha_max"];

/// Name of a bound from the spectrum.
fn exact_name(bound: &str) -> String {
    format!("{bound}_exact")
}

/// Name of a bound found by running.
fn running_name(bound: &str) -> String {
    format!("{bound}_by_running")
}

/// How far the middle of a bracket may be from the edge within it: half of its relative width `w`, of the
/// middle, which is `w/2/(1 − w/2)` of an edge at the lower end.
pub fn half_of_bracket(width: f64) -> Band {
    Band::Relative(0.5 * width / (1.0 - 0.5 * width))
}

/// Bounds by search: against theory, and against the paper where it has a number: smallest, largest, and
/// how far each may be off.
pub fn row_checks(record: &Record, key: &str, paper: Option<[(f64, f64); 2]>) -> Vec<Check> {
    let number = |name: &str| record.number(key, name);
    let tolerance = record.cell(key).and_then(|cell| cell.settings["tolerance"].as_f64());
    let mut checks = Vec::new();
    for (place, name) in BOUNDS.into_iter().enumerate() {
        let (exact, running) = (number(&exact_name(name)), number(&running_name(name)));
        checks.push(Check::number(
            &format!("{name} by search (expected: exact eigenvalue), kernel {key}"),
            Origin::ClosedForm,
            exact,
            running,
            half_of_bracket(tolerance.unwrap_or(f64::NAN)),
        ));
        if let Some((printed, band)) = paper.map(|both| both[place]) {
            checks.push(Check::number(
                &format!("{name} by search, kernel {key}"),
                Origin::Paper,
                printed,
                running,
                Band::Relative(band),
            ));
        }
    }
    checks
}

/// What a row found by running, over a formula.
pub fn over_formula(record: &Record, key: &str, bound: &str, formula: f64) -> f64 {
    record.number(key, &running_name(bound)) / formula
}
