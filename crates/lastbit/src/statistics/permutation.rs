//! Tests that assume nothing of the distribution: what would chance have made of the same numbers?
//!
//! ```text
//! paired     d = new − base, one pair a seed. If base and new are exchangeable, so are the signs of
//!            d: 2ⁿ patterns, each as likely.
//! unpaired   If they are exchangeable, any n_new of all values are as likely: C(n_base + n_new, n_new).
//!
//! p = min(1, 2 min(share of patterns with a mean ≤ ours, share with a mean ≥ ours))
//! ```
//!
//! Up to 2²⁰ patterns are all counted. Beyond, `B` are drawn, and shares are `(1 + b)/(1 + B)`: our
//! own pattern is one of them. This is `scipy.stats.permutation_test` with `alternative='two-sided'`.
//! Where even drawing would take more than [`MOST_DRAWS`](super::MOST_DRAWS) values, the sum over the patterns is taken as
//! normal, with its exact mean and variance, and p is not below the smallest that `B` patterns have:
//!
//! ```text
//! signs    mean 0,        variance Σ d²
//! splits   mean n_new ā,  variance n_new n_base/(N (N − 1)) Σ (a − ā)²,   N = n_base + n_new
//! ```
//!
//! **Ties.** Accuracies are multiples of one example, so patterns often have equal means, which
//! rounding tears apart. Means within `100 ε` of the largest value count as equal; scipy takes
//! `100 ε` of the observed difference, less than the rounding of a difference between accuracies, and
//! its p may then be too small. Ours is never smaller than it would be in exact arithmetic.
//!
//! **What n pairs can show.** The smallest p is `2/2ⁿ`: five pairs never come below 0.0625, six reach
//! 0.03125.

use rayon::prelude::*;

use super::distributions::normal_cdf;
use super::{Resampling, sample, stream};
use crate::reduce::{max_abs, sum_by};
use crate::rng::Stream;

/// Patterns up to which all are counted.
pub const MOST_PATTERNS: u64 = 1 << 20;
/// Means as close as this, relative to the largest value, are equal.
const TIE: f64 = 100.0 * f64::EPSILON;

/// What a test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tested {
    /// Two-sided p-value.
    pub p: f64,
    /// The smallest that any data of these sizes could have had.
    pub smallest_p: f64,
    /// Whether all patterns were counted.
    pub exact: bool,
}

/// The sign-flip test of pairs.
///
/// # Panics
///
/// If the lengths differ or are 0.
pub fn sign_flip(base: &[f64], new: &[f64], resampling: Resampling) -> Tested {
    let n = base.len();
    assert!(n == new.len() && n > 0, "{n} values beside {}", new.len());
    let differences: Vec<f64> = new.iter().zip(base).map(|(new, base)| new - base).collect();
    let tie = TIE * max_abs(base).max(max_abs(new)) * n as f64;
    if n <= MOST_PATTERNS.ilog2() as usize {
        // Sums of two halves, so that no sum has seen more than n roundings.
        let (left, right) = differences.split_at(n / 2);
        let (left, right) = (signed_sums(left), signed_sums(right));
        let ours = left[0] + right[0];
        let tails = left
            .par_iter()
            .map(|l| right.iter().fold([0; 2], |tails, r| count(tails, l + r, ours, tie)));
        let tails = tails.reduce(|| [0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        return Tested::exact(tails, 1 << n);
    }
    let ours: f64 = differences.iter().sum();
    let smallest = 2.0 * libm::exp2(-(n as f64));
    if !resampling.is_feasible(n) {
        let variance = sum_by(n, |i| differences[i] * differences[i]);
        return Tested::normal(ours, variance, tie, resampling.resamples, smallest);
    }
    let stream = Stream::new(resampling.seed, stream::SIGN_FLIP);
    let blocks = n.div_ceil(128);
    let signed = |b: usize| {
        let mut sum = 0.0;
        for (j, part) in differences.chunks(128).enumerate() {
            let words = stream.block((b * blocks + j) as u64);
            for (i, d) in part.iter().enumerate() {
                sum += if words[i / 32] >> (i % 32) & 1 == 0 { *d } else { -d };
            }
        }
        sum
    };
    Tested::drawn(signed, ours, tie, resampling.resamples, smallest)
}

/// The permutation test of two samples whose runs do not belong together.
///
/// # Panics
///
/// If one of them is empty.
pub fn split(base: &[f64], new: &[f64], resampling: Resampling) -> Tested {
    assert!(!base.is_empty() && !new.is_empty(), "{} values beside {}", base.len(), new.len());
    // The difference of the means grows with the sum of those that count as new.
    let all = [new, base].concat();
    let tie = TIE * max_abs(&all) * new.len() as f64;
    let ours: f64 = new.iter().sum();
    let splits = binomial(all.len(), new.len());
    if splits <= MOST_PATTERNS as f64 {
        let mut tails = [0; 2];
        each_split(&all, new.len(), 0.0, &mut |sum| tails = count(tails, sum, ours, tie));
        return Tested::exact(tails, splits as u64);
    }
    let smallest = (2.0 / splits).min(1.0);
    if !resampling.is_feasible(all.len()) {
        let (n, total) = (new.len() as f64, all.len() as f64);
        let centred: Vec<f64> = all.iter().map(|value| value - all[0]).collect();
        let mean = sample::mean(&centred);
        let squares = sum_by(all.len(), |i| (centred[i] - mean) * (centred[i] - mean));
        let variance = n * (total - n) / (total * (total - 1.0)) * squares;
        let ours = sum_by(new.len(), |i| centred[i] - mean);
        return Tested::normal(ours, variance, tie, resampling.resamples, smallest);
    }
    let drawn = |b: usize| {
        let order = Stream::new(resampling.seed, stream::SPLIT + b as u64).permutation(all.len());
        order[..new.len()].iter().map(|i| all[*i as usize]).sum()
    };
    Tested::drawn(drawn, ours, tie, resampling.resamples, smallest)
}

/// Pairs below which the sign-flip test cannot reach `level`, whatever the data.
pub fn fewest_pairs(level: f64) -> usize {
    let reaches = |n: &usize| 2.0 * libm::exp2(-(*n as f64)) <= level;
    (1..1100).find(reaches).expect("2/2¹⁰⁷⁵ is 0")
}

/// Runs a side below which the test of splits cannot reach `level`, whatever the data.
pub fn fewest_runs(level: f64) -> usize {
    let reaches = |n: &usize| 2.0 / binomial(2 * n, *n) <= level;
    (1..600).find(reaches).expect("C(1200, 600) is beyond the largest float")
}

/// Holm's correction: p-values of several tests, so that the chance of any false one stays at the
/// level they are compared with.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|i, j| p[*i].total_cmp(&p[*j]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, i) in order.into_iter().enumerate() {
        largest = largest.max(((p.len() - rank) as f64 * p[i]).min(1.0));
        adjusted[i] = largest;
    }
    adjusted
}

