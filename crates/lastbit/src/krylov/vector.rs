//! The vectors of a Krylov method.
//!
//! A method needs few operations of its vectors, none of which looks at a single component. They may
//! live in the memory of another device, or belong to another library, whose operations can fail; a
//! failure ends the search with its error.
//!
//! Operations on many vectors are written in terms of those on two, in the order of the vectors. An
//! implementation that does them faster must keep that order where results are to be the same bits.

use super::basis;
use crate::reduce::sum_by;

/// What of a vector may lie along a basis to which it is orthogonal: rounding of some tens of products.
const ORTHOGONAL: f64 = 1e-14;

/// A vector of `f64`, or of something that can be scaled and added like it. `E` is the error of its
/// operations and of the operator.
pub trait KrylovVector<E>: Sized {
    /// Number of components.
    fn dimension(&self) -> usize;

    /// A vector of zeros, of the same dimension and in the same place.
    ///
    /// # Errors
    ///
    /// As the implementation has it; so for all that follow.
    fn zeros_like(&self) -> Result<Self, E>;

    /// A copy that shares nothing with this vector.
    fn copy(&self) -> Result<Self, E>;

    /// Component `i` becomes `value(i)`.
    fn fill_by(&mut self, value: impl Fn(u64) -> f64 + Sync) -> Result<(), E>;

    /// `x · y`.
    fn dot(&self, y: &Self) -> Result<f64, E>;

    /// `x ← x + a y`.
    fn axpy(&mut self, a: f64, y: &Self) -> Result<(), E>;

    /// `x ← x / divisor`. A division, not a product with the inverse, which would round twice.
    fn divide(&mut self, divisor: f64) -> Result<(), E>;

    /// `|x|`.
    fn norm(&self) -> Result<f64, E> {
        Ok(self.dot(self)?.sqrt())
    }

    /// `Vᵀ x`: one product for each vector.
    fn project(&self, vectors: &[Self]) -> Result<Vec<f64>, E> {
        vectors.iter().map(|v| self.dot(v)).collect()
    }

    /// `x ← x + V y`.
    fn add_combination(&mut self, vectors: &[Self], y: &[f64]) -> Result<(), E> {
        vectors.iter().zip(y).try_for_each(|(v, y)| self.axpy(*y, v))
    }

    /// `x ← x − V Vᵀ x`, twice, with `V` orthonormal: after the second pass what remains along the
    /// basis is rounding.
    ///
    /// Projections that are all taken before any is subtracted (classical Gram-Schmidt) are as good
    /// as one after the other once the whole is done twice: Giraud, Langou, Rozložník and van den
    /// Eshof, *Rounding error analysis of the classical Gram-Schmidt orthogonalization process*,
    /// Numer. Math. 101 (2005).
    fn orthogonalize(&mut self, basis: &[Self]) -> Result<(), E> {
        for _ in 0..2 {
            let h = self.project(basis)?;
            self.subtract_combination(basis, &h)?;
        }
        Ok(())
    }

    /// Splits `x = V h + rest`, with `V` orthonormal: `x` becomes the rest, and `h` is returned.
    ///
    /// `h` starts from `expected`. It is corrected if more than 1e-14 of the rest lies along `V`, and once more if that was more
    /// than a tenth: after that what remains is rounding (Giraud et al., see [`orthogonalize`](Self::orthogonalize)).
    fn split(&mut self, basis: &[Self], expected: Vec<f64>) -> Result<Vec<f64>, E> {
        let mut h = expected;
        let (left, size) = (self.subtract_and_project(basis, &h)?, self.norm()?);
        let along = left.iter().map(|h| h * h).sum::<f64>().sqrt();
        if along <= ORTHOGONAL * size {
            return Ok(h);
        }
        let mut correct = |by: &[f64]| h.iter_mut().zip(by).for_each(|(h, by)| *h += by);
        correct(&left);
        if along <= 0.1 * size {
            self.subtract_combination(basis, &left)?;
        } else {
            let again = self.subtract_and_project(basis, &left)?;
            correct(&again);
            self.subtract_combination(basis, &again)?;
        }
        Ok(h)
    }

    /// `x ← x − V y`, and then `Vᵀ x`.
    fn subtract_and_project(&mut self, vectors: &[Self], y: &[f64]) -> Result<Vec<f64>, E> {
        self.subtract_combination(vectors, y)?;
        self.project(vectors)
    }

    /// `x ← x − V y`.
    fn subtract_combination(&mut self, vectors: &[Self], y: &[f64]) -> Result<(), E> {
        let negative: Vec<f64> = y.iter().map(|y| -y).collect();
        self.add_combination(vectors, &negative)
    }

    /// `V y` for each `y`, of at least one vector.
    fn combinations(vectors: &[Self], ys: &[&[f64]]) -> Result<Vec<Self>, E> {
        ys.iter().map(|y| Self::combination(vectors, y)).collect()
    }

    /// `V y`, of at least one vector.
    fn combination(vectors: &[Self], y: &[f64]) -> Result<Self, E> {
        let mut sum = vectors[0].zeros_like()?;
        sum.add_combination(vectors, y)?;
        Ok(sum)
    }
}

/// Sums in the order of [`crate::reduce`].
impl<E> KrylovVector<E> for Vec<f64> {
    fn dimension(&self) -> usize {
        self.len()
    }

    fn zeros_like(&self) -> Result<Self, E> {
        Ok(vec![0.0; self.len()])
    }

    fn copy(&self) -> Result<Self, E> {
        Ok(self.clone())
    }

    fn fill_by(&mut self, value: impl Fn(u64) -> f64 + Sync) -> Result<(), E> {
        self.iter_mut().zip(0..).for_each(|(x, i)| *x = value(i));
        Ok(())
    }

    fn dot(&self, y: &Self) -> Result<f64, E> {
        Ok(sum_by(self.len(), |i| self[i] * y[i]))
    }

    fn axpy(&mut self, a: f64, y: &Self) -> Result<(), E> {
        self.iter_mut().zip(y).for_each(|(x, y)| *x += a * y);
        Ok(())
    }

    fn divide(&mut self, divisor: f64) -> Result<(), E> {
        self.iter_mut().for_each(|x| *x /= divisor);
        Ok(())
    }

    fn project(&self, vectors: &[Self]) -> Result<Vec<f64>, E> {
        Ok(basis::project(self, vectors))
    }

    fn add_combination(&mut self, vectors: &[Self], y: &[f64]) -> Result<(), E> {
        basis::add_combination(self, vectors, y);
        Ok(())
    }

    fn orthogonalize(&mut self, basis: &[Self]) -> Result<(), E> {
        basis::orthogonalize(self, basis);
        Ok(())
    }

    fn subtract_and_project(&mut self, vectors: &[Self], y: &[f64]) -> Result<Vec<f64>, E> {
        Ok(basis::subtract_and_project(self, vectors, y))
    }

    fn combinations(vectors: &[Self], ys: &[&[f64]]) -> Result<Vec<Self>, E> {
        Ok(basis::combinations(vectors, ys))
    }
}
