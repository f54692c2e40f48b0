//! Operations of a `Vec<f64>` with many others, for [`KrylovVector`](super::KrylovVector).
//!
//! Such loops wait for memory. A tile of the one vector stays in the first-level cache while the same
//! tile of all others passes by, so that these are read once for an operation; on one thread [`subtract_and_project`] is one
//! operation, otherwise two. Threads divide the vectors of dot products, and the components of linear combinations. Each number
//! is one sum in an order that neither tiles nor threads change: dot products as in [`crate::reduce`], the rest in the order of
//! the vectors.

use rayon::prelude::*;

use crate::reduce::LANES;
use crate::simd::vectorized;

/// Numbers of a tile; a multiple of [`LANES`].
const TILE: usize = 2048;
/// Components of a sum that a thread computes at a time: whole tiles.
const PART: usize = 16 * TILE;

/// `v · x` for each vector.
pub fn project(x: &[f64], vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut lanes = vec![[0.0; LANES]; vectors.len()];
    let share = vectors.len().div_ceil(threads(x)).max(1);
    let work = |(lanes, vectors): (&mut [[f64; LANES]], &[Vec<f64>])| {
        vectorized(
            #[inline(always)]
            || {
                for (tile, x) in x.chunks(TILE).enumerate() {
                    multiply(vectors, tile * TILE, x, lanes);
                }
            },
        );
    };
    lanes.par_chunks_mut(share).zip(vectors.par_chunks(share)).for_each(work);
    sums_of(&lanes)
}

/// `x ← x + Σ y_j v_j`.
pub fn add_combination(x: &mut [f64], vectors: &[Vec<f64>], y: &[f64]) {
    x.par_chunks_mut(PART).enumerate().for_each(|(part, x)| {
        vectorized(
            #[inline(always)]
            || {
                for (tile, x) in x.chunks_mut(TILE).enumerate() {
                    add(vectors, part * PART + tile * TILE, y, x);
                }
            },
        );
    });
}

/// `x ← x − V Vᵀ x`, twice.
pub fn orthogonalize(x: &mut [f64], basis: &[Vec<f64>]) {
    let first = project(x, basis);
    let second = subtract_and_project(x, basis, &first);
    add_combination(x, basis, &negative(&second));
}

/// `x ← x − Σ y_j v_j`, and then `v · x` for each vector.
pub fn subtract_and_project(x: &mut [f64], vectors: &[Vec<f64>], y: &[f64]) -> Vec<f64> {
    let y = negative(y);
    if threads(x) > 1 {
        add_combination(x, vectors, &y);
        return project(x, vectors);
    }
    let mut lanes = vec![[0.0; LANES]; vectors.len()];
    vectorized(
        #[inline(always)]
        || {
            for (tile, x) in x.chunks_mut(TILE).enumerate() {
                add(vectors, tile * TILE, &y, x);
                multiply(vectors, tile * TILE, x, &mut lanes);
            }
        },
    );
    sums_of(&lanes)
}

/// `Σ y_j v_j` for each `y`: all of them while a tile of the vectors is in the cache.
pub fn combinations(vectors: &[Vec<f64>], ys: &[&[f64]]) -> Vec<Vec<f64>> {
    let mut sums = vec![vec![0.0; vectors[0].len()]; ys.len()];
    let mut parts: Vec<Vec<&mut [f64]>> = vec![];
    for sum in &mut sums {
        for (part, sum) in sum.chunks_mut(TILE).enumerate() {
            match parts.get_mut(part) {
                Some(part) => part.push(sum),
                None => parts.push(vec![sum]),
            }
        }
    }
    parts.into_par_iter().enumerate().for_each(|(tile, sums)| {
        vectorized(
            #[inline(always)]
            || sums.into_iter().zip(ys).for_each(|(sum, y)| add(vectors, tile * TILE, y, sum)),
        );
    });
    sums
}

/// Threads for which there is work.
fn threads(x: &[f64]) -> usize {
    if x.len() < PART { 1 } else { rayon::current_num_threads() }
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
    let len = sum.len();
    // Four at a time, so that the sum is loaded and stored once for all of them.
    let ((fours, rest), (y_fours, y_rest)) = (vectors.as_chunks::<4>(), y.as_chunks::<4>());
    for ([a, b, c, d], y) in fours.iter().zip(y_fours) {
        let (a, b) = (&a[at..at + len], &b[at..at + len]);
        let (c, d) = (&c[at..at + len], &d[at..at + len]);
        for i in 0..len {
            sum[i] = (((sum[i] + y[0] * a[i]) + y[1] * b[i]) + y[2] * c[i]) + y[3] * d[i];
        }
    }
    for (v, y) in rest.iter().zip(y_rest) {
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

    fn bits(x: &[f64]) -> Vec<u64> {
        x.iter().map(|x| x.to_bits()).collect()
    }

    fn check_bits(n: usize) {
        let (x, y) = (normal(n, 1), normal(7, 2));
        let vectors: Vec<Vec<f64>> = (3..10).map(|seed| normal(n, seed)).collect();
        let product = |x: &[f64], v: &[f64]| sum_by(n, |i| v[i] * x[i]);
        let products = |x: &[f64]| vectors.iter().map(|v| product(x, v)).collect::<Vec<_>>();
        assert_eq!(bits(&project(&x, &vectors)), bits(&products(&x)), "n = {n}");
        let sum_from = |start: &[f64], y: &[f64]| {
            let sum = |i: usize| vectors.iter().zip(y).fold(start[i], |sum, (v, y)| sum + y * v[i]);
            (0..n).map(sum).collect::<Vec<_>>()
        };
        let expected = sum_from(&vec![0.0; n], &y);
        assert_eq!(bits(&combination(&vectors, &y, n)), bits(&expected), "n = {n}");
        let both = combinations(&vectors, &[&y, &negative(&y)]);
        assert_eq!(bits(&both[0]), bits(&expected), "n = {n}");
        assert_eq!(bits(&both[1]), bits(&sum_from(&vec![0.0; n], &negative(&y))), "n = {n}");
        let rest = sum_from(&x, &negative(&y));
        let mut found = x;
        let left = subtract_and_project(&mut found, &vectors, &y);
        assert_eq!(bits(&found), bits(&rest), "n = {n}");
        assert_eq!(bits(&left), bits(&products(&rest)), "n = {n}");
    }

    #[test]
    fn neither_tiles_nor_threads_change_a_bit() {
        for n in [0, 1, 7, 8, 2047, 2048, 2049, 5003, 70_001] {
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                pool.expect("threads can be started").install(|| check_bits(n));
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
