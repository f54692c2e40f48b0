//! Do intervals, tests and power keep what they say? Known normal data, seeded.

use lastbit::rng::Stream;
use lastbit::statistics::permutation::sign_flip;
use lastbit::statistics::power::{Design, Tails};
use lastbit::statistics::sample::{Sample, mean};
use lastbit::statistics::sequential::{Aim, Boundary, plan};
use lastbit::statistics::t_test::Estimate;
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

/// Coverage of bootstrap intervals in so many samples, within four standard errors of what the page says.
fn check_bootstrap(count: u64) {
    let resampling = |i: u64| Resampling { resamples: 999, seed: i };
    let holds =
        |found: Option<Interval>, truth: f64| found.is_some_and(|found| found.contains(truth));
    let is_near = |found: f64, said: f64| (found - said).abs() < four_errors(said, count);
    for (n, of_mean, of_sigma) in
        [(6, 0.85, 0.71), (10, 0.89, 0.82), (20, 0.93, 0.90), (50, 0.94, 0.93)]
    {
        let found = share(count, |i| {
            holds(bootstrap::of_mean(&runs(i, n, MEAN, SIGMA), 0.95, resampling(i)), MEAN)
        });
        let found_sigma = share(count, |i| {
            holds(bootstrap::of_sigma(&runs(i, n, MEAN, SIGMA), 0.95, resampling(i)), SIGMA)
        });
        assert!(is_near(found, of_mean), "the mean of {n} runs: {found}");
        assert!(is_near(found_sigma, of_sigma), "sigma of {n} runs: {found_sigma}");
    }
}

#[test]
fn bootstrap_intervals_hold_the_truth_as_often_as_their_page_says() {
    check_bootstrap(600);
}

