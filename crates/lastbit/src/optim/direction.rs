//! The direction of a step: momentum, Adam and weight decay, with the order of every rounding.
//!
//! A step is `θ ← θ − dt d`. The direction `d` is computed from the gradient and from what the
//! optimizer remembers; the step itself is [`Perturbation::step`], so that the factor `k` of the
//! last-bit perturbation always stands at the direction: `θ − (dt/k)(k d)`.
//!
//! First the decay, at the point where the gradient was taken:
//!
//! ```text
//! g ← fl( g + fl(alpha θ) )                                      left out for alpha = 0
//! ```
//!
//! then, with `mu`, `beta1`, `beta2` and `ε` rounded to the precision of `θ`:
//!
//! ```text
//! SGD            d = g
//! heavy ball     b ← fl( fl(mu b) + g )                          d = b
//! Nesterov       b ← fl( fl(mu b) + g )                          d = fl( g + fl(mu b) )
//! Adam           m ← fl( fl(beta1 m) + fl(c1 g) )                c1 = 1 − beta1, in f64, rounded
//!                v ← fl( fl(beta2 v) + fl(fl(c2 g) g) )          c2 = 1 − beta2, in f64, rounded
//!                d = fl( fl(m/e1) / fl(fl(√v/e2) + ε) )          e1 = 1 − beta1ⁿ, e2 = √(1 − beta2ⁿ)
//! CFL            d = fl( s g ), s at most 1 in each layer          see [`cfl`]
//! Nesterov (PDE) θ ← fl( θ + fl(mu fl(θ − θ₋₁)) ) before g is taken, d = g, and the step is dt² (1 + mu)/2
//! ```
//!
//! `e1` and `e2` are computed in `f64` and rounded once; `n` counts the steps since the memory was
//! at rest. `b`, `m` and `v` start at zero, which makes the first `b` the first gradient. These are
//! the formulas of `torch.optim.SGD` (no dampening) and `torch.optim.Adam`, where weight decay is
//! inside the gradient as well. In Adam `d` does not depend on the size of the gradient: there `k`
//! perturbs the step and nothing that is remembered.
//!
//! The last form is how the paper discretizes `K'' + d K' = −∇L(K)`, with `dt` a step in time and
//! `mu = (2 − d dt)/(2 + d dt)`:
//!
//! ```text
//! V    = K + mu (K − K₋₁)
//! K₊₁  = V − s ∇L(V),        s = dt² (1 + mu)/2
//! ```
//!
//! References: Polyak 1964; Sutskever et al., ICML 2013; Kingma and Ba, ICLR 2015; the paper, Theorem 5.5
//! and Appendix E.

use std::ops::Range;

use rayon::prelude::*;

use super::cfl;
use super::method::Method;
use super::perturbation::Perturbation;
use crate::Real;
use crate::real::once_per_precision;
use crate::simd::vectorized;

/// A method with its weight decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimizer {
    /// How the direction is made.
    pub method: Method,
    /// Weight decay, inside the gradient.
    pub alpha: f64,
}

/// Components that a step takes through all its operations while they are in the cache.
const BLOCK: usize = 4096;
/// Fewer components than this are not worth a second thread.
const WORTHWHILE: usize = 1 << 16;

/// What an optimizer remembers: all that a step depends on besides `θ` and the gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory<F> {
    /// Steps since it was at rest.
    pub steps: u64,
    /// The vectors of the module doc one after the other: `b`; `m`, `v`; `θ₋₁`; `v` of [`cfl`] and the
    /// sharpness of each parameter's layer.
    pub values: Vec<F>,
}

impl Optimizer {
    /// Gradient descent without weight decay.
    pub const SGD: Self = Self { method: Method::Sgd, alpha: 0.0 };

    /// The memory before the first step.
    pub fn at_rest<F: Real>(&self, theta: &[F]) -> Memory<F> {
        let values = match self.method {
            Method::NesterovPde { .. } => theta.to_vec(),
            other => vec![F::default(); other.memory().len() * theta.len()],
        };
        Memory { steps: 0, values }
    }

