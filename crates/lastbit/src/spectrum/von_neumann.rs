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
//! [`largest_dt`] returns the end of the interval of stable steps that begins at zero. A scheme that
//! is unstable at every step, like forward Euler for advection, exceeds 1 by so little at small
//! steps that any tolerance lets some pass; it is told by the fact that its "edge" moves with the
//! tolerance, which a real edge does not.

use std::f64::consts::PI;

use num_complex::Complex64;

use super::polynomial::{in_unit_disk, roots};
use crate::pde::scheme::Scheme;

/// Tolerance in the coefficients at which an edge is located.
const FINE: f64 = 1e-12;
/// A wider one: an edge that moves with it is none.
const COARSE: f64 = 1e-9;

/// Amplification at one frequency.
#[derive(Debug, Clone, PartialEq)]
pub struct Mode {
    /// Radians per mesh point, one entry per dimension.
    pub omega: Vec<f64>,
    /// Largest `|A|`; infinite where the new level cannot be solved for.
    pub amplification: f64,
}

/// The stable steps that begin at zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StableDt {
    /// No step, however small.
    Never,
    /// All steps up to this one.
    UpTo(f64),
    /// Every step (looked at up to 2⁶⁰ natural ones, as far as rounding of the coefficients lets one
    /// see).
    Always,
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

fn is_stable_within(scheme: &Scheme, dt: f64, tolerance: f64) -> bool {
    // Terms that cancel (an implicit scheme at ω = 0 and a huge step) leave the rounding of their
    // sizes in the coefficients; nothing finer than that can be decided.
    let rounding: f64 =
        scheme.terms().iter().map(|term| term.at(dt).abs()).sum::<f64>() * 8.0 * f64::EPSILON;
    let inside = |omega: &[f64]| {
        let p = characteristic(scheme, dt, omega);
        let largest = p.iter().map(|a| a.norm_sqr().sqrt()).fold(0.0, f64::max);
        rounding >= largest || in_unit_disk(&p, tolerance.max(rounding / largest))
    };
    frequencies(scheme.dimensions(), intervals(scheme)).iter().all(|omega| inside(omega))
        && inside(&most_unstable(scheme, dt).omega)
}

