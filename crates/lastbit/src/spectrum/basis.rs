//! Sums over many long vectors: what a search for eigenvectors does between two products.
//!
//! ```text
//! along           h_j = v_j · x
//! combine         Σ_j y_j v_j
//! orthogonalize   x ← x − V h,  h = Vᵀ x,   twice
//! residuals       r = W y − θ V y,  and  Vᵀ r,     W = A V
//! ```
//!
//! Such loops wait for memory. A tile of the one vector stays in the first-level cache while the same
//! tile of all others passes by, so that these are read once each; the second pass of
//! [`orthogonalize`] takes away and multiplies in one go. Each number is one sum in an order that the
//! tiles do not change: products as in [`crate::reduce`], the rest in the order of the vectors.
//!
//! Projections that are all taken before any is subtracted (classical Gram-Schmidt) are as good as one
//! after the other once the whole is done twice: Giraud, Langou, Rozložník and van den Eshof,
//! *Rounding error analysis of the classical Gram-Schmidt orthogonalization process*, Numer. Math. 101
//! (2005).

use crate::reduce::LANES;
use crate::simd::vectorized;

/// Numbers of a tile; a multiple of [`LANES`].
const TILE: usize = 2048;

/// `v · x` for each vector.
pub(crate) fn along(vectors: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    let mut lanes = vec![[0.0; LANES]; vectors.len()];
    vectorized(
        #[inline(always)]
        || {
            for (tile, x) in x.chunks(TILE).enumerate() {
                multiply(vectors, tile * TILE, x, &mut lanes);
            }
        },
    );
    sums_of(&lanes)
}

/// `Σ y_j v_j`; zeros of length `n` without vectors.
pub(crate) fn combine(vectors: &[Vec<f64>], y: &[f64], n: usize) -> Vec<f64> {
    let mut sum = vec![0.0; n];
    vectorized(
        #[inline(always)]
        || {
            for (tile, sum) in sum.chunks_mut(TILE).enumerate() {
                add(vectors, tile * TILE, y, sum);
            }
        },
    );
    sum
}

/// `A x − θ x` of an approximate eigenvector `x` of the space.
pub(crate) struct Residual {
    pub vector: Vec<f64>,
    /// What rounding has left of it within the space.
    pub along: Vec<f64>,
}

/// For each pair `θ, y` of a space with an orthonormal basis and its images.
pub(crate) fn residuals(
    basis: &[Vec<f64>],
    images: &[Vec<f64>],
    pairs: &[&(f64, Vec<f64>)],
    n: usize,
) -> Vec<Residual> {
    let one = |(value, y): &(f64, Vec<f64>)| {
        let mut vector = vec![0.0; n];
        let mut lanes = vec![[0.0; LANES]; basis.len()];
        vectorized(
            #[inline(always)]
            || {
                let mut inside = [0.0; TILE];
                for (tile, r) in vector.chunks_mut(TILE).enumerate() {
                    let inside = &mut inside[..r.len()];
                    inside.fill(0.0);
                    add(images, tile * TILE, y, r);
                    add(basis, tile * TILE, y, inside);
                    r.iter_mut().zip(inside).for_each(|(r, x)| *r -= value * *x);
                    multiply(basis, tile * TILE, r, &mut lanes);
                }
            },
        );
        Residual { vector, along: sums_of(&lanes) }
    };
    pairs.iter().map(|pair| one(pair)).collect()
}

/// Takes away from `x` what lies along the orthonormal `basis`. Twice is enough: after the second
/// pass what remains along it is rounding.
pub(crate) fn orthogonalize(x: &mut [f64], basis: &[Vec<f64>]) {
    let first = along(basis, x);
    let mut lanes = vec![[0.0; LANES]; basis.len()];
    vectorized(
        #[inline(always)]
        || {
            for (tile, x) in x.chunks_mut(TILE).enumerate() {
                subtract(basis, tile * TILE, &first, x);
                multiply(basis, tile * TILE, x, &mut lanes);
            }
        },
    );
    take_away(x, basis, &sums_of(&lanes));
}

