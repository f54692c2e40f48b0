//! The heat equation on an interval, explicit in time.
//!
//! ```text
//! ∂u/∂t = κ ∂²u/∂x²
//!
//! u_{n+1}[i] = u_n[i] + r ((u_n[i+1] − u_n[i]) − (u_n[i] − u_n[i−1])),     r = κ dt/dx²
//! A(ω)       = 1 − 4 r sin²(ω/2)                                         (ω in radians per point)
//! ```
//!
//! `|A(ω)| ≤ 1` for all `ω` exactly when `r ≤ 1/2`. Each mode of the mesh is multiplied by exactly
//! its `A`; the modes, and hence the highest `ω`, depend on the ends:
//!
//! | ends | modes | frequencies |
//! |---|---|---|
//! | Dirichlet, held at their initial values | `sin(ω i)` | `jπ/(N−1)`, j = 1 … N−2 |
//! | Neumann, no flux through them | `cos(ω (i + ½))` | `jπ/N`, j = 0 … N−1 |
//! | periodic | `e^{iωi}` | `2πj/N` |
//!
//! Rounding: the three differences, their product with `r`, the sum, in that order, in the
//! precision of the state. A mirrored start gives the mirrored bits.
//!
//! Reference: the paper, Section 3.1 and its figure on the heat equation.

use std::convert::Infallible;
use std::f64::consts::PI;

use super::{Mesh, Pde};
use crate::real::once_per_precision;
use crate::reduce::sum_by;
use crate::simd::vectorized;
use crate::{Dynamics, Real};

crate::named_enum! {
    /// What happens at the ends of the interval.
    pub enum Ends {
        /// Held at their initial values.
        Dirichlet = "dirichlet",
        /// No flux.
        Neumann = "neumann",
        /// The right neighbour of the last point is the first.
        Periodic = "periodic",
    }
}

/// Explicit Euler in time, three-point stencil in space.
#[derive(Debug, Clone)]
pub struct Heat<F> {
    dt: f64,
    dx: f64,
    kappa: f64,
    r: F,
    ends: Ends,
    u: Vec<F>,
    previous: Vec<F>,
}

impl<F: Real> Heat<F> {
    /// Starts from the values `u` at the mesh points, ends included.
    ///
    /// # Panics
    ///
    /// If `u` has fewer than three points, or `dt`, `dx` or `kappa` is not positive.
    pub fn new(dt: f64, dx: f64, kappa: f64, ends: Ends, u: Vec<F>) -> Self {
        assert!(u.len() >= 3, "{} mesh points, need at least 3", u.len());
        assert!(
            dt > 0.0 && dx > 0.0 && kappa > 0.0,
            "dt = {dt}, dx = {dx}, kappa = {kappa}, need all positive"
        );
        Self { dt, dx, kappa, r: F::of(kappa * dt / (dx * dx)), ends, previous: u.clone(), u }
    }

    /// `κ dt/dx²`, as rounded to the precision of the state.
    pub fn r(&self) -> f64 {
        self.r.to_f64()
    }
}

/// `A(ω)`, the factor of one step on the mode of frequency `omega`.
pub fn amplification(r: f64, omega: f64) -> f64 {
    let sine = libm::sin(omega / 2.0);
    1.0 - 4.0 * r * sine * sine
}

/// Largest `dt` with `|A(ω)| ≤ 1` at every frequency: `dx²/(2κ)`.
pub fn dt_max(dx: f64, kappa: f64) -> f64 {
    dx * dx / (2.0 * kappa)
}

/// Largest `dt` with `|A| ≤ 1` at the frequencies of a mesh of `points`, slightly above
/// [`dt_max`] where the mesh does not carry `ω = π`.
pub fn dt_max_on_mesh(dx: f64, kappa: f64, ends: Ends, points: usize) -> f64 {
    let highest = match ends {
        Ends::Dirichlet => PI * (points - 2) as f64 / (points - 1) as f64,
        Ends::Neumann => PI * (points - 1) as f64 / points as f64,
        Ends::Periodic => 2.0 * PI * (points / 2) as f64 / points as f64,
    };
    let sine = libm::sin(highest / 2.0);
    dx * dx / (2.0 * kappa * sine * sine)
}

/// The state after `steps` from `start` with Dirichlet ends at 0, as a sum over the modes of the
/// mesh: exact but for the rounding of the sum.
pub fn dirichlet_solution(start: &[f64], r: f64, steps: usize) -> Vec<f64> {
    let n = start.len();
    let mode = |omega: f64, i: usize| libm::sin(omega * i as f64);
    let mut sum = vec![0.0; n];
    for j in 1..n - 1 {
        let omega = PI * j as f64 / (n - 1) as f64;
        // Σ sin² over the mesh is (n − 1)/2.
        let weight = sum_by(n, |i| start[i] * mode(omega, i)) / ((n - 1) as f64 / 2.0);
        let factor = libm::pow(amplification(r, omega), steps as f64);
        (1..n - 1).for_each(|i| sum[i] += weight * factor * mode(omega, i));
    }
    sum
}

