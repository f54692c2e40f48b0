//! What a probe showed, and how it stands in a record: written here, and read back here.

use serde::Serialize;

use super::{End, Over};
use crate::number::Number;
use crate::record::{Cell, Outcome, VerdictRecord};

lastbit::named_enum! {
    /// Names of numbers in records of searches. A probe has those of its own; the cell of a seed has each, for each
    /// end of the interval, as `END_NUMBER`: the edge, and what the probe on its stable side showed.
    pub enum EdgeNumber {
        /// Middle of the bracket.
        Edge = "edge",
        /// Its end where the property holds.
        Holds = "holds",
        /// Its other end.
        Fails = "fails",
        /// Lower end of the interval for the median edge over orders of the batches.
        MedianLow = "median_low",
        /// Its upper end.
        MedianHigh = "median_high",
        /// Probability, at least, that it contains the median.
        Confidence = "confidence",
        /// Loss where the probe ended.
        Loss = "loss",
        /// Norm of the gradient there, weight decay included.
        GradientNorm = "gradient_norm",
        /// Largest eigenvalue of the Hessian there, weight decay included and as the optimizer's steps see it.
        Sharpness = "sharpness",
        /// Residual of its eigenvector.
        SharpnessResidual = "sharpness_residual",
        /// Sharpness over the threshold of the optimizer: 1 is the edge.
        EdgeRatio = "edge_ratio",
        /// The edge that this sharpness predicts; NaN where there is none.
        Predicted = "predicted",
    }
}

impl EdgeNumber {
    /// Its name in the cell of a seed.
    pub fn of(self, end: End) -> String {
        format!("{}_{}", end.name(), self.name())
    }
}

/// What a probe showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeResult {
    /// Value of the parameter.
    pub at: f64,
    /// The verdict on its run.
    pub verdict: VerdictRecord,
    /// Loss where it ended.
    pub loss: Number,
    /// Curvature there; none where it diverged.
    #[serde(flatten)]
    pub curvature: Option<ProbeCurvature>,
}

/// Curvature where a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProbeCurvature {
    /// Norm of the gradient, weight decay included.
    pub gradient_norm: Number,
    /// Largest eigenvalue of the Hessian, weight decay included and as the optimizer's steps see it.
    pub sharpness: Number,
    /// Residual of its eigenvector.
    pub sharpness_residual: Number,
    /// Sharpness over the threshold of the optimizer: 1 is the edge.
    pub edge_ratio: Number,
    /// The edge that this sharpness predicts; NaN where there is none.
    pub predicted: Number,
}

impl ProbeCurvature {
    /// Its numbers by their names.
    pub fn named(&self) -> [(EdgeNumber, Number); 5] {
        [
            (EdgeNumber::GradientNorm, self.gradient_norm),
            (EdgeNumber::Sharpness, self.sharpness),
            (EdgeNumber::SharpnessResidual, self.sharpness_residual),
            (EdgeNumber::EdgeRatio, self.edge_ratio),
            (EdgeNumber::Predicted, self.predicted),
        ]
    }
}

impl ProbeResult {
    /// A number of the curvature, where it was measured and is finite.
    pub fn measured(&self, of: fn(&ProbeCurvature) -> Number) -> Option<f64> {
        self.curvature.as_ref().map(|curvature| of(curvature).0).filter(|value| value.is_finite())
    }

    /// Puts verdict and numbers into the outcome of a cell.
    pub fn write(&self, over: Over, outcome: &mut Outcome) {
        outcome.verdict = Some(self.verdict.clone());
        outcome.number(over.name(), self.at);
        outcome.number(EdgeNumber::Loss.name(), self.loss.0);
        for (name, Number(value)) in self.curvature.iter().flat_map(ProbeCurvature::named) {
            outcome.number(name.name(), value);
        }
    }

    /// Reads them back from the cell of a probe at this value; none where it is the cell of something else.
    pub fn read(cell: &Cell, at: f64) -> Option<Self> {
        let number = |name: EdgeNumber| cell.numbers.get(name.name()).copied();
        let curvature = || {
            Some(ProbeCurvature {
                gradient_norm: number(EdgeNumber::GradientNorm)?,
                sharpness: number(EdgeNumber::Sharpness)?,
                sharpness_residual: number(EdgeNumber::SharpnessResidual)?,
                edge_ratio: number(EdgeNumber::EdgeRatio)?,
                predicted: number(EdgeNumber::Predicted)?,
            })
        };
        let verdict = cell.verdict.clone()?;
        Some(Self { at, verdict, loss: number(EdgeNumber::Loss)?, curvature: curvature() })
    }
}
