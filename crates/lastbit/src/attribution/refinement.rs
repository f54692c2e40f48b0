//! Growth per unit of time at `dt`, `dt/2`, `dt/4`, …: what stays is the flow's own, what vanishes was numerical.
//!
//! Each run is made by the same factory and is measured over the same span of time. Its perturbed copy starts at random
//! signs with the run and is brought back to its distance after every step (Benettin), so that it has turned towards
//! what grows most when the span begins.

use crate::reduce::{distance, norm};
use crate::rng::Stream;
use crate::{Dynamics, Real};

/// A growth rate at one step size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refined {
    /// The step size.
    pub dt: f64,
    /// Steps in the span.
    pub steps: usize,
    /// E-folds per unit of time; not finite where the run or its copy left the numbers, or coincided.
    pub growth_per_time: f64,
}

/// The growth rate over the times `span.0 … span.1`, at `dt` and at `halvings` halvings of it; `make(dt)` starts a run at
/// time 0.
///
/// # Errors
///
/// The first error of a run.
///
/// # Panics
///
/// If the span holds no step of length `dt`, or a run has another step than was asked for.
pub fn refinement<D: Dynamics>(
    dt: f64,
    halvings: usize,
    span: (f64, f64),
    mut make: impl FnMut(f64) -> D,
) -> Result<Vec<Refined>, D::Error> {
    let mut refined = Vec::new();
    let mut dt = dt;
    for _ in 0..=halvings {
        let run = make(dt);
        assert_eq!(run.dt(), dt, "the step size of the run");
        refined.push(measure(run, span)?);
        dt /= 2.0;
    }
    Ok(refined)
}

fn measure<D: Dynamics>(mut run: D, (from, to): (f64, f64)) -> Result<Refined, D::Error> {
    let dt = run.dt();
    let [first, last] = [from, to].map(|time| (time / dt).round() as usize);
    assert!(first < last, "times {from} to {to} at steps of {dt}");
    let mut copy = run.clone();
    let signs = Stream::new(0, 0);
    let each = reference(&run) / (run.state().len() as f64).sqrt();
    let moved: Vec<D::Scalar> = (run.state().iter().enumerate())
        .map(|(i, x)| D::Scalar::of(x.to_f64() + each * signs.sign(i as u64)))
        .collect();
    copy.load(&moved);
    let mut growth = 0.0;
    for step in 0..last {
        let before = distance(run.state(), copy.state());
        run.step()?;
        copy.step()?;
        let after = distance(run.state(), copy.state());
        if step >= first {
            growth += libm::log(after / before);
        }
        let factor = reference(&run) / after;
        let back: Vec<D::Scalar> = (run.state().iter().zip(copy.state()))
            .map(|(x, y)| D::Scalar::of(x.to_f64() + factor * (y.to_f64() - x.to_f64())))
            .collect();
        copy.load(&back);
    }
    let steps = last - first;
    Ok(Refined { dt, steps, growth_per_time: growth / (steps as f64 * dt) })
}

/// The geometric mean of the rounding of the state and of the range in which the dynamics is linear.
fn reference<D: Dynamics>(run: &D) -> f64 {
    let positive = |x: f64| if x > 0.0 { x } else { 1.0 };
    let root_of_count = (run.state().len() as f64).sqrt();
    let size = norm(run.state()).max(positive(run.scale()) * root_of_count);
    (D::Scalar::UNIT_ROUNDOFF * size * positive(run.linear_range()) * root_of_count).sqrt()
}
