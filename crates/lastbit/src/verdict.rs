//! The rule: stable, restrained, diverged or undecided. It stands here and nowhere else.
//!
//! Each run `x` is paired with a twin `y`, a copy perturbed by `d = √(u |x| ℓ)`: the geometric mean of
//! the rounding `u |x|` of the state and the range `ℓ` in which the dynamics is linear
//! ([`Dynamics::linear_range`]). It is brought back to that distance, along its own direction, whenever
//! it leaves `[0.01, 1] d`. Its growth per step `g`, with standard error `s`, is the finite-time Lyapunov
//! exponent ([`growth`](crate::growth): second half of the run; a transient is part of `s`).
//! For gradient descent on an energy, each step also shows the curvature it met:
//!
//! ```text
//! E(x_n) − E(x_{n+1}) = (1 − dt h/2) |x_{n+1} − x_n|²/dt,    h = a curvature of E on the segment
//! ```
//!
//! so a step that moves and does not lower `E` has passed a point where the linearized step
//! amplifies by more than one (`dt h ≥ 2`). It is an *unstable step*.
//!
//! | verdict | rule |
//! |---|---|
//! | diverged | the state is not finite, or exceeds `B = 10⁶` times its scale; or the dynamics is linear and `g − 3s > r` |
//! | restrained | bounded, not linear, and `g − 3s > r` or unstable steps recur in the window |
//! | stable | `g + 3s < r`, and no unstable steps recur; without an energy that falls, `g` is not positive with confidence either |
//! | undecided | everything else; [`Doubt`] says why, and what would decide it |
//!
//! The resolution `r` is five e-folds over the window: slower growth cannot be told from a transient.
//! (A linear descent has no such transients: there a twentieth of an e-fold suffices to call growth so.
//! Stable is claimed up to five e-folds there, too: the twin may hold little of a mode that grows. In
//! any case it is claimed no finer than rounding changes the distance of the twin in a step.)
//! Restrained need not mean that differences grow: unstable steps may recur on a cycle that forgets
//! the last bit.
//!
//! **Restrained or not yet diverged?** A linear instability of rate `g` lifts even a component
//! of last-bit size above the bound after `ln(B/u)/g` steps. A growing run is therefore continued
//! up to that many steps ([`Horizon::at_most`] permitting): what is still bounded then is bounded
//! by its non-linearity, unless its motion keeps growing, or its step is so nearly linear along its
//! motion that within the window nothing could have restrained it. (A start that holds the unstable part at
//! exactly zero, by symmetry or at rest, is found out by a second run started slightly off.)
//! A linear dynamics has no non-linearity to restrain it: there, growth is divergence.
//!
//! **Why two signs of instability?** Just above its edge a descent often falls into a cycle of
//! period two: the minimum is unstable, yet twins on the cycle approach each other. The energy
//! sees that; the twin does not. Momentum and mini-batches have no energy that must fall; there
//! the twin decides alone, and a reproducible cycle counts as stable.
//!
//! **Dying or lasting?** Below an edge, too, the energy may rise at every second step while the
//! oscillation dies out, as long as it is large enough to feel that the minimum is not symmetric.
//! Unstable steps count only where the motion does not shrink by a tenth within the window; where it
//! does, the run is continued. So is a run whose steps overshoot without dying out although its energy
//! falls: the descent of one part may hide the cycle of another.
//!
//! **Evidence that rounding hides** is no evidence of stability. A twin fewer than sixteen roundings
//! away from the state shows nothing of its growth; a step whose change of energy is smaller than
//! what rounding the state does to the energy shows nothing of its curvature. Where either would be
//! needed, the verdict is undecided: higher precision decides, or a state without its offset.
//! A run that moves no more than rounding keeps a stable run moving, `4u/(1 − e^g)` of its size and at
//! most `1000u`, is at rest; so is one that moves by less than a hundredth of the distance of a twin that
//! shrinks.
//!
//! **Limits.** In `f32`, a cycle of a few roundings behind an offset may be called stable, and rounding that a
//! step amplifies (momentum at a double root) may be taken for growth. A transient longer than the window cannot be told from a rate. A run that swells beyond
//! the bound and would come back counts as diverged; so does one whose scale is unknown because it
//! starts near zero, unless its [`Dynamics::scale`] says better.

