//! Gradient descent, heavy ball and Nesterov's method on random quadratics.
//!
//! ```text
//! E(x) = c + ½ Σ λ_i z_i²,    z = Q (x − m),    Q a mirror
//! v ← μ v + ∇E,    x ← x − η v              heavy ball; descent where μ = 0
//! v ← μ v + ∇E,    x ← x − η (∇E + μ v)     Nesterov
//!
//! each mode:  A² − t A + d = 0,  s = η λ    stable exactly for
//!   heavy ball   t = 1 + μ − s           d = μ             0 ≤ s ≤ 2 (1 + μ)
//!   Nesterov     t = (1 + μ)(1 − s)      d = μ (1 − s)     0 ≤ s ≤ 2 (1 + μ)/(1 + 2μ)
//! ```

use std::convert::Infallible;
use std::ops::Range;

use lastbit::{Dynamics, Real};

use super::{Case, Draw, Rate, judge_linear, judged};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Descent,
    HeavyBall,
    Nesterov,
}

#[derive(Debug, Clone)]
struct Quadratic<F> {
    method: Method,
    lr: F,
    mu: F,
    eigenvalues: Vec<f64>,
    /// A unit vector; zero for no mirror.
    mirror: Vec<f64>,
    minimum: Vec<f64>,
    floor: f64,
    is_declared_linear: bool,
    /// Position, then velocity where there is momentum.
    state: Vec<F>,
}

impl<F: Real> Quadratic<F> {
    fn reflect(&self, x: &mut [f64]) {
        let along: f64 = 2.0 * x.iter().zip(&self.mirror).map(|(x, m)| x * m).sum::<f64>();
        x.iter_mut().zip(&self.mirror).for_each(|(x, m)| *x -= along * m);
    }

    /// `z`, in `f64`.
    fn modes(&self) -> Vec<f64> {
        let mut z: Vec<f64> =
            self.state.iter().zip(&self.minimum).map(|(x, m)| x.to_f64() - m).collect();
        self.reflect(&mut z);
        z
    }

    fn gradient(&self) -> Vec<f64> {
        let mut gradient = self.modes();
        gradient.iter_mut().zip(&self.eigenvalues).for_each(|(z, l)| *z *= l);
        self.reflect(&mut gradient);
        gradient
    }

    /// The largest stable `η λ`.
    fn edge(method: Method, mu: f64) -> f64 {
        match method {
            Method::Descent | Method::HeavyBall => 2.0 * (1.0 + mu),
            Method::Nesterov => 2.0 * (1.0 + mu) / (1.0 + 2.0 * mu),
        }
    }

    /// The larger root of a mode, by absolute value.
    fn radius(&self, eigenvalue: f64) -> f64 {
        let (mu, s) = (self.mu.to_f64(), self.lr.to_f64() * eigenvalue);
        let (t, d) = match self.method {
            Method::Descent | Method::HeavyBall => (1.0 + mu - s, mu),
            Method::Nesterov => ((1.0 + mu) * (1.0 - s), mu * (1.0 - s)),
        };
        let discriminant = t * t - 4.0 * d;
        if discriminant < 0.0 { d.sqrt() } else { 0.5 * (t.abs() + discriminant.sqrt()) }
    }

    fn rate(&self) -> Rate {
        let radii = self.eigenvalues.iter().map(|l| self.radius(*l));
        let rate = libm::log(radii.fold(0.0, f64::max).max(f64::MIN_POSITIVE));
        let edge = Self::edge(self.method, self.mu.to_f64());
        let is_stable = |l: &f64| (0.0..=edge).contains(&(self.lr.to_f64() * l));
        // The condition is exact, the root is rounded.
        let rate = if self.eigenvalues.iter().all(is_stable) { rate.min(0.0) } else { rate };
        Rate { least: rate, most: rate }
    }
}

impl<F: Real> Dynamics for Quadratic<F> {
    type Scalar = F;
    type Error = Infallible;

    fn dt(&self) -> f64 {
        self.lr.to_f64()
    }

    fn state(&self) -> &[F] {
        &self.state
    }

    fn load(&mut self, state: &[F]) {
        self.state.copy_from_slice(state);
    }

    fn step(&mut self) -> Result<(), Infallible> {
        let gradient = self.gradient();
        let (x, v) = self.state.split_at_mut(gradient.len());
        for (i, gradient) in gradient.into_iter().map(F::of).enumerate() {
            let direction = match self.method {
                Method::Descent => gradient,
                Method::HeavyBall | Method::Nesterov => {
                    v[i] = self.mu * v[i] + gradient;
                    if self.method == Method::HeavyBall { v[i] } else { gradient + self.mu * v[i] }
                }
            };
            x[i] -= self.lr * direction;
        }
        Ok(())
    }

