//! What will be computed: independent cells, each by a simulation in memory or by training networks.
//!
//! Exhibits, edge searches and noise studies make plans; the [runner](crate::runner) carries them out.

use serde_json::Value;

use crate::error::Error;
use crate::progress::Progress;
use crate::record::{Outcome, Record};
use crate::train::{Device, Training};

lastbit::named_enum! {
    /// How much to compute.
    pub enum Scale, default Desk {
        /// Seconds: what the tests run.
        Smoke = "smoke",
        /// Minutes at most on a laptop.
        Desk = "desk",
        /// The paper's settings.
        Paper = "paper",
    }
}

impl Scale {
    /// The scale of a record of an exhibit.
    ///
    /// # Panics
    ///
    /// If it is a record of something else.
    pub fn of(record: &Record) -> Self {
        let scales = [Self::Smoke, Self::Desk, Self::Paper];
        // What follows the scale is the device.
        let name = record.variant.split('-').next().unwrap_or_default();
        let found = scales.into_iter().find(|scale| scale.name() == name);
        found.unwrap_or_else(|| panic!("{} is no scale", record.variant))
    }
}

/// Settings common to all cells, and the cells.
pub struct Plan {
    /// Settings, as they will stand in the record.
    pub settings: Value,
    /// Independent computations.
    pub cells: Vec<Task>,
}

impl Plan {
    /// The trainings among the cells.
    pub fn trainings(&self) -> impl Iterator<Item = &Training> {
        self.cells.iter().filter_map(|task| match &task.compute {
            Compute::Training(training) => Some(training.as_ref()),
            Compute::Simulation(_) => None,
        })
    }

    /// The same with its trainings on another device.
    pub fn on(mut self, device: Device) -> Result<Self, Error> {
        self.settings["device"] = device.name().into();
        for task in &mut self.cells {
            if let Compute::Training(training) = &mut task.compute {
                **training = training.as_ref().clone().on(device)?;
                task.settings = training.found.to_json();
            }
        }
        Ok(self)
    }
}

/// A cell to be computed.
pub struct Task {
    /// Name within the exhibit.
    pub key: String,
    /// Settings, as they will stand in the record.
    pub settings: Value,
    /// Steps it will take, for the progress bar.
    pub steps: u64,
    /// The computation. It depends on nothing but the settings.
    pub compute: Compute,
}

/// How a cell is computed.
pub enum Compute {
    /// In memory; such cells run beside each other.
    Simulation(Simulation),
    /// By training networks in a folder, from which a killed run goes on. Trainings run one after
    /// the other, each on all threads.
    Training(Box<Training>),
}

/// A computation that shows its progress.
type Simulation = Box<dyn Fn(&Progress) -> Outcome + Send + Sync>;

impl Compute {
    /// A computation in memory.
    pub fn simulation(compute: impl Fn(&Progress) -> Outcome + Send + Sync + 'static) -> Self {
        Self::Simulation(Box::new(compute))
    }
}
