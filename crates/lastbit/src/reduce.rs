//! Sums and norms whose rounding order is fixed by the length alone.
//!
//! ```text
//! lane_j = x_j + x_{j+8} + x_{j+16} + …        j = 0 … 7, each from left to right, in f64
//! sum    = ((lane_0 + lane_1) + lane_2) + …
//! ```
//!
//! Eight lanes let the compiler use vector registers of any width up to eight doubles without
//! changing a bit; nothing here is split over threads.

use crate::Real;
use crate::real::once_per_precision;

/// Sums that go on beside each other.
pub(crate) const LANES: usize = 8;

/// Sum of `term(0) … term(len − 1)` in the order of the module doc.
#[inline(always)]
pub fn sum_by(len: usize, term: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let whole = len - len % LANES;
    for start in (0..whole).step_by(LANES) {
        for (j, lane) in lanes.iter_mut().enumerate() {
            *lane += term(start + j);
        }
    }
    for i in whole..len {
        lanes[i - whole] += term(i);
    }
    lanes.iter().fold(0.0, |sum, lane| sum + lane)
}

/// Sum of a slice in the order of the module doc.
pub fn sum(values: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += value;
    }
    lanes.iter().fold(0.0, |sum, lane| sum + lane)
}

/// `‖x‖₂`.
pub fn norm<F: Real>(x: &[F]) -> f64 {
    once_per_precision!(
        <'a, F> &'a [F],
        x,
        |x| sum_by(x.len(), |i| x[i].to_f64() * x[i].to_f64()).sqrt() => f64
    )
}

/// `‖x − y‖₂`; the difference is taken in `f64`.
///
/// # Panics
///
/// If the lengths differ.
pub fn distance<F: Real>(x: &[F], y: &[F]) -> f64 {
    assert_eq!(x.len(), y.len(), "distance of vectors of different length");
    once_per_precision!(
        <'a, F> (&'a [F], &'a [F]),
        (x, y),
        |(x, y)| {
            sum_by(x.len(), |i| {
                let difference = x[i].to_f64() - y[i].to_f64();
                difference * difference
            })
            .sqrt()
        } => f64
    )
}

/// `max |x_i|`, or NaN if any component is NaN.
pub fn max_abs<F: Real>(x: &[F]) -> f64 {
    once_per_precision!(<'a, F> &'a [F], x, |x| largest_size(x) => f64)
}

fn largest_size<F: Real>(x: &[F]) -> f64 {
    let largest =
        x.iter().fold(F::default(), |most, v| if v.abs() > most { v.abs() } else { most });
    if x.iter().all(|v| v.is_finite()) { largest.to_f64() } else { nan_or_infinity(x) }
}

fn nan_or_infinity<F: Real>(x: &[F]) -> f64 {
    if x.iter().any(|v| v.to_f64().is_nan()) { f64::NAN } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_the_plain_loop_at_every_length() {
        for len in 0..40 {
            let x: Vec<f64> = (0..len).map(|i| 1.0 / (1.0 + i as f64)).collect();
            let plain: f64 = x.iter().sum();
            // Two orders of at most 40 additions of numbers that sum to less than 5.
            assert!((sum_by(len, |i| x[i]) - plain).abs() <= 40.0 * 5.0 * f64::EPSILON);
            assert_eq!(sum_by(len, |i| x[i]).to_bits(), sum(&x).to_bits());
        }
    }

    #[test]
    fn max_abs_reports_what_is_not_a_number() {
        assert_eq!(max_abs(&[1.0, -3.0, 2.0]), 3.0);
        assert!(max_abs(&[1.0, f64::NAN, 2.0]).is_nan());
        assert_eq!(max_abs(&[1.0, f64::NEG_INFINITY]), f64::INFINITY);
        assert_eq!(max_abs::<f32>(&[]), 0.0);
    }
}
