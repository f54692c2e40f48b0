//! # Largest stable learning rate of one and two layers with weight decay
//!
//! ## Claim
//! With a weight decay of 5e-4 the largest stable learning rate of one layer is between 90 and 100;
//! search and `2/lambda_max` at the minimum agree to three digits. For two layers it is lower. It
//! depends on the minimum that the initialization leads to and on the number of steps.
//!
//! ## Method
//! The networks of fig-depth. The search runs each learning rate from the same initial weights and
//! takes its verdict. `lambda_max` (including weight decay) is that of the exact Hessian at the end
//! of the stable run nearest to the limit. The two answer different questions: does the run from
//! this initialization become unstable within this many steps, and what is the largest stable
//! learning rate at the minimum it reached? They agree if the stable runs have converged to one
//! minimum. Two layers sharpen slowly, so more steps give a lower limit; one figure shows this for
//! one initialization.
//!
//! ## Reference
//! The paper, Section 6.2: between 90 and 100 for one layer, between 10 and 20 for two.
//!
//! ## Differences
//! - smoke: 12 images, on which the limit of one layer is about 82; 250 steps, limits to 5 %, one
//!   initialization each.
//! - desk: the first 50 images, on which the limit of one layer is about 106; that it is between 90
//!   and 100 on all images is checked at paper scale only. 2000 steps; limits to 0.1 % for one layer and to 2 % for two, from
//!   ten initializations.
//! - paper: all 12,665 images, otherwise as desk.

use serde_json::json;

use super::Exhibit;
use super::one_channel::{OneChannel, horizon_of_a_search, in_words, on_device};
use crate::edge::{EdgeNumber, End, Over, Property, Search, searched};
use crate::figure::{Axis, Chart, Drawing, Figure, Quantity, Strip, Strips, Trace};
use crate::plan::{Plan, Task};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::Device;

pub const EXHIBIT: Exhibit = Exhibit {
    id: "fig-depth-decay",
    source: include_str!("fig_depth_decay.rs"),
    plan: |scale| plan(scale, Device::Cpu),
    plan_on: Some(|scale, device| on_device(plan(scale, device), device)),
    checks,
    figures,
    ..Exhibit::EMPTY
};

const ALPHA: f64 = 5e-4;

/// A search: the run it begins with, and how closely it looks.
struct Sought {
    key: String,
    run: OneChannel,
    tolerance: f64,
}

fn sought(scale: Scale) -> Vec<Sought> {
    let images = match scale {
        Scale::Smoke => Some(12),
        Scale::Desk => Some(50),
        Scale::Paper => None,
    };
    let search = |layers: usize, seed: u64, dt: f64, steps: usize, tolerance: f64| Sought {
        key: format!("net{layers}-seed{seed}-steps{steps}"),
        run: OneChannel { layers, images, alpha: ALPHA, dt, seed, steps },
        tolerance,
    };
    if scale == Scale::Smoke {
        return vec![search(1, 0, 64.0, 250, 0.05), search(2, 0, 16.0, 250, 0.05)];
    }
    let mut all = vec![search(1, 0, 64.0, STEPS, 1e-3)];
    all.extend((0..10).map(|seed| search(2, seed, 16.0, STEPS, 0.02)));
    all.extend(OTHERWISE.map(|steps| search(2, 0, 16.0, steps, 0.02)));
    all
}

/// Steps of a probe; and those after which the edge of two layers is read as well, from the first
/// initialization.
const STEPS: usize = 2000;
const OTHERWISE: [usize; 3] = [500, 1000, 4000];

fn plan(scale: Scale, device: Device) -> Plan {
    let all = sought(scale);
    let mut settings = all[0].run.settings();
    settings["alpha"] = json!(ALPHA);
    let cell = |Sought { key, run, tolerance }: Sought| {
        let search = Search {
            over: Over::Dt,
            property: Property::Stable,
            start: None,
            ends: None,
            tolerance,
        };
        let settings = json!({
            "layers": run.layers, "seed": run.seed, "steps": run.steps, "from": run.dt,
            "tolerance": tolerance,
        });
        Task::simulation(&key, settings, 12 * run.steps, move |progress| {
            let probes = run.probes(device, horizon_of_a_search(run.steps), false)?;
            searched(&probes, &search, progress)
        })
    };
    Plan { settings, cells: all.into_iter().map(cell).collect() }
}

