//! Curvature from samples: batch sharpness, trace, spectral density.
//!
//! **Batch sharpness**: the curvature of a batch's loss along its own gradient, on average:
//!
//! ```text
//! E_b[ g_b·H_b g_b / |g_b|² ]
//! ```
//!
//! which is what a step of SGD meets; with full batches it is the curvature along the gradient.
//!
//! **Trace**, after Hutchinson: for a vector `z` of random signs `E[z·Az] = tr A`, with variance
//! `2 Σ_{i≠j} A_ij²`; mean and standard error over the probes.
//!
//! **Spectral density** by stochastic Lanczos quadrature. `m` steps of Lanczos' method from `z/|z|`
//! give a matrix `T` whose eigenvalues are nodes, and the squared first components of its
//! eigenvectors weights, of the Gauss quadrature of the spectrum as `z` sees it:
//!
//! ```text
//! Σ_i w_i θ_i^j = z·A^j z/n   exactly for j ≤ 2m − 1,      E[z·A^j z/n] = tr(A^j)/n
//! φ(t) = mean over probes of Σ_i w_i N(t; θ_i, σ²)
//! ```
//!
//! Moments up to `2m − 1` are free of bias. The density itself is not: each node is broadened by `σ`,
//! which adds `σ²` to the variance, and what lies within `σ` is not resolved; a node of `T` between
//! two eigenvalues stands for both.
//!
//! References: Hutchinson 1990; Golub and Meurant, *Matrices, moments and quadrature*, 1994; Ghorbani,
//! Krishnan and Xiao, ICML 2019; Andreyev and Beneventano, *Edge of stochastic stability*, 2024.

use std::sync::Arc;

use crate::Real;
use crate::krylov::{KrylovVector, lanczos, tridiagonal};
use crate::objective::StochasticObjective;
use crate::reduce::{norm, sum_by};
use crate::rng::Stream;
use crate::statistics::sample::Sample;

use super::empirical_risk::{EmpiricalRisk, WeightedBatches};

/// Streams of the probes' signs lie here.
const SIGNS: u64 = 1 << 41;

/// A mean over samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error; NaN of a single sample.
    pub standard_error: f64,
}

impl Estimate {
    /// # Panics
    ///
    /// If there is no value.
    pub fn of(values: &[f64]) -> Self {
        let sample = Sample::of(values);
        let sigma = sample.sigma.unwrap_or(f64::NAN);
        Self { mean: sample.mean, standard_error: sigma / (sample.n as f64).sqrt() }
    }
}

/// Batch sharpness at `theta`, over these batches; `alpha` is the weight decay inside the gradient.
///
/// # Errors
///
/// That of the objective.
///
/// # Panics
///
/// If there is no batch.
pub fn batch_sharpness<F: Real, O: StochasticObjective<F>>(
    objective: &mut O,
    theta: &[F],
    batches: &[Arc<O::Batch>],
    alpha: f64,
) -> Result<Estimate, O::Error> {
    let n = theta.len();
    let (mut g, mut image) = (vec![0.0; n], vec![0.0; n]);
    let mut of_batch = |batch: &Arc<O::Batch>| {
        // All of the weight is the only batch's, whatever its size.
        let set = WeightedBatches::new(vec![(Arc::clone(batch), 1)]);
        let mut loss = EmpiricalRisk::new(objective, &set, alpha);
        loss.gradient(theta, &mut g)?;
        let size = norm(&g);
        g.iter_mut().for_each(|g| *g /= size);
        loss.hessian_vector(theta, &g, &mut image)?;
        // The direction that was multiplied is g rounded; its norm is 1 up to that rounding.
        Ok(sum_by(n, |i| g[i] * image[i]))
    };
    let values: Vec<f64> = batches.iter().map(&mut of_batch).collect::<Result<_, _>>()?;
    Ok(Estimate::of(&values))
}

/// Nodes and weights of a spectrum as some probes saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Density {
    /// Dimensions.
    pub n: usize,
    /// For each probe its nodes with their weights, which sum to 1; the nodes ascend.
    pub probes: Vec<Vec<(f64, f64)>>,
}

/// Lanczos quadrature with `probes` vectors of random signs and `steps` matrix-vector products for
/// each; none where the operator returns values that are not finite. `like` is any vector of the
/// space, as in [`crate::krylov::eigenpairs`].
///
/// # Errors
///
/// The first error of the operator or of a vector operation.
///
/// # Panics
///
/// If there are no probes or steps.
pub fn density<V: KrylovVector<E>, E>(
    like: &V,
    probes: usize,
    steps: usize,
    draw: u64,
    mut multiply: impl FnMut(&V, &mut V) -> Result<(), E>,
) -> Result<Option<Density>, E> {
    assert!(probes > 0, "no probes");
    let mut nodes = |probe: usize| {
        let signs = Stream::new(draw, SIGNS + probe as u64);
        let mut start = like.zeros_like()?;
        start.fill_by(|i| signs.sign(i))?;
        let (diagonal, neighbours) = lanczos::tridiagonal(start, steps, &mut multiply)?;
        if !diagonal.iter().all(|x| x.is_finite()) {
            return Ok(None);
        }
        let mut first_row = vec![0.0; diagonal.len()];
        first_row[0] = 1.0;
        let pairs = tridiagonal::eigenpairs(&diagonal, &neighbours, vec![first_row]);
        Ok(Some(pairs.iter().rev().map(|(node, s)| (*node, s[0] * s[0])).collect()))
    };
    let probes: Result<Option<Vec<_>>, E> = (0..probes).map(&mut nodes).collect();
    Ok(probes?.map(|probes| Density { n: like.dimension(), probes }))
}

