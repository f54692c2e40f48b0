//! How far apart two runs are.
//!
//! ```text
//! RelL1(x, y) = (2/N) Σ |x_i − y_i| / (|x_i| + |y_i|),    0/0 = 0,    at most 2
//! ulps(x, y)  = number of floats between x_i and y_i
//! ```
//!
//! Reference: the paper, Section 4.2.

use std::ops::ControlFlow;

use crate::curve::Curve;
use crate::real::once_per_precision;
use crate::reduce::{distance, sum_by};
use crate::{Dynamics, Real, Watcher};

/// The paper's relative distance, between 0 and 2. NaN if a component is NaN.
///
/// # Panics
///
/// If the lengths differ.
pub fn rel_l1<F: Real>(x: &[F], y: &[F]) -> f64 {
    assert_eq!(x.len(), y.len(), "RelL1 of vectors of different length");
    once_per_precision!(
        <'a, F> (&'a [F], &'a [F]),
        (x, y),
        |(x, y)| rel_l1_by(x.len(), |i| (x[i].to_f64(), y[i].to_f64())) => f64
    )
}

/// [`rel_l1`] of `pair(0) … pair(len − 1)`, for arrays of any types.
#[inline(always)]
pub fn rel_l1_by(len: usize, pair: impl Fn(usize) -> (f64, f64)) -> f64 {
    if len == 0 {
        return 0.0;
    }
    let term = |i: usize| {
        let (a, b) = pair(i);
        if a == b { 0.0 } else { (a - b).abs() / (a.abs() + b.abs()) }
    };
    2.0 * sum_by(len, term) / len as f64
}

/// Largest number of representable steps between two components.
///
/// # Panics
///
/// If the lengths differ.
pub fn max_ulps<F: Real>(x: &[F], y: &[F]) -> u64 {
    assert_eq!(x.len(), y.len(), "ulps of vectors of different length");
    once_per_precision!(
        <'a, F> (&'a [F], &'a [F]),
        (x, y),
        |(x, y)| {
            x.iter().zip(y).map(|(a, b)| a.rank().abs_diff(b.rank())).max().unwrap_or(0)
        } => u64
    )
}

/// `x`, with the last bit flipped of each value that equals that of `y`.
fn flip_where_equal<F: Real>(x: &[F], y: &[F], out: &mut [F]) {
    once_per_precision!(
        <'a, F> (&'a [F], &'a [F], &'a mut [F]),
        (x, y, out),
        |(x, y, out)| {
            for (out, (x, y)) in out.iter_mut().zip(x.iter().zip(y)) {
                *out = if x == y { x.flip_last_bit() } else { *x };
            }
        }
    );
}

/// What a [`LastBitTwin`] saw at one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwinPoint {
    /// Distance in the 2-norm over that of a state of the run's scale.
    pub distance: f64,
    /// [`rel_l1`].
    pub rel_l1: f64,
    /// [`max_ulps`].
    pub max_ulps: u64,
}

/// A run whose every value is kept at least one last bit away from the other's: before each step,
/// the last bit of each value that coincides is flipped.
///
/// At every step and not only at the first: a phase that contracts makes twins equal bit for bit,
/// and equal bits never part again, however chaotic the phase that follows. Of every value and not
/// of one: steep places cut a state into parts that do not feel each other. Rounding, the
/// perturbation meant here, acts everywhere and always.
#[derive(Debug)]
pub struct LastBitTwin<D: Dynamics> {
    twin: D,
    perturbed: Vec<D::Scalar>,
    norm_of_scale: f64,
    curve: Curve<TwinPoint>,
}

impl<D: Dynamics> LastBitTwin<D> {
    /// Starts beside `run`, which has taken no step yet.
    pub fn new(run: &D) -> Self {
        let scale = run.scale();
        let size = (run.state().len() as f64).sqrt();
        Self {
            twin: run.clone(),
            perturbed: run.state().to_vec(),
            norm_of_scale: if scale > 0.0 { scale } else { 1.0 } * size,
            curve: Curve::default(),
        }
    }

