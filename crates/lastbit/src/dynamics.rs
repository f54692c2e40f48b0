//! Discrete dynamics and the one time loop.
//!
//! ```text
//! x_{n+1} = Φ_dt(x_n)
//! ```
//!
//! A PDE scheme and a training run are the same thing here: a state, a step, a step size. All that
//! is measured along a run (verdicts, twins, curves) is a [`Watcher`] of [`evolve`].
//!
//! A step may fail: a model on a GPU or behind another language can run out of memory or raise an
//! exception. The first error ends the run and is returned as it is. Divergence is not an error: NaN
//! and blow-up are values of the state.

use std::ops::ControlFlow;

use crate::Real;

/// A map iterated in time.
///
/// `clone` followed by equal steps gives equal bits: a twin run is a clone with another state.
pub trait Dynamics: Clone {
    /// Precision of the state.
    type Scalar: Real;

    /// Why a step could not be made; [`Infallible`](std::convert::Infallible) where arithmetic is all
    /// there is.
    type Error;

    /// Step size, called learning rate in training.
    fn dt(&self) -> f64;

    /// All that the next step depends on and that changes in time, velocities included.
    fn state(&self) -> &[Self::Scalar];

    /// Replaces the state. Values the dynamics holds fixed (ends of an interval) keep theirs.
    ///
    /// # Panics
    ///
    /// If the length differs from that of [`state`](Self::state).
    fn load(&mut self, state: &[Self::Scalar]);

    /// Advances the state by one step.
    ///
    /// # Errors
    ///
    /// If the step could not be computed. The state is then of no use.
    fn step(&mut self) -> Result<(), Self::Error>;

    /// The function this dynamics descends: `x_{n+1} = x_n − dt ∇E(x_n)`, where it is of that
    /// form. A step that does not lower it has met a curvature above `2/dt`
    /// (see [`verdict`](crate::verdict)).
    ///
    /// # Errors
    ///
    /// If it could not be computed.
    fn energy(&self) -> Result<Option<f64>, Self::Error> {
        Ok(None)
    }

    /// Whether a step is linear in the state, up to a constant: then nothing can restrain an
    /// instability, and one that grows diverges.
    fn is_linear(&self) -> bool {
        false
    }

    /// The size the state has when all is well, as a largest absolute value; read once, at the
    /// start. Divergence is measured against it. The default, the size of the start, is wrong for a
    /// start near zero that leads elsewhere.
    fn scale(&self) -> f64 {
        crate::reduce::max_abs(self.state())
    }

    /// How far a value may be moved before the step stops to be linear; read once, at the start.
    fn linear_range(&self) -> f64 {
        self.scale()
    }
}

/// Something that looks at a run after each step.
pub trait Watcher<D: Dynamics> {
    /// Called with `step = 0` before the first step and then after each; `Break` ends the run.
    ///
    /// # Errors
    ///
    /// If what it looks at could not be computed.
    fn watch(&mut self, step: usize, run: &D) -> Result<ControlFlow<()>, D::Error>;

    /// Whether to give up work that no watcher is shown, of which the caller will throw the result away. Asked now and
    /// then during such work.
    fn gives_up(&mut self) -> bool {
        false
    }
}

/// A closure that never ends the run is a watcher.
impl<D: Dynamics, W: FnMut(usize, &D)> Watcher<D> for W {
    fn watch(&mut self, step: usize, run: &D) -> Result<ControlFlow<()>, D::Error> {
        self(step, run);
        Ok(ControlFlow::Continue(()))
    }
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Last step done.
    pub step: usize,
    /// Whether a watcher ended the run there.
    pub ended: bool,
}

/// The time loop: advances `run` from step `from` to step `to`, unless a watcher ends it first.
///
/// All watchers see a step before any of them ends the run.
///
/// # Errors
///
/// The first error of a step or of a watcher.
pub fn evolve<D: Dynamics>(
    run: &mut D,
    from: usize,
    to: usize,
    watchers: &mut [&mut dyn Watcher<D>],
) -> Result<Reached, D::Error> {
    let mut show = |step: usize, run: &D| {
        watchers
            .iter_mut()
            .try_fold(false, |ended, watcher| Ok(watcher.watch(step, run)?.is_break() | ended))
    };
    if from == 0 && show(0, run)? {
        return Ok(Reached { step: 0, ended: true });
    }
    for step in from + 1..=to {
        run.step()?;
        if show(step, run)? {
            return Ok(Reached { step, ended: true });
        }
    }
    Ok(Reached { step: to, ended: false })
}

#[cfg(test)]
pub(crate) mod examples {
    //! Maps whose behaviour is known in closed form, and what every descent must do.

    use std::convert::Infallible;

    use super::*;

