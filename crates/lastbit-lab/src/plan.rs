//! What will be computed: independent cells, each by a simulation in memory or by training networks.
//!
//! Exhibits, edge searches and noise studies make plans; the [runner](crate::runner) carries them out.

use serde_json::Value;

use crate::error::Error;
use crate::progress::Progress;
use crate::record::Outcome;
use crate::train::{Device, Training};

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

impl Task {
    /// A cell that is computed in memory.
    pub fn simulation(
        key: &str,
        settings: Value,
        steps: usize,
        compute: impl Fn(&Progress) -> Result<Outcome, Error> + Send + Sync + 'static,
    ) -> Self {
        let compute = Compute::simulation(compute);
        Self { key: key.to_owned(), settings, steps: steps as u64, compute }
    }
}

/// How a cell is computed.
pub enum Compute {
    /// In memory; such cells run beside each other.
    Simulation(Simulation),
    /// By training networks in a folder, from which an interrupted run resumes. Trainings run one after the other,
    /// each on all threads.
    Training(Box<Training>),
}

/// A computation that shows its progress.
pub type Simulation = Box<dyn Fn(&Progress) -> Result<Outcome, Error> + Send + Sync>;

impl Compute {
    /// A computation in memory. It ends with [`Error::Stopped`] where its monitor asks to stop.
    pub fn simulation(
        compute: impl Fn(&Progress) -> Result<Outcome, Error> + Send + Sync + 'static,
    ) -> Self {
        Self::Simulation(Box::new(compute))
    }
}
