//! The rule: stable, restrained or diverged. It stands here and nowhere else.
//!
//! Beside the run `x` goes a twin `y`, started at a distance `d = √(u |x| ℓ)`, half way (in digits)
//! between the rounding `u |x|` of the state and the range `ℓ` in which the dynamics is linear
//! ([`Dynamics::linear_range`]), and brought back to it, along its own direction, whenever it leaves
//! `[0.01, 1] d`. Its growth per step is the finite-time Lyapunov exponent `Λ` of the
//! rounding errors ([`growth`](crate::growth): second half of the run, with standard error).
//! For gradient descent on an energy, each step also shows the curvature it met:
//!
//! ```text
//! E(x_n) − E(x_{n+1}) = (1 − dt h/2) |x_{n+1} − x_n|²/dt,    h = a curvature of E on the segment
//! ```
//!
//! so a step that moves and does not lower `E` has passed a point where the linearized step
//! amplifies by more than one (`dt h ≥ 2`). It is *seen to be unstable*.
//!
//! | verdict | rule |
//! |---|---|
//! | diverged | the state is not finite, or exceeds `B = 10⁶` times its scale; or the dynamics is linear and `Λ` is positive |
//! | restrained | not diverged, and `Λ` is positive (by three standard errors and five e-folds over the window), or unstable steps recur in the window |
//! | stable | neither: differences faster than [`resolution`](Judgement::resolution) would have been seen |
//!
//! **Restrained or not yet diverged?** A linear instability of rate `Λ` lifts even a component
//! of last-bit size above the bound after `ln(B/u)/Λ` steps. A growing run is therefore continued
//! up to that many steps ([`Horizon::at_most`] permitting): what is still bounded then is bounded
//! by its non-linearity. (A start that holds the unstable part at exactly zero, by symmetry or at
//! rest, is found out by a second run started a little off and left alone.)
//! [`Judgement::settled`] says whether that point was reached. A linear dynamics has no
//! non-linearity to restrain it: there, growth is divergence.
//!
//! **Why two signs of instability?** Just above its edge a descent often falls into a cycle of
//! period two: the minimum is unstable, yet twins on the cycle approach each other. The energy
//! sees that; the twin does not. Momentum and mini-batches have no energy that must fall; there
//! the twin decides alone, and a reproducible cycle counts as stable.
//!
//! **Dying or lasting?** Below an edge, too, the energy may rise at every second step while the
//! oscillation dies out, as long as it is large enough to feel that the minimum is not symmetric.
//! Unstable steps count only where the motion does not shrink by a tenth within the window; where it
//! does, the run is continued.
//!
//! **Limits.** Growth slower than five e-folds per window is not seen: close to an edge, more
//! steps are needed in proportion to the inverse distance. (A linear descent has no transients to
//! be confused with: there a twentieth of an e-fold suffices.) Rounding blurs the sign of the energy
//! by a millionth, that of a state in motion by less than 10⁵ of its roundings by up to a
//! thousandth of `dt h = 2`. A run that swells beyond the bound and would come back counts as
//! diverged; so does one whose scale is unknown because it starts near zero, unless its
//! [`Dynamics::scale`] says better.

mod judge;

pub use self::judge::{Judge, LEAST_STEPS};

use crate::growth::Growth;
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
}