impl<F: Real> Dynamics for Heat<F> {
    type Scalar = F;
    type Error = Infallible;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.u
    }

    fn load(&mut self, state: &[F]) {
        let held = (self.u[0], self.u[self.u.len() - 1]);
        self.u.copy_from_slice(state);
        if self.ends == Ends::Dirichlet {
            let last = self.u.len() - 1;
            (self.u[0], self.u[last]) = held;
        }
    }

    /// `(r/2dt) Σ (u[i+1] − u[i])²`, the function of which the scheme is gradient descent.
    fn energy(&self) -> Result<Option<f64>, Infallible> {
        let u = &self.u;
        let square = |a: F, b: F| (a.to_f64() - b.to_f64()) * (a.to_f64() - b.to_f64());
        let inside = sum_by(u.len() - 1, |i| square(u[i + 1], u[i]));
        let across = match self.ends {
            Ends::Periodic => square(u[0], u[u.len() - 1]),
            Ends::Dirichlet | Ends::Neumann => 0.0,
        };
        Ok(Some(self.r.to_f64() / (2.0 * self.dt) * (inside + across)))
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn step(&mut self) -> Result<(), Infallible> {
        once_per_precision!(<'a, F> &'a mut Heat<F>, self, |heat| heat.update());
        Ok(())
    }
}

impl<F: Real> Heat<F> {
    fn update(&mut self) {
        std::mem::swap(&mut self.u, &mut self.previous);
        let (r, last) = (self.r, self.u.len() - 1);
        let (new, old) = (&mut self.u[..], &self.previous[..]);
        // r is moved in: behind a reference it would be read anew for every point, since the
        // compiler cannot know that the store does not change it, and nothing would be vectorized.
        let updated = move |left: F, here: F, right: F| here + r * ((right - here) - (here - left));
        vectorized(
            #[inline(always)]
            || {
                let neighbours = old.iter().zip(&old[1..]).zip(&old[2..]);
                for (out, ((&left, &here), &right)) in new[1..last].iter_mut().zip(neighbours) {
                    *out = updated(left, here, right);
                }
            },
        );
        (new[0], new[last]) = match self.ends {
            Ends::Dirichlet => (old[0], old[last]),
            Ends::Neumann => {
                (updated(old[0], old[0], old[1]), updated(old[last - 1], old[last], old[last]))
            }
            Ends::Periodic => {
                (updated(old[last], old[0], old[1]), updated(old[last - 1], old[last], old[0]))
            }
        };
    }
}

impl<F: Real> Pde for Heat<F> {
    fn mesh(&self) -> Mesh {
        Mesh::Line { points: self.u.len(), dx: self.dx }
    }

