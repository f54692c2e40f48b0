//! How two runs differ, example by example, although their accuracies may be equal.
//!
//! ```text
//! churn          share of examples that two runs give different classes
//! disagreement   share of examples that one gets right and the other wrong: c
//! ```
//!
//! both as means over all pairs of runs. If the `c m` examples in dispute of `m` fell to either run
//! by the toss of a coin, the difference of two accuracies would have the variance `c/m`, and a run's
//! accuracy `σ = √(c/(2m))`. A measured sigma above it says that examples move together.

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

/// The sigma of an accuracy if disputed examples were tosses of a coin.
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

    #[test]
    fn examples_that_flip_by_themselves_have_the_sigma_of_coin_tosses() {
        // 200 runs; each of 500 examples is right with chance 1/2, by itself.
        let run =
            |r: u64| -> Vec<bool> { (0..500).map(|i| Stream::new(4, r).sign(i) > 0.0).collect() };
        let runs: Vec<Vec<bool>> = (0..200).map(run).collect();
        let views: Vec<&[bool]> = runs.iter().map(Vec::as_slice).collect();
        let disagreement = mean_difference(&views).unwrap();
        let accuracy = |run: &Vec<bool>| run.iter().filter(|right| **right).count() as f64 / 500.0;
        let measured = Sample::of(&runs.iter().map(accuracy).collect::<Vec<_>>()).sigma.unwrap();
        let predicted = coin_toss_sigma(disagreement, 500);
        // A deviation of 200 values has the relative standard error 1/√398 = 5 %: four of them.
        assert!((measured / predicted - 1.0).abs() < 0.2, "{measured} {predicted}");
    }
}