    /// Moves `theta` to where the gradient of the coming step is to be taken: elsewhere for
    /// [`Method::NesterovPde`] only.
    ///
    /// # Panics
    ///
    /// If the memory is that of another method or of another number of parameters.
    pub fn look_ahead<F: Real>(&self, theta: &mut [F], memory: &mut Memory<F>) {
        self.check(theta, memory);
        if let Method::NesterovPde { mu } = self.method {
            look_ahead(theta, &mut memory.values, mu);
        }
    }

    /// Hessian-vector products that the coming step wants, by way of [`cfl::directions`] and
    /// [`cfl::follow`].
    pub fn products<F>(&self, memory: &Memory<F>) -> usize {
        match self.method {
            Method::Cfl { .. } if memory.steps == 0 => cfl::FIRST,
            Method::Cfl { every, .. } => usize::from(cfl::is_due(memory.steps, every)),
            _ => 0,
        }
    }

    /// The parts of `θ` that have a step of their own, of those that a model calls its layers.
    pub fn parts(&self, layers: Vec<Range<usize>>) -> Vec<Range<usize>> {
        match (self.method, layers.last()) {
            (Method::Cfl { by_layer: false, .. }, Some(last)) => {
                std::iter::once(0..last.end).collect()
            }
            _ => layers,
        }
    }

    /// The diagonal `D` that turns the Hessian into the one that steps of length `dt` see, `D H D`:
    ///
    /// ```text
    /// Adam    P^{−1/2},   P = (1 − β₁ⁿ) diag( √(v/(1 − β₂ⁿ)) + ε )       both bias corrections
    /// CFL     S^{1/2},    S the factors by which a layer's step is shorter than dt
    /// ```
    ///
    /// While `v` changes slowly, a step of Adam is heavy ball with mean instead of sum in the
    /// coordinates `P^{1/2} θ`. None for the other methods, and none before the first step, when neither
    /// has seen anything to scale by.
    pub fn preconditioner<F: Real>(&self, memory: &Memory<F>, dt: f64) -> Option<Vec<f64>> {
        if memory.steps == 0 {
            return None;
        }
        let second = memory.values[memory.values.len() / 2..].iter().map(|x| x.to_f64());
        match self.method {
            Method::Adam { beta1, beta2, epsilon } => {
                let [missing1, missing2] =
                    [beta1, beta2].map(|beta| 1.0 - libm::pow(beta, memory.steps as f64));
                let entry = |v: f64| 1.0 / (missing1 * ((v / missing2).sqrt() + epsilon)).sqrt();
                Some(second.map(entry).collect())
            }
            Method::Cfl { safety, .. } => {
                let entry = |sharpness| cfl::factor(sharpness, self.alpha, dt, safety).sqrt();
                Some(second.map(entry).collect())
            }
            _ => None,
        }
    }

    /// `θ ← θ − dt d`, rounded as the module doc says. `g` holds the gradient and becomes `d`.
    ///
    /// # Panics
    ///
    /// If the memory is that of another method or of another number of parameters.
    pub fn step<F: Real>(
        &self,
        theta: &mut [F],
        g: &mut [F],
        memory: &mut Memory<F>,
        dt: f64,
        perturbation: Perturbation,
    ) {
        once_per_precision!(
            <'a, F> (&'a Optimizer, &'a mut [F], &'a mut [F], &'a mut Memory<F>, f64, Perturbation),
            (self, theta, g, memory, dt, perturbation),
            |(own, theta, g, memory, dt, perturbation)| {
                own.take_step(theta, g, memory, dt, perturbation);
            }
        );
    }

