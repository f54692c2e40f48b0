//! The judge: gathers the evidence along a run and applies the rule.

use std::ops::ControlFlow;

use super::{BLOW_UP, Doubt, Judgement, LEAST_E_FOLDS, LEAST_E_FOLDS_OF_A_LINEAR_DESCENT, Verdict};
use crate::growth::{Blocks, EnergyChange, Growth, Seen};
use crate::reduce::{distance, max_abs, norm};
use crate::rng::Stream;
use crate::{Dynamics, Real, Watcher};

/// Fewer steps say nothing.
pub const LEAST_STEPS: usize = 64;

/// A motion that shrinks by this much within the window, as a natural logarithm, is dying out. On a
/// cycle it does not shrink at all.
const DYING: f64 = 0.1;

/// Motion that grows by this much within the window, as a natural logarithm and with confidence, is not
/// bounded yet.
pub(super) const SWELLING: f64 = 0.02;

/// Part of the expected fall of the energy below which rounding may blur it.
const BLUR: f64 = 1e-3;

/// A twin nearer than this many roundings of the state shows rounding instead of growth.
const LEAST_ROUNDINGS: f64 = 16.0;

/// Share of the window's steps at which rounding may hide the twin.
const MOST_HIDDEN: f64 = 0.1;

/// Watches a run and applies the rule of the [module](super).
#[derive(Debug)]
pub struct Judge<D: Dynamics> {
    scale: f64,
    linear_range: f64,
    linear: bool,
    pub(super) twin: D,
    twin_distance: f64,
    /// Where it is put.
    reference_distance: f64,
    /// Rounding of the state over the distance of the twin.
    rounding_of_twin: f64,
    /// Whether rounding swallowed the distance at which the twin was last put.
    is_swallowed: bool,
    previous: Vec<D::Scalar>,
    previous_energy: Option<f64>,
    seen: Blocks,
    steps: usize,
    diverged: Option<usize>,
    /// How far the step is from linear along the motion, as [`look_for_a_restraint`](Self::look_for_a_restraint)
    /// found it; infinite where nobody looked.
    nonlinearity: f64,
}

