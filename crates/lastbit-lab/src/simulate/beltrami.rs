//! A judged run of Beltrami reaction-diffusion, on a signal or an image.

use std::ops::ControlFlow;

use lastbit::pde::Pde;
use lastbit::pde::beltrami::{Beltrami, UnstableShare};
use lastbit::pde::beltrami_1d::Beltrami1d;
use lastbit::pde::beltrami_2d::Beltrami2d;
use lastbit::{Dynamics, Real, Watcher};

use super::pde::{run_pde, snapshot_name};
use super::{Precision, rounded};
use crate::error::Error;
use crate::input::Data;
use crate::number::Number;
use crate::progress::Progress;
use crate::record::Outcome;
use crate::series::Field;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct BeltramiRun {
    /// Step size and constants.
    pub parameters: Beltrami,
    /// Precision.
    pub precision: Precision,
    /// Steps.
    pub steps: usize,
    /// Steps at which to keep the state.
    pub snapshots: Vec<usize>,
    /// The data `I`, also the initial state.
    pub data: Data,
}

impl BeltramiRun {
    /// Standard deviation in time over the last quarter of the run, root mean square over places: a number.
    pub const NOISE_AMPLITUDE: &'static str = "noise_amplitude";

    /// What was subtracted from the data before the run: a number, of runs in which something was.
    pub const OFFSET: &'static str = "offset";

    /// The step of the earlier of two snapshots late in a run of `steps`. An odd number of steps
    /// lies between them, so that a cycle of period two shows both its sides.
    pub fn earlier(steps: usize) -> usize {
        steps - ((steps / 10) | 1).min(steps)
    }

    /// Runs it.
    pub fn run(&self, progress: &Progress) -> Result<Outcome, Error> {
        match self.precision {
            Precision::F32 => self.run_in::<f32>(progress),
            Precision::F64 => self.run_in::<f64>(progress),
        }
    }

    fn run_in<F: Real>(&self, progress: &Progress) -> Result<Outcome, Error> {
        let offset = offset_of(self.data.values());
        let rest: Vec<f64> = self.data.values().iter().map(|value| value - offset).collect();
        let mut outcome = match &self.data {
            Data::Signal(signal) => {
                let run = Beltrami1d::<F>::new(self.parameters, rounded(&rest));
                let mut outcome = self.measured(run, progress)?;
                let profiles = outcome.series.get_mut("profiles").expect("a line has profiles");
                for (_, column) in profiles.columns.iter_mut().skip(1) {
                    column.iter_mut().for_each(|value| *value += offset);
                }
                profiles.columns.insert(1, ("signal".to_owned(), signal.clone()));
                outcome
            }
            Data::Image(Field { height, width, .. }) => {
                let run = Beltrami2d::<F>::new(self.parameters, *height, *width, rounded(&rest));
                let mut outcome = self.measured(run, progress)?;
                for field in outcome.fields.values_mut() {
                    field.values.iter_mut().for_each(|value| *value += offset);
                }
                for name in [Outcome::FIELD_LOW, Outcome::FIELD_HIGH] {
                    if let Some(Number(value)) = outcome.numbers.get(name).copied() {
                        outcome.number(name, value + offset);
                    }
                }
                outcome
            }
        };
        if offset != 0.0 {
            outcome.number(Self::OFFSET, offset);
        }
        Ok(outcome)
    }

    fn measured<P: Pde>(&self, run: P, progress: &Progress) -> Result<Outcome, Error> {
        let mut fluctuation = Fluctuation::over_last_quarter(run.state().len(), self.steps);
        let (mut outcome, _) =
            run_pde(run, self.steps, &self.snapshots, snapshot_name, &mut fluctuation, progress)?;
        outcome.number(Self::NOISE_AMPLITUDE, fluctuation.amplitude());
        outcome.number("period_two_share", fluctuation.period_two_share());
        for name in [UnstableShare::BY_KAPPA, UnstableShare::BY_LINEARIZATION] {
            let curve = outcome.series["curves"].column(name).unwrap_or_default();
            let half = &curve[curve.len() / 2..];
            let mean = half.iter().sum::<f64>() / half.len().max(1) as f64;
            outcome.number(&format!("mean_{name}"), mean);
        }
        Ok(outcome)
    }
}

