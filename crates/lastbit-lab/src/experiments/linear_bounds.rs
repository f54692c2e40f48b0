//! What the exhibits on the bounds of the linear equation share.

use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::checkerboard_net::{settings, task};
use crate::error::Error;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::plan::{Compute, Plan, Task};
use crate::progress::Progress;
use crate::record::{Band, Check, Origin, Outcome, Record};
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
        Check::verdict(&name, Origin::Paper, *expected, record.verdict(key))
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

/// A row of a table: exact bounds on a window, and both edges found by running.
pub fn row(key: &str, run: KernelRun, tolerance: f64) -> Task {
    Task {
        key: key.to_owned(),
        settings: json!({"window": run.window.0, "tolerance": tolerance}),
        steps: 20 * run.steps as u64,
        compute: Compute::simulation(move |progress| edges(&run, tolerance, progress)),
    }
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
const BOUNDS: [&str; 2] = ["alpha_min", "alpha_max"];

/// Name of a bound from the spectrum.
fn exact_name(bound: &str) -> String {
    format!("{bound}_exact")
}

/// Name of a bound found by running.
fn running_name(bound: &str) -> String {
    format!("{bound}_by_running")
}

/// Running against theory, and both against the paper where it has a number.
pub fn row_checks(record: &Record, key: &str, paper: Option<(f64, f64, f64)>) -> Vec<Check> {
    let number = |name: &str| record.number(key, name);
    let mut checks = Vec::new();
    for name in BOUNDS {
        let (exact, running) = (number(&exact_name(name)), number(&running_name(name)));
        // The bracket is one percent wide.
        checks.push(Check::number(
            &format!("{name} by search (expected: exact eigenvalue), kernel {key}"),
            Origin::ClosedForm,
            exact,
            running,
            Band::Relative(0.01),
        ));
        if let Some((min, max, band)) = paper {
            let printed = if name == "alpha_min" { min } else { max };
            for (how, value) in [("exact", exact), ("by search", running)] {
                checks.push(Check::number(
                    &format!("{name}, kernel {key}, {how}"),
                    Origin::Paper,
                    printed,
                    value,
                    Band::Relative(band),
                ));
            }
        }
    }
    checks
}
