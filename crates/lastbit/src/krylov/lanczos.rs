//! Lanczos' method: tridiagonalization, and a search for eigenvalues from one start vector.
//!
//! With full reorthogonalization. After `m` matrix-vector products the operator is a tridiagonal matrix
//! `T` on the space spanned; an eigenvalue `θ` of `T` with last component `s` of its eigenvector is an
//! eigenvalue of the operator up to the residual `|β_m s|`, in exact arithmetic. This estimate says when to
//! stop; it can fall far below what rounding permits, so the residual that is returned is that of the
//! vector itself, `|A v − θ v|`, from one more product for each eigenpair.
//!
//! Reference: Paige, *The computation of eigenvalues and eigenvectors of very large sparse
//! matrices*, London 1971; Parlett, *The symmetric eigenvalue problem*, chapter 13.

use super::{EigenOptions, EigenResult, Eigenpair, KrylovVector, Operator, tridiagonal};
use crate::rng::Stream;

/// A start vector of random signs, always the same.
///
/// # Errors
///
/// If making the vector fails.
pub fn random_start<V: KrylovVector<E>, E>(like: &V) -> Result<V, E> {
    let signs = Stream::new(0, 1);
    let mut start = like.zeros_like()?;
    start.fill_by(|i| signs.sign(i))?;
    Ok(start)
}

/// A start near a vector found before, with a tenth of random signs: from an exact eigenvector alone
/// no other would be found, although another eigenvalue may have become the largest.
pub fn warm_start<V: KrylovVector<E>, E>(mut vector: V) -> Result<V, E> {
    let tenth = 0.1 / (vector.dimension() as f64).sqrt();
    let signs = random_start(&vector)?;
    vector.axpy(tenth, &signs)?;
    Ok(vector)
}

/// Eigenpairs from a start vector that is not zero.
///
/// # Panics
///
/// If the start vector is zero or not finite.
pub(super) fn search<V: KrylovVector<E>, E>(
    start: V,
    options: EigenOptions,
    operator: Operator<impl FnMut(&V, &mut V) -> Result<(), E>>,
) -> Result<EigenResult<V>, E> {
    let mut krylov = Tridiagonalization::new(start, operator)?;
    loop {
        let (next, beta) = krylov.multiply()?;
        let m = krylov.diagonal.len();
        if !beta.is_finite() {
            return EigenResult::unknown(&next, options, m);
        }
        let is_last = krylov.is_exhausted(beta) || m == options.max_matvecs.max(1);
        // A look at the residuals is cheap beside a product, but not free: at every step at first, then
        // rarely.
        let is_due = m < 20 || m.is_multiple_of(10);
        if is_last || is_due && krylov.has_converged(beta, options) {
            return krylov.result(options);
        }
        krylov.extend(next, beta)?;
    }
}

/// Diagonal and neighbours of `T` after `steps` products, or fewer where the space is exhausted
/// before. Not finite where the operator is not.
///
/// # Panics
///
/// If the start vector is zero or not finite, or `steps` is 0.
pub fn tridiagonal<V: KrylovVector<E>, E>(
    start: V,
    steps: usize,
    multiply: impl FnMut(&V, &mut V) -> Result<(), E>,
) -> Result<(Vec<f64>, Vec<f64>), E> {
    assert!(steps > 0, "no steps");
    let mut krylov = Tridiagonalization::new(start, Operator::new(multiply))?;
    loop {
        let (next, beta) = krylov.multiply()?;
        let is_last = krylov.diagonal.len() == steps || krylov.is_exhausted(beta);
        if is_last || !beta.is_finite() {
            return Ok((krylov.diagonal, krylov.neighbours));
        }
        krylov.extend(next, beta)?;
    }
}

/// An orthonormal basis of the space spanned so far, with the operator on it.
struct Tridiagonalization<V, M> {
    operator: Operator<M>,
    basis: Vec<V>,
    diagonal: Vec<f64>,
    neighbours: Vec<f64>,
}

