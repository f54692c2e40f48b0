//! Critical sharpness: the curvature along the next update, from a few losses.
//!
//! ```text
//! L(θ − s d) − L(θ) = −s d·g + (s²/2) d·Hd + …
//! dt_c   the step s > 0 at which the loss is back where it was: smaller steps lower it
//! critical sharpness = 2/dt_c
//! ```
//!
//! For gradient descent (`d = g`) on a quadratic that is `g·Hg/|g|²`, at most `λ_max` and equal to it
//! where the gradient has turned into the sharpest direction, as at the edge of stability; there
//! `dt_c = dt`. Along any other direction it is the curvature over the slope, `d·Hd/d·g`.
//!
//! `dt_c` is the root of `(L(θ − s d) − L(θ))/s`, a straight line for a quadratic. It is bracketed from
//! the current step on, by factors of two or beyond the root of the line through the last two steps, and
//! then found by false position (the Illinois form), to [`TOLERANCE`]: four or five losses for a
//! quadratic from nearby, seven from a factor of a thousand away.
//!
//! Reference: Kalra et al., *A scalable measure of loss landscape curvature for analyzing the
//! training dynamics of LLMs*, 2026.

use super::empirical_risk::EmpiricalRisk;
use crate::Real;
use crate::objective::StochasticObjective;
use crate::optim::direction::{Memory, Optimizer};
use crate::optim::method::Method;
use crate::optim::perturbation::Perturbation;

/// Relative uncertainty of `dt_c`.
pub const TOLERANCE: f64 = 1e-3;
/// The current step is doubled or halved so many times at most.
const MOST_DOUBLINGS: usize = 40;
/// A line is trusted over this factor.
const FURTHEST: f64 = 64.0;
/// More than the false position ever needs: each two of its steps at least halve the bracket.
const MOST_STEPS: usize = 40;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Critical {
    /// `dt_c`; infinite where no step in reach raises the loss, 0 where every step does.
    pub dt: f64,
    /// `2/dt_c`.
    pub sharpness: f64,
    /// Losses computed.
    pub passes: usize,
}

/// The critical sharpness of `loss(s) = L(θ − s d)`, starting from the step `dt`. A loss that is not
/// finite counts as raised.
///
/// # Errors
///
/// That of the loss.
///
/// # Panics
///
/// If `dt` is not positive.
pub fn critical_sharpness<E>(
    dt: f64,
    loss: impl FnMut(f64) -> Result<f64, E>,
) -> Result<Critical, E> {
    assert!(dt > 0.0, "dt = {dt}");
    let mut line = Line::new(loss)?;
    let step = line.critical_step(dt)?;
    Ok(Critical { dt: step, sharpness: 2.0 / step, passes: line.passes })
}

/// The critical sharpness along the update that an optimizer would take next, from its memory and the
/// gradient of the whole `loss`; one gradient on top of the passes. `dt_c` is a length along the
/// direction ([`Method::length`]).
///
/// # Errors
///
/// That of the objective.
pub fn along_next_update<F: Real, O: StochasticObjective<F>>(
    loss: &mut EmpiricalRisk<F, O>,
    method: Method,
    theta: &[F],
    memory: &Memory<F>,
    dt: f64,
) -> Result<Critical, O::Error> {
    // Decay stands in the gradient of the loss already.
    let optimizer = Optimizer { method, alpha: 0.0 };
    let (mut base, mut memory) = (theta.to_vec(), memory.clone());
    optimizer.look_ahead(&mut base, &mut memory);
    let mut gradient = vec![0.0; theta.len()];
    loss.gradient(&base, &mut gradient)?;
    let mut d: Vec<F> = gradient.iter().map(|g| F::of(*g)).collect();
    optimizer.step(&mut base.clone(), &mut d, &mut memory, dt, Perturbation::NONE);
    critical_sharpness(method.length(dt), |s| {
        let length = F::of(s);
        let moved: Vec<F> = base.iter().zip(&d).map(|(t, d)| *t - length * *d).collect();
        loss.loss(&moved)
    })
}

struct Line<L> {
    loss: L,
    start: f64,
    passes: usize,
}

impl<E, L: FnMut(f64) -> Result<f64, E>> Line<L> {
    fn new(mut loss: L) -> Result<Self, E> {
        let start = loss(0.0)?;
        Ok(Self { loss, start, passes: 1 })
    }

    /// `(L(s) − L(0))/s`, infinite where the loss is not finite.
    fn slope(&mut self, s: f64) -> Result<f64, E> {
        self.passes += 1;
        let slope = ((self.loss)(s)? - self.start) / s;
        Ok(if slope.is_finite() { slope } else { f64::INFINITY })
    }

