//! The exhibits: one file for each figure or table, whose doc comment is the page a reader sees.
//!
//! An exhibit plans independent cells; the [runner](crate::runner) computes them, in any order and
//! on any number of threads, and asks the exhibit for checks and figures of what was found.

mod checkerboard_net;
mod ext_butterfly;
mod ext_cfl_optimizer;
mod ext_last_bit;
mod ext_significant_bits;
mod ext_why;
mod fig_beltrami_1d;
mod fig_beltrami_2d;
mod fig_depth;
mod fig_depth_decay;
mod fig_divergence_epochs;
mod fig_divergence_lr;
mod fig_fc_cifar5k;
mod fig_heat;
mod fig_kernel_snapshots;
mod fig_large_decay;
mod fig_linear_bounds;
mod fig_nesterov_bounds;
mod fig_nonlinear_divergence;
mod fig_nonlinear_loss;
mod fig_sharpness;
mod fig_stable_accuracy;
mod linear_bounds;
mod one_channel;
mod page;
mod perturbed;
mod run;
mod tab_adam;
mod tab_architectures;
mod tab_f64;
mod tab_multilayer_theory;
mod tab_nesterov_bounds;
mod tab_power_of_two;
mod tab_regimes;
mod tab_relu;
mod tab_seeds_fixed;
mod tab_swish;
mod tab_windowed_bounds;
#[cfg(test)]
mod tests;

pub use run::{RecordSummary, RunOptions, require, run_exhibit, run_exhibits};

use serde_json::Value;

use crate::error::Error;
use crate::figure::Figure;
use crate::nearest::suggestion;
use crate::plan::Plan;
use crate::record::{Check, Page, Record, Scale};
use crate::train::Device;

/// Stands for every exhibit.
const ALL: &str = "all";

/// Every exhibit, in the order of the paper; what goes beyond it comes last.
pub const CATALOGUE: &[Exhibit] = &[
    fig_heat::EXHIBIT,
    fig_beltrami_1d::EXHIBIT,
    fig_beltrami_2d::EXHIBIT,
    tab_relu::EXHIBIT,
    tab_f64::EXHIBIT,
    tab_swish::EXHIBIT,
    tab_architectures::EXHIBIT,
    tab_adam::EXHIBIT,
    fig_divergence_epochs::EXHIBIT,
    fig_divergence_lr::EXHIBIT,
    fig_stable_accuracy::EXHIBIT,
    tab_seeds_fixed::EXHIBIT,
    tab_power_of_two::EXHIBIT,
    fig_linear_bounds::EXHIBIT,
    tab_windowed_bounds::EXHIBIT,
    tab_regimes::EXHIBIT,
    fig_nonlinear_loss::EXHIBIT,
    fig_nonlinear_divergence::EXHIBIT,
    fig_kernel_snapshots::EXHIBIT,
    fig_sharpness::EXHIBIT,
    fig_fc_cifar5k::EXHIBIT,
    tab_multilayer_theory::EXHIBIT,
    fig_depth::EXHIBIT,
    fig_depth_decay::EXHIBIT,
    fig_large_decay::EXHIBIT,
    fig_nesterov_bounds::EXHIBIT,
    tab_nesterov_bounds::EXHIBIT,
    ext_last_bit::EXHIBIT,
    ext_butterfly::EXHIBIT,
    ext_significant_bits::EXHIBIT,
    ext_cfl_optimizer::EXHIBIT,
    ext_why::EXHIBIT,
];

/// A plan on a device.
type PlanOn = fn(Scale, Device) -> Result<Plan, Error>;

/// A figure or table and all that is needed to make it.
pub struct Exhibit {
    /// Name in the catalogue.
    pub id: &'static str,
    /// Source file of the exhibit, whose doc comment is its page.
    source: &'static str,
    plan: fn(Scale) -> Plan,
    /// The plan on another device than the CPU, of exhibits that use it for more than trainings.
    plan_on: Option<PlanOn>,
    /// Why no check can test the claim at smoke scale, as a clause for the reader; nothing where the checks do.
    not_tested_at_smoke: Option<&'static str>,
    /// Comparisons with the paper and with closed forms, once all cells are there. They test the claim.
    checks: fn(&Record) -> Vec<Check>,
    /// Charts and pictures of the cells.
    figures: fn(&Record) -> Vec<Figure>,
    /// Whether they can be made of a record that lacks some of its cells, too.
    shows_parts: bool,
}

impl Exhibit {
    /// What most exhibits leave as it is.
    const EMPTY: Self = Self {
        id: "",
        source: "",
        plan: |_| Plan { settings: Value::Null, cells: vec![] },
        plan_on: None,
        not_tested_at_smoke: None,
        checks: |_| vec![],
        figures: |_| vec![],
        shows_parts: false,
    };

    /// What will be computed.
    pub fn plan(&self, scale: Scale) -> Plan {
        (self.plan)(scale)
    }

    /// The same on another device than the CPU; nothing where nothing uses it.
    fn plan_on(&self, scale: Scale, device: Device) -> Result<Option<Plan>, Error> {
        if let Some(plan_on) = self.plan_on {
            return plan_on(scale, device).map(Some);
        }
        let plan = self.plan(scale);
        let trains = plan.trainings().next().is_some();
        trains.then(|| plan.on(device)).transpose()
    }

    fn not_tested(&self, scale: Scale) -> Option<&'static str> {
        self.not_tested_at_smoke.filter(|_| scale == Scale::Smoke)
    }

    /// The page at a scale.
    pub fn page(&self, scale: Scale) -> Page {
        page::from_source(self.source, scale.name())
    }
}

/// The largest of some numbers, or NaN where one is missing: no check holds for NaN.
fn largest(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || b <= a { a } else { b })
}

/// The smallest, likewise.
fn smallest(numbers: impl IntoIterator<Item = f64>) -> f64 {
    -largest(numbers.into_iter().map(|number| -number))
}

/// The exhibit of this name.
pub fn find(id: &str) -> Option<&'static Exhibit> {
    CATALOGUE.iter().find(|exhibit| exhibit.id == id)
}

/// The exhibit of this name, or an error with those of a similar one.
pub fn known(id: &str) -> Result<&'static Exhibit, Error> {
    find(id).ok_or_else(|| {
        let ids: Vec<&str> = CATALOGUE.iter().map(|exhibit| exhibit.id).collect();
        let advice = match suggestion(id, ids.iter().copied()) {
            Some(suggestion) => format!("{suggestion} `lastbit list` shows all"),
            None => format!("expected one of {}", ids.join(", ")),
        };
        Error::UnknownExhibit { name: id.to_owned(), advice }
    })
}

/// The exhibits of these names, each once; `all` stands for all of them.
pub fn select(ids: &[String]) -> Result<Vec<&'static Exhibit>, Error> {
    let mut exhibits: Vec<&'static Exhibit> = Vec::new();
    for id in ids.iter().filter(|id| *id != ALL) {
        let exhibit = known(id)?;
        if exhibits.iter().all(|other| other.id != exhibit.id) {
            exhibits.push(exhibit);
        }
    }
    let all = ids.iter().any(|id| id == ALL);
    Ok(if all { CATALOGUE.iter().collect() } else { exhibits })
}