impl<V, E, M> Tridiagonalization<V, M>
where
    V: KrylovVector<E>,
    M: FnMut(&V, &mut V) -> Result<(), E>,
{
    fn new(mut start: V, operator: Operator<M>) -> Result<Self, E> {
        let size = start.norm()?;
        assert!(size > 0.0 && size.is_finite(), "a start vector of norm {size}");
        start.divide(size)?;
        Ok(Self { operator, basis: vec![start], diagonal: Vec::new(), neighbours: Vec::new() })
    }

    /// Multiplies with the last vector; returns the part of the product that is orthogonal to the
    /// basis, and its norm.
    fn multiply(&mut self) -> Result<(V, f64), E> {
        let last = self.basis.last().expect("it starts with one");
        let mut next = self.operator.apply(last)?;
        self.diagonal.push(next.dot(last)?);
        next.orthogonalize(&self.basis)?;
        let beta = next.norm()?;
        Ok((next, beta))
    }

    /// Whether a product brought nothing new but rounding.
    fn is_exhausted(&self, beta: f64) -> bool {
        let entries = self.diagonal.iter().chain(&self.neighbours);
        let scale = entries.fold(0.0_f64, |a, x| a.max(x.abs()));
        self.basis.len() == self.basis[0].dimension() || beta <= 4.0 * f64::EPSILON * scale
    }

    fn extend(&mut self, mut next: V, beta: f64) -> Result<(), E> {
        next.divide(beta)?;
        self.neighbours.push(beta);
        self.basis.push(next);
        Ok(())
    }

    fn has_converged(&self, beta: f64, options: EigenOptions) -> bool {
        let m = self.diagonal.len();
        let mut last_row = vec![0.0; m];
        last_row[m - 1] = 1.0;
        let small = tridiagonal::eigenpairs(&self.diagonal, &self.neighbours, vec![last_row]);
        let (largest, smallest) = options.select(&small);
        let residuals = largest.iter().chain(smallest).map(|(_, s)| (beta * s[0]).abs());
        let scale = small[0].0.abs().max(small[m - 1].0.abs());
        largest.len() == options.top && options.has_converged(residuals, scale)
    }

    fn result(mut self, options: EigenOptions) -> Result<EigenResult<V>, E> {
        let rows = tridiagonal::identity(self.diagonal.len());
        let small = tridiagonal::eigenpairs(&self.diagonal, &self.neighbours, rows);
        let mut pair = |(value, y): &(f64, Vec<f64>)| {
            let mut vector = V::combination(&self.basis, y)?;
            let size = vector.norm()?;
            vector.divide(size)?;
            let mut image = self.operator.apply(&vector)?;
            image.axpy(-value, &vector)?;
            Ok(Eigenpair { value: *value, residual: image.norm()?, vector })
        };
        let (largest, smallest) = options.select(&small);
        Ok(EigenResult {
            largest: largest.iter().map(&mut pair).collect::<Result<_, E>>()?,
            smallest: smallest.map(&mut pair).transpose()?,
            guard: None,
            matvecs: self.operator.matvecs,
        })
    }
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
    use crate::krylov::{eigenpairs, infallible};
    use crate::reduce::norm;
    use std::f64::consts::PI;

    const TIGHT: EigenOptions =
        EigenOptions { top: 1, smallest: true, tolerance: 1e-12, max_matvecs: 1000, probe: None };

    /// From exactly this start vector.
    fn search_from(
        start: Vec<f64>,
        options: EigenOptions,
        multiply: impl FnMut(&[f64], &mut [f64]),
    ) -> EigenResult {
        let Ok(found) = search(start, options, Operator::new(infallible(multiply)));
        found
    }

    fn cold(
        n: usize,
        options: EigenOptions,
        multiply: impl FnMut(&[f64], &mut [f64]),
    ) -> EigenResult {
        let Ok(found) = eigenpairs(&vec![0.0; n], vec![], options, infallible(multiply));
        found
    }

    fn ends(found: &EigenResult) -> [f64; 2] {
        [found.lambda_max(), found.lambda_min()]
    }

    #[test]
    fn both_ends_of_a_known_spectrum() {
        let n = 60;
        let found = cold(n, TIGHT, laplacian);
        let exact = |j: usize| 4.0 * libm::sin(PI * j as f64 / (2 * (n + 1)) as f64).powi(2);
        let ([largest, smallest], pair) = (ends(&found), &found.largest[0]);
        assert!((largest - exact(n)).abs() < 1e-11, "{largest:?}");
        assert!((smallest - exact(1)).abs() < 1e-11, "{smallest:?}");
        let mut image = vec![0.0; n];
        laplacian(&pair.vector, &mut image);
        let gap: Vec<f64> =
            image.iter().zip(&pair.vector).map(|(a, v)| a - pair.value * v).collect();
        // The residual reported is the residual there is, and not what exact arithmetic would leave.
        assert!((norm(&gap) - pair.residual).abs() < 1e-15, "{:e} {:e}", norm(&gap), pair.residual);
        assert!(pair.residual > 1e-17, "{:e}", pair.residual);
    }

    #[test]
    fn several_of_the_largest() {
        let (n, options) = (60, EigenOptions { top: 4, ..TIGHT });
        let exact = |j: usize| 4.0 * libm::sin(PI * j as f64 / (2 * (n + 1)) as f64).powi(2);
        for (j, pair) in cold(n, options, laplacian).largest.iter().enumerate() {
            assert!((pair.value - exact(n - j)).abs() < 1e-11, "{j}: {}", pair.value);
        }
    }

    #[test]
    fn a_small_invariant_space_ends_the_search_exactly() {
        // A projection: the Krylov space of any vector has dimension two.
        let project = |v: &[f64], out: &mut [f64]| {
            let mean = v.iter().sum::<f64>() / v.len() as f64;
            out.fill(5.0 * mean);
        };
        let Ok::<_, std::convert::Infallible>(mut start) = random_start(&vec![0.0; 100]);
        start[0] = 3.0;
        let found = search_from(start, TIGHT, project);
        // Two of them for the residuals of the two pairs.
        assert!(found.matvecs <= 3 + 2, "{} products", found.matvecs);
        // The mean of a hundred numbers carries up to a hundred roundings.
        let [largest, smallest] = ends(&found);
        assert!((largest - 5.0).abs() < 1e-13);
        assert!(smallest.abs() < 1e-13);
    }

    #[test]
    fn a_warm_start_needs_few_products() {
        let options = EigenOptions::largest(1e-6, 1000);
        let cold = cold(60, options, laplacian);
        let warm = search_from(cold.largest[0].vector.clone(), options, laplacian);
        assert!(warm.matvecs < cold.matvecs / 4, "{} {}", warm.matvecs, cold.matvecs);
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
        let options = EigenOptions::largest(1e-6, 60);
        assert_eq!(search_from(before.clone(), options, multiply).largest[0].value, -3.0);
        let zeros = vec![0.0; 20];
        let Ok(found) = eigenpairs(&zeros, vec![before], options, infallible(multiply));
        let found = found.largest[0].value;
        assert!((found - 1.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn an_operator_that_overflows_gives_no_number() {
        let found = cold(9, TIGHT, |_, out| out.fill(f64::INFINITY));
        assert!(ends(&found).iter().all(|value| value.is_nan()));
    }

    #[test]
    fn a_diagonal_with_gaps_of_one() {
        let multiply = |v: &[f64], out: &mut [f64]| {
            out.iter_mut().zip(v).enumerate().for_each(|(i, (o, v))| *o = i as f64 * v);
        };
        let found = cold(40, TIGHT, multiply);
        let [largest, smallest] = ends(&found);
        assert!((largest - 39.0).abs() < 1e-11 && smallest.abs() < 1e-11);
        assert!(found.largest[0].residual < 1e-10);
    }
}
