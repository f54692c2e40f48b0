//! The median of a quantity of which each draw is known to lie between two numbers, without assuming a
//! distribution.
//!
//! An example is the edge of stability of a training with mini-batches: each order of the batches has
//! its own, and a search brackets it. With `n` independent draws `e₁, …, eₙ` a median `m` lies outside
//! the order statistics `e₍ₖ₎ ≤ e₍ₙ₊₁₋ₖ₎` only if fewer than `k` draws are at most `m`, or at least `m`;
//! either has a probability of at most that of fewer than `k` heads in `n` tosses of a fair coin:
//!
//! ```text
//! P(e₍ₖ₎ ≤ m ≤ e₍ₙ₊₁₋ₖ₎)  ≥  1 − 2 Σ_{j<k} C(n, j)/2ⁿ            k = 1:  1 − 2·2⁻ⁿ
//! ```
//!
//! for every distribution, also one with atoms. `k` is the largest one with a confidence of at least the
//! level, or 1 where no `k` has it. If `loᵢ ≤ eᵢ ≤ hiᵢ`, then the sorted ends satisfy `lo₍ₖ₎ ≤ e₍ₖ₎ ≤ hi₍ₖ₎`,
//! so `[lo₍ₖ₎, hi₍ₙ₊₁₋ₖ₎]` has at least the same confidence, with the widths of all brackets included. A draw of
//! which nothing is known has `lo = 0` or `−∞` and `hi = ∞`: it widens the interval, and keeps the confidence.
//! How a bracket was found does not matter, so a search may begin where earlier ones ended.
//!
//! **Why no isotonic fit?** The share of draws above a value, `#{i : eᵢ > x}/n`, is one minus an
//! empirical distribution function: it estimates `P(e > x)` (for an edge, the probability that a training at the
//! learning rate `x` is stable) and falls monotonically by construction, so there is nothing to fit.
//! The interval for its crossing of 1/2 is exact for every `n`, where that of an isotonic fit is
//! asymptotic.

use super::Interval;

/// Most draws: `2⁻ⁿ` must not underflow.
pub const MOST: usize = 1000;

/// An interval for a median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The interval.
    pub interval: Interval,
    /// Probability, at least, that it contains the median.
    pub confidence: f64,
    /// The lower end is the `rank`-th smallest lower end of a draw, the upper one the `rank`-th largest upper end.
    pub rank: usize,
}

impl MedianInterval {
    /// Of draws that lie in these intervals, with a confidence of at least `level` where there are draws enough.
    ///
    /// # Panics
    ///
    /// Without draws, with more than [`MOST`], or if an end is NaN.
    pub fn of(draws: &[Interval], level: f64) -> Self {
        let (rank, confidence) = rank(draws.len(), level);
        let sorted = |end: fn(&Interval) -> f64| {
            let mut ends: Vec<f64> = draws.iter().map(end).collect();
            assert!(!ends.iter().any(|end| end.is_nan()), "an end is NaN");
            ends.sort_by(f64::total_cmp);
            ends
        };
        let (low, high) = (sorted(|draw| draw.low), sorted(|draw| draw.high));
        let interval = Interval { low: low[rank - 1], high: high[draws.len() - rank] };
        Self { interval, confidence, rank }
    }
}

/// The largest rank from both ends with this confidence, else 1, and its confidence.
fn rank(n: usize, level: f64) -> (usize, f64) {
    assert!((1..=MOST).contains(&n), "{n} draws, expected 1 to {MOST}");
    // P(exactly j heads), from j = 0 on; each is exact to 3j roundings.
    let mut exactly = libm::ldexp(1.0, -(n as i32));
    let mut fewer = exactly;
    let mut found = (1, 1.0 - 2.0 * fewer);
    for rank in 2..=n.div_ceil(2) {
        exactly *= (n + 2 - rank) as f64 / (rank - 1) as f64;
        fewer += exactly;
        let confidence = 1.0 - 2.0 * fewer;
        if confidence < level {
            break;
        }
        found = (rank, confidence);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn ranks_and_confidences_are_those_of_the_binomial_distribution() {
        // scipy.stats.binom.cdf(k - 1, n, 0.5); the ranks for 95 % are those of printed tables.
        for (n, expected, confidence) in [
            (1, 1, 0.0),
            (2, 1, 0.5),
            (5, 1, 0.9375),
            (6, 1, 0.96875),
            (8, 1, 0.9921875),
            (9, 2, 0.9609375),
            (10, 2, 0.978515625),
            (20, 6, 0.9586105346679688),
            (100, 40, 0.9647997997822951),
            (1000, 469, 0.9537088026395019),
        ] {
            let (rank, found) = rank(n, 0.95);
            assert_eq!(rank, expected, "{n} draws");
            // Three roundings for each term of the sum.
            assert!((found - confidence).abs() < 3.0 * 1000.0 * f64::EPSILON, "{n}: {found}");
        }
    }

    #[test]
    fn ends_are_sorted_on_their_own_and_a_draw_of_which_nothing_is_known_widens() {
        let draw = |low: f64, high: f64| Interval { low, high };
        let draws = [(3.0, 3.5), (1.0, 9.0), (2.0, 2.5), (4.0, 4.5), (2.2, 2.3), (2.6, 2.7)];
        let mut draws: Vec<Interval> = draws.map(|(low, high)| draw(low, high)).to_vec();
        let found = MedianInterval::of(&draws, 0.95);
        assert_eq!((found.interval, found.confidence, found.rank), (draw(1.0, 9.0), 0.96875, 1));
        draws.extend([draw(0.0, f64::INFINITY), draw(3.1, 3.2), draw(2.8, 2.9)]);
        let found = MedianInterval::of(&draws, 0.95);
        assert_eq!((found.interval, found.rank), (draw(1.0, 9.0), 2));
    }

    #[test]
    fn intervals_contain_the_median_as_often_as_they_say() {
        // Two distributions with the median 0: a skewed one, and one with an atom of weight 0.3 there. The brackets
        // are made of random numbers, too.
        let skewed = |z: f64| if z < 0.0 { z } else { 100.0 * z * z };
        let with_atom = |z: f64| if z.abs() < 0.385 { 0.0 } else { z };
        for (of, width) in [(skewed as fn(f64) -> f64, 0.0), (with_atom, 0.0), (skewed, 0.1)] {
            for n in [6, 9, 20] {
                let repeats: u64 = 4000;
                let mut hits = 0;
                let mut confidence = 0.0;
                for repeat in 0..repeats {
                    let stream = Stream::new(n as u64, repeat);
                    let draws: Vec<Interval> = (0..n as u64)
                        .map(|i| {
                            let e = of(stream.normal(2 * i));
                            let share = stream.normal(2 * i + 1).abs().min(1.0);
                            Interval { low: e - share * width, high: e + (1.0 - share) * width }
                        })
                        .collect();
                    let found = MedianInterval::of(&draws, 0.95);
                    hits += u64::from(found.interval.contains(0.0));
                    confidence = found.confidence;
                }
                let share = hits as f64 / repeats as f64;
                // Three standard errors of a share.
                let error = 3.0 * (confidence * (1.0 - confidence) / repeats as f64).sqrt();
                assert!(share > confidence - error, "{n}: {share} of {confidence}");
                // Exact where nothing widens it.
                let is_exact = width == 0.0 && of(0.1) != 0.0;
                assert!(!is_exact || share < confidence + error, "{n}: {share} of {confidence}");
            }
        }
    }
}
