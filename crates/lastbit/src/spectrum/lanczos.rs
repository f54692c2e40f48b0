//! Extreme eigenvalues of a symmetric operator one can only multiply with.
//!
//! Lanczos' method with full reorthogonalization: after `m` products the operator is a
//! tridiagonal matrix `T` on the space spanned; an eigenvalue `θ` of `T` with last component `s` of
//! its eigenvector is an eigenvalue of the operator up to the residual `|β_m s|`, rigorously.
//!
//! Reference: Paige, *The computation of eigenvalues and eigenvectors of very large sparse
//! matrices*, London 1971; Parlett, *The symmetric eigenvalue problem*, chapter 13.

use super::basis::{self, orthogonalize};
use super::tridiagonal::eigenvalues;
use crate::reduce::{norm, sum_by};
use crate::rng::Stream;

/// An eigenvalue and how far it can be off.
#[derive(Debug, Clone, PartialEq)]
pub struct Eigenpair {
    /// The value.
    pub value: f64,
    /// Norm of `A v − value v`: some eigenvalue is at most this far away.
    pub residual: f64,
    /// The vector, of norm 1.
    pub vector: Vec<f64>,
}

/// The two ends of a spectrum.
#[derive(Debug, Clone, PartialEq)]
pub struct Extremes {
    /// Largest eigenvalue.
    pub largest: Eigenpair,
    /// Smallest eigenvalue.
    pub smallest: Eigenpair,
    /// Products with the operator.
    pub products: usize,
}

impl Extremes {
    fn unknown(start: &[f64], products: usize) -> Self {
        let pair = Eigenpair { value: f64::NAN, residual: f64::NAN, vector: start.to_vec() };
        Self { largest: pair.clone(), smallest: pair, products }
    }
}

/// Which end is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The largest eigenvalue; the other end is as good as it happens to be.
    Largest,
    /// Both.
    Both,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Residual over the largest modulus in the spectrum.
    pub tolerance: f64,
    /// Products, at most.
    pub most: usize,
    /// Which end must have converged.
    pub ends: Ends,
}

/// A start vector of random signs.
pub fn random_start(n: usize) -> Vec<f64> {
    let signs = Stream::new(0, 1);
    (0..n as u64).map(|i| signs.sign(i)).collect()
}

/// A start near a vector found before, with a tenth of random signs: from an exact eigenvector alone
/// no other would be found, although another eigenvalue may have become the largest.
pub fn warm_start(vector: &[f64]) -> Vec<f64> {
    let tenth = 0.1 / (vector.len() as f64).sqrt();
    let mut start = random_start(vector.len());
    start.iter_mut().zip(vector).for_each(|(s, v)| *s = v + tenth * *s);
    start
}

/// The ends of the spectrum of `multiply: (v, out) ↦ out = A v`, from a start vector that is not
/// zero and, for a warm start, near the eigenvector wanted.
///
/// Where the operator returns what is not finite, values and residuals are NaN.
///
/// # Panics
///
/// If the start vector is zero or not finite.
pub fn extremes(
    start: &[f64],
    stop: Stop,
    mut multiply: impl FnMut(&[f64], &mut [f64]),
) -> Extremes {
    let mut krylov = Krylov::new(start);
    loop {
        let beta = krylov.multiply(&mut multiply);
        let m = krylov.diagonal.len();
        if !beta.is_finite() {
            return Extremes::unknown(start, m);
        }
        let exhausted = krylov.is_exhausted(beta) || m == stop.most.max(1);
        // Looking is cheap beside a product, but not free: at every step at first, then rarely.
        if exhausted || m < 20 || m.is_multiple_of(10) {
            let looked = Ritz::of(&krylov.diagonal, &krylov.neighbours, beta);
            if exhausted || looked.has_converged(stop) {
                return looked.extremes(&krylov.diagonal, &krylov.neighbours, &krylov.basis);
            }
        }
        krylov.extend(beta);
    }
}

