//! Does a check of a run against an envelope keep its level, and what does it find? Simulated runs, seeded.

use std::f64::consts::LN_10;

use lastbit::rng::Stream;
use lastbit::statistics::envelope::{Comparison, Metric, compare};
use rayon::prelude::*;

lastbit::named_enum! {
    /// What rounding may look like.
    enum Noise {
        /// Gaussian, independent from step to step.
        White = "white",
        /// Student's t with 3 degrees of freedom.
        HeavyTailed = "heavy-tailed",
        /// Each step adds to the last one.
        RandomWalk = "random walk",
        /// An autoregression that forgets in a hundred steps.
        Autoregressive = "AR 0.99",
        /// Grows from 1e-7 to 1 and stays; one direction, so that a run that is off is off at all steps.
        Growing = "growing",
        /// The same, independent from step to step.
        GrowingWhite = "growing, white",
        /// A slope for each run.
        Trend = "trend",
        /// Grows with a rate of its own in each run, 10 % apart, so that runs differ by factors of five before it stops.
        GrowthRates = "growth rates differ",
        /// One Student's t with 3 degrees of freedom for all steps of a run.
        HeavyTailedRuns = "heavy-tailed runs",
    }
}

/// All of them.
const KINDS: [Noise; 9] = [
    Noise::White,
    Noise::HeavyTailed,
    Noise::RandomWalk,
    Noise::Autoregressive,
    Noise::Growing,
    Noise::GrowingWhite,
    Noise::Trend,
    Noise::GrowthRates,
    Noise::HeavyTailedRuns,
];

/// Student's t with 3 degrees of freedom, of the normals from `4 counter`.
fn heavy_tailed(stream: &Stream, counter: u64) -> f64 {
    let normal = |j| stream.normal(4 * counter + j);
    let chi_square: f64 = (1..4).map(|j| normal(j).powi(2)).sum();
    normal(0) / (chi_square / 3.0).sqrt()
}

/// A run of a metric.
fn run(kind: Noise, stream: &Stream, steps: usize) -> Vec<f64> {
    // Counters beyond those of the steps.
    let of_run = 1 << 40;
    let normal = |step: usize| stream.normal(step as u64);
    let along = |step: usize| step as f64 / steps as f64;
    let falling = |step: usize| 3.0 * (-2.0 * along(step)).exp();
    // A spread of 1e-7, which has grown to 1 after 60 % of the steps.
    let grown = |step: usize| (-7.0 * LN_10 * (1.0 - along(step) / 0.6).max(0.0)).exp();
    let each = |value: &dyn Fn(usize) -> f64| (0..steps).map(value).collect::<Vec<f64>>();
    match kind {
        Noise::White => each(&normal),
        Noise::HeavyTailed => each(&|step| heavy_tailed(stream, step as u64)),
        Noise::RandomWalk => {
            let mut sum = 0.0;
            (0..steps)
                .map(|step| {
                    sum += normal(step);
                    sum
                })
                .collect()
        }
        Noise::Autoregressive => {
            let mut value = stream.normal(of_run);
            (0..steps)
                .map(|step| {
                    value = 0.99 * value + (1.0_f64 - 0.99 * 0.99).sqrt() * normal(step);
                    value
                })
                .collect()
        }
        Noise::Growing => {
            let amplitude = stream.normal(of_run);
            each(&|step| falling(step) + grown(step) * amplitude * (1.0 + 0.3 * normal(step)))
        }
        Noise::GrowingWhite => each(&|step| falling(step) + grown(step) * normal(step)),
        Noise::Trend => {
            let slope = stream.normal(of_run);
            each(&|step| slope * along(step) + 0.1 * normal(step))
        }
        Noise::GrowthRates => {
            let amplitude = stream.normal(of_run);
            let rate = 1.0 + 0.1 * stream.normal(of_run + 1);
            each(&|step| {
                let own = amplitude * (-7.0 * LN_10 * (1.0 - rate * along(step) / 0.6)).exp();
                falling(step) + own / (1.0 + own * own).sqrt() * (1.0 + 0.3 * normal(step))
            })
        }
        Noise::HeavyTailedRuns => {
            let amplitude = heavy_tailed(stream, of_run);
            each(&|step| amplitude * (1.0 + 0.1 * normal(step)))
        }
    }
}

/// How long and wide envelopes are.
#[derive(Clone, Copy)]
struct Shape {
    runs: usize,
    metrics: usize,
    steps: usize,
}

/// A run beside an envelope of its own kind; `bug` changes values of the new run's metrics.
fn checked(kind: Noise, shape: Shape, seed: u64, bug: impl Fn(usize, &mut Vec<f64>)) -> Comparison {
    let all: Vec<Vec<Vec<f64>>> = (0..shape.metrics)
        .map(|metric| {
            (0..=shape.runs)
                .map(|i| {
                    let stream = Stream::new(seed, (metric * 1000 + i) as u64);
                    let mut values = run(kind, &stream, shape.steps);
                    if i == shape.runs {
                        bug(metric, &mut values);
                    }
                    values
                })
                .collect()
        })
        .collect();
    let metrics: Vec<Metric> = all
        .iter()
        .map(|rows| {
            let (new, runs) = rows.split_last().expect("the new run is the last one");
            Metric { runs, new, spacing: 0.0 }
        })
        .collect();
    compare(&metrics)
}

const LEVEL: f64 = 0.01;

