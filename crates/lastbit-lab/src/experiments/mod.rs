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

pub use run::{RunOptions, require, run_exhibit};

use crate::error::Error;
use crate::figure::Figure;
use crate::plan::Plan;
use crate::record::{Check, Page, Record, Scale};
use crate::train::Device;

/// Every exhibit, in the order of the paper; what goes beyond it comes last.
pub const CATALOGUE: &[&dyn Exhibit] = &[
    &fig_heat::FigHeat,
    &fig_beltrami_1d::FigBeltrami1d,
    &fig_beltrami_2d::FigBeltrami2d,
    &tab_relu::TabRelu,
    &tab_f64::TabF64,
    &tab_swish::TabSwish,
    &tab_architectures::TabArchitectures,
    &tab_adam::TabAdam,
    &fig_divergence_epochs::FigDivergenceEpochs,
    &fig_divergence_lr::FigDivergenceLr,
    &fig_stable_accuracy::FigStableAccuracy,
    &tab_seeds_fixed::TabSeedsFixed,
    &tab_power_of_two::TabPowerOfTwo,
    &fig_linear_bounds::FigLinearBounds,
    &tab_windowed_bounds::TabWindowedBounds,
    &tab_regimes::TabRegimes,
    &fig_nonlinear_loss::FigNonlinearLoss,
    &fig_nonlinear_divergence::FigNonlinearDivergence,
    &fig_kernel_snapshots::FigKernelSnapshots,
    &fig_sharpness::FigSharpness,
    &fig_fc_cifar5k::FigFcCifar5k,
    &tab_multilayer_theory::TabMultilayerTheory,
    &fig_depth::FigDepth,
    &fig_depth_decay::FigDepthDecay,
    &fig_large_decay::FigLargeDecay,
    &fig_nesterov_bounds::FigNesterovBounds,
    &tab_nesterov_bounds::TabNesterovBounds,
    &ext_last_bit::ExtLastBit,
    &ext_butterfly::ExtButterfly,
    &ext_significant_bits::ExtSignificantBits,
    &ext_cfl_optimizer::ExtCflOptimizer,
    &ext_why::ExtWhy,
];

/// A figure or table and all that is needed to make it.
pub trait Exhibit: Sync {
    /// Name in the catalogue.
    fn id(&self) -> &'static str;

    /// Source file of the exhibit, whose doc comment is its page.
    fn source(&self) -> &'static str;

    /// What will be computed.
    fn plan(&self, scale: Scale) -> Plan;

    /// The same on another device than the CPU; nothing where there is nothing to train.
    fn plan_on(&self, scale: Scale, device: Device) -> Result<Option<Plan>, Error> {
        let plan = self.plan(scale);
        let trains = plan.trainings().next().is_some();
        trains.then(|| plan.on(device)).transpose()
    }

    /// Why no check can test the claim at a scale, as a clause for the reader; nothing where the checks do.
    fn not_tested(&self, _: Scale) -> Option<&'static str> {
        None
    }

    /// Comparisons with the paper and with closed forms, once all cells are there. They test the claim.
    fn checks(&self, record: &Record) -> Vec<Check>;

    /// Charts and pictures of the cells.
    fn figures(&self, record: &Record) -> Vec<Figure>;

    /// Whether they can be made of a record that lacks some of its cells, too.
    fn shows_parts(&self) -> bool {
        false
    }

    /// The page at a scale.
    fn page(&self, scale: Scale) -> Page {
        page::from_source(self.source(), scale.name())
    }
}

/// The exhibit of this name.
pub fn find(id: &str) -> Option<&'static dyn Exhibit> {
    CATALOGUE.iter().copied().find(|exhibit| exhibit.id() == id)
}