/// The middle of the range of data that lie far from zero, in units of their range, else zero.
///
/// The equation knows differences alone, so an offset is not physics; but a state that holds it has few
/// digits left for the rest. Hashes, energies and sizes are those of the state without it.
fn offset_of(values: &[f64]) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_far = low < high && low.abs().max(high.abs()) >= 8.0 * (high - low);
    if is_far { low + 0.5 * (high - low) } else { 0.0 }
}

/// Mean and variance of each value over the last quarter of the steps, by Welford's recurrence, and
/// the last three states.
struct Fluctuation {
    from: usize,
    to: usize,
    count: f64,
    mean: Vec<f64>,
    sum_of_squares: Vec<f64>,
    last_three: [Vec<f64>; 3],
}

impl Fluctuation {
    fn over_last_quarter(points: usize, steps: usize) -> Self {
        let zero = vec![0.0; points];
        Self {
            from: steps - steps / 4,
            to: steps,
            count: 0.0,
            mean: zero.clone(),
            sum_of_squares: zero.clone(),
            last_three: [zero.clone(), zero.clone(), zero],
        }
    }

    /// Share of the values that move, and are back after two steps to a millionth of that motion.
    fn period_two_share(&self) -> f64 {
        let [before, between, now] = &self.last_three;
        let returns = |i: &usize| {
            let motion = (now[*i] - between[*i]).abs();
            motion > 1e-9 && (now[*i] - before[*i]).abs() <= 1e-6 * motion
        };
        (0..now.len()).filter(returns).count() as f64 / now.len() as f64
    }

    /// Root of the mean over all places of the variance in time; NaN if the run ended before.
    fn amplitude(&self) -> f64 {
        let total: f64 = self.sum_of_squares.iter().sum();
        (total / (self.mean.len() as f64 * (self.count - 1.0))).sqrt()
    }
}

impl<D: Dynamics> Watcher<D> for Fluctuation {
    fn watch(&mut self, step: usize, run: &D) -> Result<ControlFlow<()>, D::Error> {
        if (self.from..=self.to).contains(&step) {
            self.last_three.rotate_left(1);
            let latest = self.last_three[2].iter_mut().zip(run.state());
            latest.for_each(|(kept, x)| *kept = x.to_f64());
            self.count += 1.0;
            let sums = self.mean.iter_mut().zip(&mut self.sum_of_squares);
            for ((mean, squares), x) in sums.zip(run.state()) {
                let gap = x.to_f64() - *mean;
                *mean += gap / self.count;
                *squares += gap * (x.to_f64() - *mean);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::pde::heat::{Ends, Heat};

    #[test]
    fn fluctuation_of_an_alternating_state_is_its_amplitude() {
        // The checkerboard of a periodic mesh at r = 1/2 changes sign at every step.
        let start: Vec<f64> = (0..8).map(|i| if i % 2 == 0 { 0.25 } else { -0.25 }).collect();
        let mut run = Heat::new(0.5, 1.0, 1.0, Ends::Periodic, start);
        let mut fluctuation = Fluctuation::over_last_quarter(8, 3999);
        let Ok(_) = lastbit::evolve(&mut run, 0, 4000, &mut [&mut fluctuation]);
        // 1000 samples, half of each sign; n/(n − 1) under the root.
        let expected = 0.25 * (1000.0_f64 / 999.0).sqrt();
        assert!((fluctuation.amplitude() - expected).abs() < 1e-12);
        assert_eq!(fluctuation.period_two_share(), 1.0);
    }
}
