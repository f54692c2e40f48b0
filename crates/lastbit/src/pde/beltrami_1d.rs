//! Beltrami reaction-diffusion of a signal.
//!
//! ```text
//! p[i+½]     = (u[i+1] − u[i]) / dx                       i = 0 … N−2,   p = 0 beyond the ends
//! F[i+½]     = p / √(p² + δ²)
//! u_{n+1}[i] = u_n[i] + dt ( (F[i+½] − F[i−½])/dx + λ (I[i] − u_n[i]) )
//! ```
//!
//! Gradient descent on `E = Σ λ/2 (I − u)² + Σ √(p² + δ²)`, exactly. Rounding: divisions by `dx`
//! are products with the rounded `1/dx`; everything else in the order written.

use std::convert::Infallible;
use std::sync::Arc;

use super::beltrami::{Beltrami, UnstableShare};
use super::{Mesh, Pde};
use crate::real::once_per_precision;
use crate::reduce::{max_abs, sum_by};
use crate::simd::vectorized;
use crate::{Dynamics, Real};

/// Points updated at a time, so that their fluxes stay in the first-level cache.
const TILE: usize = 1024;

/// The scheme and its state.
#[derive(Debug, Clone)]
pub struct Beltrami1d<F> {
    parameters: Beltrami,
    signal: Arc<[F]>,
    u: Vec<F>,
    /// Work space: the fluxes around the points of a tile, the one left of it first.
    flux: Vec<F>,
}

impl<F: Real> Beltrami1d<F> {
    /// Starts from `u = I = signal`.
    ///
    /// # Panics
    ///
    /// If the signal has fewer than two points or a parameter is out of range.
    pub fn new(parameters: Beltrami, signal: Vec<F>) -> Self {
        parameters.check();
        assert!(signal.len() >= 2, "{} points, need at least 2", signal.len());
        let flux = vec![F::default(); TILE + 1];
        Self { parameters, u: signal.clone(), signal: signal.into(), flux }
    }

    /// Parameters.
    pub fn parameters(&self) -> &Beltrami {
        &self.parameters
    }

    /// The data `I`.
    pub fn signal(&self) -> &[F] {
        &self.signal
    }

    /// The paper's local diffusivity `κ = (p² + δ²)^(−1/2)` at the half points.
    pub fn kappa(&self) -> Vec<f64> {
        let Beltrami { dx, delta, .. } = self.parameters;
        let slope = |pair: &[F]| (pair[1].to_f64() - pair[0].to_f64()) / dx;
        self.u.windows(2).map(|pair| 1.0 / (slope(pair).powi(2) + delta * delta).sqrt()).collect()
    }

    /// Share of half points that the present step size makes locally unstable.
    pub fn unstable_share(&self) -> UnstableShare {
        let Beltrami { dt, delta, .. } = self.parameters;
        let kappa = self.kappa();
        let share = |diffusivity: &dyn Fn(f64) -> f64| {
            let beyond = |k: &&f64| dt > self.parameters.dt_cfl(diffusivity(**k), 1);
            kappa.iter().filter(beyond).count() as f64 / kappa.len() as f64
        };
        UnstableShare {
            by_kappa: share(&|k| k),
            by_linearization: share(&|k| delta * delta * k * k * k),
        }
    }
}

impl<F: Real> Dynamics for Beltrami1d<F> {
    type Scalar = F;
    type Error = Infallible;

    fn dt(&self) -> f64 {
        self.parameters.dt
    }

    fn state(&self) -> &[F] {
        &self.u
    }

    fn load(&mut self, state: &[F]) {
        self.u.copy_from_slice(state);
    }

    fn energy(&self) -> Result<Option<f64>, Infallible> {
        let Beltrami { dx, delta, lambda, .. } = self.parameters;
        let (u, signal) = (&self.u, &self.signal);
        let fidelity = sum_by(u.len(), |i| {
            let gap = signal[i].to_f64() - u[i].to_f64();
            gap * gap
        });
        let length = sum_by(u.len() - 1, |i| {
            let p = (u[i + 1].to_f64() - u[i].to_f64()) / dx;
            (p * p + delta * delta).sqrt()
        });
        Ok(Some(lambda / 2.0 * fidelity + length))
    }

    /// The largest of state, data and what the flux can add in one step.
    fn scale(&self) -> f64 {
        let data = max_abs(&self.u).max(max_abs(&self.signal));
        data.max(self.parameters.largest_push(1))
    }

    /// A slope of `δ`.
    fn linear_range(&self) -> f64 {
        self.parameters.delta * self.parameters.dx
    }

    fn step(&mut self) -> Result<(), Infallible> {
        once_per_precision!(<'a, F> &'a mut Beltrami1d<F>, self, |run| run.update());
        Ok(())
    }
}

