//! The growth rate of the distance between two runs.

use lastbit::growth::ExponentialFit;
use serde::Serialize;

use super::{StepRow, Unit};
use crate::number::Number;
use crate::simulate::SATURATED;

/// Points that a rate with a standard error needs.
const FEWEST: usize = 3;

/// How fast the distance grows while it is small.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthOfDistance {
    /// An exponential was fitted to the relative distance.
    Fitted {
        /// Its rate: e-folds per step.
        per_step: Number,
        /// Standard error of the rate.
        standard_error: Number,
        /// Steps at which the distance was known and small.
        points: usize,
        /// First of them, and the exponential there.
        from: [Number; 2],
        /// Last of them, and the exponential there.
        to: [Number; 2],
    },
    /// There is no rate.
    None {
        /// Why.
        why: String,
    },
}

/// Fits the distances that `train` fits too: from the first one on, up to the first above [`SATURATED`].
pub fn of(rows: &[StepRow], unit: Unit) -> GrowthOfDistance {
    let points: Vec<(usize, f64)> =
        rows.iter().filter_map(|row| Some((row.step as usize, row.distance?.relative.0))).collect();
    let small = points.iter().take_while(|point| point.1 <= SATURATED);
    let usable = small.filter(|point| point.1 > 0.0).count();
    let unit = unit.name();
    if usable < FEWEST {
        let known = match (points.len(), usable) {
            (0, _) => "no step has the values of both".to_owned(),
            (_, 0) => format!("no {unit} has a distance between 0 and {SATURATED}"),
            (_, 1) => format!("one {unit} alone has a distance between 0 and {SATURATED}"),
            (_, some) => format!("{some} {unit}s alone have a distance between 0 and {SATURATED}"),
        };
        return GrowthOfDistance::None { why: format!("{known}; a rate needs {FEWEST}") };
    }
    let fit = ExponentialFit::of_plain_twin(&points, SATURATED).expect("there are enough points");
    GrowthOfDistance::Fitted {
        per_step: Number(fit.growth.per_step),
        standard_error: Number(fit.growth.standard_error),
        points: usable,
        from: [Number(fit.from.0), Number(fit.from.1)],
        to: [Number(fit.to.0), Number(fit.to.1)],
    }
}