/// `x ← x − V h`.
pub(crate) fn take_away(x: &mut [f64], basis: &[Vec<f64>], h: &[f64]) {
    vectorized(
        #[inline(always)]
        || {
            for (tile, x) in x.chunks_mut(TILE).enumerate() {
                subtract(basis, tile * TILE, h, x);
            }
        },
    );
}

#[inline(always)]
fn multiply(vectors: &[Vec<f64>], at: usize, x: &[f64], lanes: &mut [[f64; LANES]]) {
    for (v, lanes) in vectors.iter().zip(lanes) {
        let (x, x_rest) = x.as_chunks::<LANES>();
        let (v, v_rest) = v[at..].as_chunks::<LANES>();
        let mut sums = *lanes;
        for (x, v) in x.iter().zip(v) {
            for j in 0..LANES {
                sums[j] += x[j] * v[j];
            }
        }
        // The last tile may end within a register.
        for (sum, (x, v)) in sums.iter_mut().zip(x_rest.iter().zip(v_rest)) {
            *sum += x * v;
        }
        *lanes = sums;
    }
}

#[inline(always)]
fn add(vectors: &[Vec<f64>], at: usize, y: &[f64], sum: &mut [f64]) {
    for (v, y) in vectors.iter().zip(y) {
        sum.iter_mut().zip(&v[at..]).for_each(|(sum, v)| *sum += y * v);
    }
}

#[inline(always)]
fn subtract(vectors: &[Vec<f64>], at: usize, h: &[f64], x: &mut [f64]) {
    for (v, h) in vectors.iter().zip(h) {
        x.iter_mut().zip(&v[at..]).for_each(|(x, v)| *x -= h * v);
    }
}

fn sums_of(lanes: &[[f64; LANES]]) -> Vec<f64> {
    lanes.iter().map(|lanes| lanes.iter().fold(0.0, |sum, lane| sum + lane)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::{norm, sum_by};
    use crate::rng::Stream;

    fn random(seed: u64, n: usize) -> Vec<f64> {
        let stream = Stream::new(seed, 0);
        (0..n as u64).map(|i| stream.normal(i)).collect()
    }

    #[test]
    fn tiles_change_no_bit() {
        for n in [0, 1, 7, 8, 2047, 2048, 2049, 5003] {
            let (x, y) = (random(1, n), random(2, 3));
            let vectors: Vec<Vec<f64>> = (3..6).map(|seed| random(seed, n)).collect();
            for (found, v) in along(&vectors, &x).iter().zip(&vectors) {
                assert_eq!(found.to_bits(), sum_by(n, |i| v[i] * x[i]).to_bits(), "n = {n}");
            }
            let sum = combine(&vectors, &y, n);
            for i in 0..n {
                let expected =
                    ((0.0 + y[0] * vectors[0][i]) + y[1] * vectors[1][i]) + y[2] * vectors[2][i];
                assert_eq!(sum[i].to_bits(), expected.to_bits(), "n = {n}, i = {i}");
            }
        }
    }

    #[test]
    fn what_remains_along_the_basis_is_rounding() {
        let n = 5003;
        let mut basis: Vec<Vec<f64>> = Vec::new();
        for seed in 0..20 {
            // Nearly within the space: all but a part in 1e8.
            let mut x = random(seed, n);
            if seed > 5 {
                let inside = combine(&basis, &random(100 + seed, basis.len()), n);
                x.iter_mut().zip(&inside).for_each(|(x, inside)| *x = inside + 1e-8 * *x);
            }
            orthogonalize(&mut x, &basis);
            let size = norm(&x);
            x.iter_mut().for_each(|x| *x /= size);
            // Rounding of a product of two unit vectors, and of twenty subtractions.
            let most = along(&basis, &x).iter().fold(0.0_f64, |most, h| most.max(h.abs()));
            assert!(most < 20.0 * f64::EPSILON, "{most:e} at {seed}");
            basis.push(x);
        }
    }
}