impl Tested {
    fn exact(tails: [u64; 2], patterns: u64) -> Self {
        let share = tails[0].min(tails[1]) as f64 / patterns as f64;
        let smallest_p = (2.0 / patterns as f64).min(1.0);
        Self { p: (2.0 * share).min(1.0), smallest_p, exact: true }
    }

    fn drawn(
        pattern: impl Fn(usize) -> f64 + Sync,
        ours: f64,
        tie: f64,
        resamples: usize,
        smallest: f64,
    ) -> Self {
        let tails = (0..resamples)
            .into_par_iter()
            .fold(|| [0; 2], |tails, b| count(tails, pattern(b), ours, tie))
            .reduce(|| [0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        let share = (1 + tails[0].min(tails[1])) as f64 / (1 + resamples) as f64;
        let smallest_p = smallest.max(2.0 / (1 + resamples) as f64).min(1.0);
        Self { p: (2.0 * share).min(1.0), smallest_p, exact: false }
    }

    /// For a sum `ours` away from its mean, of so many patterns that their sum is normal.
    fn normal(ours: f64, variance: f64, tie: f64, resamples: usize, smallest: f64) -> Self {
        let smallest_p = smallest.max(2.0 / (1 + resamples) as f64).min(1.0);
        let distance = (ours.abs() - tie).max(0.0);
        let p = if variance > 0.0 { 2.0 * normal_cdf(-distance / variance.sqrt()) } else { 1.0 };
        Self { p: p.max(smallest_p), smallest_p, exact: false }
    }
}

fn count([less, greater]: [u64; 2], sum: f64, ours: f64, tie: f64) -> [u64; 2] {
    [less + u64::from(sum <= ours + tie), greater + u64::from(sum >= ours - tie)]
}

/// `±d₁ ± d₂ …` for all signs; all of them plus comes first.
fn signed_sums(differences: &[f64]) -> Vec<f64> {
    let double = |sums: Vec<f64>, d: &f64| {
        let minus: Vec<f64> = sums.iter().map(|sum| sum - d).collect();
        sums.iter().map(|sum| sum + d).chain(minus).collect()
    };
    differences.iter().fold(vec![0.0], double)
}

/// Sums of all choices of `wanted` values.
fn each_split(values: &[f64], wanted: usize, sum: f64, visit: &mut impl FnMut(f64)) {
    if wanted == 0 {
        return visit(sum);
    }
    for i in 0..=values.len() - wanted {
        each_split(&values[i + 1..], wanted - 1, sum + values[i], visit);
    }
}

/// `C(n, k)`, exact up to 2⁵³ and close beyond.
fn binomial(n: usize, k: usize) -> f64 {
    (1..=k.min(n - k)).fold(1.0, |product, i| product * (n - k.min(n - k) + i) as f64 / i as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::MOST_DRAWS;

    #[test]
    fn the_smallest_p_is_reached_and_never_passed() {
        for n in 1..=8 {
            let base = vec![0.0; n];
            let new: Vec<f64> = (1..=n).map(|i| i as f64).collect();
            let tested = sign_flip(&base, &new, Resampling::default());
            let smallest = (2.0 / (1_u64 << n) as f64).min(1.0);
            assert_eq!((tested.p, tested.smallest_p), (smallest, smallest), "{n} pairs");
        }
        assert_eq!([0.05, 0.0625, 0.01].map(fewest_pairs), [6, 5, 8]);
        // 2/C(8, 4) = 1/35, 2/C(6, 3) = 1/10.
        assert_eq!([0.05, 0.1, 1.0].map(fewest_runs), [4, 3, 1]);
        // Where C(2n, n) leaves the floats, 2/C is 0 and reaches any level.
        assert!((500..600).contains(&fewest_runs(0.0)), "{}", fewest_runs(0.0));
    }

    #[test]
    fn equal_data_show_nothing() {
        let equal = [0.93; 6];
        assert_eq!(sign_flip(&equal, &equal, Resampling::default()).p, 1.0);
        assert_eq!(split(&equal, &equal, Resampling::default()).p, 1.0);
        let long = [0.93; 40];
        assert_eq!(sign_flip(&long, &long, Resampling::default()).p, 1.0);
        assert_eq!(split(&long, &long, Resampling::default()).p, 1.0);
    }

    #[test]
    fn rounding_does_not_break_ties() {
        // Differences of 2, 2, 1, 1, 1, -1 examples in 10,000: in whole numbers 1 of 64 patterns
        // has the sum 8, and C(4, 1) + … others have the sum 6 of ours. Counted by hand: sums ≥ 6
        // are those with at most one sign of a 1 against us, 1 + 4.
        let examples = [2.0, 2.0, 1.0, 1.0, 1.0, -1.0];
        let base = [0.9331, 0.9297, 0.9342, 0.9310, 0.9353, 0.9288];
        let new: Vec<f64> = base.iter().zip(examples).map(|(b, e)| b + e / 10_000.0).collect();
        assert_eq!(sign_flip(&base, &new, Resampling::default()).p, 2.0 * 5.0 / 64.0);
    }

    #[test]
    fn drawing_agrees_with_counting() {
        let values = |seed: u64, shift: f64| -> Vec<f64> {
            (0..20).map(|i| Stream::new(seed, 0).normal(i) + shift).collect()
        };
        let (base, new) = (values(1, 0.0), values(2, 0.6));
        let exact = sign_flip(&base, &new, Resampling::default());
        assert!(exact.exact && exact.p > 0.01 && exact.p < 0.9, "{exact:?}");
        // One more pair without a difference changes no sum, and 21 pairs are drawn.
        let longer = |values: &[f64]| [values, &[0.0]].concat();
        let resampling = Resampling { resamples: 99_999, seed: 3 };
        let drawn = sign_flip(&longer(&base), &longer(&new), resampling);
        // Four standard errors of 2b/B, b binomial with share p/2.
        let error = 4.0 * 2.0 * (exact.p / 2.0 * (1.0 - exact.p / 2.0) / 1e5).sqrt();
        assert!(!drawn.exact && (drawn.p - exact.p).abs() < error, "{drawn:?} {exact:?}");
    }

    #[test]
    fn the_normal_limit_agrees_with_drawing() {
        let values = |seed: u64, n: u64, shift: f64| -> Vec<f64> {
            (0..n).map(|i| Stream::new(seed, 0).normal(i) + shift).collect()
        };
        let (base, new, fewer) = (values(1, 300, 0.0), values(2, 300, 0.03), values(3, 200, 0.05));
        let drawn = Resampling { resamples: 99_999, seed: 3 };
        let infeasible = Resampling { resamples: MOST_DRAWS, seed: 3 };
        for (one, two) in [
            (sign_flip(&base, &new, drawn), sign_flip(&base, &new, infeasible)),
            (split(&base, &fewer, drawn), split(&base, &fewer, infeasible)),
        ] {
            assert!(one.p > 0.02 && one.p < 0.9, "{one:?}");
            // Four standard errors of 2b/B, and the next term of the expansion: a kurtosis of order
            // 1 over 300 values.
            let error = 8.0 * (one.p / 2.0 * (1.0 - one.p / 2.0) / 1e5).sqrt() + 1.0 / 300.0;
            assert!(!two.exact && (one.p - two.p).abs() < error, "{one:?} {two:?}");
        }
        let equal = [0.93; 40];
        assert_eq!(sign_flip(&equal, &equal, infeasible).p, 1.0);
        assert_eq!(split(&equal, &equal, infeasible).p, 1.0);
    }

    #[test]
    fn splits_are_counted_once_each() {
        assert_eq!((binomial(6, 3), binomial(20, 10), binomial(5, 5)), (20.0, 184_756.0, 1.0));
        let mut seen = Vec::new();
        each_split(&[1.0, 2.0, 4.0, 8.0], 2, 0.0, &mut |sum| seen.push(sum));
        assert_eq!(seen, [3.0, 5.0, 9.0, 6.0, 10.0, 12.0]);
        // 3 against 3 values, fully apart: 2 of 20 splits.
        let tested = split(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], Resampling::default());
        assert_eq!((tested.p, tested.smallest_p, tested.exact), (0.1, 0.1, true));
    }

    #[test]
    fn holm_by_hand() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