    fn closed_forms(&self) -> Vec<(&'static str, f64)> {
        let Self { dx, kappa, ends, .. } = *self;
        vec![
            ("r", self.r()),
            ("dt_max", dt_max(dx, kappa)),
            ("dt_max_on_mesh", dt_max_on_mesh(dx, kappa, ends, self.u.len())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::examples::assert_descends_its_energy;
    use crate::signal::triangle;
    use crate::verdict::{Horizon, VerdictKind, judge};
    use crate::{evolve, hash_of_bits};

    const ALL_ENDS: [Ends; 3] = [Ends::Dirichlet, Ends::Neumann, Ends::Periodic];

    /// The modes of a mesh of `n` points with their frequencies.
    fn modes(ends: Ends, n: usize) -> Vec<(f64, Vec<f64>)> {
        let sampled = |omega: f64, f: fn(f64) -> f64, shift: f64| {
            (omega, (0..n).map(|i| f(omega * (i as f64 + shift))).collect())
        };
        match ends {
            Ends::Dirichlet => (1..n - 1)
                .map(|j| sampled(PI * j as f64 / (n - 1) as f64, libm::sin, 0.0))
                .map(|(omega, mut u): (f64, Vec<f64>)| {
                    u[n - 1] = 0.0; // sin(jπ), which rounding leaves at 1e-16
                    (omega, u)
                })
                .collect(),
            Ends::Neumann => {
                (0..n).map(|j| sampled(PI * j as f64 / n as f64, libm::cos, 0.5)).collect()
            }
            Ends::Periodic => {
                (0..n).map(|j| sampled(2.0 * PI * j as f64 / n as f64, libm::cos, 0.0)).collect()
            }
        }
    }

    #[test]
    fn every_mode_grows_by_its_symbol_at_all_ends() {
        let n = 31;
        for ends in ALL_ENDS {
            for r in [0.4, 0.5, 0.8] {
                for (omega, u) in modes(ends, n) {
                    let mut heat = Heat::new(r, 1.0, 1.0, ends, u.clone());
                    heat.step();
                    let factor = amplification(r, omega);
                    // The argument ω i of a mode reaches 2πn and carries that many half-ulps;
                    // the stencil weights sum to at most 1 + 4r < 5.
                    let tolerance = 5.0 * 2.0 * PI * n as f64 * f64::EPSILON;
                    for (after, before) in heat.state().iter().zip(&u) {
                        let error = (after - factor * before).abs();
                        assert!(error <= tolerance, "{error:e}, {ends:?}, r {r}, omega {omega}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_thousand_steps_agree_with_the_sum_over_modes() {
        let (n, r, steps) = (31, 0.4, 1000);
        let start = triangle(n, 1.5);
        let mut heat = Heat::new(r, 1.0, 1.0, Ends::Dirichlet, start.clone());
        let Ok(_) = evolve(&mut heat, 0, steps, &mut []);
        let exact = dirichlet_solution(&start, r, steps);
        // Errors of about 3u per step decay at the rate of the slowest mode, 1 − 0.0044: they add
        // up to at most 3u/0.0044 ≈ 700u of the largest value; the modes' arguments add 2πn u.
        let tolerance = 1.5 * 1000.0 * f64::EPSILON;
        for (ours, exact) in heat.state().iter().zip(&exact) {
            assert!((ours - exact).abs() <= tolerance, "{ours:e} against {exact:e}");
        }
    }

    #[test]
    fn verdicts_turn_at_the_exact_edge_of_the_mesh() {
        for ends in ALL_ENDS {
            let edge = dt_max_on_mesh(1.0, 1.0, ends, 31);
            for (factor, expected) in [
                (0.9, VerdictKind::Stable),
                (0.999, VerdictKind::Stable),
                (1.001, VerdictKind::Diverged),
                (1.1, VerdictKind::Diverged),
            ] {
                let mut heat = Heat::new(factor * edge, 1.0, 1.0, ends, triangle(31, 1.5));
                let Ok(judged) = judge(&mut heat, Horizon::of(4000), &mut []);
                assert_eq!(judged.verdict.kind(), expected, "{ends:?} at {factor}: {judged:?}");
                let mut heat = Heat::new(
                    factor * edge,
                    1.0,
                    1.0,
                    ends,
                    triangle(31, 1.5).into_iter().map(|v| v as f32).collect(),
                );
                let Ok(judged) = judge(&mut heat, Horizon::of(4000), &mut []);
                assert_eq!(judged.verdict.kind(), expected, "f32 {ends:?} at {factor}: {judged:?}");
            }
        }
    }

    #[test]
    fn neumann_and_periodic_ends_keep_the_sum() {
        for ends in [Ends::Neumann, Ends::Periodic] {
            let start = crate::signal::blocks_and_ramp(100, 0.1, 3);
            let sum: f64 = start.iter().sum();
            let mut heat = Heat::new(0.4, 1.0, 1.0, ends, start);
            let Ok(_) = evolve(&mut heat, 0, 500, &mut []);
            let after: f64 = heat.state().iter().sum();
            // 100 values of about 0.5, each rounded three times a step, random signs.
            let tolerance = 4.0 * 0.5 * f64::EPSILON * (500.0_f64 * 3.0 * 100.0).sqrt();
            assert!((after - sum).abs() < tolerance, "{ends:?}: {:e}", after - sum);
        }
    }

    #[test]
    fn a_mirrored_start_gives_the_mirrored_bits() {
        for ends in ALL_ENDS {
            let start = crate::signal::blocks_and_ramp(64, 0.1, 3);
            let mirrored: Vec<f64> = start.iter().rev().copied().collect();
            let mut heat = Heat::new(0.45, 1.0, 1.0, ends, start);
            let mut mirror = Heat::new(0.45, 1.0, 1.0, ends, mirrored);
            let Ok(_) = evolve(&mut heat, 0, 100, &mut []);
            let Ok(_) = evolve(&mut mirror, 0, 100, &mut []);
            let back: Vec<f64> = mirror.state().iter().rev().copied().collect();
            assert_eq!(hash_of_bits(heat.state()), hash_of_bits(&back));
        }
    }

    #[test]
    fn scheme_is_gradient_descent_on_its_energy() {
        for ends in ALL_ENDS {
            let start = crate::signal::blocks_and_ramp(20, 0.1, 3);
            let heat = Heat::new(0.3, 0.5, 0.2, ends, start);
            let free = if ends == Ends::Dirichlet { 1..19 } else { 0..20 };
            // Central difference of a quadratic: exact up to rounding, u E/h.
            assert_descends_its_energy(&heat, free, 1e-3, 1e-11);
        }
    }
}
