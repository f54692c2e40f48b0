//! What came of the runs.

use std::path::PathBuf;

use serde::Serialize;

use crate::envelope::{Band, Envelope, Reproducibility};
use crate::number::Number;
use crate::progress::StopReason;

/// The runs of an envelope, and the envelope when all are whole.
#[derive(Debug, Serialize)]
pub struct Made {
    /// Their folder.
    pub folder: PathBuf,
    /// The file of the envelope.
    pub file: Option<PathBuf>,
    /// Runs that are whole.
    pub whole: usize,
    /// Runs in all.
    pub planned: usize,
    /// Whether the program is bit-reproducible; none while that is not known.
    pub reproducibility: Option<Reproducibility>,
    /// Whether the perturbation reached the program: a perturbed run differs from those without a perturbation in any bit, or, where
    /// these differ themselves, the launcher perturbed an optimizer in each. None where that is not known.
    pub reached: Option<bool>,
    /// Each metric of the envelope.
    pub metrics: Vec<Spread>,
    /// What a reader of the envelope should know.
    pub notes: Vec<String>,
    /// Why it was stopped, if it was.
    #[serde(skip)]
    pub stopped: Option<StopReason>,
}

/// How far apart rounding brings a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// The metric.
    pub metric: String,
    /// Steps that are compared.
    pub steps: usize,
    /// The first of them at which the runs differ, if they do.
    pub differs_from: Option<u64>,
    /// The last of them.
    pub last_step: u64,
    /// Mean of the runs there.
    pub mean: Number,
    /// Standard deviation of the runs there.
    pub sd: Number,
    /// The standard deviation as a share of the mean's size.
    pub relative: Number,
}

impl Spread {
    /// Of each metric.
    pub fn all(envelope: &Envelope) -> Vec<Self> {
        envelope.metrics.iter().filter_map(|(metric, band)| Self::of(metric, band)).collect()
    }

    /// `None` of a metric without steps.
    fn of(metric: &str, band: &Band) -> Option<Self> {
        let last = band.steps.len().checked_sub(1)?;
        let differs =
            |place: &usize| band.values.iter().any(|run| run[*place] != band.values[0][*place]);
        let values: Vec<f64> = band.values.iter().map(|run| run[last].0).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / (count - 1.0)).sqrt();
        Some(Self {
            metric: metric.to_owned(),
            steps: band.steps.len(),
            differs_from: (0..=last).find(differs).map(|place| band.steps[place]),
            last_step: band.steps[last],
            mean: Number(mean),
            sd: Number(sd),
            relative: Number(sd / mean.abs()),
        })
    }
}