/// Whether no frequency is amplified at `dt`, to twelve digits.
pub fn is_stable(scheme: &Scheme, dt: f64) -> bool {
    is_stable_within(scheme, dt, FINE)
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

/// The steps that leave the scheme stable, from zero on.
pub fn largest_dt(scheme: &Scheme) -> StableDt {
    let Some(natural) = natural_dt(scheme) else {
        return if is_stable(scheme, 1.0) { StableDt::Always } else { StableDt::Never };
    };
    let (fine, coarse) = (edge(scheme, natural, FINE), edge(scheme, natural, COARSE));
    match (fine, coarse) {
        (Edge::None, _) | (_, Edge::None) => StableDt::Always,
        (Edge::At(fine), Edge::At(coarse)) if fine >= coarse / 2.0 => StableDt::UpTo(fine),
        _ => StableDt::Never,
    }
}

/// Where a scheme ceases to be stable.
enum Edge {
    /// It is unstable at the smallest step looked at.
    Everywhere,
    /// Up to this step it is stable.
    At(f64),
    /// It is stable at all steps looked at.
    None,
}

/// First step size at which the scheme ceases to be stable within `tolerance`: sixteen probes per
/// octave around its natural step, where a band of unstable steps may be narrow, one per octave
/// further away; then bisection to the last digit.
fn edge(scheme: &Scheme, natural: f64, tolerance: f64) -> Edge {
    let probe = |sixteenths: i32| {
        let octave = sixteenths.div_euclid(16);
        let within = f64::from(sixteenths.rem_euclid(16)) / 16.0;
        natural * libm::scalbn(1.0 + within, octave)
    };
    let far_below = (-60..-8).map(|octave| 16 * octave);
    let near = -8 * 16..4 * 16;
    let far_above = (4..=60).map(|octave| 16 * octave);
    let mut stable = None;
    for dt in far_below.chain(near).chain(far_above).map(probe) {
        if is_stable_within(scheme, dt, tolerance) {
            stable = Some(dt);
        } else {
            return stable.map_or(Edge::Everywhere, |stable| {
                Edge::At(bisected(stable, dt, |dt| is_stable_within(scheme, dt, tolerance)))
            });
        }
    }
    Edge::None
}

/// The last number at which `holds`, between one where it does and one where it does not.
fn bisected(mut holding: f64, mut failing: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = 0.5 * (holding + failing);
        if middle <= holding || middle >= failing {
            return holding;
        }
        if holds(middle) {
            holding = middle;
        } else {
            failing = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pde::linear::Linear;
    use crate::pde::scheme::Term;
    use crate::pde::textbook as book;
    use crate::{Dynamics, verdict};

    /// Up to `FINE` in the coefficients: relative 1e-11 leaves a factor of ten for their size.
    fn assert_edge(name: &str, scheme: &Scheme, expected: f64) {
        match largest_dt(scheme) {
            StableDt::UpTo(dt) => {
                assert!((dt / expected - 1.0).abs() < 1e-11, "{name}: {dt} against {expected}");
            }
            other => panic!("{name}: {other:?}, expected {expected}"),
        }
    }

    #[test]
    fn textbook_conditions() {
        let (kappa, dx, lambda, speed) = (0.7, 0.3, 2.5, 1.7);
        let k = kappa / (dx * dx);
        assert_edge("heat", &book::heat(1.0, 1.0), 0.5);
        assert_edge("heat, scaled", &book::heat(kappa, dx), 0.5 / k);
        assert_edge("heat 2-D", &book::heat_2d(1.0, 1.0), 0.25);
        assert_edge("heat 2-D, scaled", &book::heat_2d(kappa, dx), 0.25 / k);
        let reaction = book::reaction_diffusion(kappa, lambda, dx);
        assert_edge("reaction-diffusion", &reaction, 2.0 / (lambda + 4.0 * k));
        let reaction = book::reaction_diffusion_2d(kappa, lambda, dx);
        assert_edge("reaction-diffusion 2-D", &reaction, 2.0 / (lambda + 8.0 * k));
        for sign in [1.0, -1.0] {
            assert_edge("upwind", &book::advection_upwind(sign * speed, dx), dx / speed);
            assert_edge(
                "Lax-Wendroff",
                &book::advection_lax_wendroff(sign * speed, dx),
                dx / speed,
            );
        }
        assert_edge("leap-frog", &book::wave_leap_frog(1.0, 1.0), 1.0);
        assert_edge("leap-frog, scaled", &book::wave_leap_frog(speed, dx), dx / speed);
    }

    #[test]
    fn nesterov_is_stable_up_to_four_over_one_plus_two_mu() {
        for mu in [0.0_f64, 0.5, 0.9, 0.99] {
            for z in [1e-3, 1.0, 1.4286e8] {
                let expected = (4.0 / ((1.0 + 2.0 * mu) * z)).sqrt();
                assert_edge("Nesterov", &book::nesterov(z, mu), expected);
            }
            let expected = (1.0 / (1.0 + 2.0 * mu)).sqrt();
            assert_edge("Nesterov on heat", &book::nesterov_heat(1.0, mu, 1.0), expected);
        }
    }

    #[test]
    fn never_and_always() {
        assert_eq!(largest_dt(&book::advection_ftcs(1.7, 0.3)), StableDt::Never);
        assert_eq!(largest_dt(&book::heat_crank_nicolson(0.7, 0.3)), StableDt::Always);
        // Leap-frog in time for diffusion (Richardson's scheme) is unstable at every step.
        let term = |level, offset: i32, c: &[f64]| Term {
            level,
            offset: vec![offset],
            coefficient: c.to_vec(),
        };
        let richardson = Scheme::new(
            1,
            vec![
                term(-1, 0, &[1.0]),
                term(0, -1, &[0.0, 2.0]),
                term(0, 0, &[0.0, -4.0]),
                term(0, 1, &[0.0, 2.0]),
            ],
        );
        assert_eq!(largest_dt(&richardson.unwrap()), StableDt::Never);
    }

    #[test]
    fn edges_are_found_on_every_scale() {
        assert_edge("fine mesh", &book::heat(1.0, 1e-10), 0.5e-20);
        assert_edge("coarse mesh", &book::heat(1.0, 1e10), 0.5e20);
        assert_edge("fast wave", &book::wave_leap_frog(1e20, 1.0), 1e-20);
        assert_eq!(largest_dt(&book::advection_ftcs(1e-8, 1.0)), StableDt::Never);
        assert_edge("slow upwind", &book::advection_upwind(1e-8, 1.0), 1e8);
    }

    #[test]
    fn a_band_of_unstable_steps_between_stable_ones_ends_the_first() {
        // A = 1 − 2.09 dt + 3 dt² − dt³ exceeds 1 between the roots of 2.09 − 3 dt + dt²,
        // (3 ± √0.64)/2, and is stable again up to 2.5.
        let term = Term { level: 0, offset: vec![0], coefficient: vec![1.0, -2.09, 3.0, -1.0] };
        let scheme = Scheme::new(1, vec![term]).unwrap();
        assert_edge("cubic", &scheme, (3.0 - 0.64_f64.sqrt()) / 2.0);
    }

    #[test]
    fn a_constant_factor_is_stable_always_or_never() {
        for (factor, expected) in [(0.5, StableDt::Always), (2.0, StableDt::Never)] {
            let term = Term { level: 0, offset: vec![0], coefficient: vec![factor] };
            assert_eq!(largest_dt(&Scheme::new(1, vec![term]).unwrap()), expected);
        }
        let term = |c: &[f64]| Term { level: 0, offset: vec![0], coefficient: c.to_vec() };
        let growing = Scheme::new(1, vec![term(&[2.0, 1.0])]).unwrap();
        assert_eq!(largest_dt(&growing), StableDt::Never);
    }

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
        for (name, scheme) in [
            ("heat", book::heat(1.0, 1.0)),
            ("upwind", book::advection_upwind(1.0, 1.0)),
            ("Lax-Wendroff", book::advection_lax_wendroff(1.0, 1.0)),
            ("leap-frog", book::wave_leap_frog(1.0, 1.0)),
            ("Nesterov", book::nesterov_heat(1.0, 0.9, 1.0)),
        ] {
            let StableDt::UpTo(edge) = largest_dt(&scheme) else { panic!("{name} has an edge") };
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
