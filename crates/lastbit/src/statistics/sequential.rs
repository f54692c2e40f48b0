//! A group-sequential t-test: look at the runs a few times while they come in, stop when a boundary is
//! crossed, and keep the level.
//!
//! ```text
//! looks       n_1 < n_2 < … < n_K = N runs (pairs, or runs a side), equally spaced
//! statistic   t_k, the usual t of all runs so far, with ν_k degrees of freedom
//! boundary    t_{ν_k} at the normal share Φ(C w_k):   w_k = 1           Pocock
//!                                                     w_k = √(N/n_k)    O'Brien-Fleming
//! ```
//!
//! so at each look the p-value of the t-test is compared with a nominal level, the same at all looks
//! (Pocock) or small at first and close to the whole level at the end (O'Brien-Fleming). Looking five
//! times at 5 % without a correction gives 14 % of false positives. The published constants `C` hold for
//! a known σ; with t quantiles and looks at 3, 6 and 8 pairs they give 5.3 % and 5.6 % of false positives
//! at 5 %. Here `C` is calibrated on [`PATHS`] simulated studies without an effect, with these very
//! looks: the smallest `C` at which the share of false positives lies three of its standard errors below
//! the level. Whatever σ is, it cancels from t, so the level does not depend on how well σ was guessed;
//! the power does.
//!
//! **A study in a few draws.** With unit σ the sum of m new runs and their squares are
//!
//! ```text
//! S += √m z,   Q += z² + χ²_{m−1}         z normal
//! paired        t = S/√n / √((Q − S²/n)/(n − 1))
//! independent   the same of (y_i − x_i)/√2, and its sum of squares grows by that of (y_i + x_i)/√2
//!               around their mean: χ²_m more (χ²_{m−1} at the first look), ν = 2n − 2
//! ```
//!
//! and an effect of `d` σ adds `d √n` (`d √(n/2)` for independent runs) to `S/√n`, and nothing to the
//! sum of squares. Chi-square variables by Marsaglia and Tsang's rejection, exact for any degrees of
//! freedom.
//!
//! References: Jennison and Turnbull, *Group sequential methods*, 2000, 2 and 4.4; Marsaglia and
//! Tsang, *ACM Trans. Math. Software* 26, 2000.

use rayon::prelude::*;

use super::distributions::{normal_cdf, student_cdf, student_quantile};
use super::power::{Design, Tails};
use super::stream;
use crate::rng::Stream;

/// Simulated studies.
pub const PATHS: usize = 200_000;
/// Runs (pairs, or a side) of a plan at most.
pub const MOST_RUNS: usize = 100_000;
/// Looks of a plan at most.
pub const MOST_LOOKS: usize = 20;

crate::named_enum! {
    /// How the level is spread over the looks.
    pub enum Boundary {
        /// Hard to cross early; the last look is nearly that of a single test.
        ObrienFleming = "obrien-fleming",
        /// The same nominal level at each look: stops earlier, and needs more runs at most.
        Pocock = "pocock",
    }
}

/// What is to be decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    /// How runs are compared.
    pub design: Design,
    /// Which deviations count.
    pub tails: Tails,
    /// The effect to be found, in units of σ.
    pub effect: f64,
    /// Chance of a false positive, over all looks.
    pub level: f64,
    /// Chance of finding the effect, over all looks.
    pub power: f64,
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The looks.
    pub looks: Vec<Look>,
    /// Runs that a single look at the end would need.
    pub runs_of_one_look: usize,
    /// Simulated share of false positives.
    pub false_positives: f64,
    /// Simulated share of studies that find the effect.
    pub power: f64,
    /// Expected runs without an effect, and with it.
    pub expected_runs: [f64; 2],
}

/// A look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Pairs, or runs a side, so far.
    pub n: usize,
    /// What |t| (one-sided: t) must reach to stop.
    pub t: f64,
    /// What the p-value of the t-test must not exceed: the same in other words.
    pub p: f64,
    /// Chance to have stopped by now without an effect, and with it.
    pub stopped: [f64; 2],
}

/// The plan with so many looks and the fewest runs that reaches the power; `None` beyond [`MOST_RUNS`].
///
/// # Panics
///
/// Unless there is a look, and at most [`MOST_LOOKS`].
pub fn plan(aim: Aim, looks: usize, boundary: Boundary, seed: u64) -> Option<Plan> {
    assert!((1..=MOST_LOOKS).contains(&looks), "{looks} looks");
    let one = aim.design.runs_needed(aim.effect, aim.level, aim.power, aim.tails)?;
    // The first look has two runs at least, and no two looks are the same.
    let fewest = one.max(looks + 1);
    let enough = |n: usize| with_runs(aim, n, looks, boundary, seed).power >= aim.power;
    let mut high = fewest;
    while high <= MOST_RUNS && !enough(high) {
        high += high.div_ceil(4);
    }
    if high > MOST_RUNS {
        return None;
    }
    let mut low = fewest - 1;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(Plan { runs_of_one_look: one, ..with_runs(aim, high, looks, boundary, seed) })
}

