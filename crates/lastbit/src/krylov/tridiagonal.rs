//! Eigenvalues of a symmetric tridiagonal matrix, by the implicit QL method.
//!
//! Written here with `+ − × ÷ √` alone, in a fixed order, so that the same matrix has the same
//! eigenvalues, bit for bit, everywhere.
//!
//! Reference: Bowdler, Martin, Reinsch and Wilkinson, *The QR and QL algorithms for symmetric
//! matrices*, Numerische Mathematik 11 (1968).

/// Eigenvalues of the matrix with this diagonal and these `diagonal.len() − 1` neighbours, in no
/// particular order. Each of `rows` is a row vector that is multiplied by the matrix of
/// eigenvectors: row `i` of the identity becomes component `i` of every eigenvector.
///
/// # Panics
///
/// If the sizes do not fit, or an entry is not finite.
pub fn eigenvalues(diagonal: &[f64], neighbours: &[f64], rows: &mut [Vec<f64>]) -> Vec<f64> {
    let n = diagonal.len();
    assert_eq!(neighbours.len() + 1, n.max(1), "neighbours of {n} diagonal entries");
    assert!(diagonal.iter().chain(neighbours).all(|x| x.is_finite()), "entries must be finite");
    let mut d = diagonal.to_vec();
    let mut e = neighbours.to_vec();
    e.push(0.0);
    for l in 0..n {
        // Each sweep at least squares the smallest neighbour: fifty are far beyond enough.
        for _ in 0..50 {
            let negligible =
                |k: usize| e[k].abs() <= f64::EPSILON * 0.5 * (d[k].abs() + d[k + 1].abs());
            let m = (l..n - 1).find(|k| negligible(*k)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            sweep(&mut d, &mut e, rows, l, m);
        }
    }
    d
}

/// Eigenpairs in descending order, with as many components as `rows` has, and as [`eigenvalues`] turns
/// these: of the identity, the eigenvectors.
pub fn eigenpairs(
    diagonal: &[f64],
    neighbours: &[f64],
    mut rows: Vec<Vec<f64>>,
) -> Vec<(f64, Vec<f64>)> {
    let values = eigenvalues(diagonal, neighbours, &mut rows);
    let vector = |j: usize| rows.iter().map(|row| row[j]).collect();
    let mut pairs: Vec<(f64, Vec<f64>)> =
        values.iter().enumerate().map(|(j, value)| (*value, vector(j))).collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    pairs
}

/// The identity matrix.
pub fn identity(n: usize) -> Vec<Vec<f64>> {
    (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect()
}

/// One implicit QL step on the block `l … m`.
fn sweep(d: &mut [f64], e: &mut [f64], rows: &mut [Vec<f64>], l: usize, m: usize) {
    let mut g = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let mut r = (g * g + 1.0).sqrt();
    g = d[m] - d[l] + e[l] / (g + r.copysign(g));
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (f, b) = (s * e[i], c * e[i]);
        r = (f * f + g * g).sqrt();
        e[i + 1] = r;
        if r == 0.0 {
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2.0 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        for row in &mut *rows {
            let (x, y) = (row[i], row[i + 1]);
            (row[i], row[i + 1]) = (c * x - s * y, s * x + c * y);
        }
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn second_differences_have_their_known_eigenvalues() {
        for n in [1, 2, 3, 10, 101] {
            let mut found = eigenvalues(&vec![2.0; n], &vec![-1.0; n - 1], &mut []);
            found.sort_by(f64::total_cmp);
            for (j, value) in found.iter().enumerate() {
                let sine = libm::sin(PI * (j + 1) as f64 / (2 * (n + 1)) as f64);
                // Backward stable: a few n u of the norm, 4.
                assert!((value - 4.0 * sine * sine).abs() < 1e-14 * n as f64, "n = {n}");
            }
        }
    }

    #[test]
    fn rows_of_the_identity_become_eigenvectors() {
        let (d, e) = ([1.0, -2.0, 3.0, 0.5], [0.7, 1e-3, -2.0]);
        let mut rows = identity(4);
        let values = eigenvalues(&d, &e, &mut rows);
        for (j, value) in values.iter().enumerate() {
            for i in 0..4 {
                let above = if i > 0 { e[i - 1] * rows[i - 1][j] } else { 0.0 };
                let below = if i < 3 { e[i] * rows[i + 1][j] } else { 0.0 };
                let residual = above + d[i] * rows[i][j] + below - value * rows[i][j];
                assert!(residual.abs() < 1e-14, "{residual:e}");
            }
        }
    }
}
