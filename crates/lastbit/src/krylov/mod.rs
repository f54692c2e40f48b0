//! Krylov methods: eigenvalues of a symmetric operator that can only be multiplied with a vector.
//!
//! ```text
//! vector                   what a method needs of a vector: dot, axpy, …; `Vec<f64>` is one
//! basis                    those operations for many `Vec<f64>` at once, tile by tile, same bits
//! lanczos                  tridiagonalization; a search from one start vector
//! restarted                a search from the eigenvectors found last, with guard and probe
//! tridiagonal, symmetric   eigenvalues of small matrices
//! ```
//!
//! [`eigenpairs`] is the one entry point. Both of its strategies project the operator onto an
//! orthonormal basis `S` that grows by one matrix-vector product at a time, and stop when the pairs
//! asked for (Ritz pairs) have converged:
//!
//! ```text
//! SᵀAS = Y Θ Yᵀ,   x = S y,   residual = |A x − θ x| ≤ tolerance · max |θ|
//! ```
//!
//! Some eigenvalue lies within a residual of each `θ`, rigorously, and where the next one is a `gap`
//! away, within `residual²/gap`.
//!
//! **Why two strategies?** With [`EigenOptions::probe`] the search can start from several vectors,
//! restarts when its basis is full, and looks for what the basis cannot see. Without, it is plain
//! Lanczos: for operators that are cheap and need one eigenvalue, or both ends. From one start
//! vector the first spans the same spaces as the second, but rounds differently (a dense projected
//! matrix instead of a three-term recurrence); published records hold numbers of both.
//!
//! # Example
//!
//! The sharpness of `½ (ab − 1)²` at `a = 2, b = ½`, where the Hessian is `[[¼, 1], [1, 4]]`:
//!
//! ```
//! use lastbit::krylov::{EigenOptions, eigenpairs, infallible};
//!
//! let options = EigenOptions::both_ends(1e-12, 100);
//! let hessian = infallible(|v, out| out.copy_from_slice(&[0.25 * v[0] + v[1], v[0] + 4.0 * v[1]]));
//! let Ok(found) = eigenpairs(&vec![0.0; 2], vec![], options, hessian);
//! assert!((found.lambda_max() - 4.25).abs() < 1e-14);
//! assert!(found.lambda_min().abs() < 1e-14);
//! ```

pub(crate) mod basis;
pub(crate) mod lanczos;
mod restarted;
pub(crate) mod symmetric;
#[cfg(test)]
mod tests;
pub(crate) mod tridiagonal;
mod vector;

use std::convert::Infallible;
use std::ops::Range;

pub use lanczos::random_start;
pub use vector::KrylovVector;

/// Which eigenvalues, how accurately, and how they are searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EigenOptions {
    /// How many of the largest eigenvalues.
    pub top: usize,
    /// Whether also the smallest.
    pub smallest: bool,
    /// Largest residual, relative to the largest modulus in the spectrum.
    pub tolerance: f64,
    /// Matrix-vector products, at most. What has not converged then shows in the residual.
    pub max_matvecs: usize,
    /// `Some(draw)`: the search restarts when its basis is full, and ends with a probe for eigenvalues
    /// that its basis cannot see; `draw` numbers the random vectors, so that another measurement
    /// takes others. `None`: plain Lanczos from one start vector.
    pub probe: Option<u64>,
}

impl EigenOptions {
    /// The largest eigenvalue, by plain Lanczos.
    pub fn largest(tolerance: f64, max_matvecs: usize) -> Self {
        Self { top: 1, smallest: false, tolerance, max_matvecs, probe: None }
    }

    /// The largest and the smallest eigenvalue, by plain Lanczos.
    pub fn both_ends(tolerance: f64, max_matvecs: usize) -> Self {
        Self { smallest: true, ..Self::largest(tolerance, max_matvecs) }
    }

    /// Whether residuals are within the tolerance of a spectrum whose largest modulus is `scale`.
    fn has_converged(&self, residuals: impl IntoIterator<Item = f64>, scale: f64) -> bool {
        residuals.into_iter().all(|residual| residual <= self.tolerance * scale)
    }

    /// Those of the Ritz pairs that are wanted, given all of them in descending order.
    fn select<'a, P>(&self, descending: &'a [P]) -> (&'a [P], Option<&'a P>) {
        let largest = &descending[..self.top.min(descending.len())];
        (largest, descending.last().filter(|_| self.smallest))
    }
}

/// An approximate eigenvalue with its eigenvector.
#[derive(Debug, Clone, PartialEq)]
pub struct Eigenpair<V = Vec<f64>> {
    /// The eigenvalue.
    pub value: f64,
    /// `|A v − value v|`: some eigenvalue is at most this far away. Where products are not quite symmetric, a bound for it.
    pub residual: f64,
    /// The eigenvector, of norm 1.
    pub vector: V,
}

