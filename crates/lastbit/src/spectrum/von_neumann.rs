//! Von Neumann analysis of any linear scheme with constant coefficients.
//!
//! A mode `u_n[x] = A^n e^{iω·x}` solves the scheme exactly when `A` is a root of
//!
//! ```text
//! (1 − S₁(ω)) A^m − S₀(ω) A^{m−1} − S₋₁(ω) A^{m−2} − …  = 0,
//! S_l(ω) = Σ over terms at level l of  c(dt) e^{iω·offset}
//! ```
//!
//! with `m` past levels. The amplification factor at `ω` is the largest `|A|`; the scheme is stable
//! at `dt` when it is at most 1 at every frequency. (Roots that coincide on the unit circle, as at
//! the very edge of leap-frog, still grow like a power of `n`; von Neumann's condition admits
//! them.) Frequencies are radians per mesh point; the coefficients are real, so `ω` and `−ω`
//! behave alike.
//!
//! This module computes amplifications at given frequencies. Whether a scheme is stable, and at which
//! steps, is decided in [`certified`](super::certified): no set of frequencies looked at one by one can.

use std::f64::consts::PI;

use num_complex::Complex64;

use super::polynomial::roots;
use crate::pde::scheme::Scheme;

/// Amplification at one frequency.
#[derive(Debug, Clone, PartialEq)]
pub struct Mode {
    /// Radians per mesh point, one entry per dimension.
    pub omega: Vec<f64>,
    /// Largest `|A|`; infinite where the new level cannot be solved for.
    pub amplification: f64,
}

/// The polynomial in `A` of the module doc, ascending.
fn characteristic(scheme: &Scheme, dt: f64, omega: &[f64]) -> Vec<Complex64> {
    let levels = scheme.levels();
    let mut p = vec![Complex64::new(0.0, 0.0); levels + 1];
    p[levels] = Complex64::new(1.0, 0.0);
    for term in scheme.terms() {
        let phase: f64 = term.offset.iter().zip(omega).map(|(o, w)| f64::from(*o) * w).sum();
        let power = (levels as i32 - 1 + term.level) as usize;
        p[power] -= term.at(dt) * Complex64::new(libm::cos(phase), libm::sin(phase));
    }
    p
}

/// All amplification factors at a frequency, one per time level.
pub fn factors(scheme: &Scheme, dt: f64, omega: &[f64]) -> Vec<Complex64> {
    roots(&characteristic(scheme, dt, omega))
}

/// The largest modulus among [`factors`].
pub fn amplification(scheme: &Scheme, dt: f64, omega: &[f64]) -> f64 {
    let p = characteristic(scheme, dt, omega);
    if p[p.len() - 1].norm_sqr() == 0.0 {
        return f64::INFINITY;
    }
    roots(&p).iter().map(|a| a.norm_sqr().sqrt()).fold(0.0, f64::max)
}

/// Frequencies `0 … π` in one dimension; `−π … π` by `0 … π` in two.
pub fn frequencies(dimensions: usize, intervals: usize) -> Vec<Vec<f64>> {
    let at = |i: usize| PI * i as f64 / intervals as f64;
    match dimensions {
        1 => (0..=intervals).map(|i| vec![at(i)]).collect(),
        _ => (0..=intervals)
            .flat_map(|i| (0..=2 * intervals).map(move |j| vec![at(i), at(j) - PI]))
            .collect(),
    }
}

fn intervals(scheme: &Scheme) -> usize {
    if scheme.dimensions() == 1 { 360 } else { 36 }
}

/// The most amplified frequency: the best of a grid, refined by compass search.
///
/// Among frequencies equal to rounding, the one highest on the grid is taken.
pub fn most_unstable(scheme: &Scheme, dt: f64) -> Mode {
    let at = |omega: Vec<f64>| {
        let amplification = amplification(scheme, dt, &omega);
        Mode { omega, amplification }
    };
    let intervals = intervals(scheme);
    let mut best =
        frequencies(scheme.dimensions(), intervals)
            .into_iter()
            .map(at)
            .reduce(|best, mode| {
                if mode.amplification >= best.amplification * (1.0 - 1e-14) { mode } else { best }
            })
            .expect("a grid of frequencies is never empty");
    let mut reach = PI / intervals as f64;
    while reach > 1e-9 {
        let neighbours = (0..best.omega.len()).flat_map(|axis| [(axis, -reach), (axis, reach)]);
        let better = neighbours
            .map(|(axis, by)| {
                let mut omega = best.omega.clone();
                omega[axis] = (omega[axis] + by).clamp(-PI, PI);
                at(omega)
            })
            .find(|mode| mode.amplification > best.amplification * (1.0 + 1e-15));
        match better {
            Some(mode) => best = mode,
            None => reach /= 2.0,
        }
    }
    best
}

