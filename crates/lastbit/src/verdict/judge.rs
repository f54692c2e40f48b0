//! The judge: gathers the evidence along a run and applies the rule.

use std::ops::ControlFlow;

use super::{BLOW_UP, Judgement, LEAST_E_FOLDS, LEAST_E_FOLDS_OF_A_LINEAR_DESCENT, Verdict};
use crate::growth::Blocks;
use crate::reduce::{distance, max_abs, norm};
use crate::rng::Stream;
use crate::{Dynamics, Real, Watcher};

/// Fewer steps say nothing.
pub const LEAST_STEPS: usize = 64;

/// A motion that shrinks by this much within the window, as a natural logarithm, is dying out. On a
/// cycle it does not shrink at all.
const DYING: f64 = 0.1;

/// Watches a run and applies the rule of the [module](super).
#[derive(Debug)]
pub struct Judge<D: Dynamics> {
    scale: f64,
    linear_range: f64,
    linear: bool,
    pub(super) twin: D,
    twin_distance: f64,
    previous: Vec<D::Scalar>,
    previous_energy: Option<f64>,
    seen: Blocks,
    steps: usize,
    diverged: Option<usize>,
}

impl<D: Dynamics> Judge<D> {
    /// Starts beside `run`, which has taken no step yet.
    ///
    /// # Errors
    ///
    /// If the energy could not be computed.
    pub fn new(run: &D) -> Result<Self, D::Error> {
        let positive = |x: f64| if x > 0.0 { x } else { 1.0 };
        let mut judge = Self {
            scale: positive(run.scale()),
            linear_range: positive(run.linear_range()),
            linear: run.is_linear(),
            twin: run.clone(),
            twin_distance: 0.0,
            previous: run.state().to_vec(),
            previous_energy: run.energy()?,
            seen: Blocks::default(),
            steps: 0,
            diverged: None,
        };
        judge.restart_twin(run);
        Ok(judge)
    }

    pub(super) fn is_beyond_the_bound(&self, run: &D) -> bool {
        let size = max_abs(run.state());
        !size.is_finite() || size > BLOW_UP * self.scale
    }

    /// The distance at which the twin is kept: the geometric mean of the rounding of the state and
    /// of the range in which the dynamics is linear.
    fn reference(&self, run: &D) -> f64 {
        let root_of_count = (run.state().len() as f64).sqrt();
        let rounding = D::Scalar::UNIT_ROUNDOFF * norm(run.state()).max(self.scale * root_of_count);
        (rounding * self.linear_range * root_of_count).sqrt()
    }

    /// Puts the twin at the reference distance in a direction of random signs.
    fn restart_twin(&mut self, run: &D) {
        let signs = Stream::new(0, 0);
        let each = self.reference(run) / (run.state().len() as f64).sqrt();
        let moved =
            |(i, x): (usize, &D::Scalar)| D::Scalar::of(x.to_f64() + each * signs.sign(i as u64));
        let state: Vec<D::Scalar> = run.state().iter().enumerate().map(moved).collect();
        self.twin.load(&state);
        self.twin_distance = distance(self.twin.state(), run.state());
    }

    /// Steps the twin, brings it back into range, returns `ln(d_{n+1}/d_n)`.
    fn advance_twin(&mut self, run: &D) -> Result<f64, D::Error> {
        self.twin.step()?;
        let reference = self.reference(run);
        let after = distance(self.twin.state(), run.state());
        // A twin that coincides with the run, or left the numbers, says "very little" or "very
        // much"; the clamp keeps both finite. So far down nothing but rounding is left.
        let roundoff = D::Scalar::UNIT_ROUNDOFF;
        let clamped = if after.is_finite() { after } else { reference / roundoff };
        let clamped = clamped.max(reference * roundoff);
        let log_growth = libm::log(clamped / self.twin_distance.max(reference * roundoff));
        self.twin_distance = clamped;
        if !(0.01 * reference..=reference).contains(&after) {
            self.rescale_twin(run, reference / after);
        }
        Ok(log_growth)
    }

    /// `y ← x + factor (y − x)`, or a fresh start where that is not a direction any more.
    fn rescale_twin(&mut self, run: &D, factor: f64) {
        let scaled = |(x, y): (&D::Scalar, &D::Scalar)| {
            D::Scalar::of(x.to_f64() + factor * (y.to_f64() - x.to_f64()))
        };
        let state: Vec<D::Scalar> = run.state().iter().zip(self.twin.state()).map(scaled).collect();
        self.twin.load(&state);
        self.twin_distance = distance(self.twin.state(), run.state());
        if !self.twin_distance.is_finite() || self.twin_distance == 0.0 {
            self.restart_twin(run);
        }
    }