    /// Asserts that a step is `x − dt ∇E(x)` in each of the components `which`, the slope taken by
    /// central differences over `2h`, to within `tolerance`.
    pub fn assert_descends_its_energy<D: Dynamics<Scalar = f64, Error = Infallible>>(
        run: &D,
        which: std::ops::Range<usize>,
        h: f64,
        tolerance: f64,
    ) {
        let before = run.state().to_vec();
        let mut stepped = run.clone();
        stepped.step();
        let mut moved = run.clone();
        for i in which {
            let mut energy_at = |h: f64| {
                let mut state = before.clone();
                state[i] += h;
                moved.load(&state);
                let Ok(energy) = moved.energy();
                energy.expect("a descent has an energy")
            };
            let slope = (energy_at(h) - energy_at(-h)) / (2.0 * h);
            let error = stepped.state()[i] - (before[i] - run.dt() * slope);
            assert!(error.abs() < tolerance, "i = {i}: {error:e}");
        }
    }

    /// A map given by closures, with an energy where it descends one.
    #[derive(Clone)]
    pub struct Map<const N: usize, S, E> {
        pub dt: f64,
        pub x: [f64; N],
        pub step: S,
        pub energy: E,
        pub is_linear: bool,
    }

    impl<const N: usize, S, E> Dynamics for Map<N, S, E>
    where
        S: Fn([f64; N]) -> [f64; N] + Clone,
        E: Fn([f64; N]) -> Option<f64> + Clone,
    {
        type Scalar = f64;
        type Error = Infallible;

        fn dt(&self) -> f64 {
            self.dt
        }

        fn state(&self) -> &[f64] {
            &self.x
        }

        fn load(&mut self, state: &[f64]) {
            self.x.copy_from_slice(state);
        }

        fn step(&mut self) -> Result<(), Infallible> {
            self.x = (self.step)(self.x);
            Ok(())
        }

        fn energy(&self) -> Result<Option<f64>, Infallible> {
            Ok((self.energy)(self.x))
        }

        fn is_linear(&self) -> bool {
            self.is_linear
        }
    }

    /// A map without energy.
    pub fn map<const N: usize>(
        x: [f64; N],
        step: impl Fn([f64; N]) -> [f64; N] + Clone,
    ) -> impl Dynamics<Scalar = f64, Error = Infallible> {
        Map { dt: 1.0, x, step, energy: |_| None, is_linear: false }
    }

    /// Gradient descent on a function of its own slope.
    pub fn descent<const N: usize>(
        dt: f64,
        x: [f64; N],
        energy: impl Fn([f64; N]) -> f64 + Clone,
        slope: impl Fn([f64; N]) -> [f64; N] + Clone,
    ) -> impl Dynamics<Scalar = f64, Error = Infallible> {
        let step = move |x: [f64; N]| {
            let slope = slope(x);
            std::array::from_fn(|i| x[i] - dt * slope[i])
        };
        Map { dt, x, step, energy: move |x| Some(energy(x)), is_linear: false }
    }

    /// `x ← A x` in two dimensions.
    pub fn linear(
        matrix: [[f64; 2]; 2],
        x: [f64; 2],
    ) -> impl Dynamics<Scalar = f64, Error = Infallible> {
        map(x, move |x| matrix.map(|row| row[0] * x[0] + row[1] * x[1]))
    }

    /// The logistic map, chaotic at `r = 4` with the Lyapunov exponent `ln 2`.
    pub fn logistic(r: f64, x: f64) -> impl Dynamics<Scalar = f64, Error = Infallible> {
        map([x], move |[x]| [r * x * (1.0 - x)])
    }
}

#[cfg(test)]
mod tests {
    use super::examples::linear;
    use super::*;
    use crate::hash_of_bits;

    struct StopAt(usize);

    impl<D: Dynamics> Watcher<D> for StopAt {
        fn watch(&mut self, step: usize, _: &D) -> Result<ControlFlow<()>, D::Error> {
            Ok(if step >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        }
    }

    #[test]
    fn every_watcher_sees_the_step_at_which_one_ends_the_run() {
        let mut run = linear([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]);
        let mut seen = Vec::new();
        let mut note = |step: usize, _: &_| seen.push(step);
        let Ok(end) = evolve(&mut run, 0, 10, &mut [&mut StopAt(3), &mut note]);
        assert_eq!((end, seen), (Reached { step: 3, ended: true }, vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_run_in_two_parts_is_the_run_in_one() {
        let start = linear([[0.3, 0.7], [-0.2, 0.9]], [1.0, 2.0]);
        let (mut whole, mut parts) = (start.clone(), start);
        let Ok(_) = evolve(&mut whole, 0, 20, &mut []);
        assert_eq!(evolve(&mut parts, 0, 7, &mut []), Ok(Reached { step: 7, ended: false }));
        let Ok(_) = evolve(&mut parts, 7, 20, &mut []);
        assert_eq!(hash_of_bits(whole.state()), hash_of_bits(parts.state()));
    }
}