    fn critical_step(&mut self, dt: f64) -> Result<f64, E> {
        if !self.start.is_finite() {
            return Ok(f64::NAN);
        }
        let first = (dt, self.slope(dt)?);
        let rises = first.1 >= 0.0;
        let (mut before, mut last) = (first, first);
        for _ in 0..MOST_DOUBLINGS {
            let next = further(before, last, rises);
            (before, last) = (last, (next, self.slope(next)?));
            if rises && last.1 < 0.0 {
                return self.root(last, before);
            }
            if !rises && last.1 >= 0.0 {
                return self.root(before, last);
            }
        }
        Ok(if rises { 0.0 } else { f64::INFINITY })
    }

    /// The root between a falling and a rising step.
    fn root(&mut self, mut low: (f64, f64), mut high: (f64, f64)) -> Result<f64, E> {
        let mut best = low.0;
        for _ in 0..MOST_STEPS {
            let share = if high.1.is_finite() { low.1 / (low.1 - high.1) } else { 0.5 };
            let next = low.0 + share * (high.0 - low.0);
            let moved = (next - best).abs();
            best = next;
            if moved <= TOLERANCE * next || high.0 - low.0 <= TOLERANCE * next {
                break;
            }
            let slope = self.slope(next)?;
            // The end that stays counts half, so that both ends move in time.
            if slope < 0.0 {
                (low, high.1) = ((next, slope), high.1 / 2.0);
            } else {
                (high, low.1) = ((next, slope), low.1 / 2.0);
            }
        }
        Ok(best)
    }
}

/// A shorter step where the loss rises, a longer one where it falls: half or twice the last, or a little
/// beyond the root of the line through the last two where that is further away.
fn further(before: (f64, f64), last: (f64, f64), rises: bool) -> f64 {
    let (shorter, longer) = (last.0 / 2.0, last.0 * 2.0);
    // NaN or infinite where there is no line or no root of it; comparisons with NaN are false.
    let root = last.0 + last.1 / (last.1 - before.1) * (before.0 - last.0);
    match rises {
        true if root > 0.0 && root < last.0 => (0.95 * root).min(shorter).max(last.0 / FURTHEST),
        true => shorter,
        false if root > last.0 => (1.05 * root).max(longer).min(last.0 * FURTHEST),
        false => longer,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn critical_sharpness(dt: f64, loss: impl Fn(f64) -> f64) -> Critical {
        let Ok(found) = super::critical_sharpness(dt, |s| Ok::<_, Infallible>(loss(s)));
        found
    }

    #[test]
    fn of_a_quadratic_it_is_curvature_over_slope_from_any_start() {
        for (slope, curvature) in [(1.0, 3.0), (1e-8, 2e-5), (7.0, 0.01)] {
            for off in [1e-3, 0.5, 0.9, 1.0, 1.1, 3.0, 1e3] {
                let dt = off * 2.0 * slope / curvature;
                let found = critical_sharpness(dt, |s| 5.0 - s * slope + 0.5 * s * s * curvature);
                let expected = curvature / slope;
                let error = (found.sharpness / expected - 1.0).abs();
                assert!(error <= TOLERANCE, "{found:?}, expected {expected}");
                // L(θ), the current step, up to three to the bracket, one or two within it.
                let most = if (0.5..=3.0).contains(&off) { 5 } else { 7 };
                assert!(found.passes <= most, "{found:?} from {off} of it");
            }
        }
    }

    #[test]
    fn losses_that_are_no_parabola() {
        // e^s − 1 − 2 s = 0 at s = 1.25643.
        let found = critical_sharpness(0.1, |s| libm::exp(s) - 2.0 * s);
        assert!((found.dt - 1.256_431_208_626_17).abs() < 2.0 * TOLERANCE, "{found:?}");
        // A wall: not a number from 3 on.
        let found = critical_sharpness(1.0, |s| if s < 3.0 { -s } else { f64::NAN });
        assert!((found.dt - 3.0).abs() < 3.0 * 2.0 * TOLERANCE, "{found:?}");
    }

    #[test]
    fn no_end_no_beginning_and_no_number_are_values() {
        assert_eq!(critical_sharpness(1.0, |s| -s).sharpness, 0.0);
        assert_eq!(critical_sharpness(1.0, |s| s).sharpness, f64::INFINITY);
        assert!(critical_sharpness(1.0, |_| f64::NAN).sharpness.is_nan());
    }
}