/// Diagonal and neighbours of `T` after `steps` products, or fewer where the space is exhausted
/// before. Not finite where the operator is not.
///
/// # Panics
///
/// If the start vector is zero or not finite, or `steps` is 0.
pub fn tridiagonal(
    start: &[f64],
    steps: usize,
    mut multiply: impl FnMut(&[f64], &mut [f64]),
) -> (Vec<f64>, Vec<f64>) {
    assert!(steps > 0, "no steps");
    let mut krylov = Krylov::new(start);
    loop {
        let beta = krylov.multiply(&mut multiply);
        let done = krylov.diagonal.len() == steps || krylov.is_exhausted(beta);
        if done || !beta.is_finite() {
            return (krylov.diagonal, krylov.neighbours);
        }
        krylov.extend(beta);
    }
}

/// The space spanned so far, with the operator on it.
struct Krylov {
    basis: Vec<Vec<f64>>,
    diagonal: Vec<f64>,
    neighbours: Vec<f64>,
    next: Vec<f64>,
}

impl Krylov {
    fn new(start: &[f64]) -> Self {
        let size = norm(start);
        assert!(size > 0.0 && size.is_finite(), "a start vector of norm {size}");
        Self {
            basis: vec![start.iter().map(|x| x / size).collect()],
            diagonal: Vec::new(),
            neighbours: Vec::new(),
            next: vec![0.0; start.len()],
        }
    }

    /// Multiplies with the last vector; what is new of the product has the norm returned.
    fn multiply(&mut self, multiply: &mut impl FnMut(&[f64], &mut [f64])) -> f64 {
        let last = self.basis.last().expect("it starts with one");
        let next = &mut self.next;
        multiply(last, next);
        self.diagonal.push(sum_by(next.len(), |i| next[i] * last[i]));
        orthogonalize(next, &self.basis);
        norm(next)
    }

    /// Whether a product brought nothing new but rounding.
    fn is_exhausted(&self, beta: f64) -> bool {
        let entries = self.diagonal.iter().chain(&self.neighbours);
        let scale = entries.fold(0.0_f64, |a, x| a.max(x.abs()));
        self.basis.len() == self.next.len() || beta <= 4.0 * f64::EPSILON * scale
    }

    fn extend(&mut self, beta: f64) {
        self.neighbours.push(beta);
        self.basis.push(self.next.iter().map(|x| x / beta).collect());
    }
}

/// Eigenvalues of `T` at both ends, with residuals.
struct Ritz {
    largest: (f64, f64),
    smallest: (f64, f64),
}

impl Ritz {
    fn of(diagonal: &[f64], neighbours: &[f64], beta: f64) -> Self {
        let m = diagonal.len();
        let mut last = vec![vec![0.0; m]];
        last[0][m - 1] = 1.0;
        let values = eigenvalues(diagonal, neighbours, &mut last);
        let pairs = values.iter().zip(&last[0]).map(|(value, s)| (*value, (beta * s).abs()));
        let by = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0);
        let largest = pairs.clone().max_by(by).expect("at least one product was made");
        let smallest = pairs.min_by(by).expect("at least one product was made");
        Self { largest, smallest }
    }

    fn has_converged(&self, stop: Stop) -> bool {
        let scale = self.largest.0.abs().max(self.smallest.0.abs());
        let fine = |pair: (f64, f64)| pair.1 <= stop.tolerance * scale;
        fine(self.largest) && (stop.ends == Ends::Largest || fine(self.smallest))
    }

    fn extremes(&self, diagonal: &[f64], neighbours: &[f64], basis: &[Vec<f64>]) -> Extremes {
        let pair = |(value, residual): (f64, f64)| Eigenpair {
            value,
            residual,
            vector: combine(basis, &vector_of(diagonal, neighbours, value)),
        };
        Extremes {
            largest: pair(self.largest),
            smallest: pair(self.smallest),
            products: diagonal.len(),
        }
    }
}