/// The plan of `looks` looks at up to `runs` runs.
fn with_runs(aim: Aim, runs: usize, looks: usize, boundary: Boundary, seed: u64) -> Plan {
    let sizes: Vec<usize> = (1..=looks).map(|k| (runs * k).div_ceil(looks).max(k + 1)).collect();
    let sizes: Vec<usize> = sizes.into_iter().map(|n| n.min(runs)).collect();
    let studies: Vec<Vec<[f64; 2]>> = (0..PATHS)
        .into_par_iter()
        .map(|path| study(aim.design, &sizes, Stream::new(seed, stream::SEQUENTIAL + path as u64)))
        .collect();
    let thresholds = |c: f64| -> Vec<f64> {
        let at = |n: &usize| {
            let weight = match boundary {
                Boundary::Pocock => 1.0,
                Boundary::ObrienFleming => (runs as f64 / *n as f64).sqrt(),
            };
            // Beyond the floats' reach a look does not stop.
            let tail = normal_cdf(-c * weight).max(1e-300);
            -student_quantile(tail, degrees(aim.design, *n))
        };
        sizes.iter().map(at).collect()
    };
    let stops = |thresholds: &[f64], effect: f64| -> Vec<usize> {
        let shift = |n: usize| match aim.design {
            Design::Paired => effect * (n as f64).sqrt(),
            Design::Independent => effect * (n as f64 / 2.0).sqrt(),
        };
        let shifts: Vec<f64> = sizes.iter().map(|n| shift(*n)).collect();
        let first = |study: &Vec<[f64; 2]>| {
            let crosses = |k: &usize| {
                let t = (study[*k][0] + shifts[*k]) / study[*k][1];
                t >= thresholds[*k] || aim.tails == Tails::Two && -t >= thresholds[*k]
            };
            (0..looks).find(crosses).unwrap_or(looks)
        };
        let mut counts = vec![0; looks];
        for at in studies.par_iter().map(first).collect::<Vec<usize>>() {
            if at < looks {
                counts[at] += 1;
            }
        }
        counts
    };
    let share = |count: usize| count as f64 / PATHS as f64;
    let allowed = aim.level - 3.0 * (aim.level * (1.0 - aim.level) / PATHS as f64).sqrt();
    // From no correction at all to one for every look; 40 bisections resolve 1e-11.
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..40 {
        let c = (low + high) / 2.0;
        let false_positives = share(stops(&thresholds(c), 0.0).iter().sum());
        if false_positives <= allowed { high = c } else { low = c }
    }
    let boundaries = thresholds(high);
    let counts = [0.0, aim.effect].map(|effect| stops(&boundaries, effect));
    let stopped = |side: usize, k: usize| share(counts[side][..=k].iter().sum());
    let expected = |side: usize| {
        let early: f64 =
            (0..looks - 1).map(|k| share(counts[side][k]) * (runs - sizes[k]) as f64).sum();
        runs as f64 - early
    };
    let look = |k: usize| {
        let tail = student_cdf(-boundaries[k], degrees(aim.design, sizes[k]));
        Look {
            n: sizes[k],
            t: boundaries[k],
            p: if aim.tails == Tails::Two { 2.0 * tail } else { tail },
            stopped: [stopped(0, k), stopped(1, k)],
        }
    };
    Plan {
        looks: (0..looks).map(look).collect(),
        runs_of_one_look: runs,
        false_positives: stopped(0, looks - 1),
        power: stopped(1, looks - 1),
        expected_runs: [expected(0), expected(1)],
    }
}

fn degrees(design: Design, n: usize) -> f64 {
    match design {
        Design::Paired => n as f64 - 1.0,
        Design::Independent => 2.0 * n as f64 - 2.0,
    }
}

/// At each look `S/√n` without an effect, and the estimate of σ.
fn study(design: Design, sizes: &[usize], stream: Stream) -> Vec<[f64; 2]> {
    let mut draws = Draws { stream, counter: 0 };
    let (mut before, mut sum, mut squares, mut across) = (0, 0.0, 0.0, 0.0);
    let look = |n: &usize| {
        let m = (n - before) as f64;
        let z = draws.normal();
        sum += m.sqrt() * z;
        squares += z * z + draws.chi_square(m - 1.0);
        if design == Design::Independent {
            across += draws.chi_square(if before == 0 { m - 1.0 } else { m });
        }
        before = *n;
        let within = (squares - sum * sum / *n as f64).max(0.0) + across;
        [sum / (*n as f64).sqrt(), (within / degrees(design, *n)).sqrt()]
    };
    sizes.iter().map(look).collect()
}