impl<F: Real> Beltrami1d<F> {
    fn update(&mut self) {
        let Beltrami { dt, dx, delta, lambda } = self.parameters;
        let [dt, per_dx, lambda] = [dt, 1.0 / dx, lambda].map(F::of);
        let delta_squared = F::of(delta) * F::of(delta);
        let (u, flux, signal) = (&mut self.u[..], &mut self.flux[..], &self.signal[..]);
        vectorized(
            #[inline(always)]
            move || {
                let n = u.len();
                flux[0] = F::default();
                for start in (0..n).step_by(TILE) {
                    let end = n.min(start + TILE);
                    let flux = &mut flux[..=end - start];
                    let next = u.get(end).copied();
                    let flux_between = |here: F, right: F| {
                        let p = (right - here) * per_dx;
                        p / (p * p + delta_squared).sqrt()
                    };
                    let u = &mut u[start..end];
                    let inside = u.iter().zip(&u[1..]);
                    for (f, (&here, &right)) in flux[1..].iter_mut().zip(inside) {
                        *f = flux_between(here, right);
                    }
                    let last = u[u.len() - 1];
                    flux[end - start] =
                        next.map_or(F::default(), |right| flux_between(last, right));
                    let around = flux.iter().zip(&flux[1..]);
                    let data = &signal[start..end];
                    for ((u, &data), (&left, &right)) in u.iter_mut().zip(data).zip(around) {
                        *u += dt * ((right - left) * per_dx + lambda * (data - *u));
                    }
                    flux[0] = flux[end - start];
                }
            },
        );
    }
}

impl<F: Real> Pde for Beltrami1d<F> {
    fn mesh(&self) -> Mesh {
        Mesh::Line { points: self.u.len(), dx: self.parameters.dx }
    }

    fn closed_forms(&self) -> Vec<(&'static str, f64)> {
        self.parameters.closed_forms(1)
    }

