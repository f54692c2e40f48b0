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
//! - smoke: 12 images, 250 steps, limits to 5 %, one initialization each.
//! - desk: the first 50 images, 2000 steps; limits to 0.1 % for one layer and to 2 % for two, from
//!   ten initializations.
//! - paper: all 12,665 images, otherwise as desk.

use serde_json::json;

use super::Exhibit;
use super::one_channel::{OneChannel, check_device, horizon_of_a_search, in_words};
use crate::edge::{EdgeNumber, End, Over, Property, Search, searched};
use crate::error::Error;
use crate::figure::{Axis, Chart, Drawing, Figure, Quantity, Trace};
use crate::figure::{Strip, Strips};
use crate::plan::{Compute, Plan, Task};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::Device;

pub struct FigDepthDecay;

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
        let compute = Compute::simulation(move |progress| {
            let probes = run.probes(device, horizon_of_a_search(run.steps), false)?;
            searched(&probes, &search, progress)
        });
        Task { key, settings, steps: 12 * run.steps as u64, compute }
    };
    Plan { settings, cells: all.into_iter().map(cell).collect() }
}

impl Exhibit for FigDepthDecay {
    fn id(&self) -> &'static str {
        "fig-depth-decay"
    }

    fn source(&self) -> &'static str {
        include_str!("fig_depth_decay.rs")
    }

    fn plan(&self, scale: Scale) -> Plan {
        plan(scale, Device::Cpu)
    }

    fn plan_on(&self, scale: Scale, device: Device) -> Result<Option<Plan>, Error> {
        check_device(device)?;
        plan(scale, device).on(device).map(Some)
    }

    fn checks(&self, record: &Record) -> Vec<Check> {
        let scale = record.exhibit_scale();
        let mut checks = Vec::new();
        for Sought { key, run, tolerance } in sought(scale) {
            let name = format!("{}, seed {}, {} steps", in_words(run.layers), run.seed, run.steps);
            let number = |what: EdgeNumber| record.number(&key, &what.of(End::Largest));
            if run.layers == 1 {
                let (edge, predicted) = (number(EdgeNumber::Edge), number(EdgeNumber::Predicted));
                let what = format!("{name}: limit by search over 2/lambda_max");
                // Half of the bracket; the motion must die by a tenth within half the steps, at twice
                // the relative distance per step; and what is left of the way to the minimum.
                let band = 0.5 * tolerance + 0.1 / run.steps as f64 + 5e-4;
                checks.push(Check::number(
                    &what,
                    Origin::ClosedForm,
                    1.0,
                    edge / predicted,
                    Band::Relative(band),
                ));
                if scale == Scale::Paper {
                    let within = Band::Absolute(5.0);
                    let what = format!("{name}: largest stable learning rate");
                    checks.push(Check::number(&what, Origin::Paper, 95.0, edge, within));
                }
            } else if scale != Scale::Smoke && run.steps == STEPS {
                let of_one_layer =
                    record.number(&sought(scale)[0].key, &EdgeNumber::Edge.of(End::Largest));
                let what = format!("{name}: limit (at most: that of one layer)");
                checks.push(Check::number(
                    &what,
                    Origin::Claim,
                    of_one_layer,
                    number(EdgeNumber::Edge),
                    Band::AtMost,
                ));
            }
        }
        checks
    }

    fn figures(&self, record: &Record) -> Vec<Figure> {
        let all = sought(record.exhibit_scale());
        let quantity = |one: &Sought, what: EdgeNumber| -> Quantity {
            (one.key.as_str(), what.of(End::Largest).as_str()).into()
        };
        let strip = |label: &str, what: EdgeNumber, which: &dyn Fn(&Sought) -> bool| Strip {
            label: label.to_owned(),
            values: all.iter().filter(|one| which(one)).map(|one| quantity(one, what)).collect(),
            interval: None,
        };
        // The same steps for all, and one initialization after more and fewer.
        let of = |layers: usize| {
            let steps = all[0].run.steps;
            move |one: &Sought| one.run.layers == layers && one.run.steps == steps
        };
        let rows = vec![
            strip("1 layer, by search", EdgeNumber::Edge, &of(1)),
            strip("1 layer, 2/lambda_max", EdgeNumber::Predicted, &of(1)),
            strip("2 layers, by search", EdgeNumber::Edge, &of(2)),
            strip("2 layers, 2/lambda_max", EdgeNumber::Predicted, &of(2)),
        ];
        let strips = Strips {
            label: "largest stable learning rate".into(),
            factor: 1.0,
            centred: false,
            rows,
        };
        let mut figures = vec![Figure::new(
            "edges",
            "Largest stable learning rates",
            "One dot per initialization.",
            Drawing::Strips(strips),
        )];
        let earlier = all.iter().filter(|s| s.run.layers == 2 && s.run.seed == 0);
        let mut earlier: Vec<&Sought> = earlier.collect();
        earlier.sort_by_key(|one| one.run.steps);
        if earlier.len() > 1 {
            let rows = earlier.iter().map(|one| Strip {
                label: format!("after {} steps", one.run.steps),
                values: vec![quantity(one, EdgeNumber::Edge)],
                interval: None,
            });
            let strips = Strips {
                label: "largest stable learning rate".into(),
                factor: 1.0,
                centred: false,
                rows: rows.collect(),
            };
            figures.push(Figure::new(
                "horizon",
                "Two layers: the limit against the number of steps",
                "Sharpening is slow: longer runs give a lower limit.",
                Drawing::Strips(strips),
            ));
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
}
