//! Linear schemes on finite meshes.
//!
//! ```text
//! periodic     every mode e^{iωx}, ω = 2πj/N, has the roots A of  A = a(ω)  or  A² = a(ω) A + b(ω)
//! heat         A = 1 − 4 r sin²(ω/2); ω = jπ/(N−1) with Dirichlet ends, jπ/N with Neumann ends
//! fixed ends   u'[i] = l u[i−1] + c u[i] + r u[i+1], zero beyond the ends:
//!              A = c + 2 √(l r) cos(jπ/(N+1)), j = 1 … N
//! ```

use std::convert::Infallible;
use std::f64::consts::PI;
use std::ops::Range;

use lastbit::pde::heat::{Ends, Heat, amplification, dt_max_on_mesh};
use lastbit::pde::linear::Linear;
use lastbit::pde::scheme::Scheme;
use lastbit::pde::textbook as book;
use lastbit::{Dynamics, Real};
use num_complex::Complex64;

use super::{Case, Draw, Rate, judge_linear, judged};

/// The larger root of `A² = a A + b`.
fn larger_root(a: Complex64, b: Complex64) -> f64 {
    let root = (a * a + 4.0 * b).sqrt();
    (0.5 * (a + root)).norm().max((0.5 * (a - root)).norm())
}

/// `ln ρ` on a periodic mesh of `width` points, with coefficients rounded to `F`.
fn rate_of_scheme<F: Real>(scheme: &Scheme, dt: f64, width: usize) -> Rate {
    let levels = scheme.levels();
    let coefficients =
        scheme.terms().iter().map(|term| (term.level, term.offset[0], F::of(term.at(dt)).to_f64()));
    let coefficients: Vec<(i32, i32, f64)> = coefficients.collect();
    let symbol = |level: i32, omega: f64| -> Complex64 {
        let of_level = coefficients.iter().filter(|term| term.0 == level);
        of_level.map(|(_, offset, c)| c * Complex64::cis(omega * f64::from(*offset))).sum()
    };
    let radius = |j: usize| {
        let omega = 2.0 * PI * j as f64 / width as f64;
        match levels {
            1 => symbol(0, omega).norm(),
            _ => larger_root(symbol(0, omega), symbol(-1, omega)),
        }
    };
    let rate = libm::log((0..=width / 2).map(radius).fold(0.0, f64::max));
    // Each coefficient is rounded by u of its size; two roots that meet move by the square root of that.
    let size: f64 = coefficients.iter().map(|term| term.2.abs()).sum();
    let rounding = 4.0 * F::UNIT_ROUNDOFF * size;
    let rounding = if levels == 1 { rounding } else { rounding.sqrt() };
    Rate { least: rate - rounding, most: rate + rounding }
}

fn start<F: Real>(draw: &mut Draw, points: usize) -> Vec<F> {
    let mean = if draw.is_one_in(2) { 0.0 } else { draw.normal() };
    let is_rough = draw.is_one_in(2);
    let wave = 2.0 * PI * draw.below(points) as f64 / points as f64;
    let value = |i: usize| {
        F::of(mean + if is_rough { draw.normal() } else { libm::sin(wave * i as f64 + 0.1) })
    };
    (0..points).map(value).collect()
}

fn periodic<F: Real>(draw: &mut Draw) -> Case {
    let points = 3 + draw.below(46);
    let speed = draw.normal().signum() * draw.log_uniform(0.1, 10.0);
    let (dx, kappa) = (draw.log_uniform(0.1, 10.0), draw.log_uniform(0.1, 10.0));
    let mu = draw.uniform(0.0, 1.0);
    let courant = dx / speed.abs();
    let diffusive = dx * dx / (2.0 * kappa);
    let (name, scheme, edge) = match draw.below(12) {
        0 => ("ftcs", book::advection_ftcs(speed, dx), courant),
        1 => ("upwind", book::advection_upwind(speed, dx), courant),
        2 => ("lax-friedrichs", book::advection_lax_friedrichs(speed, dx), courant),
        3 => ("lax-wendroff", book::advection_lax_wendroff(speed, dx), courant),
        4 => ("beam-warming", book::advection_beam_warming(speed, dx), 2.0 * courant),
        5 => ("leap-frog", book::advection_leap_frog(speed, dx), courant),
        6 => ("rk4", book::advection_rk4(speed, dx), 8.0_f64.sqrt() * courant),
        7 => {
            let edge = diffusive.min(2.0 * kappa / (speed * speed));
            ("advection-diffusion", book::advection_diffusion(speed, kappa, dx), edge)
        }
        8 => ("heat", book::heat(kappa, dx), diffusive),
        9 => ("heat-fourth-order", book::heat_fourth_order(kappa, dx), 0.75 * diffusive),
        10 => ("heat-ab2", book::heat_ab2(kappa, dx), 0.5 * diffusive),
        _ => {
            let edge = dx / (kappa * (1.0 + 2.0 * mu)).sqrt();
            ("nesterov-heat", book::nesterov_heat(kappa, mu, dx), edge)
        }
    };
    let dt = edge * draw.around_the_edge();
    let levels: Vec<Vec<F>> = (0..scheme.levels()).map(|_| start(draw, points)).collect();
    Case {
        what: format!("{} {name}, {points} points, {} of the edge", F::NAME, dt / edge),
        rate: rate_of_scheme::<F>(&scheme, dt, points),
        judge: judged(Linear::new(&scheme, dt, 1, points, &levels)),
    }
}

