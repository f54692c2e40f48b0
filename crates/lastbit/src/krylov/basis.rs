//! Operations of a `Vec<f64>` with many others, for [`KrylovVector`](super::KrylovVector).
//!
//! Such loops wait for memory. A tile of the one vector stays in the first-level cache while the same
//! tile of all others passes by, so that these are read once each; the second pass of
//! [`orthogonalize`] subtracts and multiplies at once. Each number is one sum in an order that the
//! tiles do not change: products as in [`crate::reduce`], the rest in the order of the vectors.

use crate::reduce::LANES;
use crate::simd::vectorized;

/// Numbers of a tile; a multiple of [`LANES`].
const TILE: usize = 2048;

/// `v · x` for each vector.
pub fn project(x: &[f64], vectors: &[Vec<f64>]) -> Vec<f64> {
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

/// `x ← x + Σ y_j v_j`.
pub fn add_combination(x: &mut [f64], vectors: &[Vec<f64>], y: &[f64]) {
    vectorized(
        #[inline(always)]
        || {
            for (tile, x) in x.chunks_mut(TILE).enumerate() {
                add(vectors, tile * TILE, y, x);
            }
        },
    );
}

/// `x ← x − V Vᵀ x`, twice.
pub fn orthogonalize(x: &mut [f64], basis: &[Vec<f64>]) {
    let first = negative(&project(x, basis));
    let mut lanes = vec![[0.0; LANES]; basis.len()];
    vectorized(
        #[inline(always)]
        || {
            for (tile, x) in x.chunks_mut(TILE).enumerate() {
                add(basis, tile * TILE, &first, x);
                multiply(basis, tile * TILE, x, &mut lanes);
            }
        },
    );
    add_combination(x, basis, &negative(&sums_of(&lanes)));
}

/// `r = W y − θ V y` and `Vᵀ r`.
pub fn residual(
    basis: &[Vec<f64>],
    images: &[Vec<f64>],
    (value, y): (f64, &[f64]),
) -> (Vec<f64>, Vec<f64>) {
    let mut residual = vec![0.0; basis[0].len()];
    let mut lanes = vec![[0.0; LANES]; basis.len()];
    vectorized(
        #[inline(always)]
        || {
            let mut inside = [0.0; TILE];
            for (tile, r) in residual.chunks_mut(TILE).enumerate() {
                let inside = &mut inside[..r.len()];
                inside.fill(0.0);
                add(images, tile * TILE, y, r);
                add(basis, tile * TILE, y, inside);
                r.iter_mut().zip(inside).for_each(|(r, x)| *r -= value * *x);
                multiply(basis, tile * TILE, r, &mut lanes);
            }
        },
    );
    (residual, sums_of(&lanes))
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

/// `x − h v` and `x + (−h) v` are the same bits.
fn negative(h: &[f64]) -> Vec<f64> {
    h.iter().map(|h| -h).collect()
}

fn sums_of(lanes: &[[f64; LANES]]) -> Vec<f64> {
    lanes.iter().map(|lanes| lanes.iter().fold(0.0, |sum, lane| sum + lane)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::{norm, sum_by};
    use crate::signal::normal;

    fn combination(vectors: &[Vec<f64>], y: &[f64], n: usize) -> Vec<f64> {
        let mut sum = vec![0.0; n];
        add_combination(&mut sum, vectors, y);
        sum
    }

    #[test]
    fn tiles_change_no_bit() {
        for n in [0, 1, 7, 8, 2047, 2048, 2049, 5003] {
            let (x, y) = (normal(n, 1), normal(3, 2));
            let vectors: Vec<Vec<f64>> = (3..6).map(|seed| normal(n, seed)).collect();
            for (found, v) in project(&x, &vectors).iter().zip(&vectors) {
                assert_eq!(found.to_bits(), sum_by(n, |i| v[i] * x[i]).to_bits(), "n = {n}");
            }
            let sum = combination(&vectors, &y, n);
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
            let mut x = normal(n, seed);
            if seed > 5 {
                let inside = combination(&basis, &normal(basis.len(), 100 + seed), n);
                x.iter_mut().zip(&inside).for_each(|(x, inside)| *x = inside + 1e-8 * *x);
            }
            orthogonalize(&mut x, &basis);
            let size = norm(&x);
            x.iter_mut().for_each(|x| *x /= size);
            // Rounding of a product of two unit vectors, and of twenty subtractions.
            let most = project(&x, &basis).iter().fold(0.0_f64, |most, h| most.max(h.abs()));
            assert!(most < 20.0 * f64::EPSILON, "{most:e} at {seed}");
            basis.push(x);
        }
    }
}