    /// Flips the last bit of each value that coincides with the run's.
    fn perturb(&mut self, run: &D) {
        flip_where_equal(self.twin.state(), run.state(), &mut self.perturbed);
        self.twin.load(&self.perturbed);
    }

    /// The measurements so far, with their steps.
    pub fn points(&self) -> &[(usize, TwinPoint)] {
        self.curve.points()
    }
}

impl<D: Dynamics> Watcher<D> for LastBitTwin<D> {
    fn watch(&mut self, step: usize, run: &D) -> Result<ControlFlow<()>, D::Error> {
        if step > 0 {
            self.twin.step()?;
        }
        self.perturb(run);
        let (x, y, norm_of_scale) = (run.state(), self.twin.state(), self.norm_of_scale);
        self.curve.push_with(step, || TwinPoint {
            distance: distance(x, y) / norm_of_scale,
            rel_l1: rel_l1(x, y),
            max_ulps: max_ulps(x, y),
        });
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::examples::{linear, logistic};
    use crate::evolve;
    use proptest::prelude::*;

    #[test]
    fn rel_l1_of_known_pairs() {
        assert_eq!(rel_l1(&[1.0, 0.0], &[1.0, 0.0]), 0.0);
        assert_eq!(rel_l1(&[1.0], &[-1.0]), 2.0);
        assert_eq!(rel_l1(&[1.0, 0.0, 3.0], &[0.0, 0.0, 3.0]), 2.0 / 3.0);
        assert_eq!(rel_l1(&[3.0_f32], &[1.0]), 1.0);
        assert!(rel_l1(&[f64::NAN], &[1.0]).is_nan());
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn rel_l1_is_symmetric_bounded_and_zero_only_for_equals(
            pairs in prop::collection::vec((-1e3..1e3_f64, -1e3..1e3_f64), 1..50)
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let d = rel_l1(&x, &y);
            prop_assert!((0.0..=2.0 + 1e-14).contains(&d));
            prop_assert_eq!(d.to_bits(), rel_l1(&y, &x).to_bits());
            prop_assert_eq!(d == 0.0, x == y);
            prop_assert_eq!(rel_l1(&x, &x), 0.0);
        }
    }

    #[test]
    fn a_last_bit_twin_is_never_nearer_than_one_ulp() {
        // The identity keeps the distance; a contraction would forget it but for the flips.
        for factor in [1.0, 0.5] {
            let mut run = linear([[factor, 0.0], [0.0, factor]], [0.1, -0.3]);
            let mut twin = LastBitTwin::new(&run);
            let Ok(_) = evolve(&mut run, 0, 10, &mut [&mut twin]);
            assert_eq!(twin.points().len(), 11);
            assert!(twin.points().iter().all(|(_, point)| point.max_ulps == 1), "{factor}");
        }
    }

    #[test]
    fn chaos_lifts_the_last_bit_to_the_size_of_the_state() {
        let mut run = logistic(4.0, 0.3);
        let mut twin = LastBitTwin::new(&run);
        let Ok(_) = evolve(&mut run, 0, 100, &mut [&mut twin]);
        let points: Vec<(usize, f64)> =
            twin.points().iter().map(|(step, p)| (*step, p.distance)).collect();
        let growth = crate::growth::Growth::of_plain_twin(&points, 1e-2).unwrap();
        // 36 e-folds at ln 2 each take 52 steps; over so few the exponent fluctuates by about
        // π/(2√3)/√52 = 0.13 (the deviation of ln|4 − 8x| under the invariant density).
        assert!((growth.per_step - libm::log(2.0)).abs() < 0.26, "{growth:?}");
        assert!(points[90..].iter().map(|p| p.1).fold(0.0, f64::max) > 0.1);
    }
}
