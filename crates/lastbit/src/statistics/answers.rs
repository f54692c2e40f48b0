//! How two runs differ, example by example, although their accuracies may be equal.
//!
//! ```text
//! churn          share of examples that two runs give different classes
//! disagreement   share of examples that one gets right and the other wrong: c
//! ```
//!
//! both as means over all pairs of runs.
//!
//! **If examples were independent.** Let a run get example i right with chance `p_i`, whatever the
//! others do and whatever it does on other examples. Then
//!
//! ```text
//! c   = (1/m) Σ 2 p_i (1 − p_i)                  on average
//! σ²  = (1/m²) Σ p_i (1 − p_i) = c/(2m)          variance of the accuracy, which is Σ right/m
//! ```
//!
//! whatever the `p_i`. The general variance adds `(1/m²) Σ_{i≠j} cov(i, j)`: a σ above `√(c/(2m))` says
//! that examples are right or wrong together, one below it that they make up for each other. Of few
//! runs σ is known badly; only a value outside its interval says so.

/// Mean over the pairs of `runs` of the share of places at which they differ. `None` below two runs,
/// or without examples.
///
/// # Panics
///
/// If the runs differ in length.
pub fn mean_difference<T: PartialEq>(runs: &[&[T]]) -> Option<f64> {
    let examples = runs.first()?.len();
    assert!(runs.iter().all(|run| run.len() == examples), "answers to different test sets");
    let pairs = runs.len() * (runs.len() - 1) / 2;
    if pairs == 0 || examples == 0 {
        return None;
    }
    let mut differing = 0_usize;
    for (i, one) in runs.iter().enumerate() {
        for other in &runs[i + 1..] {
            differing += one.iter().zip(*other).filter(|(a, b)| a != b).count();
        }
    }
    Some(differing as f64 / (pairs * examples) as f64)
}

/// The sigma of an accuracy if examples were right or wrong independently of each other.
pub fn coin_toss_sigma(disagreement: f64, examples: usize) -> f64 {
    (disagreement / (2.0 * examples as f64)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::statistics::sample::Sample;

    #[test]
    fn differences_are_means_over_pairs() {
        let runs: [&[u8]; 3] = [&[0, 1, 2, 3], &[0, 1, 2, 0], &[1, 1, 2, 0]];
        // 1, 2 and 1 of 4 examples.
        assert_eq!(mean_difference(&runs), Some(4.0 / 12.0));
        assert_eq!((mean_difference(&runs[..1]), mean_difference::<u8>(&[])), (None, None));
        assert_eq!(mean_difference::<u8>(&[&[], &[]]), None);
    }

    /// Sigma of the accuracy of 400 runs on 500 examples, over `coin_toss_sigma` of their disagreement.
    fn ratio(right: impl Fn(u64, u64) -> bool) -> f64 {
        let runs: Vec<Vec<bool>> =
            (0..400).map(|run| (0..500).map(|i| right(run, i)).collect()).collect();
        let views: Vec<&[bool]> = runs.iter().map(Vec::as_slice).collect();
        let disagreement = mean_difference(&views).unwrap();
        let accuracy = |run: &Vec<bool>| run.iter().filter(|right| **right).count() as f64 / 500.0;
        let measured = Sample::of(&runs.iter().map(accuracy).collect::<Vec<_>>()).sigma.unwrap();
        measured / coin_toss_sigma(disagreement, 500)
    }

    #[test]
    fn independent_examples_have_the_sigma_of_their_disagreement() {
        // Example i is right with a chance of its own, from 0 to 1; most are always right.
        let chance = |i: u64| if i < 300 { 1.0 } else { (i - 300) as f64 / 200.0 };
        let independent = ratio(|run, i| Stream::new(4, run).uniform(i) < chance(i));
        // A deviation of 400 values has the relative standard error 1/√798 = 3.5 %: four of them.
        assert!((independent - 1.0).abs() < 0.15, "{independent}");
        // Examples that stand and fall in tens: ten times the variance, as cov(i, j) = p (1 − p).
        let together = ratio(|run, i| Stream::new(5, run).uniform(i / 10) < chance(i / 10 * 10));
        assert!((together / 10.0_f64.sqrt() - 1.0).abs() < 0.15, "{together}");
    }
}