mod judge;

pub use self::judge::{Judge, LEAST_STEPS};

use self::judge::SWELLING;
use crate::growth::{Blocks, Growth, Seen};
use crate::reduce::distance;
use crate::{Dynamics, Watcher, evolve};

/// A state beyond this many times its scale has diverged.
pub const BLOW_UP: f64 = 1e6;

/// Growth over the window below this many e-folds is not told from a transient.
pub const LEAST_E_FOLDS: f64 = 5.0;

/// The same for gradient descent on a quadratic: its map is symmetric, so that the growth of a twin
/// never exceeds what it tends to.
pub const LEAST_E_FOLDS_OF_A_LINEAR_DESCENT: f64 = 0.05;

crate::named_enum! {
    /// A verdict by its name alone.
    pub enum VerdictKind {
        /// Small differences do not grow.
        Stable = "stable",
        /// Bounded, but it never settles.
        Restrained = "restrained",
        /// The run is unbounded.
        Diverged = "diverged",
        /// What was seen does not decide it.
        Undecided = "undecided",
    }
}

crate::named_enum! {
    /// Why a verdict is undecided.
    pub enum Doubt {
        /// Fewer than 64 steps were run.
        TooShort = "too-short",
        /// Differences grow, but too slowly to be told from a transient in these steps.
        SlowGrowth = "slow-growth",
        /// The growth is too uncertain: its upper limit is not below the resolution.
        UncertainGrowth = "uncertain-growth",
        /// An oscillation dies out, but has not died yet.
        DyingOscillation = "dying-oscillation",
        /// Rounding hides the twin, and so the growth.
        HiddenTwin = "hidden-twin",
        /// Rounding hides whether the energy falls.
        HiddenEnergy = "hidden-energy",
        /// Not stable; too short to tell whether it stays bounded.
        BoundedSoFar = "bounded-so-far",
    }
}

impl Doubt {
    /// Whether the run is known not to be stable, and only restrained or diverging is open.
    pub fn is_unstable(self) -> bool {
        self == Self::BoundedSoFar
    }

    /// Why, as a clause.
    pub fn why(self) -> &'static str {
        match self {
            Self::TooShort => "fewer than 64 steps were run",
            Self::SlowGrowth => {
                "small differences grow, but so slowly that in this many steps it may be temporary"
            }
            Self::UncertainGrowth => {
                "the growth rate is too uncertain: its upper limit is above the resolution"
            }
            Self::DyingOscillation => "an oscillation is dying out, but has not died yet",
            Self::HiddenTwin => {
                "rounding hides the perturbed copy: it lies too few ulps away from the state"
            }
            Self::HiddenEnergy => {
                "the run has not settled, and rounding hides whether its energy (loss) falls"
            }
            Self::BoundedSoFar => {
                "the run is not stable, and too short to tell whether it stays bounded"
            }
        }
    }

    /// What would decide it, as a clause.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::TooShort
            | Self::SlowGrowth
            | Self::UncertainGrowth
            | Self::DyingOscillation
            | Self::BoundedSoFar => "more steps would decide it",
            Self::HiddenTwin | Self::HiddenEnergy => {
                "f64 would decide it, or data with the mean subtracted"
            }
        }
    }
}

/// How a run ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Small differences are attenuated, or at least do not grow.
    Stable,
    /// Bounded, but passing again and again through states that amplify differences.
    Restrained,
    /// Unbounded.
    Diverged {
        /// First step at which the state was not finite or beyond the bound; of a linear dynamics
        /// that grows more slowly, the last step run.
        step: usize,
    },
    /// What was seen does not decide it.
    Undecided(Doubt),
}

impl Verdict {
    /// The verdict without its step or reason.
    pub fn kind(self) -> VerdictKind {
        match self {
            Self::Stable => VerdictKind::Stable,
            Self::Restrained => VerdictKind::Restrained,
            Self::Diverged { .. } => VerdictKind::Diverged,
            Self::Undecided(_) => VerdictKind::Undecided,
        }
    }

    /// Whether the run is stable; none where that is open.
    pub fn is_stable(self) -> Option<bool> {
        match self {
            Self::Stable => Some(true),
            Self::Restrained | Self::Diverged { .. } => Some(false),
            Self::Undecided(doubt) => doubt.is_unstable().then_some(false),
        }
    }
}