impl Verdict {
    /// The verdict without its step.
    pub fn kind(self) -> VerdictKind {
        match self {
            Self::Stable => VerdictKind::Stable,
            Self::Restrained => VerdictKind::Restrained,
            Self::Diverged { .. } => VerdictKind::Diverged,
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
    /// False where the run ended too early: it grows, but not long enough to tell stable from
    /// restrained or restrained from diverging; or it oscillates, but less and less.
    pub settled: bool,
    /// Growth per step below which nothing would have been noticed.
    pub resolution: f64,
    /// Steps run.
    pub steps: usize,
}

/// How long to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Steps run in any case (unless the run diverges).
    pub steps: usize,
    /// Steps up to which a growing run may be continued until it is settled.
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

    /// Exactly `steps`, settled or not.
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
        let is_answered = || {
            !horizon.tells_divergence
                && from >= LEAST_STEPS
                && judge.judgement().verdict != Verdict::Stable
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
        && judgement.verdict == Verdict::Restrained
        && judge.rests_on_growth_alone()
        && let Some(step) = divergence_of_a_free_twin(&start, judgement.steps, || {
            watchers.iter_mut().any(|watcher| watcher.gives_up())
        })?
    {
        judgement.verdict = Verdict::Diverged { step };
        judgement.settled = true;
    }
    Ok(judgement)
}

/// The step at which a run started a little off `start`, and left alone, exceeds the bound.
///
/// A symmetric start, or one at rest, can hold the unstable part of a state at exactly zero for
/// ever; no rounding lifts it, and only a run without that symmetry shows what becomes of it.
fn divergence_of_a_free_twin<D: Dynamics>(
    start: &D,
    steps: usize,
    mut gives_up: impl FnMut() -> bool,
) -> Result<Option<usize>, D::Error> {
    let judge = Judge::new(start)?;
    let mut free = judge.twin.clone();
    for step in (1..=steps).take_while(|_| !gives_up()) {
        free.step()?;
        if judge.is_beyond_the_bound(&free) {
            return Ok(Some(step));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::dynamics::examples::{Descent, Linear, Logistic};

    fn verdict_of<D: Dynamics<Error = Infallible>>(mut run: D, steps: usize) -> Judgement {
        let Ok(judged) = judge(&mut run, Horizon::of(steps), &mut []);
        judged
    }

    fn parabola(dt: f64) -> Descent {
        Descent { dt, x: [1.0], energy: |x| 0.5 * x * x, slope: |x| x }
    }

    /// `E = x²/2 + √(x² + 0.01²)`: curvature 101 at the minimum, 1 far away. Gradient descent is
    /// stable below `dt = 2/101`, bounded below `dt = 2`.
    fn funnel(dt: f64) -> Descent {
        Descent {
            dt,
            x: [0.7],
            energy: |x| 0.5 * x * x + (x * x + 1e-4).sqrt(),
            slope: |x| x + x / (x * x + 1e-4).sqrt(),
        }
    }

    #[test]
    fn descent_on_a_parabola_diverges_from_its_edge_on() {
        for near in [1e-1, 1e-2, 1e-3] {
            assert_eq!(verdict_of(parabola(2.0 * (1.0 - near)), 1000).verdict, Verdict::Stable);
            let above = verdict_of(parabola(2.0 * (1.0 + near)), 1000);
            assert_eq!(above.verdict.kind(), VerdictKind::Diverged, "{near}: {above:?}");
        }
    }

    #[test]
    fn a_mode_that_grows_slowly_among_many_that_shrink_slowly_is_waited_for() {
        /// Descent on `Σ c_i x_i²/2` with curvatures close to each other and one below zero.
        #[derive(Clone)]
        struct Valleys {
            x: Vec<f64>,
        }

        impl Valleys {
            fn curvature(i: usize) -> f64 {
                0.002 * (i as f64 - 0.25)
            }
        }

        impl Dynamics for Valleys {
            type Scalar = f64;
            type Error = Infallible;

            fn dt(&self) -> f64 {
                1.0
            }

            fn state(&self) -> &[f64] {
                &self.x
            }

            fn load(&mut self, state: &[f64]) {
                self.x.copy_from_slice(state);
            }

            fn step(&mut self) -> Result<(), Infallible> {
                let shrink = |(i, x): (usize, &mut f64)| *x -= Self::curvature(i) * *x;
                self.x.iter_mut().enumerate().for_each(shrink);
                Ok(())
            }

            fn energy(&self) -> Result<Option<f64>, Infallible> {
                let term = |(i, x): (usize, &f64)| 0.5 * Self::curvature(i) * x * x;
                Ok(Some(self.x.iter().enumerate().map(term).sum()))
            }

            fn is_linear(&self) -> bool {
                true
            }
        }

        let judged = verdict_of(Valleys { x: vec![1.0; 100] }, 200);
        assert_eq!(judged.verdict.kind(), VerdictKind::Diverged, "{judged:?}");
    }

    #[test]
    fn growth_of_a_linear_map_is_the_logarithm_of_its_multiplier() {
        let judged = verdict_of(parabola(0.1), 500);
        // The multiplier is 0.9 at every step; the twin's rounding is √u of its size at worst.
        assert!((judged.growth.per_step - libm::log(0.9)).abs() < 1e-7, "{judged:?}");
    }

    #[test]
    fn a_funnel_is_stable_then_restrained_then_diverges() {
        let (cfl, bounded) = (2.0 / 101.0, 2.0);
        for (dt, expected) in [
            (0.5 * cfl, VerdictKind::Stable),
            (0.99 * cfl, VerdictKind::Stable),
            (1.01 * cfl, VerdictKind::Restrained),
            (10.0 * cfl, VerdictKind::Restrained),
            (0.99 * bounded, VerdictKind::Restrained),
            (1.01 * bounded, VerdictKind::Diverged),
        ] {
            let judged = verdict_of(funnel(dt), 2000);
            assert_eq!(judged.verdict.kind(), expected, "dt = {dt}: {judged:?}");
            assert!(judged.settled);
        }
    }

    #[test]
    fn an_oscillation_that_dies_out_is_stable_although_the_energy_rises_at_every_second_step() {
        // E = x²/2 + 0.3 x³ is not symmetric: below dt = 2 the iteration alternates towards 0.
        let run = Descent {
            dt: 2.0 * (1.0 - 2e-3),
            x: [0.3],
            energy: |x| 0.5 * x * x + 0.3 * x * x * x,
            slope: |x| x + 0.9 * x * x,
        };
        let judged = verdict_of(run, 300);
        assert_eq!(judged.verdict, Verdict::Stable, "{judged:?}");
        assert!(judged.settled && judged.steps > 300, "{judged:?}");
    }

    #[test]
    fn chaos_without_an_energy_is_restrained_at_its_known_exponent() {
        let judged = verdict_of(Logistic { r: 4.0, x: [0.3] }, 20_000);
        assert_eq!(judged.verdict, Verdict::Restrained);
        let error = (judged.growth.per_step - libm::log(2.0)).abs();
        assert!(error < 4.0 * judged.growth.standard_error, "{judged:?}");
        assert!(judged.growth.standard_error < 0.01);
    }

    #[test]
    fn a_reproducible_cycle_without_an_energy_is_stable() {
        assert_eq!(verdict_of(Logistic { r: 3.2, x: [0.3] }, 2000).verdict, Verdict::Stable);
    }

    #[test]
    fn rotations_shears_and_transients_are_not_growth() {
        let (sin, cos) = (libm::sin(0.1), libm::cos(0.1));
        for matrix in [
            [[cos, -sin], [sin, cos]],     // modulus 1
            [[1.0, 1.0], [0.0, 1.0]],      // grows like n, not exponentially
            [[0.99, 1000.0], [0.0, 0.98]], // swells by about 4e4, then decays
        ] {
            let judged = verdict_of(Linear { matrix, x: [1.0, 1.0] }, 2000);
            assert_eq!(judged.verdict, Verdict::Stable, "{matrix:?}: {judged:?}");
        }
    }

    #[test]
    fn a_growing_run_is_continued_until_a_last_bit_would_have_crossed_the_bound() {
        // The unstable direction starts at 1e-16 of the state: after 1000 steps nothing shows.
        let start = Linear { matrix: [[1.0, 0.0], [0.0, 1.02]], x: [1.0, 1e-16] };
        let mut short = start.clone();
        let Ok(judged) = judge(&mut short, Horizon::exactly(1000), &mut []);
        assert_eq!((judged.verdict, judged.settled), (Verdict::Restrained, false));
        let judged = verdict_of(start, 1000);
        assert_eq!(judged.verdict.kind(), VerdictKind::Diverged, "{judged:?}");
    }

    #[test]
    fn an_unstable_part_that_is_exactly_zero_is_found() {
        let linear = Linear { matrix: [[1.0, 0.0], [0.0, 1.5]], x: [1.0, 0.0] };
        assert_eq!(verdict_of(linear, 500).verdict.kind(), VerdictKind::Diverged);
        // At rest in the minimum of the funnel: unstable there, bounded or not elsewhere.
        for (dt, expected) in [
            (0.01, VerdictKind::Stable),
            (0.2, VerdictKind::Restrained),
            (2.1, VerdictKind::Diverged),
        ] {
            let judged = verdict_of(Descent { x: [0.0], ..funnel(dt) }, 2000);
            assert_eq!(judged.verdict.kind(), expected, "dt = {dt}: {judged:?}");
        }
    }

    #[test]
    fn a_cycle_behind_a_slow_descent_is_found() {
        #[derive(Clone)]
        struct Valley {
            slow: f64,
            x: [f64; 2],
        }

        impl Dynamics for Valley {
            type Scalar = f64;
            type Error = Infallible;

            fn dt(&self) -> f64 {
                0.2
            }

            fn state(&self) -> &[f64] {
                &self.x
            }

            fn load(&mut self, state: &[f64]) {
                self.x.copy_from_slice(state);
            }

            fn step(&mut self) -> Result<(), Infallible> {
                let [x, y] = self.x;
                self.x = [x - 0.2 * (x + x / (x * x + 1e-4).sqrt()), y - 0.2 * self.slow * y];
                Ok(())
            }

            fn energy(&self) -> Result<Option<f64>, Infallible> {
                let [x, y] = self.x;
                Ok(Some(0.5 * x * x + (x * x + 1e-4).sqrt() + 0.5 * self.slow * y * y))
            }
        }

        for slow in [1e-4, 1e-5, 1e-6] {
            let judged = verdict_of(Valley { slow, x: [0.7, 1.0] }, 2000);
            assert_eq!(judged.verdict, Verdict::Restrained, "{slow}: {judged:?}");
        }
    }

    #[test]
    fn where_divergence_is_not_asked_for_a_run_ends_once_it_is_not_stable() {
        let ends = |dt: f64| {
            [true, false].map(|tells_divergence| {
                let horizon = Horizon { steps: 200, at_most: 4000, tells_divergence };
                judge(&mut funnel(dt), horizon, &mut []).unwrap()
            })
        };
        let cfl = 2.0 / 101.0;
        let [long, short] = ends(10.0 * cfl);
        assert_eq!((long.verdict, short.verdict), (Verdict::Restrained, Verdict::Restrained));
        assert_eq!(short.steps, 200);
        let [long, short] = ends(0.9 * cfl);
        assert_eq!(long, short, "a stable run is looked at for as long");
    }

    #[test]
    fn a_run_of_one_step_is_looked_at_for_longer() {
        assert_eq!(verdict_of(parabola(3.0), 1).verdict.kind(), VerdictKind::Diverged);
        let mut short = parabola(3.0);
        let Ok(judged) = judge(&mut short, Horizon::exactly(2), &mut []);
        assert!(!judged.settled);
    }

    #[test]
    fn not_a_number_is_a_verdict_with_its_step() {
        let broken = Descent { dt: 1.0, x: [1.0], energy: |x| x, slope: |x| (x - 4.0).sqrt() };
        assert_eq!(verdict_of(broken, 100).verdict, Verdict::Diverged { step: 1 });
    }
}
