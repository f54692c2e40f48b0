//! A run with a perturbed copy: the same steps on the same batches, brought back to a small distance.

use crate::Real;
use crate::objective::Objective;
use crate::optim::direction::{Memory, Optimizer};
use crate::optim::method::Method;
use crate::optim::perturbation::Perturbation;
use crate::reduce::{distance, norm};
use crate::rng::Stream;

/// Over the size of the parameters, how far a copy may be before a step that divides by roots (Adam) stops to be linear.
const LINEAR_RANGE_OF_QUOTIENTS: f64 = 1e-4;

/// Parameters, and what the optimizer remembers.
#[derive(Debug, Clone, PartialEq)]
pub struct State<F> {
    /// Parameters.
    pub theta: Vec<F>,
    /// What the optimizer remembers.
    pub memory: Memory<F>,
}

impl<F: Real> State<F> {
    /// Before the first step.
    pub fn start(theta: Vec<F>, optimizer: &Optimizer) -> Self {
        let memory = optimizer.at_rest(&theta);
        Self { theta, memory }
    }

    /// The state after a step of length `dt` on the objective's batch, with the bits of a
    /// [`Trainer`](crate::training::Trainer).
    ///
    /// # Errors
    ///
    /// If the gradient could not be computed.
    ///
    /// # Panics
    ///
    /// If the optimizer needs Hessian-vector products.
    pub fn stepped<O: Objective<F>>(
        &self,
        objective: &mut O,
        optimizer: &Optimizer,
        dt: f64,
    ) -> Result<Self, O::Error> {
        assert!(!optimizer.method.needs_hessian(), "{:?}", optimizer.method);
        let Self { mut theta, mut memory } = self.clone();
        let mut gradient = vec![F::default(); theta.len()];
        optimizer.look_ahead(&mut theta, &mut memory);
        objective.gradient(&theta, &mut gradient)?;
        optimizer.step(&mut theta, &mut gradient, &mut memory, dt, Perturbation::NONE);
        Ok(Self { theta, memory })
    }

    /// `self + factor (other − self)`, parameters and memory alike; what is never negative stays so.
    pub fn toward(&self, other: &Self, factor: f64, method: Method) -> Self {
        let between = |x: &[F], y: &[F]| -> Vec<F> {
            let value = |(x, y): (&F, &F)| F::of(x.to_f64() + factor * (y.to_f64() - x.to_f64()));
            x.iter().zip(y).map(value).collect()
        };
        let theta = between(&self.theta, &other.theta);
        let mut values = between(&self.memory.values, &other.memory.values);
        if let Some(i) = method.nonnegative_memory() {
            let vector = &mut values[i * theta.len()..(i + 1) * theta.len()];
            vector.iter_mut().filter(|v| **v < F::default()).for_each(|v| *v = F::default());
        }
        Self { theta, memory: Memory { steps: self.memory.steps, values } }
    }
}

/// A run and its perturbed copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair<F> {
    /// The run.
    pub run: State<F>,
    /// Its copy.
    pub copy: State<F>,
}

impl<F: Real> Pair<F> {
    /// A run with a copy whose parameters are moved by random signs, to the
    /// [`reference`](Self::reference) distance.
    pub fn new(run: State<F>, method: Method) -> Self {
        let signs = Stream::new(0, 0);
        let each = reference(&run, method) / (run.theta.len() as f64).sqrt();
        let moved = |(i, x): (usize, &F)| F::of(x.to_f64() + each * signs.sign(i as u64));
        let theta = run.theta.iter().enumerate().map(moved).collect();
        let copy = State { theta, memory: run.memory.clone() };
        Self { run, copy }
    }

    /// Both after a step on the same batch.
    ///
    /// # Errors
    ///
    /// If a gradient could not be computed.
    pub fn stepped<O: Objective<F>>(
        &self,
        objective: &mut O,
        optimizer: &Optimizer,
        dt: f64,
    ) -> Result<Self, O::Error> {
        let run = self.run.stepped(objective, optimizer, dt)?;
        let copy = self.copy.stepped(objective, optimizer, dt)?;
        Ok(Self { run, copy })
    }

    /// `|δθ|`.
    pub fn distance(&self) -> f64 {
        distance(&self.run.theta, &self.copy.theta)
    }

    /// The geometric mean of the rounding of the parameters and of the range in which a step is linear.
    pub fn reference(&self, method: Method) -> f64 {
        reference(&self.run, method)
    }

    /// The pair with its copy moved along the difference to another distance.
    ///
    /// # Panics
    ///
    /// If the parameters coincide.
    pub fn at_distance(&self, wanted: f64, method: Method) -> Self {
        let now = self.distance();
        assert!(now > 0.0, "copies that coincide have no direction");
        let copy = self.run.toward(&self.copy, wanted / now, method);
        Self { run: self.run.clone(), copy }
    }
}

fn reference<F: Real>(run: &State<F>, method: Method) -> f64 {
    let size = match norm(&run.theta) {
        0.0 => (run.theta.len() as f64).sqrt(),
        size => size,
    };
    let range = if method.is_linear() { 1.0 } else { LINEAR_RANGE_OF_QUOTIENTS };
    (F::UNIT_ROUNDOFF * range).sqrt() * size
}