    fn take_step<F: Real>(
        &self,
        theta: &mut [F],
        g: &mut [F],
        memory: &mut Memory<F>,
        dt: f64,
        perturbation: Perturbation,
    ) {
        self.check(theta, memory);
        assert_eq!(theta.len(), g.len(), "components of the gradient");
        memory.steps += 1;
        if let Method::Cfl { safety, .. } = self.method {
            self.decay(theta, g);
            cfl::shorten(g, memory, self.alpha, dt, safety);
            perturbation.step(theta, g, self.method.length(dt));
            return;
        }
        let steps = memory.steps;
        let mut rest = &mut memory.values[..];
        let [first, second] = [0, 1].map(|vector| {
            let len = if self.method.memory().len() > vector { theta.len() } else { 0 };
            rest.split_off_mut(..len).expect("checked")
        });
        let len = theta.len();
        let mut blocks = Vec::with_capacity(len.div_ceil(BLOCK));
        let (mut firsts, mut seconds) = (first.chunks_mut(BLOCK), second.chunks_mut(BLOCK));
        for (theta, g) in theta.chunks_mut(BLOCK).zip(g.chunks_mut(BLOCK)) {
            let memory = [&mut firsts, &mut seconds].map(|part| part.next().unwrap_or_default());
            blocks.push((theta, g, memory));
        }
        let work = |(theta, g, memory): (&mut [F], &mut [F], [&mut [F]; 2])| {
            self.move_block(theta, g, memory, steps, dt, perturbation);
        };
        if len < WORTHWHILE {
            blocks.into_iter().for_each(work);
        } else {
            blocks.into_par_iter().for_each(work);
        }
    }

    /// A step of some components, each by itself.
    fn move_block<F: Real>(
        &self,
        theta: &mut [F],
        g: &mut [F],
        [first, second]: [&mut [F]; 2],
        steps: u64,
        dt: f64,
        perturbation: Perturbation,
    ) {
        self.decay(theta, g);
        match self.method {
            Method::Sgd | Method::NesterovPde { .. } => {}
            Method::HeavyBall { mu } => {
                remember(g, first, mu);
                g.copy_from_slice(first);
            }
            Method::Nesterov { mu } => {
                remember(g, first, mu);
                add(g, first, mu);
            }
            Method::Adam { beta1, beta2, epsilon } => {
                let corrections = self.method.bias_corrections(steps);
                adam(g, [first, second], [beta1, beta2], corrections, epsilon);
            }
            Method::Cfl { .. } => unreachable!("looks at whole layers"),
        }
        perturbation.step(theta, g, self.method.length(dt));
    }

    fn decay<F: Real>(&self, theta: &[F], g: &mut [F]) {
        if self.alpha != 0.0 {
            add(g, theta, self.alpha);
        }
    }

    fn check<F: Real>(&self, theta: &[F], memory: &Memory<F>) {
        let expected = self.method.memory().len() * theta.len();
        assert_eq!(memory.values.len(), expected, "numbers in the memory of {:?}", self.method);
    }
}

/// `K₋₁ ← K`, `K ← fl(K + fl(mu fl(K − K₋₁)))`: from `K` to `V`, where the gradient is taken.
fn look_ahead<F: Real>(now: &mut [F], before: &mut [F], mu: f64) {
    let mu = F::of(mu);
    for (k, old) in now.iter_mut().zip(before) {
        let ahead = *k + mu * (*k - *old);
        *old = std::mem::replace(k, ahead);
    }
}

/// `g ← fl(g + fl(factor x))`.
fn add<F: Real>(g: &mut [F], x: &[F], factor: f64) {
    let factor = F::of(factor);
    vectorized(
        #[inline(always)]
        move || g.iter_mut().zip(x).for_each(|(g, x)| *g += factor * *x),
    );
}

/// `b ← fl(fl(mu b) + g)`.
fn remember<F: Real>(g: &[F], b: &mut [F], mu: f64) {
    let mu = F::of(mu);
    vectorized(
        #[inline(always)]
        move || b.iter_mut().zip(g).for_each(|(b, g)| *b = mu * *b + *g),
    );
}

fn adam<F: Real>(
    g: &mut [F],
    [m, v]: [&mut [F]; 2],
    beta: [f64; 2],
    corrections: [f64; 2],
    epsilon: f64,
) {
    let [e1, e2] = corrections.map(F::of);
    let [c1, c2] = beta.map(|beta| F::of(1.0 - beta));
    let [beta1, beta2] = beta.map(F::of);
    let epsilon = F::of(epsilon);
    vectorized(
        #[inline(always)]
        move || {
            for ((g, m), v) in g.iter_mut().zip(m).zip(v) {
                *m = beta1 * *m + c1 * *g;
                *v = beta2 * *v + (c2 * *g) * *g;
                *g = (*m / e1) / (v.sqrt() / e2 + epsilon);
            }
        },
    );
}

#[cfg(test)]
mod tests;
