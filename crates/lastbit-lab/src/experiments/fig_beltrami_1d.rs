//! # Restrained instability of the Beltrami equation in 1-D
//!
//! ## Claim
//! At 10 and 100 times its largest stable step, the scheme stays bounded. It converges only up to
//! background noise, which grows with the step size and whose pattern changes at every step: a
//! restrained instability. At 1000 times it diverges.
//!
//! ## Method
//! The signal has plateaus, a ramp and an arch, plus noise of standard deviation 0.05; `delta =
//! 0.01`, `lambda = 1`, `dx = 1`. "Overdrive" is the step size over the sharp stability bound
//! `2/(lambda + 4/(delta dx²))`. A perturbed copy runs along with each run and measures its growth
//! rate. The noise of a run is the standard deviation of each value over time, in the last quarter
//! of the run.
//!
//! Beyond the paper: the flux is at most 1, so `lambda dt < 2` suffices to bound the solution. With
//! `lambda = 0.05` an overdrive of 1000 must therefore be restrained, not diverged. We test the
//! limit between restrained and diverged, `dt = 2/lambda`, from 1 % below and 1 % above. Where
//! neighbouring slopes are steep and alternate in sign, a grid point settles into a cycle of period
//! two with amplitude `2 dt/(2 - lambda dt)`; this predicts the size of the noise.
//!
//! Result: at 100 times the bound all of the noise is such a cycle, on which a small difference
//! shrinks by `1 - lambda dt` per step. The run is restrained, because every second step raises the
//! energy, yet its noise is reproducible: two runs one bit apart converge to each other. Between
//! about 3 and 30 times the bound some grid points are chaotic, and there the last bit decides.
//!
//! ## Reference
//! The paper, Section 3.2, figure "Demonstration of restrained instability".
//!
//! ## Differences
//! - smoke: 64 points and 2000 steps instead of 256 and 8000.
//! - The paper does not state its signal, delta, lambda or mesh. Ours are chosen so that an
//!   overdrive of 100 lies below `2/lambda` and one of 1000 above.
//! - The paper's bound `1/(lambda + 2/delta)` is 0.25 % smaller than the sharp one here. Overdrive
//!   refers to the sharp one.

