//! Eigenvalues and eigenvectors of a small dense symmetric matrix.
//!
//! Reflections make it tridiagonal, the implicit QL method does the rest:
//!
//! ```text
//! A = Q T Qᵀ,   Q a product of I − 2 v vᵀ;     T = Z Λ Zᵀ;     A = (Q Z) Λ (Q Z)ᵀ
//! ```
//!
//! With `+ − × ÷ √` alone, in a fixed order: bit-identical everywhere.
//!
//! Reference: Golub and Van Loan, *Matrix Computations*, section 8.3.

use super::tridiagonal;
use crate::reduce::{norm, sum_by};

/// Eigenvalues in descending order, each with its eigenvector of norm 1.
///
/// # Panics
///
/// If a row has another length than there are rows, or an entry is not finite.
pub fn eigenpairs(matrix: &[Vec<f64>]) -> Vec<(f64, Vec<f64>)> {
    let n = matrix.len();
    for row in matrix {
        assert_eq!(row.len(), n, "entries in a row of {n} rows");
    }
    let mut a = matrix.to_vec();
    let mut q = tridiagonal::identity(n);
    for k in 0..n.saturating_sub(2) {
        let mut v: Vec<f64> = (k + 1..n).map(|i| a[i][k]).collect();
        // Away from the first component, so that nothing cancels.
        v[0] += norm(&v).copysign(v[0]);
        let size = norm(&v);
        if size > 0.0 {
            v.iter_mut().for_each(|x| *x /= size);
            reflect_columns(&mut a, &v, k + 1);
            reflect_rows(&mut a, &v, k + 1);
            reflect_columns(&mut q, &v, k + 1);
        }
    }
    let diagonal: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    let neighbours: Vec<f64> = (1..n).map(|i| a[i][i - 1]).collect();
    tridiagonal::eigenpairs(&diagonal, &neighbours, q)
}

/// `A ← A (I − 2 v vᵀ)`, `v` standing at the columns from `first` on.
fn reflect_columns(a: &mut [Vec<f64>], v: &[f64], first: usize) {
    for row in a {
        let row = &mut row[first..];
        let twice = 2.0 * sum_by(v.len(), |i| row[i] * v[i]);
        row.iter_mut().zip(v).for_each(|(x, v)| *x -= twice * v);
    }
}

/// `A ← (I − 2 v vᵀ) A`.
fn reflect_rows(a: &mut [Vec<f64>], v: &[f64], first: usize) {
    let columns = a.len();
    let rows = &mut a[first..];
    for column in 0..columns {
        let twice = 2.0 * sum_by(v.len(), |i| rows[i][column] * v[i]);
        rows.iter_mut().zip(v).for_each(|(row, v)| row[column] -= twice * v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn random_matrices_are_put_together_again_from_their_eigenpairs() {
        for n in [1, 2, 3, 7, 40] {
            let stream = Stream::new(n as u64, 0);
            let entry = |i: usize, j: usize| stream.normal((i.min(j) * n + i.max(j)) as u64);
            let matrix: Vec<Vec<f64>> =
                (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect();
            let pairs = eigenpairs(&matrix);
            assert!(pairs.is_sorted_by(|a, b| a.0 >= b.0));
            // Backward stable: a few n u of the norm, which is below 2√n.
            let tolerance = 1e-15 * 10.0 * n as f64 * (n as f64).sqrt();
            for i in 0..n {
                for j in 0..n {
                    let sum: f64 = pairs.iter().map(|(value, v)| value * v[i] * v[j]).sum();
                    assert!((sum - matrix[i][j]).abs() < tolerance, "n = {n}");
                    let product: f64 = (0..n).map(|k| pairs[i].1[k] * pairs[j].1[k]).sum();
                    let expected = f64::from(u8::from(i == j));
                    assert!((product - expected).abs() < tolerance, "n = {n}: not orthonormal");
                }
            }
        }
    }

    #[test]
    fn a_multiple_of_the_identity_and_a_matrix_of_zeros() {
        for value in [0.0, 3.0] {
            let matrix: Vec<Vec<f64>> = (0..4)
                .map(|i| (0..4).map(|j| if i == j { value } else { 0.0 }).collect())
                .collect();
            assert!(eigenpairs(&matrix).iter().all(|(found, _)| *found == value));
        }
        assert!(eigenpairs(&[]).is_empty());
    }
}
