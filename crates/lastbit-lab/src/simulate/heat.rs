//! A judged run of the heat equation.

use lastbit::Real;
use lastbit::pde::heat::{Ends, Heat, dirichlet_solution};
use lastbit::reduce::max_abs;

use super::pde::run_pde;
use super::{Precision, rounded};
use crate::error::Error;
use crate::number::significant;
use crate::progress::Progress;
use crate::record::Outcome;

/// The sum over modes takes the square of this many operations for each profile.
const MOST_FOR_ORACLE: usize = 2000;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatRun {
    /// Step size.
    pub dt: f64,
    /// Mesh width.
    pub dx: f64,
    /// Diffusivity.
    pub kappa: f64,
    /// Ends.
    pub ends: Ends,
    /// Precision.
    pub precision: Precision,
    /// Steps.
    pub steps: usize,
    /// Times at which to keep the profile, each taken at the nearest step.
    pub times: Vec<f64>,
    /// Initial profile.
    pub initial: Vec<f64>,
}

impl HeatRun {
    /// Largest error of a profile against the exact sum over modes, relative to the profile: a number.
    pub const ERROR_OF_PROFILES: &'static str = "error_of_profiles";

    /// Name of the column of the profile at a step.
    pub fn profile_name(step: usize, dt: f64) -> String {
        // Twelve digits hide the rounding of step · dt and nothing else.
        format!("t = {}", significant(step as f64 * dt, 12))
    }

    /// Steps at which the profile is kept.
    pub fn profile_steps(&self) -> Vec<usize> {
        self.times.iter().map(|t| (t / self.dt).round() as usize).collect()
    }

    /// Runs it.
    pub fn run(&self, progress: &Progress) -> Result<Outcome, Error> {
        match self.precision {
            Precision::F32 => self.run_in::<f32>(progress),
            Precision::F64 => self.run_in::<f64>(progress),
        }
    }

    fn run_in<F: Real>(&self, progress: &Progress) -> Result<Outcome, Error> {
        let heat = Heat::<F>::new(self.dt, self.dx, self.kappa, self.ends, rounded(&self.initial));
        let (r, steps) = (heat.r(), self.profile_steps());
        let name = |step| Self::profile_name(step, self.dt);
        let mut nothing_else = |_: usize, _: &Heat<F>| ();
        let (mut outcome, kept) =
            run_pde(heat, self.steps, &steps, name, &mut nothing_else, progress)?;
        let held_at_zero = self.initial.first() == Some(&0.0) && self.initial.last() == Some(&0.0);
        if self.ends == Ends::Dirichlet && held_at_zero && self.initial.len() <= MOST_FOR_ORACLE {
            // Relative to the largest value of the profile, which may grow without bound.
            let asked = kept.iter().filter(|snapshot| steps.contains(&snapshot.step));
            let error = asked.map(|snapshot| {
                let exact = dirichlet_solution(&self.initial, r, snapshot.step);
                let gaps: Vec<f64> =
                    snapshot.state.iter().zip(&exact).map(|(ours, exact)| ours - exact).collect();
                max_abs(&gaps) / max_abs(&exact).max(f64::MIN_POSITIVE)
            });
            outcome.number(Self::ERROR_OF_PROFILES, error.fold(0.0, f64::max));
        }
        Ok(outcome)
    }
}