    fn measures(&self) -> Vec<(&'static str, f64)> {
        super::energy_and_size(self).into_iter().chain(self.unstable_share().measures()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::examples::assert_descends_its_energy;
    use crate::signal::blocks_and_ramp;
    use crate::verdict::{Horizon, Judgement, VerdictKind, judge};
    use crate::{evolve, hash_of_bits};
    use std::f64::consts::PI;

    fn figure(overdrive: f64, lambda: f64, n: usize) -> Beltrami1d<f64> {
        let unit = Beltrami { dt: 1.0, dx: 1.0, delta: 0.01, lambda };
        let parameters = Beltrami { dt: overdrive * unit.dt_sharp(1), ..unit };
        Beltrami1d::new(parameters, blocks_and_ramp(n, 0.05, 1))
    }

    fn judged(mut run: Beltrami1d<f64>, steps: usize) -> Judgement {
        judge(&mut run, Horizon::of(steps), &mut []).unwrap()
    }

    #[test]
    fn verdicts_of_the_figure() {
        for (overdrive, lambda, expected) in [
            (0.9, 1.0, VerdictKind::Stable),
            (10.0, 1.0, VerdictKind::Restrained),
            (100.0, 1.0, VerdictKind::Restrained),
            (1000.0, 1.0, VerdictKind::Diverged),
            (1000.0, 0.05, VerdictKind::Restrained),
        ] {
            let judged = judged(figure(overdrive, lambda, 200), 4000);
            assert_eq!(
                judged.verdict.kind(),
                expected,
                "{overdrive} x, lambda {lambda}: {judged:?}"
            );
        }
    }

    #[test]
    fn verdicts_turn_at_two_over_lambda() {
        for (factor, expected) in [(0.99, VerdictKind::Restrained), (1.01, VerdictKind::Diverged)] {
            for lambda in [0.05, 1.0] {
                let mut run = figure(1.0, lambda, 200);
                run.parameters.dt = factor * run.parameters.dt_bounded();
                let judged = judged(run, 2000);
                assert_eq!(judged.verdict.kind(), expected, "{factor}, {lambda}: {judged:?}");
            }
        }
    }

    #[test]
    fn verdicts_turn_at_the_exact_edge_of_a_flat_signal() {
        // At u = I = const the Hessian is λ + L/δ, L the Laplacian with Neumann ends, whose
        // largest eigenvalue on N points is 4 cos²(π/2N)/dx².
        let n = 50;
        let top = 4.0 * libm::cos(PI / (2.0 * n as f64)).powi(2);
        let edge = 2.0 / (1.0 + top / 0.01);
        for (factor, expected) in [
            (0.99, VerdictKind::Stable),
            (0.999, VerdictKind::Stable),
            (1.001, VerdictKind::Restrained),
            (1.01, VerdictKind::Restrained),
        ] {
            let parameters = Beltrami { dt: factor * edge, dx: 1.0, delta: 0.01, lambda: 1.0 };
            let mut run = Beltrami1d::new(parameters, vec![0.5; n]);
            let bump: Vec<f64> =
                (0..n).map(|i| 0.5 + 1e-3 * libm::sin(1.0 + (i * i) as f64)).collect();
            run.load(&bump);
            let Ok(judged) = judge(&mut run, Horizon::of(20_000), &mut []);
            assert_eq!(judged.verdict.kind(), expected, "at {factor}: {judged:?}");
        }
    }

    #[test]
    fn a_linear_regime_agrees_with_reaction_diffusion() {
        // For |p| ≪ δ the flux is p/δ, and a Neumann mode is multiplied by
        // 1 − dt (λ + 4 sin²(ω/2)/δ).
        let (n, delta, lambda, dt) = (32, 100.0, 0.3, 0.7);
        let parameters = Beltrami { dt, dx: 1.0, delta, lambda };
        for j in [0, 1, 7, 31] {
            let omega = PI * f64::from(j) / n as f64;
            let mode: Vec<f64> =
                (0..n).map(|i| 1e-3 * libm::cos(omega * (i as f64 + 0.5))).collect();
            let mut run = Beltrami1d::new(parameters, vec![0.0; n]);
            run.load(&mode);
            run.step();
            let sine = libm::sin(omega / 2.0);
            let factor = 1.0 - dt * (lambda + 4.0 * sine * sine / delta);
            for (after, before) in run.state().iter().zip(&mode) {
                // Next term of the flux: p³/(2δ³) < 1e-15 with |p| ≤ 2e-3; rounding below 1e-17.
                assert!((after - factor * before).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn scheme_is_gradient_descent_on_its_energy() {
        let parameters = Beltrami { dt: 0.3, dx: 0.5, delta: 0.2, lambda: 0.7 };
        let mut run = Beltrami1d::new(parameters, blocks_and_ramp(20, 0.1, 2));
        run.load(&blocks_and_ramp(20, 0.3, 5));
        // Truncation h²E'''/6 ≈ 1e-10 · 1/(δ² dx³) / 6 ≈ 3e-9, rounding u E/h ≈ 1e-10.
        assert_descends_its_energy(&run, 0..20, 1e-5, 1e-8);
    }

    #[test]
    fn energy_falls_at_every_stable_step() {
        let mut run = figure(0.99, 1.0, 100);
        let mut energies = Vec::new();
        let mut note =
            |_: usize, run: &Beltrami1d<f64>| energies.push(run.energy().unwrap().unwrap());
        let Ok(_) = evolve(&mut run, 0, 2000, &mut [&mut note]);
        assert!(energies.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn a_mirrored_signal_gives_the_mirrored_bits() {
        let mut run = figure(50.0, 1.0, 64);
        let mirrored: Vec<f64> = run.signal().iter().rev().copied().collect();
        let mut mirror = Beltrami1d::new(run.parameters, mirrored);
        let Ok(_) = evolve(&mut run, 0, 300, &mut []);
        let Ok(_) = evolve(&mut mirror, 0, 300, &mut []);
        let back: Vec<f64> = mirror.state().iter().rev().copied().collect();
        assert_eq!(hash_of_bits(run.state()), hash_of_bits(&back));
    }

    #[test]
    fn tiles_leave_no_seam() {
        for n in [2, TILE - 1, TILE, TILE + 1, 2 * TILE + 1] {
            let mut run = figure(50.0, 1.0, n);
            for _ in 0..3 {
                let (dt, u) = (run.parameters.dt, run.u.clone());
                let flux = |i: usize| {
                    let p = if (1..n).contains(&i) { u[i] - u[i - 1] } else { 0.0 };
                    p / (p * p + 0.01 * 0.01).sqrt()
                };
                let point = |i: usize| u[i] + dt * (flux(i + 1) - flux(i) + (run.signal[i] - u[i]));
                let expected: Vec<f64> = (0..n).map(point).collect();
                run.step();
                assert_eq!(hash_of_bits(run.state()), hash_of_bits(&expected), "{n} points");
            }
        }
    }

    #[test]
    fn a_checkerboard_on_a_constant_settles_at_the_cycle_amplitude() {
        let n = 64;
        let unit = Beltrami { dt: 1.0, dx: 0.7, delta: 1e-6, lambda: 1.0 };
        for dt in [0.1, 0.5, 1.5] {
            let parameters = Beltrami { dt, ..unit };
            let mut run = Beltrami1d::new(parameters, vec![0.5; n]);
            let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
            run.load(&(0..n).map(|i| 0.5 + 0.1 * sign(i)).collect::<Vec<f64>>());
            let Ok(_) = evolve(&mut run, 0, 400, &mut []);
            let amplitude = (run.state()[n / 2] - 0.5).abs();
            // The flux falls short of 1 by (δ/p)²/2 < 1e-11; |1 − λ dt|^400 is below 1e-18.
            assert!((amplitude / parameters.cycle_amplitude(1) - 1.0).abs() < 1e-9, "dt = {dt}");
        }
    }

    #[test]
    fn shares_at_the_extremes() {
        let parameters = Beltrami { dt: 1.0, dx: 1.0, delta: 0.01, lambda: 1.0 };
        let flat = Beltrami1d::new(parameters, vec![0.5; 10]);
        assert_eq!(flat.unstable_share().by_kappa, 1.0);
        assert_eq!(flat.unstable_share().by_linearization, 1.0);
        // Slope 1: κ ≈ 1, dt_cfl = 2/5 < 1; the exact coefficient is 1e-4, its bound about 2.
        let steep = Beltrami1d::new(parameters, (0..10).map(f64::from).collect());
        assert_eq!(steep.unstable_share().by_kappa, 1.0);
        assert_eq!(steep.unstable_share().by_linearization, 0.0);
    }
}