impl Density {
    /// `tr A`, Hutchinson's estimate from the same products.
    pub fn trace(&self) -> Estimate {
        let of_probe = |nodes: &Vec<(f64, f64)>| {
            self.n as f64 * sum_by(nodes.len(), |i| nodes[i].0 * nodes[i].1)
        };
        Estimate::of(&self.probes.iter().map(of_probe).collect::<Vec<f64>>())
    }

    /// Smallest and largest node.
    pub fn range(&self) -> (f64, f64) {
        let nodes = || self.probes.iter().flatten().map(|node| node.0);
        (nodes().fold(f64::INFINITY, f64::min), nodes().fold(f64::NEG_INFINITY, f64::max))
    }

    /// The broadened density at `t`, with standard deviation `sigma`.
    ///
    /// # Panics
    ///
    /// If `sigma` is not positive.
    pub fn at(&self, t: f64, sigma: f64) -> f64 {
        assert!(sigma > 0.0, "sigma = {sigma}");
        let height = 1.0 / (sigma * std::f64::consts::TAU.sqrt());
        let bump = |(node, weight): &(f64, f64)| {
            let away = (t - node) / sigma;
            weight * height * libm::exp(-0.5 * away * away)
        };
        let sum: f64 = self.probes.iter().flatten().map(bump).sum();
        sum / self.probes.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krylov::infallible;
    use crate::krylov::lanczos::laplacian;

    fn density(
        n: usize,
        probes: usize,
        steps: usize,
        draw: u64,
        multiply: impl FnMut(&[f64], &mut [f64]),
    ) -> Option<Density> {
        let Ok(found) = super::density(&vec![0.0; n], probes, steps, draw, infallible(multiply));
        found
    }

    #[test]
    fn moments_of_a_probe_are_exact_up_to_twice_its_steps() {
        let (n, steps) = (50, 6);
        let found = density(n, 3, steps, 7, laplacian).unwrap();
        for (probe, nodes) in found.probes.iter().enumerate() {
            let signs = Stream::new(7, SIGNS + probe as u64);
            let z: Vec<f64> = (0..n as u64).map(|i| signs.sign(i)).collect();
            let (mut power, mut image) = (z.clone(), vec![0.0; n]);
            for j in 0..2 * steps {
                let exact = sum_by(n, |i| z[i] * power[i]) / n as f64;
                let ours: f64 = nodes.iter().map(|(node, w)| w * node.powi(j as i32)).sum();
                // Powers of a spectrum below 4: a few roundings of 4^j each.
                assert!((ours - exact).abs() < 1e-13 * 4.0_f64.powi(j as i32), "moment {j}");
                laplacian(&power, &mut image);
                std::mem::swap(&mut power, &mut image);
            }
        }
    }

    #[test]
    fn the_trace_lies_within_its_error_and_a_diagonal_has_none() {
        let n = 200;
        let found = density(n, 400, 2, 0, laplacian).unwrap().trace();
        // Variance 2 Σ_{i≠j} A_ij² = 4 (n − 1), over 400 probes.
        let error = (4.0 * (n as f64 - 1.0) / 400.0).sqrt();
        assert!((found.standard_error / error - 1.0).abs() < 0.2, "{found:?} {error}");
        assert!((found.mean - 2.0 * n as f64).abs() < 4.0 * error, "{found:?}");
        // Signs squared are 1: for a diagonal each probe is exact up to rounding.
        let found = density(n, 5, 2, 0, |v, out| {
            out.iter_mut().zip(v).enumerate().for_each(|(i, (o, v))| *o = i as f64 * v);
        });
        let found = found.unwrap();
        let exact = (n * (n - 1) / 2) as f64;
        assert!((found.trace().mean - exact).abs() < 1e-12 * exact);
        assert!(found.trace().standard_error < 1e-12 * exact);
    }

    #[test]
    fn an_operator_that_overflows_has_no_density() {
        assert_eq!(density(9, 2, 3, 0, |_, out| out.fill(f64::INFINITY)), None);
    }

    #[test]
    fn the_density_integrates_to_one_with_the_variance_of_the_spectrum_and_of_the_broadening() {
        let found = density(300, 20, 30, 0, laplacian).unwrap();
        let (low, high) = found.range();
        // Eigenvalues 2 − 2 cos: between 0 and 4, of variance 2.
        assert!(low > 0.0 && high < 4.0, "{low} {high}");
        let sigma = 0.1;
        let (from, width, steps) = (-1.0, 6.0 / 2000.0, 2000);
        let moment = |j: i32| {
            let term = |i: usize| {
                let t = from + width * (i as f64 + 0.5);
                found.at(t, sigma) * (t - 2.0).powi(j) * width
            };
            sum_by(steps, term)
        };
        // The midpoint rule on a sum of Gaussians ten cells wide is exact to rounding.
        assert!((moment(0) - 1.0).abs() < 1e-12);
        let exact: f64 = found.probes.iter().flatten().map(|(t, w)| w * (t - 2.0).powi(2)).sum();
        assert!((moment(2) - exact / 20.0 - sigma * sigma).abs() < 1e-12);
        // Of the spectrum: 2, up to 20 probes in 300 dimensions.
        assert!((exact / 20.0 - 2.0).abs() < 0.1, "{exact}");
    }
}
