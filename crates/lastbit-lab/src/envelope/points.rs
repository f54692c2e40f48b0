//! The points at which a run and an envelope can be compared.

use super::file::Band;
use super::spacing::spacing;
use crate::logged::Metric;
use crate::words::counted;

/// A metric at the steps where all values are finite.
pub struct Points {
    pub metric: String,
    pub steps: Vec<u64>,
    /// For each run of the envelope, its values.
    pub runs: Vec<Vec<f64>>,
    /// Those of the new run.
    pub new: Vec<f64>,
    /// See [`spacing`].
    pub spacing: f64,
    /// The first step at which the new run is not finite although all others are, with its value.
    pub not_finite: Option<(u64, f64)>,
    /// Steps of the envelope at which there is nothing to compare with; none if the run ended there.
    pub notes: Vec<String>,
}

impl Points {
    /// Whether all runs of the envelope are equal at all steps.
    pub fn is_constant(&self) -> bool {
        self.runs.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// `None` if the run has none of the steps.
    pub fn of(metric: &str, band: &Band, run: &Metric) -> Option<Self> {
        let mut found = Self {
            metric: metric.to_owned(),
            steps: vec![],
            runs: vec![vec![]; band.values.len()],
            new: vec![],
            spacing: 0.0,
            not_finite: None,
            notes: vec![],
        };
        let (mut missing, mut diverged) = (0, Vec::new());
        for (place, step) in band.steps.iter().enumerate() {
            let Ok(own) = run.steps.binary_search(step) else {
                missing += 1;
                continue;
            };
            let value = run.values[own];
            let finite = band.values.iter().filter(|run| run[place].0.is_finite()).count();
            if finite < band.values.len() {
                diverged.push((*step, finite));
            } else if value.is_finite() {
                found.steps.push(*step);
                found.new.push(value);
                for (own, run) in found.runs.iter_mut().zip(&band.values) {
                    own.push(run[place].0);
                }
            } else if found.not_finite.is_none() {
                found.not_finite = Some((*step, value));
            }
        }
        if missing == band.steps.len() {
            return None;
        }
        if missing > 0 {
            let of = band.steps.len();
            found.notes.push(format!("{metric}: the run lacks {missing} of {of} steps"));
        }
        if let Some((step, finite)) = diverged.first() {
            found.notes.push(format!(
                "{metric}: {} left out, from step {step}, where only {finite} of {} runs of the envelope are finite",
                counted(diverged.len(), "step"),
                band.values.len()
            ));
        }
        found.spacing = spacing(&found.steps, &found.runs, &found.new);
        Some(found)
    }
}
