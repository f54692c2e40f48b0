//! Well-known linear schemes and the steps at which they are stable.
//!
//! ```text
//! diffusion     heat and reaction-diffusion: Euler, Crank-Nicolson, BDF2, Adams-Bashforth, Runge-Kutta, …
//! advection     one-sided, centred, Lax-Friedrichs, Lax-Wendroff, Beam-Warming, …; with diffusion
//! second_order  waves and momentum: leap-frog, Nesterov
//! ```
//!
//! A scheme is added in one place: its constructor and its row (name, equation, parameters, condition)
//! stand in the same file. Commands and tests read the rows, by [`all`].

mod advection;
mod diffusion;
mod second_order;

pub use advection::*;
pub use diffusion::*;
pub use second_order::*;

use super::scheme::{Scheme, Term};

/// Numbers that schemes take; each takes some of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Mesh width.
    pub dx: f64,
    /// Diffusivity.
    pub kappa: f64,
    /// Decay.
    pub lambda: f64,
    /// Speed of advection or of waves (along x).
    pub speed: f64,
    /// Speed of advection along y.
    pub speed_y: f64,
    /// Momentum.
    pub mu: f64,
    /// Curvature.
    pub z: f64,
}

/// Names of all parameters.
pub const PARAMETERS: &[&str] = &["dx", "kappa", "lambda", "speed", "speed-y", "mu", "z"];

/// The steps at which a scheme is stable, in closed form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KnownSteps {
    /// No step, however small.
    Never,
    /// All steps up to this one.
    UpTo(f64),
    /// Every step.
    Always,
}

/// A row of the textbook.
#[derive(Debug)]
pub struct TextbookScheme {
    /// The name in commands and records.
    pub name: &'static str,
    /// What it solves and how.
    pub help: &'static str,
    /// The parameters it takes, out of [`PARAMETERS`].
    pub parameters: &'static [&'static str],
    /// Its condition of stability.
    pub condition: &'static str,
    /// The condition in numbers.
    pub known: fn(&Parameters) -> KnownSteps,
    /// The scheme.
    pub build: fn(&Parameters) -> Scheme,
}

/// All schemes of the textbook.
pub fn all() -> impl Iterator<Item = &'static TextbookScheme> {
    [DIFFUSION, ADVECTION, SECOND_ORDER].into_iter().flatten()
}

/// The scheme of this name.
pub fn named(name: &str) -> Option<&'static TextbookScheme> {
    all().find(|scheme| scheme.name == name)
}

/// Time level, offset, and coefficient as a polynomial in `dt`.
type LevelTerm<'a> = (i32, &'a [i32], &'a [f64]);

fn scheme(terms: &[LevelTerm]) -> Scheme {
    let dimensions = terms[0].1.len();
    let term = |(level, offset, coefficient): &LevelTerm| Term {
        level: *level,
        offset: offset.to_vec(),
        coefficient: coefficient.to_vec(),
    };
    let terms = terms.iter().map(term).collect();
    Scheme::new(dimensions, terms).expect("the schemes of this file are well formed")
}

/// A space operator in one dimension: offsets and their weights.
type Operator<'a> = &'a [(i32, f64)];

/// `u_t = L u` by a linear multistep method: `u_{n+1} = Σ a_l u_{n−l} + dt Σ b_l L u_{n−l}`, the weights
/// `(a_l, b_l)` from the newest level on; the first pair is the level that is solved for, `a` being 0.
fn multistep(operator: Operator, weights: &[(f64, f64)]) -> Scheme {
    let mut terms = Vec::new();
    for ((a, b), level) in weights.iter().zip((-64..=1).rev()) {
        if *a != 0.0 {
            terms.push(Term { level, offset: vec![0], coefficient: vec![*a] });
        }
        for (offset, weight) in operator.iter().filter(|_| *b != 0.0) {
            terms.push(Term { level, offset: vec![*offset], coefficient: vec![0.0, b * weight] });
        }
    }
    Scheme::new(1, terms).expect("a multistep method is well formed")
}

/// `u_t = L u` by the classical Runge-Kutta method, `Σ_{j ≤ 4} (dt L)^j/j!`.
fn runge_kutta_4(operator: Operator) -> Scheme {
    let mut powers: Vec<Vec<(i32, f64)>> = vec![vec![(0, 1.0)]];
    for j in 1..=4 {
        let mut next = std::collections::BTreeMap::new();
        for (at, weight) in &powers[j - 1] {
            for (offset, w) in operator {
                *next.entry(at + offset).or_insert(0.0) += weight * w / j as f64;
            }
        }
        powers.push(next.into_iter().collect());
    }
    let terms = powers.iter().enumerate().flat_map(|(j, stencil)| {
        stencil.iter().map(move |(offset, weight)| {
            let mut coefficient = vec![0.0; j + 1];
            coefficient[j] = *weight;
            Term { level: 0, offset: vec![*offset], coefficient }
        })
    });
    Scheme::new(1, terms.collect()).expect("a Runge-Kutta method is well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_are_known() {
        let names: Vec<&str> = all().map(|scheme| scheme.name).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        for scheme in all() {
            assert!(scheme.parameters.iter().all(|p| PARAMETERS.contains(p)), "{}", scheme.name);
            assert_eq!(named(scheme.name).map(|found| found.name), Some(scheme.name));
        }
        assert!(named("no such scheme").is_none());
    }

    /// A row that did not name a parameter would make commands refuse it.
    #[test]
    fn a_scheme_depends_on_the_parameters_it_names_and_on_no_other() {
        let base = Parameters {
            dx: 0.5,
            kappa: 0.7,
            lambda: 0.3,
            speed: 1.5,
            speed_y: 0.4,
            mu: 0.6,
            z: 2.0,
        };
        let changed = |name: &str| {
            let mut p = base;
            let field = match name {
                "dx" => &mut p.dx,
                "kappa" => &mut p.kappa,
                "lambda" => &mut p.lambda,
                "speed" => &mut p.speed,
                "speed-y" => &mut p.speed_y,
                "mu" => &mut p.mu,
                "z" => &mut p.z,
                other => panic!("no parameter {other}"),
            };
            *field *= 1.25;
            p
        };
        for scheme in all() {
            for name in PARAMETERS {
                let differs = (scheme.build)(&changed(name)) != (scheme.build)(&base);
                assert_eq!(differs, scheme.parameters.contains(name), "{}: {name}", scheme.name);
            }
        }
    }
}
