//! Step and decay bounds of the linearized one-layer network: the paper's, and the exact ones.
//!
//! In the transitioning regime each mode of the kernel has the curvature
//!
//! ```text
//! z(e) = α + q e,     q = a p β/2
//! ```
//!
//! with `e` the mode's share of the image: `|Î(ω)|²` without a window (the paper's), an eigenvalue
//! of `PᵀP` on one (exact: `P` is the matrix of patches). Forward Euler is stable iff
//! `0 < z < 2/dt` for all modes, so
//!
//! ```text
//! max over e of (−q e)  <  α  <  min over e of (limit − q e)
//! ```
//!
//! with `limit = 2/dt`; `4/(3 dt²)` for Nesterov as the paper has it; `4/((1 + 2 mu) dt²)` exactly.
//! For `a < 0` these are the paper's formulas; for `a > 0` smallest and largest `e` change places.

use crate::correlate::Correlator;
use crate::krylov::{EigenOptions, EigenResult, eigenpairs, infallible};

/// A range of `e`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// An open interval of weight decays; empty where `max ≤ min`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlphaInterval {
    /// Decay must be larger.
    pub min: f64,
    /// Decay must be smaller.
    pub max: f64,
}

impl AlphaInterval {
    /// No weight decay stabilizes the step.
    pub fn is_empty(&self) -> bool {
        self.max <= self.min
    }
}

/// The stable weight decays for modes in `range`, coefficient `q` and `z < limit`.
pub fn alpha_interval(q: f64, range: Range, limit: f64) -> AlphaInterval {
    let ends = [q * range.min, q * range.max];
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    // Not −low, which would print as −0.
    AlphaInterval { min: 0.0 - low, max: limit - high }
}

/// Smallest and largest curvature `z` of the modes in `range`.
pub fn curvatures(alpha: f64, q: f64, range: Range) -> Range {
    let ends = [alpha + q * range.min, alpha + q * range.max];
    Range { min: ends[0].min(ends[1]), max: ends[0].max(ends[1]) }
}

/// Largest stable `dt` of forward Euler, `2/z_max`; none if a mode grows at every step.
pub fn largest_dt(alpha: f64, q: f64, range: Range) -> Option<f64> {
    let z = curvatures(alpha, q, range);
    (z.min > 0.0).then(|| 2.0 / z.max)
}

/// `z` below which the paper has Nesterov's scheme stable, whatever the momentum.
pub fn nesterov_limit_of_the_paper(dt: f64) -> f64 {
    4.0 / (3.0 * dt * dt)
}

/// Both ends of the spectrum of `PᵀP`, by matrix-vector products alone.
pub fn patch_extremes(correlator: &mut Correlator, max_matvecs: usize) -> EigenResult {
    let (positions, window) = (correlator.positions(), correlator.window());
    let mut map = vec![0.0; positions.0 * positions.1];
    let multiply = infallible(|kernel, out| {
        correlator.valid(kernel, &mut map);
        correlator.adjoint(&map, out);
    });
    let options = EigenOptions::both_ends(1e-12, max_matvecs);
    let Ok(found) = eigenpairs(&vec![0.0; window.0 * window.1], vec![], options, multiply);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlate::Edges;
    use crate::optim::method::Method;
    use crate::signal::checkerboard;

    #[test]
    fn a_checkerboard_has_one_mode() {
        for (n, w) in [(16, 3), (32, 7), (64, 16)] {
            let mut correlator = Correlator::new(&checkerboard(n, n), (n, n), (w, w), Edges::Valid);
            let found = patch_extremes(&mut correlator, 100);
            let exact = ((w * (n - w + 1)) as f64).powi(2);
            assert!((found.lambda_max() / exact - 1.0).abs() < 1e-12);
            assert!(found.lambda_min().abs() < 1e-10 * exact);
        }
    }

    #[test]
    fn the_table_of_the_paper() {
        // a = −0.5, β = 1, dt = 1e-8, 256 x 256: α_min without window 1.07e9, windowed 3.8e6,
        // 1.3e7, 3.8e7; α_max 2e8. The windowed column was found by running, to two digits.
        let q = -0.25;
        for (w, paper) in [(16.0, 3.8e6), (32.0, 1.3e7), (64.0, 3.8e7)] {
            let max: f64 = w * (257.0 - w);
            let found = alpha_interval(q, Range { min: 0.0, max: max * max }, 2.0 / 1e-8);
            assert!((found.min / paper - 1.0).abs() < 0.03, "{} {paper}", found.min);
            assert_eq!(found.max, 2e8);
        }
        let whole = Range { min: 0.0, max: 256.0_f64.powi(4) };
        let found = alpha_interval(q, whole, 2.0 / 1e-8);
        assert!((found.min / 1.07e9 - 1.0).abs() < 0.005);
        assert!(found.is_empty(), "no weight decay stabilizes this step");
    }

    #[test]
    fn the_sign_of_a_exchanges_the_ends() {
        let range = Range { min: 1.0, max: 10.0 };
        let negative = alpha_interval(-0.5, range, 100.0);
        assert_eq!((negative.min, negative.max), (5.0, 100.5));
        let positive = alpha_interval(0.5, range, 100.0);
        assert_eq!((positive.min, positive.max), (-0.5, 95.0));
        assert_eq!(largest_dt(6.0, -0.5, range), Some(2.0 / 5.5));
        assert_eq!(largest_dt(4.0, -0.5, range), None);
    }

    #[test]
    fn nesterov_limits_of_the_paper_and_of_its_runs() {
        assert!((nesterov_limit_of_the_paper(1e-4) / 1.33e8 - 1.0).abs() < 0.003);
        // Printed: 1.42e8, found by running.
        assert!((Method::NesterovPde { mu: 0.9 }.threshold(1e-4) / 1.4286e8 - 1.0).abs() < 1e-4);
    }
}
