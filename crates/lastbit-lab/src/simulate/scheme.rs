//! A judged run of any explicit linear scheme on a periodic mesh.

use lastbit::pde::linear::Linear;
use lastbit::pde::scheme::Scheme;
use lastbit::reduce::max_abs;
use lastbit::{Dynamics, Real};

use super::{Precision, Snapshot, Twins, profiles, rounded, run_judged};
use crate::error::Error;
use crate::input::Data;
use crate::progress::Progress;
use crate::record::Outcome;
use crate::series::Field;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemeRun {
    /// The scheme; explicit.
    pub scheme: Scheme,
    /// Step size.
    pub dt: f64,
    /// Precision.
    pub precision: Precision,
    /// Steps.
    pub steps: usize,
    /// Steps at which to keep the state.
    pub snapshots: Vec<usize>,
    /// Initial state, the same at all time levels: the run starts at rest.
    pub initial: Data,
}

impl SchemeRun {
    /// Name of the column or field that holds the state at a step.
    pub fn snapshot_name(step: usize) -> String {
        format!("step-{step}")
    }

    /// Runs it.
    pub fn run(&self, progress: &Progress) -> Result<Outcome, Error> {
        match self.precision {
            Precision::F32 => self.run_in::<f32>(progress),
            Precision::F64 => self.run_in::<f64>(progress),
        }
    }

    fn run_in<F: Real>(&self, progress: &Progress) -> Result<Outcome, Error> {
        let (height, width, values) = match &self.initial {
            Data::Signal(values) => (1, values.len(), values),
            Data::Image(Field { height, width, values }) => (*height, *width, values),
        };
        let levels = vec![rounded::<F>(values); self.scheme.levels()];
        let (mut outcome, kept) = run_judged(
            Linear::new(&self.scheme, self.dt, height, width, &levels),
            self.steps,
            &self.snapshots,
            &[("max_abs", &|run: &Linear<F>| max_abs(run.state()))],
            Twins::LastBit,
            &mut |_: usize, _: &Linear<F>| (),
            progress,
        )?;
        match self.initial {
            Data::Signal(_) => {
                let profiles = profiles(&kept, width, 1.0, Self::snapshot_name);
                outcome.series.insert("profiles".to_owned(), profiles);
            }
            Data::Image(_) => {
                for Snapshot { step, mut state } in kept {
                    state.truncate(height * width);
                    outcome
                        .fields
                        .insert(Self::snapshot_name(step), Field { height, width, values: state });
                }
            }
        }
        Ok(outcome)
    }
}