/// The eigenvector of `T` at the eigenvalue nearest to `value`.
fn vector_of(diagonal: &[f64], neighbours: &[f64], value: f64) -> Vec<f64> {
    let m = diagonal.len();
    let mut rows: Vec<Vec<f64>> =
        (0..m).map(|i| (0..m).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let values = eigenvalues(diagonal, neighbours, &mut rows);
    let nearest =
        |a: &usize, b: &usize| (values[*a] - value).abs().total_cmp(&(values[*b] - value).abs());
    let j = (0..m).min_by(nearest).expect("at least one product was made");
    rows.iter().map(|row| row[j]).collect()
}

/// `Σ w_j v_j`, of norm 1.
fn combine(basis: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut sum = basis::combine(basis, weights, basis[0].len());
    let size = norm(&sum);
    sum.iter_mut().for_each(|s| *s /= size);
    sum
}

/// Second differences with ends at zero: an operator of known spectrum, for tests.
#[cfg(test)]
pub(crate) fn laplacian(v: &[f64], out: &mut [f64]) {
    let n = v.len();
    for i in 0..n {
        let left = if i > 0 { v[i - 1] } else { 0.0 };
        let right = if i + 1 < n { v[i + 1] } else { 0.0 };
        out[i] = 2.0 * v[i] - left - right;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    const TIGHT: Stop = Stop { tolerance: 1e-12, most: 1000, ends: Ends::Both };

    #[test]
    fn both_ends_of_a_known_spectrum() {
        let n = 60;
        let found = extremes(&random_start(n), TIGHT, laplacian);
        let exact = |j: usize| 4.0 * libm::sin(PI * j as f64 / (2 * (n + 1)) as f64).powi(2);
        assert!((found.largest.value - exact(n)).abs() < 1e-11, "{:?}", found.largest.value);
        assert!((found.smallest.value - exact(1)).abs() < 1e-11, "{:?}", found.smallest.value);
        let mut image = vec![0.0; n];
        laplacian(&found.largest.vector, &mut image);
        let gap: Vec<f64> = image
            .iter()
            .zip(&found.largest.vector)
            .map(|(a, v)| a - found.largest.value * v)
            .collect();
        // The residual reported is the residual there is, up to rounding.
        assert!((norm(&gap) - found.largest.residual).abs() < 1e-13);
    }

    #[test]
    fn a_small_invariant_space_ends_the_search_exactly() {
        // A projection: the Krylov space of any vector has dimension two.
        let project = |v: &[f64], out: &mut [f64]| {
            let mean = v.iter().sum::<f64>() / v.len() as f64;
            out.fill(5.0 * mean);
        };
        let mut start = random_start(100);
        start[0] = 3.0;
        let found = extremes(&start, TIGHT, project);
        assert!(found.products <= 3, "{} products", found.products);
        // The mean of a hundred numbers carries up to a hundred roundings.
        assert!((found.largest.value - 5.0).abs() < 1e-13);
        assert!(found.smallest.value.abs() < 1e-13);
    }

    #[test]
    fn a_warm_start_needs_few_products() {
        let stop = Stop { tolerance: 1e-6, most: 1000, ends: Ends::Largest };
        let cold = extremes(&random_start(60), stop, laplacian);
        let warm = extremes(&cold.largest.vector, stop, laplacian);
        assert!(warm.products < cold.products / 4, "{} {}", warm.products, cold.products);
    }

    #[test]
    fn a_warm_start_finds_an_eigenvalue_that_has_become_the_largest() {
        // The vector found before belongs to what is now the smallest eigenvalue.
        let mut before = vec![0.0; 20];
        before[0] = 1.0;
        let multiply = |v: &[f64], out: &mut [f64]| {
            out.copy_from_slice(v);
            out[0] = -3.0 * v[0];
        };
        let stop = Stop { tolerance: 1e-6, most: 60, ends: Ends::Largest };
        assert_eq!(extremes(&before, stop, multiply).largest.value, -3.0);
        let found = extremes(&warm_start(&before), stop, multiply).largest.value;
        assert!((found - 1.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn an_operator_that_overflows_gives_no_number() {
        let found = extremes(&random_start(9), TIGHT, |_, out| out.fill(f64::INFINITY));
        assert!(found.largest.value.is_nan());
    }

    #[test]
    fn a_diagonal_with_gaps_of_one() {
        let multiply = |v: &[f64], out: &mut [f64]| {
            out.iter_mut().zip(v).enumerate().for_each(|(i, (o, v))| *o = i as f64 * v);
        };
        let found = extremes(&random_start(40), TIGHT, multiply);
        assert!((found.largest.value - 39.0).abs() < 1e-11 && found.smallest.value.abs() < 1e-11);
        assert!(found.largest.residual < 1e-10);
    }
}