impl<D: Dynamics> Judge<D> {
    /// Starts beside `run`, which has taken no step yet.
    ///
    /// # Errors
    ///
    /// If the energy could not be computed.
    pub fn new(run: &D) -> Result<Self, D::Error> {
        let positive = |x: f64| if x > 0.0 && x.is_finite() { x } else { 1.0 };
        let mut judge = Self {
            scale: positive(run.scale()),
            linear_range: positive(run.linear_range()),
            linear: run.is_linear(),
            twin: run.clone(),
            twin_distance: 0.0,
            reference_distance: 0.0,
            rounding_of_twin: 0.0,
            is_swallowed: false,
            previous: run.state().to_vec(),
            previous_energy: run.energy()?,
            seen: Blocks::default(),
            steps: 0,
            diverged: None,
            nonlinearity: f64::INFINITY,
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

    /// Puts the twin at the reference distance in a random direction. Signs alone would not do: half of
    /// them are orthogonal to the checkerboard on a small mesh, and a symmetric scheme keeps them so.
    fn restart_twin(&mut self, run: &D) {
        let [signs, sizes] = [0, 1].map(|stream| Stream::new(0, stream));
        // The root mean square of 1/2 … 3/2 is √(13/12).
        let each = self.reference(run) / (run.state().len() as f64 * 13.0 / 12.0).sqrt();
        let direction = |i: u64| signs.sign(i) * (0.5 + sizes.uniform(i));
        let moved =
            |(i, x): (usize, &D::Scalar)| D::Scalar::of(x.to_f64() + each * direction(i as u64));
        let state: Vec<D::Scalar> = run.state().iter().enumerate().map(moved).collect();
        self.place_twin(run, &state);
    }

    fn place_twin(&mut self, run: &D, state: &[D::Scalar]) {
        self.twin.load(state);
        self.twin_distance = distance(self.twin.state(), run.state());
        self.is_swallowed = self.twin_distance < 0.5 * self.reference(run);
    }

    /// Steps the twin, brings it back into range, returns `ln(d_{n+1}/d_n)`.
    fn advance_twin(&mut self, run: &D) -> Result<f64, D::Error> {
        self.twin.step()?;
        let reference = self.reference(run);
        self.reference_distance = reference;
        self.rounding_of_twin = D::Scalar::UNIT_ROUNDOFF * norm(run.state()) / reference;
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
        self.place_twin(run, &state);
        if !self.twin_distance.is_finite() || self.twin_distance == 0.0 {
            self.restart_twin(run);
        }
    }

    /// Whether rounding hides the twin: it lies too few roundings away, or could not be put where it
    /// should be.
    fn twin_is_hidden(&self) -> bool {
        self.rounding_of_twin > 1.0 / LEAST_ROUNDINGS || self.is_swallowed
    }

    /// What the energy showed of the last step: whether it fell although the run moved.
    ///
    /// "Did not fall" means by less than a millionth of what a small step would: a slow descent in
    /// one direction must not hide a cycle in another.
    ///
    /// Beside it stands `dt h/2`, `h` the curvature met; 0 where rounding blurs it.
    fn energy_change(&self, run: &D, motion: f64, energy: Option<f64>) -> (EnergyChange, f64) {
        let (Some(before), Some(after)) = (self.previous_energy, energy) else {
            return (EnergyChange::Fell, 0.0);
        };
        let expected_fall = motion * motion / run.dt();
        let of_energy = 8.0 * f64::UNIT_ROUNDOFF * (before.abs() + after.abs());
        // Rounding of the state moves the energy by up to (motion/dt) u |x|.
        let of_state = motion / run.dt() * D::Scalar::UNIT_ROUNDOFF * norm(run.state());
        let rise = after - before;
        let fell = rise <= -of_energy.max(1e-6 * expected_fall);
        // Below a thousandth of the expected fall rounding blurs `dt h = 2` by no more than that;
        // otherwise the change must exceed it by three times.
        let is_sharp = of_state < BLUR * expected_fall && 1e5 * of_energy < expected_fall;
        let is_clear = is_sharp || rise.abs() > 3.0 * (of_state + of_energy);
        let overshoot = if is_sharp { (1.0 + rise / expected_fall).clamp(-1.0, 1.0) } else { 0.0 };
        let change = match (is_clear, fell) {
            (true, true) => EnergyChange::Fell,
            (true, false) => EnergyChange::DidNotFall,
            (false, _) if motion == 0.0 => EnergyChange::Fell,
            (false, _) => EnergyChange::Hidden,
        };
        (change, overshoot)
    }

    /// Where unstable steps recur, measures what could restrain them. With `p = Φ(x)` a linear step has
    /// `Φ(x + (p − x)/4) = p + (Φ(p) − p)/4`; what is off, beyond rounding, over `|p − x|` is the share by
    /// which the non-linearity changes the motion in a step. (A quarter, since a cycle of period two is
    /// often symmetric about the middle.)
    pub(super) fn look_for_a_restraint(&mut self, run: &D) -> Result<(), D::Error> {
        if self.linear || !self.seen.instability_recurs() {
            return Ok(());
        }
        let x = run.state();
        let after = |state: &[D::Scalar]| {
            let mut stepped = run.clone();
            stepped.load(state);
            stepped.step()?;
            Ok(stepped.state().to_vec())
        };
        let quarter = |from: &[D::Scalar], to: &[D::Scalar]| -> Vec<D::Scalar> {
            let between = |(a, b): (&D::Scalar, &D::Scalar)| {
                D::Scalar::of(a.to_f64() + 0.25 * (b.to_f64() - a.to_f64()))
            };
            from.iter().zip(to).map(between).collect()
        };
        let p = after(x)?;
        let off = distance(&after(&quarter(x, &p))?, &quarter(&p, &after(&p)?));
        let rounding = LEAST_ROUNDINGS * D::Scalar::UNIT_ROUNDOFF * norm(x);
        self.nonlinearity = (off - rounding).max(0.0) / distance(x, &p).max(f64::MIN_POSITIVE);
        Ok(())
    }

    /// Whether the step is too nearly linear for its non-linearity to have held an oscillation back
    /// within the window.
    fn is_nearly_linear(&self, growth: Growth) -> bool {
        self.linear || self.nonlinearity * (growth.steps as f64) < DYING
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

    /// Whether the motion grows. Small motion obeys the same linearized map as the twin; where it grows
    /// although the twin does not, the twin hardly holds the mode that grows.
    fn swells(&self) -> bool {
        self.seen.motion_growth() > SWELLING
    }

    /// Whether the growth is positive with confidence, and more than the roundings of state and twin
    /// make of a distance that does not change: with all of one sign, `2 u |x|/d` a step.
    fn is_positive(&self, growth: Growth) -> bool {
        growth.lower() > 2.0 * self.rounding_of_twin
    }

    /// Whether the run moves more than rounding keeps a stable run moving: a rounding at each step, of
    /// which a factor `e^g` is left at the next, adds up to `1/(1 − e^g)` of them. No more than a
    /// thousand count, since a run that near to its edge is not told from one beyond it, and sixteen
    /// where differences are not known to shrink.
    ///
    /// A step that sums thousands of terms may round by far more. But motion a hundred times smaller than
    /// the distance of the twin obeys the same linear map as the twin: where that shrinks, such motion is
    /// kept up by rounding alone.
    fn moves(&self, growth: Growth) -> bool {
        let kept = libm::exp(growth.upper());
        let at_rest = if kept < 1.0 { (4.0 / (1.0 - kept)).min(1e3) } else { 16.0 };
        let twin_shrinks = growth.upper() * growth.steps as f64 <= -1.0;
        let obeys_the_twin = self.seen.motion() < 0.01 * self.reference_distance;
        self.seen.roundings() > at_rest && !(twin_shrinks && obeys_the_twin)
    }

    /// Whether steps of a descent overshoot and that part of the motion does not die out. What is on its way
    /// to a rest and shrinks by less than a tenth in the window of `W` steps meets no curvature beyond
    /// `dt h/2 = 0.07/W`. Where the mean step meets fifteen times that, and more than rounding blurs, an
    /// oscillation lasts, be its rising energy hidden by the descent of other parts.
    fn lasts(&self, growth: Growth) -> bool {
        let [then, now] = self.seen.overshoot_then_and_now();
        // Of the square of the motion, the share `dt h/2` oscillates.
        let decay = self.seen.motion_decay() - 0.5 * libm::log(now / then.max(f64::MIN_POSITIVE));
        let least = (1.0 / growth.steps.max(1) as f64).max(2.0 * BLUR);
        now > least && decay <= DYING && self.moves(growth)
    }

    /// Steps after which a bounded run counts as restrained, if its growth is positive.
    fn steps_to_tell_divergence(&self, growth: Growth) -> f64 {
        // A linear run need only show its growth within the window, which is half of it.
        let e_folds =
            if self.linear { 2.0 * self.least_e_folds() } else { settling_e_folds::<D>() };
        (e_folds / growth.per_step).ceil()
    }

    /// Where the run must go on to be decided, if more steps can decide it.
    pub(super) fn steps_to_settle(&self) -> Option<usize> {
        let Verdict::Undecided(doubt) = self.judgement().verdict else { return None };
        let twice = 2 * self.steps;
        match doubt {
            Doubt::TooShort => Some(LEAST_STEPS),
            // A state that grows hides its twin by its size, and the bound is what it grows towards.
            Doubt::HiddenTwin if self.swells() => Some(twice),
            // Motion that dies out may leave a cycle behind that rounding does not hide, or rest.
            Doubt::HiddenEnergy if self.seen.motion_decay() > DYING => Some(twice),
            Doubt::HiddenTwin | Doubt::HiddenEnergy => None,
            Doubt::DyingOscillation | Doubt::UncertainGrowth => Some(twice),
            Doubt::SlowGrowth | Doubt::BoundedSoFar => {
                let growth = self.seen.growth();
                let needed = self.steps_to_tell_divergence(growth);
                // The rate is an estimate: look again after at most doubling the run.
                let is_ahead = self.is_positive(growth) && needed > self.steps as f64;
                Some(if is_ahead {
                    (1.05 * needed).ceil().min(twice as f64) as usize
                } else {
                    twice
                })
            }
        }
    }

    /// Whether nothing but the growth of the twin speaks for an instability.
    pub(super) fn rests_on_growth_alone(&self) -> bool {
        self.diverged.is_none() && (!self.seen.instability_recurs() || self.is_dying())
    }

    /// The verdict on what has been seen so far.
    pub fn judgement(&self) -> Judgement {
        let growth = self.seen.growth();
        let steps = growth.steps.max(1) as f64;
        let threshold = self.least_e_folds() / steps;
        let verdict = self.verdict(growth, threshold);
        // What a stable run leaves open: a mode of which the twin holds little must grow for a while to
        // be seen, and more than rounding changes the distance.
        let resolution = match verdict {
            Verdict::Stable => (LEAST_E_FOLDS / steps).max(2.0 * self.rounding_of_twin),
            _ => threshold,
        };
        let unstable_share = self.seen.unstable_share();
        Judgement { verdict, growth, unstable_share, resolution, steps: self.steps }
    }

    /// The table of the [module](super), from the top.
    fn verdict(&self, growth: Growth, threshold: f64) -> Verdict {
        if let Some(step) = self.diverged {
            return Verdict::Diverged { step };
        }
        if self.steps < LEAST_STEPS {
            return Verdict::Undecided(Doubt::TooShort);
        }
        let twin_is_hidden = self.seen.hidden_twin_share() > MOST_HIDDEN;
        let grows = growth.lower() > threshold && self.is_positive(growth) && !twin_is_hidden;
        // At rest the energy shows the rounding of its own sum, whatever that is.
        let oscillates = self.seen.instability_recurs() && !self.is_dying() && self.moves(growth);
        if grows && self.linear {
            return Verdict::Diverged { step: self.steps };
        }
        // A linear dynamics cannot be restrained: what does not grow yet may.
        if grows || (oscillates && !self.is_nearly_linear(growth)) {
            let too_short = self.is_positive(growth)
                && self.steps_to_tell_divergence(growth) > self.steps as f64;
            return match too_short || self.swells() {
                true => Verdict::Undecided(Doubt::BoundedSoFar),
                false => Verdict::Restrained,
            };
        }
        // A linear dynamics has no cycles of its own: there the twin sees all that the energy could show.
        let may_swell = || self.swells() && (self.linear || growth.upper() > 0.0);
        // Where a run moves and every step lowers its energy, steps are stable; slower growth than the
        // resolution is the flow's own, which diverges where the energy curves downwards.
        let descends =
            !self.linear && self.previous_energy.is_some() && !oscillates && self.moves(growth);
        let is_slow = || self.is_positive(growth) || self.may_yet_grow() || may_swell();
        let doubt = if self.is_dying() || (!self.linear && self.lasts(growth)) {
            Doubt::DyingOscillation
        } else if twin_is_hidden || growth.lower() > threshold {
            Doubt::HiddenTwin
        } else if !self.linear && self.seen.hidden_energy_recurs() && self.moves(growth) {
            Doubt::HiddenEnergy
        } else if oscillates || (!(descends && growth.upper() < threshold) && is_slow()) {
            Doubt::SlowGrowth
        } else if growth.upper() < threshold {
            return Verdict::Stable;
        } else {
            // Also where the growth is not a number.
            Doubt::UncertainGrowth
        };
        Verdict::Undecided(doubt)
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
            let rounding = D::Scalar::UNIT_ROUNDOFF * max_abs(run.state()).max(f64::MIN_POSITIVE);
            let (change, overshoot) = self.energy_change(run, motion, energy);
            self.seen.push(Seen {
                log_growth,
                twin_is_hidden: self.twin_is_hidden(),
                motion,
                roundings: largest_change(run.state(), &self.previous) / rounding,
                energy: change,
                overshoot,
            });
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

/// Largest `|x_i − y_i|`.
fn largest_change<F: Real>(x: &[F], y: &[F]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x.to_f64() - y.to_f64()).abs()).fold(0.0, f64::max)
}