/// Shares of seeds in which rounding alone is taken for a bug: at 1 % and at 5 %, and in which no run is as far off.
fn false_alarms(kind: Noise, shape: Shape, count: u64) -> [f64; 3] {
    let found: Vec<[bool; 3]> = (0..count)
        .into_par_iter()
        .map(|seed| {
            let found = checked(kind, shape, seed, |_, _| {});
            let farthest = found.deviation > found.largest_of_runs();
            [found.p() <= LEVEL, found.p() <= 0.05, farthest]
        })
        .collect();
    [0, 1, 2].map(|i| found.iter().filter(|one| one[i]).count() as f64 / count as f64)
}

fn errors(share: f64, count: u64, how_many: f64) -> f64 {
    how_many * (share * (1.0 - share) / count as f64).sqrt()
}

fn shapes() -> impl Iterator<Item = Shape> {
    let sizes = [(1, 20), (5, 20), (1, 500), (5, 500)];
    [4, 8, 16].into_iter().flat_map(move |runs| {
        sizes.into_iter().map(move |(metrics, steps)| Shape { runs, metrics, steps })
    })
}

/// Four runs say too little of a spread that varies by factors from run to run: 2 to 4 % outside, not 1 %.
fn is_exception(kind: Noise, runs: usize) -> bool {
    kind == Noise::GrowthRates && runs == 4
}

#[test]
fn the_level_is_kept_in_short_runs() {
    const COUNT: u64 = 400;
    for kind in KINDS {
        for runs in [4, 8] {
            let shape = Shape { runs, metrics: 1, steps: 20 };
            let [found, _, farthest] = false_alarms(kind, shape, COUNT);
            let name = kind.name();
            let bound = LEVEL + errors(LEVEL, COUNT, 4.0);
            assert!(is_exception(kind, runs) || found <= bound, "{name}, {runs} runs: {found}");
            let exact = 1.0 / (runs + 1) as f64;
            let off = (farthest - exact).abs();
            assert!(off <= errors(exact, COUNT, 4.0), "{name}, {runs} runs: {farthest}");
        }
    }
}

/// False alarms over all kinds of noise, 1,000 envelopes each:
/// `cargo test --release -p lastbit --test mathematics envelope::false_alarms_in_full -- --ignored --nocapture`
#[test]
#[ignore = "minutes"]
fn false_alarms_in_full() {
    const COUNT: u64 = 1000;
    println!("noise                 n  metrics  steps  outside at 1 %  at 5 %  farthest  expected");
    let mut misses = Vec::new();
    for kind in KINDS {
        for shape in shapes() {
            let shares = false_alarms(kind, shape, COUNT);
            let Shape { runs, metrics, steps } = shape;
            let exact = 1.0 / (runs + 1) as f64;
            let percent = shares.map(|share| 100.0 * share);
            println!(
                "{:20} {runs:2} {metrics:8} {steps:6} {:15.1} {:7.1} {:9.1} {:9.1}",
                kind.name(),
                percent[0],
                percent[1],
                percent[2],
                100.0 * exact,
            );
            // One in 400 settings lies beyond three standard errors by chance where the level is used up; most do not
            // use it up.
            if shares[0] > LEVEL + errors(LEVEL, COUNT, 3.0) {
                misses.push((kind, runs));
            }
        }
    }
    assert!(misses.iter().all(|(kind, runs)| is_exception(*kind, *runs)), "{misses:?}");
}

/// What is found in four of five runs, in standard deviations, and when:
/// `cargo test --release -p lastbit --test mathematics envelope::power -- --ignored --nocapture`
#[test]
#[ignore = "a minute"]
fn power() {
    const COUNT: u64 = 300;
    let found = |kind, shape, bug: &(dyn Fn(usize, &mut Vec<f64>) + Sync)| {
        let hits = (0..COUNT)
            .into_par_iter()
            .filter(|seed| checked(kind, shape, *seed, bug).p() <= LEVEL)
            .count();
        hits as f64 / COUNT as f64
    };
    println!("deviation of one value, and of all values, found in 80 %, in standard deviations");
    for runs in [4, 8, 16, 32] {
        for steps in [20, 300] {
            let shape = Shape { runs, metrics: 1, steps };
            let sigmas = |at: std::ops::Range<usize>| {
                (1..1000).map(|size| f64::from(size) / 2.0).find(|size| {
                    let bug = |_: usize, values: &mut Vec<f64>| {
                        values[at.clone()].iter_mut().for_each(|x| *x += size);
                    };
                    found(Noise::White, shape, &bug) >= 0.8
                })
            };
            let (one, all) = (sigmas(steps / 2..steps / 2 + 1), sigmas(0..steps));
            println!("n = {runs:2}, {steps:3} steps: {one:?}, {all:?}");
        }
    }
    println!(
        "share found, and median of the first step, of a relative change from step 10 on; 300 steps, growing"
    );
    for runs in [4, 8, 16] {
        for change in [1e-5, 1e-4, 1e-3, 1e-2, 1e-1] {
            let shape = Shape { runs, metrics: 1, steps: 300 };
            let bug = |_: usize, values: &mut Vec<f64>| {
                values[10..].iter_mut().for_each(|x| *x *= 1.0 + change);
            };
            let mut first: Vec<usize> = (0..COUNT)
                .into_par_iter()
                .filter_map(|seed| {
                    let found = checked(Noise::Growing, shape, seed, bug);
                    let limit = found.limit(LEVEL);
                    (0..300).find(|step| found.metrics[0].relative(*step) > limit)
                })
                .collect();
            first.sort_unstable();
            let median = first.get(COUNT as usize / 2);
            let share = first.len() as f64 / COUNT as f64;
            println!("n = {runs:2}, change {change:e}: {share:.2}, {median:?}");
        }
    }
}
