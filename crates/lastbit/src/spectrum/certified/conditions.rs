//! From a scheme to inequalities: when all roots of a polynomial lie in the closed unit disk.
//!
//! Let `p(A) = a₀ + a₁ A + … + a_d A^d`, the coefficients being symbols, and
//! `p*(A) = A^d conj(p(1/conj A))`. Miller's reduction
//!
//! ```text
//! D = |a_d|² − |a₀|²,      (conj(a_d) p − a₀ p*)/A     of degree d − 1, with D in front
//! ```
//!
//! gives at every frequency: the roots of `p` lie in the closed disk iff `D > 0` and those of the
//! reduced polynomial do, or the reduced polynomial vanishes and those of `p'` do. Repeated, it
//! turns stability into `d` inequalities `D₁ ≥ 0, D₂ ≥ 0, …` for real, even trigonometric
//! polynomials. Their signs tell:
//!
//! - `D_j(ω) < 0` for some `j`: a root lies outside. (Take the first `D_i(ω) ≤ 0`. If it is
//!   negative, the reduction says so. If it is zero and the reduced polynomial is not, likewise. If
//!   that vanishes too, so do all that follow, `D_j` among them.)
//! - `D_j(ω) > 0` for all `j`: all roots lie inside.
//! - `D_j > 0` but at finitely many frequencies: all roots lie in the closed disk everywhere, since
//!   they depend continuously on `ω` as long as `a_d` does not vanish.
//!
//! A reduced polynomial that vanishes at all frequencies (leap-frog: `|A| = 1` throughout) is
//! recognized on its coefficients, and the derivative takes its place.
//!
//! Reference: J. J. H. Miller, *On the location of zeros of certain classes of polynomials with
//! applications to numerical analysis*, J. Inst. Maths Applics 8 (1971), theorem 6.1.

use super::Why;
use super::ball::Ball;
use super::symbol::{Lag, Series, Symbol, sign_at};

/// Largest number of products in one step of the reduction.
const LARGEST_REDUCTION: usize = 20_000_000;

/// Largest error, relative to the largest coefficient, at which a coefficient that cannot be told from
/// zero is still taken for zero: each reduction multiplies errors, and with many time levels they
/// would hide everything.
const LARGEST_ERROR: f64 = 1e-9;

/// Highest order to which a condition is expanded at a corner of the frequencies.
const HIGHEST_ORDER: usize = 16;

/// A real, even trigonometric polynomial that must not be negative at any frequency.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// Where it must be what.
    pub(super) demand: Demand,
    /// Coefficients of `cos k·ω` as polynomials in the step, a common power divided out.
    pub(super) terms: Vec<(Lag, Vec<Ball>)>,
    /// Expansions where each entry of `ω` is 0 or π.
    pub(super) corners: Vec<Corner>,
}

/// What is asked of a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Demand {
    /// Not negative anywhere.
    NotNegative,
    /// Positive everywhere: the coefficient of the new time level, squared.
    Positive,
    /// The same at the corners; elsewhere `D₁ > 0` implies it.
    PositiveAtCorners,
}

/// Expansion `Σ_{i ≥ order} F_i(ξ)` of a condition at `corner + ξ`, `F_i` a form of degree `2i`.
#[derive(Debug, Clone)]
pub(super) struct Corner {
    /// Which entries are π.
    pub(super) at: [bool; 2],
    /// The first `i` with a form that does not vanish at all steps; `None` beyond
    /// `HIGHEST_ORDER`.
    pub(super) order: Option<usize>,
    /// `F_order` and the next ones: the coefficient of `ξ₁^{2i−a} ξ₂^a` at place `a`, as polynomials
    /// in the step.
    pub(super) forms: Vec<Form>,
}

/// A form with coefficients that are polynomials in the step.
#[derive(Debug, Clone)]
pub(super) struct Form {
    /// In the units of the condition.
    pub(super) whole: Vec<Vec<Ball>>,
    /// With its own common powers of the step divided out, which does not change its sign: it need
    /// not vanish with the step.
    pub(super) trimmed: Vec<Vec<Ball>>,
}

/// Forms kept at each corner.
const FORMS: usize = 6;