/// A verdict and the evidence for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Growth of the twin over the second half of the run.
    pub growth: Growth,
    /// Share of the steps in the window that were seen to be unstable by their energy.
    pub unstable_share: f64,
    /// Growth per step that cannot be told from a transient.
    pub resolution: f64,
    /// Steps run.
    pub steps: usize,
}

/// How long to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Steps run in any case (unless the run diverges).
    pub steps: usize,
    /// Steps up to which a run may be continued until its verdict is decided.
    pub at_most: usize,
    /// Whether a run that is not stable is continued until restrained is told from diverging.
    pub tells_divergence: bool,
}

impl Horizon {
    /// `steps`, continued up to twenty times as long (and at least to 2000) when that is needed to
    /// settle the verdict.
    pub fn of(steps: usize) -> Self {
        Self { steps, at_most: 20 * steps.max(100), tells_divergence: true }
    }

    /// Exactly `steps`, decided or not.
    pub fn exactly(steps: usize) -> Self {
        Self { steps, at_most: steps, tells_divergence: true }
    }
}

/// Runs `run` to its horizon under the watch of a [`Judge`] and of `watchers`.
///
/// # Errors
///
/// The first error of a step, of a twin's step or of a watcher.
pub fn judge<D: Dynamics>(
    run: &mut D,
    horizon: Horizon,
    watchers: &mut [&mut dyn Watcher<D>],
) -> Result<Judgement, D::Error> {
    let start = run.clone();
    let mut judge = Judge::new(run)?;
    let (mut from, mut to) = (0, horizon.steps);
    loop {
        let mut all: Vec<&mut dyn Watcher<D>> = vec![&mut judge];
        all.extend(watchers.iter_mut().map(|watcher| &mut **watcher as &mut dyn Watcher<D>));
        let reached = evolve(run, from, to, &mut all)?;
        from = reached.step;
        judge.look_for_a_restraint(run)?;
        let is_answered = || {
            !horizon.tells_divergence
                && from >= LEAST_STEPS
                && judge.judgement().verdict.is_stable() == Some(false)
        };
        match judge.steps_to_settle() {
            Some(_) if is_answered() => break,
            Some(target) if !reached.ended && from < horizon.at_most => {
                to = target.min(horizon.at_most);
            }
            _ => break,
        }
    }
    let mut judgement = judge.judgement();
    if horizon.tells_divergence
        && judgement.verdict.is_stable() == Some(false)
        && judge.rests_on_growth_alone()
    {
        let most = horizon.at_most.max(judgement.steps);
        judgement.verdict = verdict_of_a_free_twin(&start, judgement, most, || {
            watchers.iter_mut().any(|watcher| watcher.gives_up())
        })?;
    }
    Ok(judgement)
}

/// The verdict on a run that is unstable, by one started a little off `start` and left alone: it diverged
/// if that exceeds the bound, and is not decided if the motion of that is still growing after `most` steps.
///
/// A symmetric start, or one at rest, can hold the unstable part of a state at exactly zero for
/// ever; no rounding lifts it, and only a run without that symmetry shows what becomes of it.
fn verdict_of_a_free_twin<D: Dynamics>(
    start: &D,
    judgement: Judgement,
    most: usize,
    mut gives_up: impl FnMut() -> bool,
) -> Result<Verdict, D::Error> {
    let judge = Judge::new(start)?;
    let mut free = judge.twin.clone();
    let mut motion = Blocks::default();
    for step in (1..=most).take_while(|_| !gives_up()) {
        let before = free.state().to_vec();
        free.step()?;
        if judge.is_beyond_the_bound(&free) {
            return Ok(Verdict::Diverged { step });
        }
        motion.push(Seen::motion_alone(distance(free.state(), &before)));
        let is_settled = || {
            judgement.verdict.kind() == VerdictKind::Diverged || motion.motion_growth() <= SWELLING
        };
        if step >= judgement.steps && is_settled() {
            return Ok(judgement.verdict);
        }
    }
    Ok(Verdict::Undecided(Doubt::BoundedSoFar))
}

#[cfg(test)]
mod tests;