use lastbit::pde::beltrami::Beltrami;
use lastbit::signal::blocks_and_ramp;
use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::Exhibit;
use crate::error::Error;
use crate::figure::{Axis, Chart, Figure, Level, Trace};
use crate::input::Data;
use crate::plan::{Plan, Task};
use crate::record::{Band, Check, Origin, Outcome, Record, Scale};
use crate::series::Series;
use crate::simulate::Precision;
use crate::simulate::beltrami::BeltramiRun;
use crate::simulate::pde::snapshot_name;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-beltrami-1d",
    source: include_str!("fig_beltrami_1d.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const DELTA: f64 = 0.01;
const NOISE: f64 = 0.05;
const SEED: u64 = 1;
/// Overdrives at which the noise is measured.
const SWEEP: [f64; 9] = [1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 390.0];

/// Cells on both sides of `2/lambda`.
const BELOW: &str = "below-two-over-lambda";
const ABOVE: &str = "above-two-over-lambda";

/// A step size, as a multiple of the sharp bound or of `2/lambda`.
enum Step {
    Sharp(f64),
    Bounded(f64),
}

/// The runs of the figure: key, step, `lambda`.
fn runs() -> Vec<(&'static str, Step, f64)> {
    vec![
        ("x0.9", Step::Sharp(0.9), 1.0),
        ("x10", Step::Sharp(10.0), 1.0),
        ("x100", Step::Sharp(100.0), 1.0),
        ("x1000", Step::Sharp(1000.0), 1.0),
        ("x1000-lambda-0.05", Step::Sharp(1000.0), 0.05),
        (BELOW, Step::Bounded(0.99), 1.0),
        (ABOVE, Step::Bounded(1.01), 1.0),
    ]
}

fn parameters(step: &Step, lambda: f64) -> Beltrami {
    let unit = Beltrami { dt: 1.0, dx: 1.0, delta: DELTA, lambda };
    let dt = match step {
        Step::Sharp(factor) => factor * unit.dt_sharp(1),
        Step::Bounded(factor) => factor * unit.dt_bounded(),
    };
    Beltrami { dt, ..unit }
}

fn plan(scale: Scale) -> Plan {
    let (points, steps) = if scale == Scale::Smoke { (64, 2000) } else { (256, 8000) };
    let job = move |parameters: Beltrami| BeltramiRun {
        parameters,
        precision: Precision::F64,
        steps,
        snapshots: vec![2, BeltramiRun::earlier(steps), steps],
        data: Data::Signal(blocks_and_ramp(points, NOISE, SEED)),
    };
    let mut cells: Vec<Task> = runs()
        .into_iter()
        .map(|(key, step, lambda)| {
            let run = job(parameters(&step, lambda));
            let settings = json!({"dt": run.parameters.dt, "lambda": lambda});
            Task::simulation(key, settings, steps, move |progress| run.run(progress))
        })
        .collect();
    let overdrives = json!({"overdrives": SWEEP, "lambda": 1.0});
    cells.push(Task::simulation("noise", overdrives, SWEEP.len() * steps, move |progress| {
        let measured = |factor: &f64| {
            let outcome = job(parameters(&Step::Sharp(*factor), 1.0)).run(progress)?;
            Ok::<_, Error>(outcome.numbers[BeltramiRun::NOISE_AMPLITUDE].0)
        };
        let predicted = |factor: &f64| parameters(&Step::Sharp(*factor), 1.0).cycle_amplitude(1);
        let mut outcome = Outcome::default();
        let series = Series::new([
            ("overdrive", SWEEP.to_vec()),
            ("amplitude", SWEEP.iter().map(measured).collect::<Result<_, _>>()?),
            ("cycle", SWEEP.iter().map(predicted).collect()),
        ]);
        outcome.series.insert("noise".to_owned(), series);
        Ok(outcome)
    }));
    let settings = json!({
        "points": points, "noise": NOISE, "seed": SEED, "dx": 1.0, "delta": DELTA,
        "precision": "f64", "steps": steps,
    });
    Plan { settings, cells }
}

fn checks(record: &Record) -> Vec<Check> {
    use Origin::{ClosedForm, Paper};
    use VerdictKind::{Diverged, Restrained, Stable};
    let verdict = |name: &str, origin, expected, key: &str| {
        Check::verdict(name, origin, expected, record.judged(key))
    };
    let noise = |key: &str| record.number(key, BeltramiRun::NOISE_AMPLITUDE);
    // The cycle's amplitude is reached where both neighbours alternate. At a jump of the data
    // and where two neighbours move alike they do not: about one place in five.
    let cycle = |name: &str, key: &str| {
        let expected = record.number(key, Beltrami::CYCLE_AMPLITUDE);
        Check::number(name, ClosedForm, expected, noise(key), Band::Relative(0.2))
    };
    vec![
        verdict("verdict at 0.9 times the bound", Paper, Stable, "x0.9"),
        verdict("verdict at 10 times the bound", Paper, Restrained, "x10"),
        verdict("verdict at 100 times the bound", Paper, Restrained, "x100"),
        verdict("verdict at 1000 times the bound", Paper, Diverged, "x1000"),
        verdict(
            "verdict at 1000 times the bound with lambda = 0.05, where lambda dt < 2",
            ClosedForm,
            Restrained,
            "x1000-lambda-0.05",
        ),
        verdict("verdict at dt = 0.99 times 2/lambda", ClosedForm, Restrained, BELOW),
        verdict("verdict at dt = 1.01 times 2/lambda", ClosedForm, Diverged, ABOVE),
        Check::number(
            "noise at 100 times the bound over noise at 10 times",
            Paper,
            1.0,
            noise("x100") / noise("x10"),
            Band::AtLeast,
        ),
        // A stable run approaches its minimum by exp(-lambda dt) a step, at least; what is left in
        // the last quarter of the shortest of our runs, 2000 steps, is exp(-0.0022 * 1500) = 0.04 of
        // the noise in the data, spread over values that have mostly settled.
        Check::number("noise of the stable run", Paper, 1e-3, noise("x0.9"), Band::AtMost),
        cycle("noise at x 10 against the cycle's amplitude 2 dt/(2 - lambda dt)", "x10"),
        cycle("noise at x 100 against the cycle's amplitude", "x100"),
        cycle("noise at 0.99 of 2/lambda against the cycle's amplitude", BELOW),
    ]
}

fn figures(record: &Record) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (key, title, caption) in [
        ("x0.9", "Stable: 0.9 times the bound", "A tenth of the run later nothing has changed."),
        (
            "x10",
            "Restrained: 10 times the bound",
            "The same shape with weak noise whose \
            pattern changes from step to step.",
        ),
        (
            "x100",
            "Restrained: 100 times the bound",
            "Stronger noise, still bounded; it \
            repeats every two steps.",
        ),
        (
            "x1000",
            "Diverged: 1000 times the bound",
            "After two steps; later steps are off \
            the scale.",
        ),
    ] {
        let steps = record.settings["steps"].as_u64().unwrap_or(0) as usize;
        let trace = |label: &str, column: &str| Trace::new(label, key, "profiles", "x", column);
        let after = |step: usize| trace(&format!("after {step} steps"), &snapshot_name(step));
        let mut traces = vec![trace("data", "signal")];
        if record.verdict(key) == Some(VerdictKind::Diverged) {
            traces.push(after(2));
        } else {
            traces.extend([after(BeltramiRun::earlier(steps)), after(steps)]);
        }
        let chart = Chart::new(Axis::linear("x"), Axis::linear("u"), traces);
        figures.push(Figure::chart(&format!("profile-{key}"), title, caption, chart));
    }
    let over_steps = |id, title, caption, series, y: &str, axis, levels| {
        let keys = ["x0.9", "x10", "x100", "x1000-lambda-0.05"];
        let trace = |key: &&str| Trace::new(key, key, series, "step", y);
        let traces = keys.iter().map(trace).collect();
        let chart = Chart { levels, ..Chart::new(Axis::linear("step"), axis, traces) };
        Figure::chart(id, title, caption, chart)
    };
    figures.push(over_steps(
        "energy",
        "Energy",
        "A stable step always lowers the energy; an overdriven run stays above the minimum.",
        "curves",
        "energy",
        Axis::log("E"),
        vec![],
    ));
    figures.push(over_steps(
        "unstable-share",
        "Share of grid points that are locally unstable",
        "By the paper's criterion, with kappa frozen at each half point. Zero in the stable run.",
        "curves",
        "unstable_by_kappa",
        Axis::linear("share"),
        vec![],
    ));
    figures.push(over_steps(
        "twin",
        "Distance to a copy perturbed by one bit",
        "Relative 2-norm. At every step the last bit of each value that agrees with the \
         original is flipped. The distance grows if the run is chaotic, not if it is a cycle.",
        "twin",
        "distance",
        Axis::log("relative distance"),
        vec![Level { label: "unit roundoff of f64".to_owned(), y: f64::EPSILON / 2.0 }],
    ));
    let measured = Trace::new("measured", "noise", "noise", "overdrive", "amplitude").marked();
    let cycle = Trace::new("2 dt / (2 - lambda dt)", "noise", "noise", "overdrive", "cycle");
    figures.push(Figure::chart(
        "noise",
        "Noise against step size",
        "Standard deviation of a value over time, in the last quarter of the run, and the \
         predicted amplitude of a cycle of period two.",
        Chart {
            levels: vec![Level { label: "delta".to_owned(), y: DELTA }],
            ..Chart::new(
                Axis::log("step size over the sharp bound"),
                Axis::log("noise amplitude"),
                vec![measured, cycle],
            )
        },
    ));
    figures
}
