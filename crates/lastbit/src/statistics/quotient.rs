//! How many times as large as another is a standard deviation? Quotients with their intervals.
//!
//! **Two independent sets of groups**, each with its own mean: deviations within groups are pooled, and
//! their degrees of freedom add up.
//!
//! ```text
//! W = Σ_i Σ_j (x_ij − x̄_i)²/ν,   ν = Σ_i (n_i − 1)
//! σ_a/σ_b  in  √(W_a/(W_b F_{1−p/2})) … √(W_a/(W_b F_{p/2})),   F with ν_a, ν_b degrees of freedom
//! ```
//!
//! **A part of the total.** Groups `i` of `K` runs: x_ij = μ + g_i + e_ij. Within a group only `e` varies,
//! between runs of different groups `g + e` does. In a table of seeds (groups) times roundings, σ_e is
//! the standard deviation over roundings and √(σ_g² + σ_e²) that over seeds.
//!
//! ```text
//! W = Σ (x_ij − x̄_i)²/(S(K−1)),   B = K Σ (x̄_i − x̄)²/(S−1),   independent of each other
//! B/W · σ_e²/(σ_e² + K σ_g²)  has the F distribution with S−1, S(K−1) degrees of freedom
//! σ_e/√(σ_g² + σ_e²) = √(K/(K−1+f)),   f = B/W, or B/(W F) for an end of the interval
//! ```
//!
//! Deviations over groups at different `j` are not independent, for they share the `g_i`: of the runs
//! over seeds only `S − 1` are degrees of freedom of the seeds, however many roundings each seed has.
//! The second quotient is at most √(K/(K−1)). Both intervals are exact for normal runs.

use super::Interval;
use super::distributions::f_quantile;
use super::sample::deviation;
use crate::reduce::sum;

/// A quotient of standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quotient {
    /// The estimate.
    pub value: f64,
    /// Its interval.
    pub interval: Interval,
}

/// A standard deviation pooled within groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pooled {
    /// The standard deviation.
    pub sigma: f64,
    /// Its degrees of freedom.
    pub degrees: f64,
}

impl Pooled {
    /// Within these groups. `None` where no group has two runs.
    pub fn within(groups: &[Vec<f64>]) -> Option<Self> {
        let groups = || groups.iter().filter(|group| group.len() > 1);
        let of = |group: &Vec<f64>| (group.len() - 1) as f64;
        let degrees: f64 = groups().map(of).sum();
        let squares = groups().map(|group| of(group) * deviation(group) * deviation(group));
        let squares: Vec<f64> = squares.collect();
        (degrees > 0.0).then(|| Self { sigma: (sum(&squares) / degrees).sqrt(), degrees })
    }

    /// This over another that is independent of it. `None` where one of them is zero or not a number:
    /// equal runs show that σ is smaller than they resolve, and not how small.
    pub fn over(self, other: Self, confidence: f64) -> Option<Quotient> {
        let value = self.sigma / other.sigma;
        let end = |p: f64| value / f_quantile(p, self.degrees, other.degrees).sqrt();
        is_positive(value).then(|| quotient(value, end, confidence))
    }
}

/// Standard deviation within groups over that between runs of different groups. `None` as above, and
/// of fewer than two groups of two runs.
///
/// # Panics
///
/// If groups differ in size.
pub fn within_over_total(groups: &[Vec<f64>], confidence: f64) -> Option<Quotient> {
    let size = groups.first()?.len();
    assert!(groups.iter().all(|group| group.len() == size), "groups of different sizes");
    if groups.len() < 2 {
        return None;
    }
    let (s, k) = (groups.len() as f64, size as f64);
    let within = Pooled::within(groups)?;
    let means: Vec<f64> = groups.iter().map(|group| sum(group) / k).collect();
    let between = k.sqrt() * deviation(&means) / within.sigma;
    let value = |f: f64| (k / (k - 1.0 + f)).sqrt();
    let f = between * between;
    let end = |p: f64| value(f / f_quantile(1.0 - p, s - 1.0, within.degrees));
    is_positive(f).then(|| quotient(value(f), end, confidence))
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// Low and high ends stand at the shares above which they leave half of the doubt.
fn quotient(value: f64, end: impl Fn(f64) -> f64, confidence: f64) -> Quotient {
    let tail = (1.0 - confidence) / 2.0;
    Quotient { value, interval: Interval { low: end(1.0 - tail), high: end(tail) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn a_known_table() {
        // Means 2, 5, 11 and deviations ±1: W = 2/1, B = 2 · 21.
        let groups = vec![vec![1.0, 3.0], vec![4.0, 6.0], vec![10.0, 12.0]];
        let found = within_over_total(&groups, 0.95).unwrap();
        // f = 21; a handful of roundings.
        assert!((found.value - (2.0_f64 / 22.0).sqrt()).abs() < 1e-15, "{found:?}");
        assert!(found.interval.contains(found.value));
        let pooled = Pooled::within(&groups).unwrap();
        assert_eq!((pooled.sigma, pooled.degrees), (2.0_f64.sqrt(), 3.0));
    }

    #[test]
    fn without_spread_or_without_runs_there_is_no_quotient() {
        let equal = vec![vec![1.0; 3]; 2];
        assert_eq!(within_over_total(&equal, 0.95), None);
        assert_eq!(within_over_total(&[vec![1.0, 2.0]], 0.95), None);
        assert_eq!(within_over_total(&[vec![1.0, 2.0], vec![f64::NAN, 0.0]], 0.95), None);
        assert_eq!(Pooled::within(&[vec![1.0], vec![2.0]]), None);
        let [zero, one] = [equal, vec![vec![1.0, 2.0]]].map(|x| Pooled::within(&x).unwrap());
        assert_eq!((zero.over(one, 0.95), one.over(zero, 0.95)), (None, None));
    }

    /// Of 2000 tables of four seeds times six roundings, each interval of 90 % misses 10 %: 200 with a
    /// standard deviation of √(2000 · 0.1 · 0.9) = 13.4; four of them are 54.
    #[test]
    fn intervals_miss_as_often_as_they_say() {
        let tables = 2000;
        let normal = |table: u64, stream: u64, i: u64| Stream::new(table, stream).normal(i);
        // Truth: σ_g = 2, σ_e = 1: 1/√5; and σ = 1 over σ = 3.
        let mut missed = [0_i32; 2];
        for table in 0..tables {
            let of_seed = |s: u64| 2.0 * normal(table, 0, s);
            let rows = |stream: u64, scale: f64, shift: &dyn Fn(u64) -> f64| -> Vec<Vec<f64>> {
                let run = |s: u64, k: u64| shift(s) + scale * normal(table, stream, 6 * s + k);
                (0..4).map(|s| (0..6).map(|k| run(s, k)).collect()).collect()
            };
            let groups = rows(1, 1.0, &of_seed);
            let found = within_over_total(&groups, 0.9).unwrap();
            missed[0] += i32::from(!found.interval.contains(0.2_f64.sqrt()));
            let [a, b] = [groups, rows(2, 3.0, &|_| 0.0)].map(|x| Pooled::within(&x).unwrap());
            let found = a.over(b, 0.9).unwrap();
            missed[1] += i32::from(!found.interval.contains(1.0 / 3.0));
        }
        assert!(missed.iter().all(|count| (count - 200).abs() < 54), "{missed:?}");
    }
}