fn checks(record: &Record) -> Vec<Check> {
    let scale = record.exhibit_scale();
    let all = sought(scale);
    let number = |one: &Sought, what: EdgeNumber| record.number(&one.key, &what.of(End::Largest));
    let mut checks = Vec::new();
    for one in &all {
        let Sought { run, tolerance, .. } = one;
        let name = format!("{}, seed {}, {} steps", in_words(run.layers), run.seed, run.steps);
        let edge = number(one, EdgeNumber::Edge);
        if run.layers == 1 {
            let ratio = edge / number(one, EdgeNumber::Predicted);
            let what = format!("{name}: limit by search over 2/lambda_max");
            // Half of the bracket; the motion must die by a tenth within half the steps, at twice
            // the relative distance per step; and what is left of the way to the minimum.
            let band = Band::Relative(0.5 * tolerance + 0.1 / run.steps as f64 + 5e-4);
            checks.push(Check::number(&what, Origin::ClosedForm, 1.0, ratio, band));
            if scale == Scale::Paper {
                let within = Band::Absolute(5.0);
                let what = format!("{name}: largest stable learning rate");
                checks.push(Check::number(&what, Origin::Paper, 95.0, edge, within));
            }
        } else if run.steps == all[0].run.steps {
            let of_one_layer = number(&all[0], EdgeNumber::Edge);
            let what = format!("{name}: limit (at most: that of one layer)");
            checks.push(Check::number(&what, Origin::Claim, of_one_layer, edge, Band::AtMost));
        }
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let all = sought(record.exhibit_scale());
    let quantity = |one: &Sought, what: EdgeNumber| -> Quantity {
        (one.key.as_str(), what.of(End::Largest).as_str()).into()
    };
    let figure = |id: &str, title: &str, caption: &str, rows: Vec<Strip>| {
        let strips = Strips::new("largest stable learning rate", rows);
        Figure::new(id, title, caption, Drawing::Strips(strips))
    };
    // The same steps for all, and one initialization after more and fewer.
    let strip = |label: &str, layers: usize, what: EdgeNumber| {
        let is_own = |one: &&Sought| one.run.layers == layers && one.run.steps == all[0].run.steps;
        Strip::new(label, all.iter().filter(is_own).map(|one| quantity(one, what)).collect())
    };
    let rows = vec![
        strip("1 layer, by search", 1, EdgeNumber::Edge),
        strip("1 layer, 2/lambda_max", 1, EdgeNumber::Predicted),
        strip("2 layers, by search", 2, EdgeNumber::Edge),
        strip("2 layers, 2/lambda_max", 2, EdgeNumber::Predicted),
    ];
    let (title, caption) = ("Largest stable learning rates", "One dot per initialization.");
    let mut figures = vec![figure("edges", title, caption, rows)];
    let earlier = all.iter().filter(|s| s.run.layers == 2 && s.run.seed == 0);
    let mut earlier: Vec<&Sought> = earlier.collect();
    earlier.sort_by_key(|one| one.run.steps);
    if earlier.len() > 1 {
        let row = |one: &&Sought| {
            let label = format!("after {} steps", one.run.steps);
            Strip::new(label, vec![quantity(one, EdgeNumber::Edge)])
        };
        let title = "Two layers: the limit against the number of steps";
        let caption = "Sharpening is slow: longer runs give a lower limit.";
        figures.push(figure("horizon", title, caption, earlier.iter().map(row).collect()));
    }
    let mut traces = Vec::new();
    for one in [&all[0], &all[1]] {
        for (series, side) in
            [(EdgeNumber::Holds, "stable side"), (EdgeNumber::Fails, "unstable side")]
        {
            let label = format!("{}, {side}", in_words(one.run.layers));
            traces.push(Trace::new(&label, &one.key, series.name(), "step", "loss"));
        }
    }
    figures.push(Figure::chart(
        "loss",
        "Loss on both sides of the stability limit",
        "The last two runs of each bisection; their learning rates are nearly equal.",
        Chart::new(Axis::linear("step"), Axis::log("loss"), traces),
    ));
    figures
}