/// Random numbers in the order in which they are asked for.
struct Draws {
    stream: Stream,
    counter: u64,
}

impl Draws {
    fn normal(&mut self) -> f64 {
        self.counter += 1;
        self.stream.normal(self.counter)
    }

    fn uniform(&mut self) -> f64 {
        self.counter += 1;
        self.stream.uniform(self.counter)
    }

    /// Chi-square with a whole number of degrees of freedom; 0 with none.
    fn chi_square(&mut self, degrees: f64) -> f64 {
        if degrees < 3.0 {
            let squares = (0..degrees as usize).map(|_| {
                let z = self.normal();
                z * z
            });
            return squares.sum();
        }
        // Twice a gamma variable of half as many degrees.
        let d = degrees / 2.0 - 1.0 / 3.0;
        loop {
            let z = self.normal();
            let v = 1.0 + z / (9.0 * d).sqrt();
            let v = v * v * v;
            let u = self.uniform();
            if v > 0.0 && libm::log(u) < z * z / 2.0 + d - d * v + d * libm::log(v) {
                return 2.0 * d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIM: Aim =
        Aim { design: Design::Paired, tails: Tails::Two, effect: 1.0, level: 0.05, power: 0.8 };

    #[test]
    fn chi_square_variables_have_their_moments() {
        for degrees in [1.0, 2.0, 3.0, 10.0] {
            let mut draws = Draws { stream: Stream::new(9, 0), counter: 0 };
            let count = 40_000;
            let drawn: Vec<f64> = (0..count).map(|_| draws.chi_square(degrees)).collect();
            let mean = drawn.iter().sum::<f64>() / f64::from(count);
            let variance =
                drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(count);
            // Mean ν, variance 2ν; fourth central moment 12ν² + 48ν. Four standard errors.
            let error = 4.0 * (2.0 * degrees / f64::from(count)).sqrt();
            assert!((mean - degrees).abs() < error, "{degrees}: {mean}");
            let error =
                4.0 * ((8.0 * degrees * degrees + 48.0 * degrees) / f64::from(count)).sqrt();
            assert!((variance - 2.0 * degrees).abs() < error, "{degrees}: {variance}");
        }
    }

    #[test]
    fn with_many_runs_the_constants_are_the_published_ones() {
        // Jennison and Turnbull, tables 2.1 and 2.3: five looks at 5 %, two-sided, known σ.
        for (boundary, constant) in [(Boundary::Pocock, 2.413), (Boundary::ObrienFleming, 2.040)] {
            let found = with_runs(Aim { effect: 0.01, ..AIM }, 50_000, 5, boundary, 1);
            // At the last look the weight is 1. The level is held at three standard errors below 5 %
            // (0.0015 in all, by which C rises by up to 0.015) and is known to one of 0.0005, four of
            // which move C by 0.02; t and normal quantiles agree to 1e-4.
            let last = found.looks[4].t;
            assert!((last - constant - 0.007).abs() < 0.028, "{}: {last}", boundary.name());
        }
    }

    #[test]
    fn one_look_is_a_t_test() {
        let found = plan(AIM, 1, Boundary::Pocock, 1).unwrap();
        // 0.0015 below the level: the threshold rises by about 0.0015/(2 f(t)) = 0.015, known to four
        // of 0.005.
        let t = student_quantile(0.975, found.looks[0].n as f64 - 1.0);
        assert!((found.looks[0].t - t - 0.015).abs() < 0.03, "{found:?}");
        assert!(found.looks[0].n <= found.runs_of_one_look + 1 && found.power >= 0.8);
    }

    #[test]
    fn more_looks_need_more_runs_at_most_and_fewer_on_average() {
        let [few, many] = [1, 3].map(|looks| plan(AIM, looks, Boundary::Pocock, 1).unwrap());
        assert!(many.looks[2].n > few.looks[0].n);
        assert!(many.expected_runs[1] < few.expected_runs[1], "{many:?}");
        assert!(many.expected_runs[0] > many.expected_runs[1]);
        assert!(many.looks.windows(2).all(|pair| pair[0].n < pair[1].n));
        let sided = plan(Aim { tails: Tails::One, ..AIM }, 3, Boundary::Pocock, 1).unwrap();
        assert!(sided.looks[2].n < many.looks[2].n);
        let unpaired = plan(Aim { design: Design::Independent, ..AIM }, 3, Boundary::Pocock, 1);
        assert!(unpaired.unwrap().looks[2].n > many.looks[2].n);
    }
}
