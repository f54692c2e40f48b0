//! Discrete dynamics and the one time loop.
//!
//! ```text
//! x_{n+1} = Φ_dt(x_n)
//! ```
//!
//! A PDE scheme and a training run are the same thing here: a state, a step, a step size. All that
//! is measured along a run (verdicts, twins, curves) is a [`Watcher`] of [`evolve`].

use std::ops::ControlFlow;

use crate::Real;

/// A map iterated in time.
///
/// `clone` followed by equal steps gives equal bits: a twin run is a clone with another state.
pub trait Dynamics: Clone {
    /// Precision of the state.
    type Scalar: Real;

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
    fn step(&mut self);

    /// The function this dynamics descends: `x_{n+1} = x_n − dt ∇E(x_n)`, where it is of that
    /// form. A step that does not lower it has met a curvature above `2/dt`
    /// (see [`verdict`](crate::verdict)).
    fn energy(&self) -> Option<f64> {
        None
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
pub trait Watcher<D> {
    /// Called with `step = 0` before the first step and then after each; `Break` ends the run.
    fn watch(&mut self, step: usize, run: &D) -> ControlFlow<()>;

    /// Whether to give up work that no watcher is shown, of which the caller will throw the result away. Asked now and
    /// then during such work.
    fn gives_up(&mut self) -> bool {
        false
    }
}

/// A closure that never ends the run is a watcher.
impl<D, W: FnMut(usize, &D)> Watcher<D> for W {
    fn watch(&mut self, step: usize, run: &D) -> ControlFlow<()> {
        self(step, run);
        ControlFlow::Continue(())
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
pub fn evolve<D: Dynamics>(
    run: &mut D,
    from: usize,
    to: usize,
    watchers: &mut [&mut dyn Watcher<D>],
) -> Reached {
    let mut show = |step: usize, run: &D| {
        watchers
            .iter_mut()
            .fold(false, |ended, watcher| watcher.watch(step, run).is_break() | ended)
    };
    if from == 0 && show(0, run) {
        return Reached { step: 0, ended: true };
    }
    for step in from + 1..=to {
        run.step();
        if show(step, run) {
            return Reached { step, ended: true };
        }
    }
    Reached { step: to, ended: false }
}

#[cfg(test)]
pub(crate) mod examples {
    //! Maps whose behaviour is known in closed form, and what every descent must do.

    use super::*;

    /// Asserts that a step is `x − dt ∇E(x)` in each of the components `which`, the slope taken by
    /// central differences over `2h`, to within `tolerance`.
    pub fn assert_descends_its_energy<D: Dynamics<Scalar = f64>>(
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
                moved.energy().expect("a descent has an energy")
            };
            let slope = (energy_at(h) - energy_at(-h)) / (2.0 * h);
            let error = stepped.state()[i] - (before[i] - run.dt() * slope);
            assert!(error.abs() < tolerance, "i = {i}: {error:e}");
        }
    }

    /// Gradient descent on a function of one variable.
    #[derive(Clone)]
    pub struct Descent {
        pub dt: f64,
        pub x: [f64; 1],
        pub energy: fn(f64) -> f64,
        pub slope: fn(f64) -> f64,
    }

    impl Dynamics for Descent {
        type Scalar = f64;

        fn dt(&self) -> f64 {
            self.dt
        }

        fn state(&self) -> &[f64] {
            &self.x
        }

        fn load(&mut self, state: &[f64]) {
            self.x.copy_from_slice(state);
        }

        fn step(&mut self) {
            self.x[0] -= self.dt * (self.slope)(self.x[0]);
        }

        fn energy(&self) -> Option<f64> {
            Some((self.energy)(self.x[0]))
        }
    }

    /// A linear map without energy: `x ← A x` in two dimensions.
    #[derive(Clone)]
    pub struct Linear {
        pub matrix: [[f64; 2]; 2],
        pub x: [f64; 2],
    }

    impl Dynamics for Linear {
        type Scalar = f64;

        fn dt(&self) -> f64 {
            1.0
        }

        fn state(&self) -> &[f64] {
            &self.x
        }

        fn load(&mut self, state: &[f64]) {
            self.x.copy_from_slice(state);
        }

        fn step(&mut self) {
            self.x = self.matrix.map(|row| row[0] * self.x[0] + row[1] * self.x[1]);
        }
    }

    /// The logistic map in its chaotic regime, whose Lyapunov exponent at `r = 4` is `ln 2`.
    #[derive(Clone)]
    pub struct Logistic {
        pub r: f64,
        pub x: [f64; 1],
    }

    impl Dynamics for Logistic {
        type Scalar = f64;

        fn dt(&self) -> f64 {
            1.0
        }

        fn state(&self) -> &[f64] {
            &self.x
        }

        fn load(&mut self, state: &[f64]) {
            self.x.copy_from_slice(state);
        }

        fn step(&mut self) {
            self.x[0] = self.r * self.x[0] * (1.0 - self.x[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::examples::Linear;
    use super::*;

    struct StopAt(usize);

    impl<D> Watcher<D> for StopAt {
        fn watch(&mut self, step: usize, _: &D) -> ControlFlow<()> {
            if step >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    #[test]
    fn every_watcher_sees_the_step_at_which_one_ends_the_run() {
        let mut run = Linear { matrix: [[1.0, 0.0], [0.0, 1.0]], x: [1.0, 2.0] };
        let mut seen = Vec::new();
        let mut note = |step: usize, _: &Linear| seen.push(step);
        let end = evolve(&mut run, 0, 10, &mut [&mut StopAt(3), &mut note]);
        assert_eq!((end, seen), (Reached { step: 3, ended: true }, vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_run_in_two_parts_is_the_run_in_one() {
        let start = Linear { matrix: [[0.3, 0.7], [-0.2, 0.9]], x: [1.0, 2.0] };
        let (mut whole, mut parts) = (start.clone(), start);
        evolve(&mut whole, 0, 20, &mut []);
        assert_eq!(evolve(&mut parts, 0, 7, &mut []), Reached { step: 7, ended: false });
        evolve(&mut parts, 7, 20, &mut []);
        assert_eq!(whole.x.map(f64::to_bits), parts.x.map(f64::to_bits));
    }
}
