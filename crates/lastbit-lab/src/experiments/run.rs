//! Runs exhibits, all of their cells or a part of them.

use std::ops::Range;
use std::path::Path;

use super::Exhibit;
use crate::data;
use crate::error::Error;
use crate::plan::Plan;
use crate::progress::Monitor;
use crate::record::{Record, Scale, Store};
use crate::runner::{Existing, Job, run_part};
use crate::train::{self, Device, Training};

/// How much of an exhibit is run, and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// How large.
    pub scale: Scale,
    /// What makes the steps of its trainings.
    pub device: Device,
    /// Places in its plan of the cells that are run; all where none are named.
    pub cells: Option<Range<usize>>,
    /// What becomes of those that are there.
    pub existing: Existing,
}

impl RunOptions {
    /// All of it on the CPU, except what is there.
    pub fn all(scale: Scale) -> Self {
        Self { scale, device: Device::Cpu, cells: None, existing: Existing::Reuse }
    }
}

/// Runs an exhibit.
pub fn run_exhibit(
    exhibit: &Exhibit,
    options: RunOptions,
    out: &Path,
    monitor: &dyn Monitor,
) -> Result<(Store, Record), Error> {
    let RunOptions { scale, device, cells, existing } = options;
    let (plan, device) = planned(exhibit, scale, device)?;
    let job = Job {
        id: exhibit.id,
        scale: Some(scale),
        device,
        page: exhibit.page(scale),
        plan,
        not_tested: exhibit.not_tested(scale),
        checks: &exhibit.checks,
        figures: &exhibit.figures,
        shows_parts: exhibit.shows_parts,
    };
    let cells = cells.unwrap_or(0..job.plan.cells.len());
    run_part(job, cells, out, existing, monitor)
}

/// What will be computed, and the device that trains where that is not the CPU.
fn planned(
    exhibit: &Exhibit,
    scale: Scale,
    device: Device,
) -> Result<(Plan, Option<&'static str>), Error> {
    let on_device = match device {
        Device::Cpu => None,
        device => exhibit.plan_on(scale, device)?,
    };
    Ok(match on_device {
        Some(plan) => (plan, Some(device.name())),
        None => (exhibit.plan(scale), None),
    })
}

/// Whether these exhibits fit the device, and whether it and all data are there: better said now
/// than after hours.
///
/// A record that has been begun may be finished but for its figures, which take no device.
pub fn require(
    exhibits: &[&Exhibit],
    scale: Scale,
    device: Device,
    out: &Path,
) -> Result<(), Error> {
    let plans = exhibits.iter().map(|exhibit| planned(exhibit, scale, device));
    let plans = plans.collect::<Result<Vec<_>, Error>>()?;
    for (exhibit, (plan, device)) in exhibits.iter().zip(plans) {
        let is_begun = Store::is_there(out, exhibit.id, scale, device);
        for Training { found, .. } in plan.trainings() {
            data::require(&found.settings.data.name)?;
            if !is_begun {
                train::require_device(found)?;
            }
        }
    }
    Ok(())
}