    /// Whether the last step moved and did not lower the energy, both beyond rounding.
    ///
    /// "Did not lower" means by less than a millionth of what a small step would: a slow descent in
    /// one direction must not hide a cycle in another.
    fn step_was_unstable(&self, run: &D, motion: f64, energy: Option<f64>) -> bool {
        let (Some(before), Some(after)) = (self.previous_energy, energy) else { return false };
        let expected_fall = motion * motion / run.dt();
        let energy_rounding = f64::UNIT_ROUNDOFF * (before.abs() + after.abs());
        // Rounding of the state moves the energy by about (motion/dt) u |x|, and stalls an
        // oscillation that shrinks by a thousandth a step at 1000 u |x|; at a larger motion both
        // are less than a thousandth of the fall expected of a stable step. Likewise for the
        // rounding of the energy itself, with six digits to spare.
        let told_from_rounding = motion > 1e3 * D::Scalar::UNIT_ROUNDOFF * norm(run.state())
            && expected_fall > 1e6 * energy_rounding;
        told_from_rounding && after > before - (8.0 * energy_rounding).max(1e-6 * expected_fall)
    }

    /// E-folds over the window from which growth counts.
    fn least_e_folds(&self) -> f64 {
        if self.linear && self.previous_energy.is_some() {
            LEAST_E_FOLDS_OF_A_LINEAR_DESCENT
        } else {
            LEAST_E_FOLDS
        }
    }

    /// Whether unstable steps recur although the motion dies out.
    fn is_dying(&self) -> bool {
        self.seen.instability_recurs() && self.seen.motion_decay() > DYING
    }

    /// Whether the twin of a linear descent is still turning towards the mode that grows most: its
    /// growth only ever increases, and at three times its increase so far it would be positive.
    fn may_yet_grow(&self) -> bool {
        let [then, now] = self.seen.growth_then_and_now();
        self.linear
            && self.previous_energy.is_some()
            && now > then
            && now + 3.0 * (now - then) > 0.0
    }

    /// Where the run must go on to be settled, if it must.
    pub(super) fn steps_to_settle(&self) -> Option<usize> {
        let growth = self.seen.growth();
        if self.diverged.is_some() {
            return None;
        }
        if self.steps < LEAST_STEPS {
            return Some(LEAST_STEPS);
        }
        if !growth.is_positive() {
            let undecided = self.is_dying() || self.may_yet_grow();
            return undecided.then_some(2 * self.steps);
        }
        // A linear run need only show its growth within the window, which is half of it.
        let e_folds =
            if self.linear { 2.0 * self.least_e_folds() } else { settling_e_folds::<D>() };
        let needed = (e_folds / growth.per_step).ceil();
        (needed > self.steps as f64).then(|| {
            // The rate is an estimate: look again after at most doubling the run.
            (1.05 * needed).min(2.0 * self.steps as f64).ceil() as usize
        })
    }

    /// Whether nothing but the growth of the twin speaks for a restrained instability.
    pub(super) fn rests_on_growth_alone(&self) -> bool {
        self.diverged.is_none() && (!self.seen.instability_recurs() || self.is_dying())
    }

    /// The verdict on what has been seen so far.
    pub fn judgement(&self) -> Judgement {
        let growth = self.seen.growth();
        let grows = growth.is_positive() && growth.e_folds() >= self.least_e_folds();
        let oscillates = self.seen.instability_recurs() && !self.is_dying();
        let verdict = match self.diverged {
            Some(step) => Verdict::Diverged { step },
            None if grows && self.linear => Verdict::Diverged { step: self.steps },
            None if grows || oscillates => Verdict::Restrained,
            None => Verdict::Stable,
        };
        Judgement {
            verdict,
            growth,
            unstable_share: self.seen.unstable_share(),
            settled: matches!(verdict, Verdict::Diverged { .. })
                || self.steps_to_settle().is_none(),
            resolution: self.least_e_folds() / growth.steps.max(1) as f64,
            steps: self.steps,
        }
    }
}

impl<D: Dynamics> Watcher<D> for Judge<D> {
    fn watch(&mut self, step: usize, run: &D) -> Result<ControlFlow<()>, D::Error> {
        self.steps = step;
        if self.is_beyond_the_bound(run) {
            self.diverged = Some(step);
            return Ok(ControlFlow::Break(()));
        }
        if step > 0 {
            let log_growth = self.advance_twin(run)?;
            let energy = run.energy()?;
            let motion = distance(run.state(), &self.previous);
            let unstable = self.step_was_unstable(run, motion, energy);
            self.seen.push(log_growth, motion, unstable);
            self.previous.copy_from_slice(run.state());
            self.previous_energy = energy;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// `ln(B/u)`: e-folds that lift a last-bit component above the bound.
fn settling_e_folds<D: Dynamics>() -> f64 {
    libm::log(BLOW_UP / D::Scalar::UNIT_ROUNDOFF)
}