    fn energy(&self) -> Result<Option<f64>, Infallible> {
        if self.method != Method::Descent {
            return Ok(None);
        }
        let terms = self.modes().into_iter().zip(&self.eigenvalues);
        Ok(Some(self.floor + 0.5 * terms.map(|(z, l)| l * z * z).sum::<f64>()))
    }

    fn is_linear(&self) -> bool {
        self.is_declared_linear
    }
}

fn spectrum(draw: &mut Draw, n: usize) -> Vec<f64> {
    let top = draw.log_uniform(1e-2, 1e2);
    let kind = draw.below(5);
    let (near, spread) = (draw.log_uniform(1e-4, 1.0), draw.log_uniform(1e-8, 1e-2));
    let mut eigenvalues: Vec<f64> = (0..n)
        .map(|_| match kind {
            0 | 3 | 4 => top * draw.uniform(0.0, 1.0),
            1 => top * draw.log_uniform(1e-6, 1.0),
            _ => {
                let centre = if draw.is_one_in(2) { 1.0 } else { near };
                top * centre * (1.0 - spread * draw.uniform(0.0, 1.0))
            }
        })
        .collect();
    for _ in 0..n.div_ceil(5) {
        let at = draw.below(n);
        match kind {
            3 => eigenvalues[at] = 0.0,
            4 => eigenvalues[at] = -top * draw.log_uniform(1e-4, 1.0),
            _ => {}
        }
    }
    eigenvalues
}

fn quadratic<F: Real>(draw: &mut Draw) -> Case {
    let n = 1 + draw.below(50);
    let method = [Method::Descent, Method::HeavyBall, Method::Nesterov][draw.below(3)];
    let mu = if method == Method::Descent { 0.0 } else { 1.0 - draw.log_uniform(0.01, 1.0) };
    let mu = F::of(mu);
    let eigenvalues = spectrum(draw, n);
    let top = eigenvalues.iter().fold(0.0_f64, |most, l| most.max(*l));
    // Without curvature every step is stable: take one.
    let edge = Quadratic::<F>::edge(method, mu.to_f64()) / if top > 0.0 { top } else { 1.0 };
    let lr = F::of(edge * draw.around_the_edge());
    let mut mirror: Vec<f64> = (0..n).map(|_| draw.normal()).collect();
    let length = mirror.iter().map(|m| m * m).sum::<f64>().sqrt();
    // Without the mirror modes do not feel each other, and start at zero may stay there.
    let is_diagonal = draw.is_one_in(5);
    mirror.iter_mut().for_each(|m| *m *= if is_diagonal { 0.0 } else { 1.0 / length });
    let away = if draw.is_one_in(2) { 0.0 } else { draw.log_uniform(0.1, 1e4) };
    let minimum: Vec<f64> = (0..n).map(|_| away * draw.normal()).collect();
    let floor = if draw.is_one_in(2) { 0.0 } else { draw.log_uniform(1e-6, 1e2) };
    let starts_partly_at_rest = draw.is_one_in(5);
    let mut state: Vec<F> = minimum
        .iter()
        .map(|m| {
            let off = if starts_partly_at_rest && draw.is_one_in(2) { 0.0 } else { draw.normal() };
            F::of(m + off)
        })
        .collect();
    if method != Method::Descent {
        state.resize(2 * n, F::default());
    }
    let is_declared_linear = draw.is_one_in(2);
    let run = Quadratic {
        method,
        lr,
        mu,
        eigenvalues,
        mirror,
        minimum,
        floor,
        is_declared_linear,
        state,
    };
    let what = format!(
        "{} {method:?} n = {n} mu = {mu} lr/edge = {} diagonal {is_diagonal} away {away} floor {floor} linear \
         {is_declared_linear} partly at rest {starts_partly_at_rest}",
        F::NAME,
        lr.to_f64() / edge,
    );
    Case { what, rate: run.rate(), judge: judged(run) }
}

pub(super) fn random(case: u64) -> Case {
    let mut draw = Draw::new(11, case);
    if draw.is_one_in(2) { quadratic::<f32>(&mut draw) } else { quadratic::<f64>(&mut draw) }
}

fn judge_random(cases: Range<u64>) {
    judge_linear("quadratics", random, 12, cases);
}

#[test]
fn a_random_quadratic_is_never_judged_against_its_eigenvalues() {
    judge_random(0..300);
}

/// `cargo test --release -p lastbit --test mathematics random_verdicts::quadratics -- --ignored --nocapture`
#[test]
#[ignore = "ten thousand cases"]
fn ten_thousand_quadratics_are_never_judged_against_their_eigenvalues() {
    judge_random(0..10_000);
}

/// Heavy ball in f32 at a double root: rounding, which the step amplifies there, looks like growth. Stable at
/// `ln ρ = −0.012`, called restrained.
#[test]
#[ignore = "known to be wrong"]
fn a_double_root_in_single_precision_is_not_called_restrained() {
    judge_random(77_003_586..77_003_587);
}
