//! Do intervals, tests and power keep what they say? Known normal data, seeded.

use lastbit::rng::Stream;
use lastbit::statistics::permutation::sign_flip;
use lastbit::statistics::power::Design;
use lastbit::statistics::sample::{Sample, mean};
use lastbit::statistics::{Interval, Resampling, bootstrap};
use rayon::prelude::*;

const SIGMA: f64 = 0.16;
const MEAN: f64 = 93.3;

/// Sample `i` of `n` normal runs.
fn runs(i: u64, n: usize, mean: f64, sigma: f64) -> Vec<f64> {
    let stream = Stream::new(20, i);
    (0..n as u64).map(|j| mean + sigma * stream.normal(j)).collect()
}

/// Share of `count` samples for which something holds.
fn share(count: u64, holds: impl Fn(u64) -> bool + Sync) -> f64 {
    (0..count).into_par_iter().filter(|i| holds(*i)).count() as f64 / count as f64
}

/// Four standard errors of a share of `count` samples.
fn four_errors(share: f64, count: u64) -> f64 {
    4.0 * (share * (1.0 - share) / count as f64).sqrt()
}

#[test]
fn sigma_is_recovered_and_its_interval_holds_it_in_95_percent() {
    const COUNT: u64 = 20_000;
    for n in [2, 6, 20] {
        let variance =
            (0..COUNT).map(|i| Sample::of(&runs(i, n, MEAN, SIGMA)).sigma.unwrap().powi(2));
        let found = (variance.sum::<f64>() / COUNT as f64).sqrt();
        // The mean of variances has the relative standard error √(2/((n−1) COUNT)); σ half of it.
        let tolerance = 4.0 * SIGMA * (2.0 / ((n - 1) as f64 * COUNT as f64)).sqrt() / 2.0;
        assert!((found - SIGMA).abs() < tolerance, "{n} runs: {found}");
        let covered = share(COUNT, |i| {
            Sample::of(&runs(i, n, MEAN, SIGMA)).sigma_interval(0.95).unwrap().contains(SIGMA)
        });
        assert!((covered - 0.95).abs() < four_errors(0.95, COUNT), "{n} runs: {covered}");
    }
}

#[test]
fn bootstrap_intervals_hold_the_truth_as_often_as_their_page_says() {
    const COUNT: u64 = 2000;
    let resampling = |i: u64| Resampling { resamples: 999, seed: i };
    let holds =
        |found: Option<Interval>, truth: f64| found.is_some_and(|found| found.contains(truth));
    // Four standard errors around what the page says.
    let is_near = |found: f64, said: f64| (found - said).abs() < four_errors(said, COUNT);
    for (n, of_mean, of_sigma) in
        [(6, 0.85, 0.71), (10, 0.89, 0.82), (20, 0.93, 0.90), (50, 0.94, 0.93)]
    {
        let found = share(COUNT, |i| {
            holds(bootstrap::of_mean(&runs(i, n, MEAN, SIGMA), 0.95, resampling(i)), MEAN)
        });
        let found_sigma = share(COUNT, |i| {
            holds(bootstrap::of_sigma(&runs(i, n, MEAN, SIGMA), 0.95, resampling(i)), SIGMA)
        });
        assert!(is_near(found, of_mean), "the mean of {n} runs: {found}");
        assert!(is_near(found_sigma, of_sigma), "sigma of {n} runs: {found_sigma}");
    }
}

#[test]
fn the_sign_flip_test_cries_wolf_in_at_most_5_percent() {
    const COUNT: u64 = 20_000;
    for n in [5, 6, 7, 10] {
        let zeros = vec![0.0; n];
        let false_positive = share(COUNT, |i| {
            sign_flip(&zeros, &runs(i, n, 0.0, SIGMA), Resampling::default()).p <= 0.05
        });
        // Exactly the largest multiple of 2/2ⁿ within 5 %, for data without ties.
        let patterns = f64::from(1 << n);
        let exact = (0.05 * patterns / 2.0).floor() * 2.0 / patterns;
        assert!(exact <= 0.05);
        let tolerance = four_errors(exact, COUNT);
        assert!(
            (false_positive - exact).abs() <= tolerance,
            "{n} pairs: {false_positive}, {exact}"
        );
    }
}

#[test]
fn the_detectable_gain_is_detected_in_80_percent() {
    const COUNT: u64 = 20_000;
    const FLIPPED: u64 = 2000;
    for (n, of_flips) in [(6, 0.63), (10, 0.795), (20, 0.80)] {
        let gain = Design::Paired.detectable(n, 0.05, 0.8).unwrap() * SIGMA;
        let critical = lastbit::statistics::distributions::student_quantile(0.975, n as f64 - 1.0);
        let by_t = share(COUNT, |i| {
            let values = runs(i, n, gain, SIGMA);
            let error = Sample::of(&values).sigma.unwrap() / (n as f64).sqrt();
            (mean(&values) / error).abs() > critical
        });
        assert!((by_t - 0.8).abs() < four_errors(0.8, COUNT), "{n} pairs: {by_t}");
        let zeros = vec![0.0; n];
        let by_flips = share(FLIPPED, |i| {
            sign_flip(&zeros, &runs(i, n, gain, SIGMA), Resampling::default()).p <= 0.05
        });
        let tolerance = four_errors(of_flips, FLIPPED);
        assert!((by_flips - of_flips).abs() < tolerance, "{n} pairs: {by_flips}");
    }
    for n in [6, 20] {
        let gain = Design::Independent.detectable(n, 0.05, 0.8).unwrap() * SIGMA;
        let nu = 2.0 * n as f64 - 2.0;
        let critical = lastbit::statistics::distributions::student_quantile(0.975, nu);
        let by_t = share(COUNT, |i| {
            let [base, new] = [(2 * i, 0.0), (2 * i + 1, gain)].map(|(i, m)| runs(i, n, m, SIGMA));
            let variances = [&base, &new].map(|side| Sample::of(side).sigma.unwrap().powi(2));
            let error = ((variances[0] + variances[1]) / n as f64).sqrt();
            ((mean(&new) - mean(&base)) / error).abs() > critical
        });
        assert!((by_t - 0.8).abs() < four_errors(0.8, COUNT), "{n} runs a side: {by_t}");
    }
}