fn heat<F: Real>(draw: &mut Draw) -> Case {
    let points = 3 + draw.below(62);
    let ends = [Ends::Dirichlet, Ends::Neumann, Ends::Periodic][draw.below(3)];
    let factor = draw.around_the_edge();
    let heat = Heat::<F>::new(
        factor * dt_max_on_mesh(1.0, 1.0, ends, points),
        1.0,
        1.0,
        ends,
        start(draw, points),
    );
    let (first, last, base) = match ends {
        Ends::Dirichlet => (1, points - 2, points - 1),
        Ends::Neumann => (0, points - 1, points),
        // The frequency 2πj/N is 2jπ/N.
        Ends::Periodic => (0, points / 2, points.div_ceil(2)),
    };
    let omega = |j: usize| match ends {
        Ends::Periodic => 2.0 * PI * j as f64 / points as f64,
        _ => PI * j as f64 / base as f64,
    };
    let radius = |j: usize| amplification(heat.r(), omega(j)).abs();
    let rate = libm::log((first..=last).map(radius).fold(f64::MIN_POSITIVE, f64::max));
    // The sine is rounded, and so is the eigenvalue where it is 1 − 2.
    let rounding = 16.0 * f64::UNIT_ROUNDOFF * (1.0 + 4.0 * heat.r());
    Case {
        what: format!("{} heat {ends:?}, {points} points, {factor} of the edge", F::NAME),
        rate: Rate {
            least: rate - rounding,
            most: if rate == 0.0 { 0.0 } else { rate + rounding },
        },
        judge: judged(heat),
    }
}

/// A three-point stencil between two ends that are held at zero.
#[derive(Debug, Clone)]
struct Between<F> {
    stencil: [F; 3],
    u: Vec<F>,
}

impl<F: Real> Dynamics for Between<F> {
    type Scalar = F;
    type Error = Infallible;

    fn dt(&self) -> f64 {
        1.0
    }

    fn state(&self) -> &[F] {
        &self.u
    }

    fn load(&mut self, state: &[F]) {
        self.u.copy_from_slice(state);
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn step(&mut self) -> Result<(), Infallible> {
        let [left, centre, right] = self.stencil;
        let at = |i: usize| self.u.get(i).copied().unwrap_or_default();
        let value = |i: usize| left * at(i.wrapping_sub(1)) + centre * at(i) + right * at(i + 1);
        self.u = (0..self.u.len()).map(value).collect();
        Ok(())
    }
}

/// Advection between fixed ends: FTCS with diffusion, or Lax-Friedrichs.
fn between_fixed_ends<F: Real>(draw: &mut Draw) -> Case {
    let (name, stencil) = if draw.is_one_in(2) {
        let (nu, k) = (draw.log_uniform(1e-3, 2.0), draw.uniform(0.0, 0.7));
        ("advection-diffusion", [k + nu / 2.0, 1.0 - 2.0 * k, k - nu / 2.0])
    } else {
        let nu = draw.around_the_edge().min(3.0);
        ("lax-friedrichs", [(1.0 + nu) / 2.0, 0.0, (1.0 - nu) / 2.0])
    };
    let stencil = stencil.map(F::of);
    let [left, centre, right] = stencil.map(F::to_f64);
    // The matrix is similar to a normal one by a diagonal matrix of condition (l/r)^{(N−1)/2}: by so much
    // may a run swell and come back. That is a limit of the rule; keep it below a hundred.
    let skewness = libm::log((left / right).abs()).abs();
    let most = (2.0 * libm::log(100.0) / skewness).min(40.0) as usize + 1;
    let points = 1 + draw.below(most);
    let radius = |j: usize| {
        let along = 2.0 * libm::cos(PI * j as f64 / (points + 1) as f64);
        (centre + along * Complex64::new(left * right, 0.0).sqrt()).norm()
    };
    let rate = libm::log((1..=points).map(radius).fold(f64::MIN_POSITIVE, f64::max));
    // √(l r) is rounded where l r nearly vanishes.
    let rounding = 1e-12;
    Case {
        what: format!("{} {name} between fixed ends {stencil:?}, {points} points", F::NAME),
        rate: Rate { least: rate - rounding, most: rate + rounding },
        judge: judged(Between { stencil, u: start(draw, points) }),
    }
}

fn of_precision<F: Real>(draw: &mut Draw) -> Case {
    match draw.below(4) {
        0 => heat::<F>(draw),
        1 => between_fixed_ends::<F>(draw),
        _ => periodic::<F>(draw),
    }
}

pub(super) fn random(case: u64) -> Case {
    let mut draw = Draw::new(21, case);
    if draw.is_one_in(2) { of_precision::<f32>(&mut draw) } else { of_precision::<f64>(&mut draw) }
}

fn judge_random(cases: Range<u64>) {
    judge_linear("schemes", random, 22, cases);
}

#[test]
fn a_random_scheme_is_never_judged_against_the_eigenvalues_of_its_mesh() {
    judge_random(0..300);
}

/// `cargo test --release -p lastbit --test mathematics random_verdicts::schemes -- --ignored --nocapture`
#[test]
#[ignore = "ten thousand cases"]
fn ten_thousand_schemes_are_never_judged_against_the_eigenvalues_of_their_meshes() {
    judge_random(0..10_000);
}
