//! Runs exhibits, all of their cells or a part of them.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;

use super::Exhibit;
use crate::data;
use crate::error::Error;
use crate::plan::Plan;
use crate::progress::Monitor;
use crate::record::{Check, Record, Scale, Store};
use crate::relative_path::RelativePath;
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

/// Runs exhibits one after the other; each record is complete before the next begins.
///
/// # Errors
///
/// [`Error::Stopped`] if its monitor asked to stop: finished cells are saved.
pub fn run_exhibits(
    exhibits: &[&Exhibit],
    options: &RunOptions,
    out: &Path,
    monitor: &dyn Monitor,
) -> Result<Vec<(Store, Record)>, Error> {
    require(exhibits, options.scale, options.device, out)?;
    let mut done = Vec::new();
    for exhibit in exhibits {
        let (store, record) = run_exhibit(exhibit, options.clone(), out, monitor)?;
        if let (Some(reason), false) = (monitor.stop_requested(), record.is_complete()) {
            return Err(reason.into());
        }
        done.push((store, record));
    }
    Ok(done)
}

/// A record of an exhibit, for programs.
#[derive(Debug, Serialize)]
pub struct RecordSummary<'a> {
    /// Its name.
    pub id: &'a RelativePath,
    /// Its scale.
    pub scale: Option<Scale>,
    /// The device of its trainings, where that is not the CPU.
    pub device: Option<&'a str>,
    /// Finished cells.
    pub cells: usize,
    /// Cells that it will have.
    pub planned: usize,
    /// Whether its checks hold.
    pub status: &'static str,
    /// Why the claim cannot be tested at this scale.
    pub not_tested: Option<&'a str>,
    /// Comparisons with the paper or a closed form.
    pub checks: &'a [Check],
    /// Its folder.
    pub folder: &'a Path,
}

impl<'a> RecordSummary<'a> {
    /// Of a record in its folder.
    pub fn new(store: &'a Store, record: &'a Record) -> Self {
        Self {
            id: &record.id,
            scale: record.scale,
            device: record.device.as_deref(),
            cells: record.cells.len(),
            planned: record.planned,
            status: record.status().name(),
            not_tested: record.not_tested.as_deref(),
            checks: &record.checks,
            folder: store.folder(),
        }
    }
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
