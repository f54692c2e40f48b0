//! # Restrained instability of the Beltrami equation on an image
//!
//! ## Claim
//! At the largest stable step the image converges. At 10 and 100 times that step it converges only
//! up to background noise whose pattern keeps changing. At 1000 times it blows up within two steps.
//!
//! ## Method
//! An image of shapes on a smooth background, plus noise of standard deviation 0.05; `delta =
//! 0.01`, `lambda = 1`, `dx = 1`. Steps are multiples of the bound `2 dx²/(8/delta + lambda dx²)`,
//! which is sharp in two dimensions. The pictures show the state late in the run, and again a tenth
//! of the run later. Beyond the paper: where all slopes are steep and alternate in sign, a pixel
//! settles into a cycle of period two with amplitude `2 sqrt(2) dt/(2 - lambda dt)`; the measured
//! noise is compared with it.
//!
//! ## Reference
//! The paper's source, withdrawn section "Experiments showing restrained instability in nonlinear
//! reaction-diffusion", both figures.
//!
//! ## Differences
//! - smoke: 24 x 32 pixels and 2000 steps instead of 256 x 256 and 8000.
//! - desk: 96 x 96 pixels and 6000 steps instead of 256 x 256 and 8000.
//! - The paper's image is not available and its constants are not stated; image, delta and lambda
//!   are ours.

use lastbit::pde::beltrami::Beltrami;
use lastbit::signal::shapes;
use lastbit::verdict::VerdictKind;
use serde_json::json;

use super::Exhibit;
use crate::figure::{Axis, Chart, Figure, Panel, Pictures, Trace};
use crate::input::Data;
use crate::plan::{Plan, Task};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::series::Field;
use crate::simulate::Precision;
use crate::simulate::beltrami::BeltramiRun;
use crate::simulate::pde::snapshot_name;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-beltrami-2d",
    source: include_str!("fig_beltrami_2d.rs"),
    plan,
    checks,
    figures,
    ..Exhibit::EMPTY
};

const DELTA: f64 = 0.01;
const LAMBDA: f64 = 1.0;
const NOISE: f64 = 0.05;
const SEED: u64 = 1;
const FACTORS: [(&str, f64, VerdictKind); 4] = [
    ("x0.9", 0.9, VerdictKind::Stable),
    ("x10", 10.0, VerdictKind::Restrained),
    ("x100", 100.0, VerdictKind::Restrained),
    ("x1000", 1000.0, VerdictKind::Diverged),
];

fn plan(scale: Scale) -> Plan {
    let (height, width, steps) = match scale {
        Scale::Smoke => (24, 32, 2000),
        Scale::Desk => (96, 96, 6000),
        Scale::Paper => (256, 256, 8000),
    };
    let task = |(key, factor, _): (&str, f64, VerdictKind)| {
        let unit = Beltrami { dt: 1.0, dx: 1.0, delta: DELTA, lambda: LAMBDA };
        let parameters = Beltrami { dt: factor * unit.dt_sharp(2), ..unit };
        let values = shapes(height, width, NOISE, SEED);
        let run = BeltramiRun {
            parameters,
            precision: Precision::F64,
            steps,
            snapshots: vec![0, 2, BeltramiRun::earlier(steps), steps],
            data: Data::Image(Field { height, width, values }),
        };
        let settings = json!({"dt": parameters.dt, "overdrive": factor});
        Task::simulation(key, settings, steps, move |progress| run.run(progress))
    };
    let settings = json!({
        "height": height, "width": width, "noise": NOISE, "seed": SEED, "dx": 1.0,
        "delta": DELTA, "lambda": LAMBDA, "precision": "f64", "steps": steps,
    });
    Plan { settings, cells: FACTORS.into_iter().map(task).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    let verdict = |(key, factor, expected): &(&str, f64, VerdictKind)| {
        let name = format!("verdict at {factor} times the bound");
        Check::verdict(&name, Origin::Paper, *expected, record.judged(key))
    };
    let noise = |key: &str| record.number(key, BeltramiRun::NOISE_AMPLITUDE);
    let mut checks: Vec<Check> = FACTORS.iter().map(verdict).collect();
    let mut check = |name: &str, origin, expected, found, band| {
        checks.push(Check::number(name, origin, expected, found, band));
    };
    let ratio = noise("x100") / noise("x10");
    let name = "noise at 100 times the bound over noise at 10 times";
    check(name, Origin::Paper, 1.0, ratio, Band::AtLeast);
    // A stable run approaches its minimum by exp(-lambda dt) a step, at least; what is left in
    // the last quarter of the shortest of our runs, 2000 steps, is exp(-0.0022 * 1500) = 0.04 of
    // the noise in the data, spread over values that have mostly settled.
    check("noise of the stable run", Origin::Paper, 1e-3, noise("x0.9"), Band::AtMost);
    // The cycle's amplitude is reached where all neighbours alternate; at edges of the image
    // and between patches that alternate out of step they do not: about one pixel in five.
    for key in ["x10", "x100"] {
        let name =
            format!("noise at {key} (predicted: cycle amplitude 2 sqrt(2) dt/(2 - lambda dt))");
        let predicted = record.number(key, Beltrami::CYCLE_AMPLITUDE);
        check(&name, Origin::ClosedForm, predicted, noise(key), Band::Relative(0.2));
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let steps = record.settings["steps"].as_u64().unwrap_or(0) as usize;
    let panel = |key: &str, step: usize, label: &str| {
        let field = snapshot_name(step);
        let known = record.cell(key)?.fields.contains_key(&field);
        known.then(|| Panel { label: label.to_owned(), cell: key.to_owned(), field })
    };
    let pictures = |id: &str, title: &str, caption: &str, panels: Vec<Option<Panel>>| {
        let panels = panels.into_iter().flatten().collect();
        Figure::pictures(id, title, caption, Pictures { range: [0.0, 1.0], panels })
    };
    let late = |key: &str, name: &str| {
        [
            panel(
                key,
                BeltramiRun::earlier(steps),
                &format!("{name}, after {} steps", BeltramiRun::earlier(steps)),
            ),
            panel(key, steps, &format!("{name}, after {steps} steps")),
        ]
    };
    let [stable, stable_later] = late("x0.9", "x 0.9");
    let [ten, ten_later] = late("x10", "x 10");
    let [hundred, hundred_later] = late("x100", "x 100");
    let keys = ["x0.9", "x10", "x100"];
    let trace = |key: &&str| Trace::new(key, key, "twin", "step", "distance");
    vec![
        pictures(
            "stable-and-diverged",
            "Stable and diverged",
            "The stable result no longer changes. At 1000 times the bound two steps destroy \
             the image.",
            vec![
                panel("x0.9", 0, "initial image"),
                stable,
                stable_later,
                panel("x1000", 2, "x 1000, after 2 steps"),
            ],
        ),
        pictures(
            "restrained",
            "Restrained",
            "The same result with noise on top. Further steps only change the pattern of the noise.",
            vec![ten, ten_later, hundred, hundred_later],
        ),
        Figure::chart(
            "twin",
            "Distance to a copy perturbed by one bit",
            "Relative 2-norm. At every step the last bit of each value that agrees with the \
             original is flipped.",
            Chart::new(
                Axis::linear("step"),
                Axis::log("relative distance"),
                keys.iter().map(trace).collect(),
            ),
        ),
    ]
}