/// Eigenpairs found by [`eigenpairs`].
#[derive(Debug, Clone, PartialEq)]
pub struct EigenResult<V = Vec<f64>> {
    /// The largest eigenvalues, descending; fewer than wanted where the space has fewer dimensions.
    pub largest: Vec<Eigenpair<V>>,
    /// The smallest eigenvalue, if wanted.
    pub smallest: Option<Eigenpair<V>>,
    /// Of a search with a probe, the Ritz vector after those of `largest`.
    pub guard: Option<V>,
    /// Matrix-vector products made.
    pub matvecs: usize,
}

impl<V> EigenResult<V> {
    /// The largest eigenvalue.
    pub fn lambda_max(&self) -> f64 {
        self.largest[0].value
    }

    /// The smallest eigenvalue.
    ///
    /// # Panics
    ///
    /// If it was not wanted.
    pub fn lambda_min(&self) -> f64 {
        self.smallest.as_ref().expect("a search with `smallest`").value
    }

    /// The vectors that the next search should start from.
    pub fn into_vectors(self) -> Vec<V> {
        let ends = self.largest.into_iter().chain(self.smallest);
        let finite = ends.filter(|pair| pair.value.is_finite()).map(|pair| pair.vector);
        finite.chain(self.guard).collect()
    }

    /// The result where the operator returned values that are not finite: NaN everywhere.
    fn unknown<E>(like: &V, options: EigenOptions, matvecs: usize) -> Result<Self, E>
    where
        V: KrylovVector<E>,
    {
        let nan = |_| -> Result<Eigenpair<V>, E> {
            let mut vector = like.zeros_like()?;
            vector.fill_by(|_| f64::NAN)?;
            Ok(Eigenpair { value: f64::NAN, residual: f64::NAN, vector })
        };
        let top = options.top.min(like.dimension());
        let largest = (0..top).map(nan).collect::<Result<_, E>>()?;
        let smallest = options.smallest.then(|| nan(0)).transpose()?;
        Ok(Self { largest, smallest, guard: None, matvecs })
    }
}

/// Eigenpairs of a symmetric operator, `multiply(v, out)` computing `out = A v`.
///
/// `like` is any vector of the space: it says how many dimensions there are, and new vectors are
/// made like it. `known` are approximate eigenvectors to start from (a warm start), empty for a cold
/// one; without a probe there can be one at most.
///
/// Where the operator returns values that are not finite, eigenvalues and residuals are NaN.
///
/// # Errors
///
/// The first error of the operator or of a vector operation ends the search.
///
/// # Panics
///
/// If no eigenvalue is wanted, the space has no dimension, or a known vector has another one; without
/// a probe also if there are several known vectors, or one that is zero or not finite.
pub fn eigenpairs<V: KrylovVector<E>, E>(
    like: &V,
    mut known: Vec<V>,
    options: EigenOptions,
    multiply: impl FnMut(&V, &mut V) -> Result<(), E>,
) -> Result<EigenResult<V>, E> {
    let n = like.dimension();
    assert!(options.top > 0 && n > 0, "{} eigenvalues in {n} dimensions", options.top);
    for vector in &known {
        assert_eq!(vector.dimension(), n, "components of a known vector");
    }
    let operator = Operator::new(multiply);
    if let Some(draw) = options.probe {
        return restarted::search(like, known, draw, options, operator);
    }
    assert!(known.len() <= 1, "plain Lanczos from {} vectors", known.len());
    let start = match known.pop() {
        Some(vector) => lanczos::warm_start(vector)?,
        None => random_start(like)?,
    };
    lanczos::search(start, options, operator)
}

/// An operator on slices that cannot fail, in the form that [`eigenpairs`] takes.
pub fn infallible(
    mut multiply: impl FnMut(&[f64], &mut [f64]),
) -> impl FnMut(&Vec<f64>, &mut Vec<f64>) -> Result<(), Infallible> {
    move |v, out| {
        multiply(v, out);
        Ok(())
    }
}

/// The diagonal block of an operator in `n` dimensions that belongs to a range of coordinates.
pub fn block<E>(
    n: usize,
    range: Range<usize>,
    mut multiply: impl FnMut(&Vec<f64>, &mut Vec<f64>) -> Result<(), E>,
) -> impl FnMut(&Vec<f64>, &mut Vec<f64>) -> Result<(), E> {
    let (mut whole, mut image) = (vec![0.0; n], vec![0.0; n]);
    move |v, out| {
        whole[range.clone()].copy_from_slice(v);
        multiply(&whole, &mut image)?;
        out.copy_from_slice(&image[range.clone()]);
        Ok(())
    }
}

/// The operator with a count of its products: no search can forget one.
struct Operator<M> {
    multiply: M,
    matvecs: usize,
}

impl<M> Operator<M> {
    fn new(multiply: M) -> Self {
        Self { multiply, matvecs: 0 }
    }

    /// `A v`, in a new vector.
    fn apply<V: KrylovVector<E>, E>(&mut self, v: &V) -> Result<V, E>
    where
        M: FnMut(&V, &mut V) -> Result<(), E>,
    {
        let mut image = v.zeros_like()?;
        (self.multiply)(v, &mut image)?;
        self.matvecs += 1;
        Ok(image)
    }
}