/// cargo test --release -p lastbit --test mathematics -- --ignored bootstrap
#[test]
#[ignore = "2000 samples each"]
fn bootstrap_intervals_of_many_samples_hold_the_truth_as_often_as_their_page_says() {
    check_bootstrap(2000);
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
        let gain = Design::Paired.sizes(n).detectable(0.05, 0.8, Tails::Two).unwrap() * SIGMA;
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
        let gain = Design::Independent.sizes(n).detectable(0.05, 0.8, Tails::Two).unwrap() * SIGMA;
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

/// Share of `count` studies of `n` pairs whose 95 % interval of the gain holds the truth.
fn coverage_of_pairs(n: usize, count: u64) -> f64 {
    share(count, |i| {
        let [base, new] =
            [(2 * i, 0.0), (2 * i + 1, 0.3)].map(|(i, m)| runs(i, n, MEAN + m, SIGMA));
        Estimate::of_pairs(&base, &new).unwrap().interval(0.95).contains(0.3)
    })
}

/// The same of two samples of different sizes and sigmas.
fn coverage_of_samples(sizes: [usize; 2], sigmas: [f64; 2], count: u64) -> f64 {
    share(count, |i| {
        let base = runs(2 * i, sizes[0], MEAN, sigmas[0]);
        let new = runs(2 * i + 1, sizes[1], MEAN + 0.3, sigmas[1]);
        Estimate::of_difference(&base, &new).unwrap().interval(0.95).contains(0.3)
    })
}

/// Coverage of the intervals of a gain. Paired: exact, so within four standard errors of 95 %. Welch:
/// an approximation, allowed another percent.
fn check_coverage(count: u64, pairs: &[usize], samples: &[([usize; 2], [f64; 2])]) {
    for n in pairs {
        let found = coverage_of_pairs(*n, count);
        println!("{n} pairs: {found}");
        assert!((found - 0.95).abs() < four_errors(0.95, count), "{n} pairs: {found}");
    }
    for (sizes, sigmas) in samples {
        let found = coverage_of_samples(*sizes, *sigmas, count);
        println!("{sizes:?} runs, sigmas {sigmas:?}: {found}");
        let tolerance = four_errors(0.95, count) + 0.01;
        assert!((found - 0.95).abs() < tolerance, "{sizes:?}, {sigmas:?}: {found}");
    }
}

#[test]
fn intervals_of_a_gain_hold_the_truth_in_95_percent() {
    check_coverage(20_000, &[2, 6], &[([6, 6], [0.16, 0.16]), ([6, 8], [0.16, 0.4])]);
}

/// cargo test --release -p lastbit --test mathematics -- --ignored --nocapture coverage
#[test]
#[ignore = "100,000 studies each: a minute"]
fn coverage_in_many_studies() {
    let samples = [[4, 4], [6, 6], [6, 8], [10, 10], [5, 20]]
        .map(|sizes| [(sizes, [0.16, 0.16]), (sizes, [0.16, 0.4])]);
    check_coverage(100_000, &[2, 3, 6, 10, 20], samples.as_flattened());
}

/// Share of studies that stop at one of these looks, and their mean number of runs; t is computed from
/// the runs themselves.
fn stopping(aim: Aim, looks: &[(usize, f64)], effect: f64, count: u64) -> (f64, f64) {
    let first = |i: u64| {
        let n = looks.last().unwrap().0;
        let all = [0, 1].map(|side| runs(5_000_000 + 2 * i + side, n, 0.0, SIGMA));
        let t = |n: usize| {
            let new: Vec<f64> = all[1][..n].iter().map(|x| x + effect * SIGMA).collect();
            // Of samples of one size Welch's standard error is the pooled one.
            let found = match aim.design {
                Design::Paired => Estimate::of_mean(&new),
                Design::Independent => Estimate::of_difference(&all[0][..n], &new),
            };
            let found = found.unwrap();
            found.value / found.error
        };
        let crossed = |(n, boundary): &&(usize, f64)| {
            let t = t(*n);
            t >= *boundary || aim.tails == Tails::Two && -t >= *boundary
        };
        looks.iter().find(crossed).map(|(n, _)| *n)
    };
    let stops: Vec<Option<usize>> = (0..count).into_par_iter().map(first).collect();
    let last = looks.last().unwrap().0;
    let expected = stops.iter().map(|n| n.unwrap_or(last) as f64).sum::<f64>() / count as f64;
    (stops.iter().flatten().count() as f64 / count as f64, expected)
}

/// A plan keeps its level and has its power, of studies that were not those of its calibration.
fn check_plan(aim: Aim, looks: usize, boundary: Boundary, count: u64) {
    let found = plan(aim, looks, boundary, 0).unwrap();
    let boundaries: Vec<(usize, f64)> = found.looks.iter().map(|look| (look.n, look.t)).collect();
    let (false_positives, expected) = stopping(aim, &boundaries, 0.0, count);
    let (power, expected_with) = stopping(aim, &boundaries, aim.effect, count);
    println!("{aim:?}, {boundary:?}: {boundaries:?}, level {false_positives}, power {power}");
    assert!(false_positives <= aim.level + four_errors(aim.level, count), "{false_positives}");
    // Calibrated three standard errors (0.0005 of 5 %) below the level, and not lower for nothing.
    assert!(false_positives >= aim.level - 0.004 - four_errors(aim.level, count));
    // The plan's own simulation has four standard errors of 0.0036 too.
    assert!((power - found.power).abs() < four_errors(0.8, count) + 0.0036, "{power}");
    // A number of runs between 0 and N has a deviation of N/2 at most.
    let n = boundaries.last().unwrap().0 as f64;
    let tolerance = 4.0 * n / 2.0 * ((1.0 / count as f64).sqrt() + (1.0 / 200_000_f64).sqrt());
    assert!((expected - found.expected_runs[0]).abs() < tolerance, "{expected}");
    assert!((expected_with - found.expected_runs[1]).abs() < tolerance, "{expected_with}");
}

const AIM: Aim =
    Aim { design: Design::Paired, tails: Tails::Two, effect: 1.5, level: 0.05, power: 0.8 };

#[test]
fn a_sequential_plan_keeps_its_level_with_few_runs() {
    check_plan(AIM, 3, Boundary::Pocock, 20_000);
    check_plan(AIM, 3, Boundary::ObrienFleming, 20_000);
    let independent = Aim { design: Design::Independent, tails: Tails::One, ..AIM };
    check_plan(independent, 2, Boundary::Pocock, 20_000);
}

/// cargo test --release -p lastbit --test mathematics -- --ignored --nocapture plans
#[test]
#[ignore = "100,000 studies each: minutes"]
fn plans_of_many_kinds_keep_their_level() {
    for design in [Design::Paired, Design::Independent] {
        for tails in [Tails::One, Tails::Two] {
            for (effect, looks) in [(3.0, 2), (1.5, 3), (1.0, 5), (0.5, 5)] {
                for boundary in [Boundary::Pocock, Boundary::ObrienFleming] {
                    check_plan(Aim { design, tails, effect, ..AIM }, looks, boundary, 100_000);
                }
            }
        }
    }
}

#[test]
fn one_sided_tests_and_equivalence_keep_their_level() {
    const COUNT: u64 = 20_000;
    for n in [2, 6, 12] {
        // The mean is the target: every "below" is a false one.
        let below = share(COUNT, |i| {
            Estimate::of_mean(&runs(i, n, MEAN, SIGMA)).unwrap().p_below(MEAN) <= 0.05
        });
        assert!((below - 0.05).abs() < four_errors(0.05, COUNT), "{n} runs: {below}");
        // The gain is the margin: every "equivalent" is a false one.
        let equivalent = share(COUNT, |i| {
            let gain = 2.0 * SIGMA;
            Estimate::of_mean(&runs(i, n, gain, SIGMA)).unwrap().equivalence(gain, 0.05).p <= 0.05
        });
        assert!(equivalent <= 0.05 + four_errors(0.05, COUNT), "{n} runs: {equivalent}");
    }
}
