//! The linearized step of each optimizer, and the growth that it explains.

use super::pair::{Pair, State};
use super::parts::{Attribution, Matrix, StepSeen};
use super::spectral_measure::SpectralMeasure;
use crate::Real;
use crate::objective::Objective;
use crate::optim::direction::Optimizer;
use crate::optim::method::{Method, Name};
use crate::reduce::sum_by;

/// An optimizer whose step is linearized as the [module](super) says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linearization {
    optimizer: Optimizer,
}

/// An optimizer for which this attribution is not defined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Undefined {
    /// Which.
    pub optimizer: Name,
    /// Why not.
    pub because: &'static str,
}

impl Linearization {
    /// # Errors
    ///
    /// If attribution is not defined for the optimizer.
    pub fn of(optimizer: Optimizer) -> Result<Self, Undefined> {
        match optimizer.method {
            Method::Sgd
            | Method::HeavyBall { .. }
            | Method::Nesterov { .. }
            | Method::NesterovPde { .. }
            | Method::Adam { .. } => Ok(Self { optimizer }),
            Method::Cfl { .. } => Err(Undefined {
                optimizer: Name::Cfl,
                because: "the length of its steps comes from a power iteration that is part of its state, so \
                          a mode of the Hessian is no mode of the step",
            }),
        }
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &Optimizer {
        &self.optimizer
    }

    /// The growth of the difference of two copies over a step, by cause. The objective is on the batch of the step,
    /// and `dt` its learning rate. `products` are the Hessian-vector products that the split may
    /// take: at least [`least_products`](Self::least_products), and one more is made for Adam.
    ///
    /// None where the copies coincide, or where states or products are not finite.
    ///
    /// # Errors
    ///
    /// The first error of the objective.
    ///
    /// # Panics
    ///
    /// If there are too few products, or `after` is not one step after `before`.
    pub fn attribute<F: Real, O: Objective<F>>(
        &self,
        objective: &mut O,
        dt: f64,
        before: &Pair<F>,
        after: &Pair<F>,
        products: usize,
    ) -> Result<Option<Attribution>, O::Error> {
        let [then, now] = [before, after].map(|pair| pair.run.memory.steps);
        assert_eq!(then + 1, now, "steps of the pair after the step");
        let Optimizer { method, alpha } = self.optimizer;
        let step = Coordinates::of(&self.optimizer, after, dt);
        let (d, moved) = (step.difference(before), step.difference(after));
        let (was, is) = (squares(&d), squares(&moved));
        if !was.is_finite() || !is.is_finite() || was == 0.0 {
            return Ok(None);
        }
        let State { mut theta, mut memory } = before.run.clone();
        self.optimizer.look_ahead(&mut theta, &mut memory);
        let mut image = vec![F::default(); theta.len()];
        let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| {
            let scaled: Vec<F> =
                v.iter().enumerate().map(|(i, v)| F::of(v * step.scale(i))).collect();
            objective.hessian_vector(&theta, &scaled, &mut image)?;
            for (i, out) in out.iter_mut().enumerate() {
                *out = step.scale(i) * (image[i].to_f64() + alpha * scaled[i].to_f64());
            }
            Ok(())
        };
        let Some(measure) = SpectralMeasure::of(&d, products, multiply)? else { return Ok(None) };
        let preconditioner = match method {
            Method::Adam { .. } => {
                self.preconditioner_change(objective, &step, before, after, &d)?
            }
            _ => 0.0,
        };
        let seen =
            StepSeen { squares: [was, is], preconditioner, rounding: step.rounding(before, after) };
        let mut found = seen.attributed(&measure, |lambda| step.mode(lambda));
        if let Method::Adam { .. } = method {
            found.products += 1;
        }
        Ok(Some(found))
    }

    /// Products without which not even the growth of the linear step is exact.
    pub fn least_products(&self) -> usize {
        if self.optimizer.method.memory().is_empty() { 2 } else { 4 }
    }

    /// `|J d|² − |J_held d|²` of Adam. With `s = √v'/e₂ + ε` and `P = e₁ s`:
    ///
    /// ```text
    /// δg  = H δθ + alpha δθ,      δv' = β₂ δv + 2 (1 − β₂) g δg,      δ√v' = δv'/(2√v')
    /// J d = J_held d + ( e, 0 ),  e = P^{1/2} dt m' δ√v'/(e₁ e₂ s²)
    /// ```
    fn preconditioner_change<F: Real, O: Objective<F>>(
        &self,
        objective: &mut O,
        step: &Coordinates,
        before: &Pair<F>,
        after: &Pair<F>,
        d: &[Vec<f64>],
    ) -> Result<f64, O::Error> {
        let Optimizer { method: Method::Adam { beta1, beta2, epsilon }, alpha } = self.optimizer
        else {
            return Ok(0.0);
        };
        let theta = &before.run.theta;
        let n = theta.len();
        let [mut gradient, mut image] = [(); 2].map(|()| vec![F::default(); n]);
        objective.linearize(theta, &mut gradient)?;
        let moved: Vec<F> = (0..n).map(|i| F::of(d[0][i] * step.scale(i))).collect();
        objective.hessian_vector(theta, &moved, &mut image)?;
        let [e1, e2] = self.optimizer.method.bias_corrections(after.run.memory.steps);
        let value = |pair: &State<F>, i: usize| pair.memory.values[i].to_f64();
        let term = |i: usize| {
            let g = gradient[i].to_f64() + alpha * theta[i].to_f64();
            let dg = image[i].to_f64() + alpha * moved[i].to_f64();
            let dv = value(&before.copy, n + i) - value(&before.run, n + i);
            let dv = beta2 * dv + 2.0 * (1.0 - beta2) * g * dg;
            let root = value(&after.run, n + i).sqrt();
            // The root has no derivative at 0; there g and the numerator are 0 as well.
            let droot = if root > 0.0 { dv / (2.0 * root) } else { 0.0 };
            let s = root / e2 + epsilon;
            let m = value(&after.run, i);
            let e = step.dt * m * droot / (e1 * e2 * s * s) / step.scale(i);
            let y = beta1 * d[1][i] + (1.0 - beta1) * step.dt * step.scale(i) * dg;
            e * (2.0 * (d[0][i] - y) + e)
        };
        Ok(sum_by(n, term))
    }
}

/// What a step does to a difference along one mode of the Hessian, in the coordinates of the [module](super).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModeStep {
    /// The optimizer.
    pub method: Method,
    /// Factor of a new gradient where it enters the memory: `1 − dampening` of PyTorch's SGD, else 1.
    pub gain: f64,
    /// By how much the parameters shrink besides (decoupled weight decay: `dt` times the decay), else 0.
    pub decay: f64,
}