/// The step at which the terms that depend on it have grown to the size of one: the scale on which
/// the stability of the scheme changes. `None` if no coefficient depends on `dt`.
pub fn natural_dt(scheme: &Scheme) -> Option<f64> {
    let change = |dt: f64| -> f64 {
        scheme.terms().iter().map(|term| (term.at(dt) - term.at(0.0)).abs()).sum()
    };
    let power = |e: i32| libm::scalbn(1.0, e);
    let first = (-1000..=1000).find(|e| change(power(*e)) >= 1.0)?;
    Some(power(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pde::linear::Linear;
    use crate::pde::scheme::Term;
    use crate::pde::textbook as book;
    use crate::{Dynamics, verdict};

    #[test]
    fn the_most_unstable_frequency_where_it_is_known() {
        let worst = |scheme: &Scheme, dt: f64| most_unstable(scheme, dt);
        assert_eq!(worst(&book::heat(1.0, 1.0), 0.6).omega, [PI]);
        let corner = worst(&book::heat_2d(1.0, 1.0), 0.3);
        assert_eq!(corner.omega.iter().map(|w| w.abs()).collect::<Vec<_>>(), [PI, PI]);
        // |1 − 8 · 0.3|
        assert!((corner.amplification - 1.4).abs() < 1e-14);
        // FTCS: |A|² = 1 + c² sin² ω, largest at π/2; a maximum is found to √u in ω.
        let ftcs = worst(&book::advection_ftcs(1.0, 1.0), 0.5);
        assert!((ftcs.omega[0] - PI / 2.0).abs() < 1e-7);
        assert!((ftcs.amplification - 1.25_f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn the_off_grid_maximum_is_found() {
        // A(ω) = 1 + cos ω − ¾ cos 2ω, largest where sin ω (3 cos ω − 1) = 0 and cos ω = 1/3.
        let taps = [(0, 1.0), (-1, 0.5), (1, 0.5), (-2, -0.375), (2, -0.375)];
        let term = |(x, c): (i32, f64)| Term { level: 0, offset: vec![x], coefficient: vec![c] };
        let scheme = Scheme::new(1, taps.map(term).to_vec()).unwrap();
        let mode = most_unstable(&scheme, 1.0);
        // A maximum is found to √u in ω and to u in its value, 1 + 1/3 + ¾ · 7/9.
        assert!((libm::cos(mode.omega[0]) - 1.0 / 3.0).abs() < 1e-7, "{mode:?}");
        assert!((mode.amplification - (4.0 / 3.0 + 0.75 * 7.0 / 9.0)).abs() < 1e-14);
    }

    #[test]
    fn every_mode_of_a_run_grows_by_its_factor() {
        let n = 24;
        let cases = [
            ("heat", book::heat(1.0, 1.0), 0.4),
            ("FTCS", book::advection_ftcs(1.0, 1.0), 0.3),
            ("upwind", book::advection_upwind(1.0, 1.0), 0.7),
            ("Lax-Wendroff", book::advection_lax_wendroff(-1.0, 1.0), 0.8),
            ("leap-frog", book::wave_leap_frog(1.0, 1.0), 0.9),
            ("Nesterov", book::nesterov_heat(1.0, 0.9, 1.0), 0.5),
        ];
        for (name, scheme, dt) in cases {
            for j in 0..n {
                let omega = 2.0 * PI * j as f64 / n as f64;
                for factor in factors(&scheme, dt, &[omega]) {
                    // A complex mode is two real runs; level −l holds the mode over A^l.
                    let mode = |l: i32, part: fn(Complex64) -> f64| -> Vec<f64> {
                        (0..n)
                            .map(|i| {
                                let phase = omega * i as f64;
                                part(
                                    Complex64::new(libm::cos(phase), libm::sin(phase))
                                        * factor.powi(-l),
                                )
                            })
                            .collect()
                    };
                    for part in [|z: Complex64| z.re, |z: Complex64| z.im] {
                        let levels: Vec<Vec<f64>> =
                            (0..scheme.levels()).map(|l| mode(l as i32, part)).collect();
                        let mut run = Linear::new(&scheme, dt, 1, n, &levels);
                        run.step();
                        // Phases reach 2πn; levels scale by 1/|A|; coefficients sum to below 8.
                        // Near a double factor (leap-frog at ω = 0) roots carry √u.
                        let scale = levels.iter().flatten().fold(1.0_f64, |m, v| m.max(v.abs()));
                        let tolerance = 8.0
                            * scale
                            * (2.0 * PI * n as f64 * f64::EPSILON
                                + 3e-8 * f64::from(u8::from(scheme.levels() > 1 && j == 0)));
                        for (ours, exact) in run.field().iter().zip(mode(-1, part)) {
                            assert!(
                                (ours - exact).abs() <= tolerance,
                                "{name}, j = {j}: {ours} {exact}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn running_a_scheme_on_both_sides_of_its_edge_gives_the_verdict() {
        // A mesh of 24 points carries ω = π, the worst frequency of all of these.
        let n = 24;
        let start = crate::signal::blocks_and_ramp(n, 0.1, 1);
        for (name, scheme, edge) in [
            ("heat", book::heat(1.0, 1.0), 0.5),
            ("upwind", book::advection_upwind(1.0, 1.0), 1.0),
            ("Lax-Wendroff", book::advection_lax_wendroff(1.0, 1.0), 1.0),
            ("leap-frog", book::wave_leap_frog(1.0, 1.0), 1.0),
            ("Nesterov", book::nesterov_heat(1.0, 0.9, 1.0), (1.0 / 2.8_f64).sqrt()),
        ] {
            for (factor, expected) in
                [(0.99, verdict::VerdictKind::Stable), (1.01, verdict::VerdictKind::Diverged)]
            {
                let levels = vec![start.clone(); scheme.levels()];
                let mut run = Linear::new(&scheme, factor * edge, 1, n, &levels);
                let Ok(judged) = verdict::judge(&mut run, verdict::Horizon::of(2000), &mut []);
                assert_eq!(judged.verdict.kind(), expected, "{name} at {factor}: {judged:?}");
            }
        }
    }
}