/// The conditions under which all roots of `p` lie in the closed unit disk at all frequencies of
/// `dimensions` dimensions (0: at the origin).
pub(super) fn conditions(p: &[Symbol], dimensions: usize) -> Result<Vec<Condition>, Why> {
    let mut found = Vec::new();
    let mut demand = |series: &Series, demand: Demand| {
        found.push(Condition::new(series, demand, dimensions));
    };
    let lead = &p[p.len() - 1];
    if lead.is_zero() {
        // The new level cannot be solved for.
        demand(&Series::default().minus(&Symbol::constant(1.0).even), Demand::NotNegative);
        return Ok(found);
    }
    let is_one = lead.len() == 1 && lead.even.0.get(&([0, 0], 0)) == Some(&Ball::exact(1.0));
    let mut of_lead = (!is_one).then(|| lead.squared());
    let mut p = p.to_vec();
    loop {
        // A root at zero lies in the disk.
        while p.len() > 1 && p[0].is_zero() {
            p.remove(0);
        }
        let degree = p.len() - 1;
        if degree == 0 {
            if let Some(square) = of_lead {
                demand(&square, Demand::Positive);
            }
            return Ok(found);
        }
        let size: usize = p.iter().map(Symbol::len).sum();
        if size * p[0].len().max(p[degree].len()) > LARGEST_REDUCTION {
            return Err(Why::TooLarge);
        }
        let largest = p.iter().map(Symbol::largest).fold(0.0, f64::max);
        let (_, exponent) = libm::frexp(largest);
        p.iter_mut().for_each(|a| *a = a.scaled(libm::scalbn(1.0, -exponent)));
        if p.iter().any(|a| a.least_certain() > LARGEST_ERROR) {
            return Err(Why::LostPrecision);
        }
        let reduced: Vec<Symbol> = (1..=degree)
            .map(|j| p[degree].conj_times(&p[j]).minus(&p[degree - j].conj_times(&p[0])))
            .collect();
        if reduced.iter().all(Symbol::is_zero) {
            p = (1..=degree).map(|j| p[j].scaled(j as f64)).collect();
            continue;
        }
        let front = &reduced[degree - 1].even;
        if front.is_zero() {
            // |a_d| = |a₀| everywhere, yet the reduced polynomial does not vanish: unstable
            // wherever it does not.
            let negative = reduced.iter().fold(Series::default(), |sum, a| sum.minus(&a.squared()));
            demand(&negative, Demand::NotNegative);
            return Ok(found);
        }
        // After a derivative |a_d| > |a₀| is an inequality for the same a_d, times its degree.
        if let Some(square) = of_lead.take() {
            demand(&square, Demand::PositiveAtCorners);
        }
        demand(front, Demand::NotNegative);
        p = reduced;
    }
}

impl Condition {
    fn new(series: &Series, demand: Demand, dimensions: usize) -> Self {
        let powers = || series.0.keys().map(|(_, power)| *power);
        let (low, high) = (powers().min().unwrap_or(0), powers().max().unwrap_or(0));
        let mut terms: Vec<(Lag, Vec<Ball>)> = Vec::new();
        for ((lag, power), value) in &series.0 {
            if terms.last().is_none_or(|(last, _)| last != lag) {
                terms.push((*lag, vec![Ball::ZERO; high - low + 1]));
            }
            if let Some((_, polynomial)) = terms.last_mut() {
                polynomial[power - low] = *value;
            }
        }
        let corners = match dimensions {
            0 => vec![[false, false]],
            1 => vec![[false, false], [true, false]],
            _ => vec![[false, false], [true, false], [false, true], [true, true]],
        };
        let corners = corners.into_iter().map(|at| Corner::new(&terms, at, dimensions)).collect();
        Self { demand, terms, corners }
    }
}

impl Corner {
    fn new(terms: &[(Lag, Vec<Ball>)], at: [bool; 2], dimensions: usize) -> Self {
        let form = |i: usize| form(terms, at, i, dimensions);
        let vanishes = |form: &[Vec<Ball>]| form.iter().flatten().all(|ball| *ball == Ball::ZERO);
        let order = (0..HIGHEST_ORDER).find(|i| !vanishes(&form(*i)));
        let kept = |i: usize| {
            let whole = form(i);
            Form { trimmed: without_common_powers(&whole), whole }
        };
        let forms = order.map_or_else(Vec::new, |i| (i..i + FORMS).map(kept).collect());
        Self { at, order, forms }
    }
}

fn without_common_powers(form: &[Vec<Ball>]) -> Vec<Vec<Ball>> {
    let is_used = |power: &usize| form.iter().any(|c| c[*power] != Ball::ZERO);
    let powers = || 0..form.first().map_or(0, Vec::len);
    let low = powers().find(is_used).unwrap_or(0);
    let high = powers().rev().find(is_used).unwrap_or(low);
    form.iter().map(|c| c[low..=high].to_vec()).collect()
}

/// `F_i`: the terms of degree `2i` in `Σ_k d_k cos k·(corner + ξ)`; what cannot be told from zero
/// is zero.
fn form(terms: &[(Lag, Vec<Ball>)], at: [bool; 2], i: usize, dimensions: usize) -> Vec<Vec<Ball>> {
    let degree = 2 * i;
    let entries = if dimensions == 2 { degree } else { 0 };
    let sign = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..=entries)
        .map(|a| {
            // binomial(2i, a)/(2i)! = 1/(a! (2i − a)!), in at most 2i roundings.
            let weight = sign / (factorial(a) * factorial(degree - a));
            let weight = Ball::within(weight, (degree + 2) as f64 * f64::EPSILON);
            let powers = terms.first().map_or(0, |(_, polynomial)| polynomial.len());
            (0..powers)
                .map(|power| {
                    let moment = terms.iter().fold(Ball::ZERO, |sum, (lag, polynomial)| {
                        let lattice = integer_power(lag[0], degree - a)
                            * integer_power(lag[1], a)
                            * Ball::exact(sign_at(*lag, at));
                        sum + polynomial[power] * lattice
                    });
                    if moment.holds_zero() { Ball::ZERO } else { moment * weight }
                })
                .collect()
        })
        .collect()
}

pub(super) fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}

fn integer_power(k: i32, n: usize) -> Ball {
    (0..n).fold(Ball::exact(1.0), |power, _| power * Ball::exact(f64::from(k)))
}