impl ModeStep {
    /// `M(lambda)` of the module doc, for `q = dt lambda`.
    pub fn matrix(&self, q: f64) -> Matrix {
        let q = self.gain * q;
        let [[a, b], [c, d]] = match self.method {
            Method::Sgd | Method::Cfl { .. } => [[1.0 - q, 0.0], [0.0, 0.0]],
            Method::HeavyBall { mu } => [[1.0 - q, -mu], [q, mu]],
            Method::Nesterov { mu } => [[1.0 - (1.0 + mu) * q, -mu * mu], [q, mu]],
            Method::NesterovPde { mu } => [[1.0 - q, mu * (1.0 - q)], [-q, mu * (1.0 - q)]],
            Method::Adam { beta1, .. } => {
                let q = (1.0 - beta1) * q;
                [[1.0 - q, -beta1], [q, beta1]]
            }
        };
        [[a - self.decay, b], [c, d]]
    }
}

/// The coordinates of one step: positions and remembered steps in the units of the parameters.
struct Coordinates {
    method: Method,
    /// Length of the step.
    dt: f64,
    /// `P^{−1/2}` of Adam.
    diagonal: Option<Vec<f64>>,
}

impl Coordinates {
    fn of<F: Real>(optimizer: &Optimizer, after: &Pair<F>, dt: f64) -> Self {
        let Optimizer { method, .. } = *optimizer;
        let diagonal = optimizer.preconditioner(&after.run.memory, dt);
        Self { method, dt: method.length(dt), diagonal }
    }

    fn scale(&self, i: usize) -> f64 {
        self.diagonal.as_ref().map_or(1.0, |diagonal| diagonal[i])
    }

    fn mode(&self, lambda: f64) -> Matrix {
        let as_documented = ModeStep { method: self.method, gain: 1.0, decay: 0.0 };
        as_documented.matrix(self.dt * lambda)
    }

    fn difference<F: Real>(&self, Pair { run, copy }: &Pair<F>) -> Vec<Vec<f64>> {
        let between = |x: &[F], y: &[F], i: usize| y[i].to_f64() - x[i].to_f64();
        self.of_values(
            run.theta.len(),
            |i| between(&run.theta, &copy.theta, i),
            |i| between(&run.memory.values, &copy.memory.values, i),
        )
    }

    /// `x`, and `y` where there is a memory.
    fn of_values(
        &self,
        n: usize,
        theta: impl Fn(usize) -> f64,
        memory: impl Fn(usize) -> f64,
    ) -> Vec<Vec<f64>> {
        let x = (0..n).map(|i| theta(i) / self.scale(i)).collect();
        let remembered = |i: usize| match self.method {
            Method::NesterovPde { .. } => theta(i) - memory(i),
            _ => self.dt * self.scale(i) * memory(i),
        };
        match self.method {
            Method::Sgd | Method::Cfl { .. } => vec![x],
            _ => vec![x, (0..n).map(remembered).collect()],
        }
    }

    /// `2u(|z'| + |z' − z|)`, with `z` the state of the run.
    fn rounding<F: Real>(&self, before: &Pair<F>, after: &Pair<F>) -> f64 {
        let (old, new) = (&before.run, &after.run);
        let theta = |i: usize| new.theta[i].to_f64();
        // A displacement is the difference of two positions, of which each is rounded.
        let memory = |i: usize| match self.method {
            Method::NesterovPde { .. } => 0.0,
            _ => new.memory.values[i].to_f64(),
        };
        let stored = squares(&self.of_values(new.theta.len(), theta, memory)).sqrt();
        let step = Pair { run: old.clone(), copy: new.clone() };
        2.0 * F::UNIT_ROUNDOFF * (stored + squares(&self.difference(&step)).sqrt())
    }
}

/// `|x|² + |y|²`.
fn squares(z: &[Vec<f64>]) -> f64 {
    z.iter().map(|part| sum_by(part.len(), |i| part[i] * part[i])).sum()
}
