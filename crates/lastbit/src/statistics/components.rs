//! How much of the variance is rounding?
//!
//! **Two sources.** Runs that differ in the last bit alone have the variance `σ_r²` of rounding. Runs
//! that differ in a seed (batches, first weights) round differently too, for other numbers are
//! rounded: their variance is the *total*, and contains that of rounding.
//!
//! ```text
//! share = s_r²/s_t²          in  [share/F_{1−a/2}, share/F_{a/2}]   with n_r − 1, n_t − 1 degrees
//! ```
//!
//! for normal runs, F being their ratio's distribution where the variances are equal; share and
//! interval are clipped to [0, 1].
//!
//! **A grid** of seeds (rows) times roundings `k` (columns), one run each:
//!
//! ```text
//! x_ij = μ + seed_i + k_j + e_ij
//! MS_seed = K Σ (x̄_i − x̄)²/(S−1),   MS_k = S Σ (x̄_j − x̄)²/(K−1),
//! MS_e = Σ (x_ij − x̄_i − x̄_j + x̄)²/((S−1)(K−1))
//! σ²_e = MS_e,   σ²_seed = (MS_seed − MS_e)/K,   σ²_k = (MS_k − MS_e)/S,   at least 0
//! ```
//!
//! Where rounding is chaotic the same `k` means nothing to two seeds: rounding is `e`, and `σ²_k` is
//! 0 up to chance.

use super::Interval;
use super::distributions::f_quantile;
use crate::reduce::{sum, sum_by};

/// A share of the variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The estimate, from 0 to 1.
    pub share: f64,
    /// Its interval.
    pub interval: Interval,
}

/// Share of the variance `total²` (of `n_total` runs) that is `part²` (of `n_part` runs). `None`
/// where there is no variance or one run only.
pub fn share(
    part: f64,
    n_part: usize,
    total: f64,
    n_total: usize,
    confidence: f64,
) -> Option<Share> {
    if n_part < 2 || n_total < 2 || total == 0.0 {
        return None;
    }
    let ratio = (part / total) * (part / total);
    let tail = (1.0 - confidence) / 2.0;
    let f = |p: f64| f_quantile(p, n_part as f64 - 1.0, n_total as f64 - 1.0);
    let end = |p: f64| (ratio / f(p)).min(1.0);
    Some(Share {
        share: ratio.min(1.0),
        interval: Interval { low: end(1.0 - tail), high: end(tail) },
    })
}

/// Variances of a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// Between seeds.
    pub seed: f64,
    /// Between columns, the same for all seeds.
    pub column: f64,
    /// What neither explains: rounding.
    pub residual: f64,
}

impl Grid {
    /// Of a table of runs, a row for each seed. `None` below two rows or two columns.
    ///
    /// # Panics
    ///
    /// If rows differ in length.
    pub fn of(rows: &[Vec<f64>]) -> Option<Self> {
        let (seeds, columns) = (rows.len(), rows.first()?.len());
        assert!(rows.iter().all(|row| row.len() == columns), "rows of different lengths");
        if seeds < 2 || columns < 2 {
            return None;
        }
        let (s, k) = (seeds as f64, columns as f64);
        let row_means: Vec<f64> = rows.iter().map(|row| sum(row) / k).collect();
        let column_means: Vec<f64> =
            (0..columns).map(|j| sum_by(seeds, |i| rows[i][j]) / s).collect();
        let mean = sum(&row_means) / s;
        let square = |x: f64| x * x;
        let of_seeds = k * sum_by(seeds, |i| square(row_means[i] - mean)) / (s - 1.0);
        let of_columns = s * sum_by(columns, |j| square(column_means[j] - mean)) / (k - 1.0);
        let left = |i: usize, j: usize| rows[i][j] - row_means[i] - column_means[j] + mean;
        let squares = sum_by(seeds * columns, |at| square(left(at / columns, at % columns)));
        let residual = squares / ((s - 1.0) * (k - 1.0));
        Some(Self {
            seed: ((of_seeds - residual) / k).max(0.0),
            column: ((of_columns - residual) / s).max(0.0),
            residual,
        })
    }

    /// Share of rounding in the variance of a run.
    pub fn rounding_share(&self) -> f64 {
        let rounding = self.residual + self.column;
        let total = rounding + self.seed;
        if total == 0.0 { 0.0 } else { rounding / total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn shares_are_clipped_and_their_intervals_hold_them() {
        let found = share(0.16, 6, 0.17, 6, 0.95).unwrap();
        assert!((found.share - 0.885_813).abs() < 1e-6, "{found:?}");
        assert!(found.interval.contains(found.share) && found.interval.high <= 1.0);
        assert_eq!(share(2.0, 6, 1.0, 6, 0.95).unwrap().share, 1.0);
        assert_eq!(share(0.0, 6, 1.0, 6, 0.95).unwrap().interval.high, 0.0);
        assert_eq!((share(1.0, 6, 0.0, 6, 0.95), share(1.0, 1, 1.0, 6, 0.95)), (None, None));
    }

    #[test]
    fn a_grid_without_residual_splits_exactly() {
        // x_ij = 10 i + j: seeds 0, 10, 20 have the variance 100, columns 0, 1 that of 1/2.
        let rows: Vec<Vec<f64>> =
            (0..3).map(|i| (0..2).map(|j| f64::from(10 * i + j)).collect()).collect();
        let found = Grid::of(&rows).unwrap();
        // All sums are of halves below 2⁵³: exact.
        assert_eq!(found, Grid { seed: 100.0, column: 0.5, residual: 0.0 });
        assert_eq!(Grid::of(&rows[..1]), None);
        assert_eq!(Grid::of(&[vec![1.0, 1.0], vec![1.0, 1.0]]).unwrap().rounding_share(), 0.0);
    }

    #[test]
    fn components_of_normal_data_are_recovered() {
        // σ_seed = 2, σ_e = 1, 40 seeds times 25 columns.
        let of_seed = |i: u64| 2.0 * Stream::new(1, 0).normal(i);
        let residual = |i: u64, j: u64| Stream::new(1, 1).normal(25 * i + j);
        let rows: Vec<Vec<f64>> =
            (0..40).map(|i| (0..25).map(|j| of_seed(i) + residual(i, j)).collect()).collect();
        let found = Grid::of(&rows).unwrap();
        // Four standard errors: of MS_e √(2/936) = 0.046; of σ²_seed about 4.04 √(2/39) = 0.92; of
        // MS_k, whose mean is 1, √(2/24)/40 = 0.007 around 0.
        assert!((found.residual - 1.0).abs() < 4.0 * 0.047, "{found:?}");
        assert!((found.seed - 4.0).abs() < 4.0 * 0.92, "{found:?}");
        assert!(found.column < 4.0 * 0.0073, "{found:?}");
    }
}
