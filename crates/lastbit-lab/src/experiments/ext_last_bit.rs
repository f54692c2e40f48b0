//! # One perturbed bit: forgotten, or amplified to the size of the noise
//!
//! ## Claim
//! At a stable step, two runs one bit apart stay together. At an unstable step the difference can
//! grow exponentially to the size of the noise, although neither run blows up. More bits delay
//! this; they do not prevent it. But not every restrained instability is chaotic: a run on a cycle
//! forgets the bit just as a stable run does.
//!
//! ## Method
//! The Beltrami equation on a signal (see fig-beltrami-1d) with `lambda = 0.3`, at 0.9, 30 and 100
//! times its sharp bound, in f32 and f64. Each run is paired with a perturbed copy, its twin:
//! before every step, wherever the two agree in a value, the last bit of the copy's value is
//! flipped. RelL1 is the paper's distance, between 0 and 2.
//!
//! ## Reference
//! The paper, Sections 3.2 and 4.1, on the simplest system that shows the effect.
//!
//! ## Differences
//! - smoke: 64 points and 1000 steps instead of 256 and 4000.
//! - Not in the paper, which perturbs only neural networks.

use lastbit::pde::beltrami::Beltrami;
use lastbit::signal::blocks_and_ramp;
use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::Exhibit;
use crate::figure::{Axis, Chart, Figure, Trace};
use crate::input::Data;
use crate::plan::{Plan, Task};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::simulate::beltrami::BeltramiRun;
use crate::simulate::{Precision, TWIN_REL_L1};

pub const EXHIBIT: Exhibit = Exhibit {
    id: "ext-last-bit",
    source: include_str!("ext_last_bit.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const DELTA: f64 = 0.01;
const NOISE: f64 = 0.05;
const SEED: u64 = 1;
const LAMBDA: f64 = 0.3;
/// Precision and its name, overdrive, verdict to be expected, whether the twins part.
const RUNS: [(Precision, &str, f64, VerdictKind, bool); 6] = [
    (Precision::F32, "f32", 0.9, VerdictKind::Stable, false),
    (Precision::F64, "f64", 0.9, VerdictKind::Stable, false),
    (Precision::F32, "f32", 30.0, VerdictKind::Restrained, true),
    (Precision::F64, "f64", 30.0, VerdictKind::Restrained, true),
    (Precision::F32, "f32", 100.0, VerdictKind::Restrained, false),
    (Precision::F64, "f64", 100.0, VerdictKind::Restrained, false),
];

fn key(precision: &str, overdrive: f64) -> String {
    format!("{precision}-x{overdrive}")
}

fn plan(scale: Scale) -> Plan {
    let (points, steps) = if scale == Scale::Smoke { (64, 1000) } else { (256, 4000) };
    let task = |(precision, name, overdrive, ..): (Precision, &str, f64, VerdictKind, bool)| {
        let unit = Beltrami { dt: 1.0, dx: 1.0, delta: DELTA, lambda: LAMBDA };
        let run = BeltramiRun {
            parameters: Beltrami { dt: overdrive * unit.dt_sharp(1), ..unit },
            precision,
            steps,
            snapshots: vec![steps],
            data: Data::Signal(blocks_and_ramp(points, NOISE, SEED)),
        };
        let settings = json!({"precision": precision, "overdrive": overdrive});
        Task::simulation(&key(name, overdrive), settings, steps, move |progress| run.run(progress))
    };
    let settings = json!({
        "points": points, "noise": NOISE, "seed": SEED, "dx": 1.0, "delta": DELTA,
        "lambda": LAMBDA, "steps": steps,
    });
    Plan { settings, cells: RUNS.into_iter().map(task).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    let mut checks = Vec::new();
    for (precision, name, overdrive, expected, parts) in RUNS {
        let key = key(name, overdrive);
        checks.push(Check::verdict(
            &format!("verdict, {name} at {overdrive} times the bound"),
            Origin::ClosedForm,
            expected,
            record.judged(&key),
        ));
        let epsilon = match precision {
            Precision::F32 => f64::from(f32::EPSILON),
            Precision::F64 => f64::EPSILON,
        };
        // Together: an ulp a step, attenuated by at least 1 - lambda dt = 1 - 0.0013 a step,
        // adds up to at most 750. Parted: the twins differ by more than a thousand last bits
        // of f32 could add up to.
        let (origin, bound, band) = if parts {
            (Origin::Claim, 1e-3, Band::AtLeast)
        } else {
            (Origin::ClosedForm, 750.0 * epsilon, Band::AtMost)
        };
        let distance = record.number(&key, TWIN_REL_L1);
        let name = format!("final RelL1 to the twin, {name} at {overdrive} times the bound");
        checks.push(Check::number(&name, origin, bound, distance, band));
    }
    checks
}

fn figures(_: &Record) -> Vec<Figure> {
    let over_steps = |id: &str, title: &str, caption: &str, y: &str, label: &str| {
        let trace = |run: &(Precision, &str, f64, VerdictKind, bool)| {
            let (_, name, overdrive, verdict, _) = run;
            let label = format!("{name}, {overdrive} x bound: {verdict}");
            Trace::new(&label, &key(name, *overdrive), "twin", "step", y)
        };
        let traces = RUNS.iter().map(trace).collect();
        let chart = Chart::new(Axis::linear("step"), Axis::log(label), traces);
        Figure::chart(id, title, caption, chart)
    };
    vec![
        over_steps(
            "rel-l1",
            "RelL1 between a run and its perturbed copy",
            "A chaotic run amplifies the last bit to the size of its noise, in f32 sooner than in f64.",
            "rel_l1",
            "RelL1",
        ),
        over_steps(
            "ulps",
            "Largest difference in units in the last place (ulps)",
            "The number of floating-point values between those of the two runs.",
            "max_ulps",
            "ulps",
        ),
    ]
}
