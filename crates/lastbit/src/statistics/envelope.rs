//! Could rounding alone have made this run? One run beside `n` runs that differ by rounding and nothing else.
//!
//! The rule knows no model of a training. It uses that, if only rounding is at work, the new run is one more draw of
//! the same kind: the `n + 1` runs are exchangeable. Each of them is compared with the `n` others in the same way:
//!
//! ```text
//! run i, metric, step          mean m and variance v of the other runs at this step
//! resolution                   r² = q² + (2⁻²¹ m)²      q: spacing of a metric with few values, such as an accuracy
//! spread                       s² = (ν (v + r²) + 8 v₀)/(ν + 8)          ν = n − 1
//! neighbours                   v₀: geometric mean of v + r² over up to five points to either side, at most 100 (v + r²)
//! score                        z = (x − m)/(s √(1 + 1/n))
//! usual score                  u = max(1, |z| of the other runs at up to five points to either side)
//! deviation of run i           T_i = max(1, |z|/u over all steps and metrics)
//! ```
//!
//! So a run has one number, and neither the number of steps nor their correlation needs a correction. `T` of the new run
//! is compared with `T_1 … T_n` twice, and the larger `p` counts:
//!
//! ```text
//! rank      p = (1 + number of T_i ≥ T)/(n + 1)                          exact, never below 1/(n + 1)
//!           p = (max T_i/T)^a/(n + 1)       if T > max T_i               tail no heavier than T^-a, a = min(1.5, n/4)
//! t         log T against the predictive t of log T_1 … log T_n, ν = n − 1
//! ```
//!
//! The first is exact down to `1/(n + 1)`. Below that level no method can do without an assumption; this one holds if
//! the tail of `T` falls at least as fast as `T^-a`, more slowly than that of
//! any distribution with a finite variance. The
//! second assumes that `log T` is about normal. Where `T` hardly varies between runs (many independent steps) the
//! first is the careful one, where it varies much (a run that is off is off everywhere) the second. Neither alone keeps
//! the level over all kinds of noise in `tests/mathematics/envelope.rs`; the larger of both does, with the exception that
//! is named there.
//!
//! The variance of a few runs at one step is itself noise, and where it is small by chance `z` is large; that is why the
//! neighbours count, as much as eight further degrees of freedom. (Smyth's moderated t does the same for genes.) A
//! geometric mean, because the spread of rounding grows exponentially over the steps; with a bound, because before the
//! first update there is none, and where it sets in it jumps. The new run's own value never
//! enters its own `m`, `s` and `v₀`.
//!
//! Rounding is not of one kind at all steps. Where it sets in, one activation crosses a kink and one run leaves by
//! thousands of standard deviations of the others; later the runs are about normal. So a score counts relative to the
//! scores that the other runs have nearby: without that, the wildest steps would set the limit for all.
//!
//! References: Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World*, 2005 (exchangeability); Smyth,
//! *Statistical Applications in Genetics and Molecular Biology* 3, 2004 (moderated variances).

use super::distributions::{student_cdf, student_quantile};

/// Differences up to this share of a value are rounding of the metric itself: four ulps of float32, which other
/// orders of summation reach without a single step in between.
const RELATIVE_RESOLUTION: f64 = 1.0 / (1 << 21) as f64;
/// Points to either side that are neighbours.
const REACH: usize = 5;
/// What they count for, in degrees of freedom.
const DEGREES_OF_NEIGHBOURS: f64 = 8.0;
/// How many times the variance itself they may be. By chance that of four runs is below a hundredth of the true one in one
/// of a thousand cases; farther off, neighbours are of another kind, as those of a loss before the first update.
const MOST_SMOOTHED: f64 = 100.0;
/// Scores and deviations below this tell nothing: a run one standard deviation off is an ordinary one.
const LEAST_DEVIATION: f64 = 1.0;
/// The tail of the deviations of `n` runs is taken to fall at least with this power. It is a smaller one for few runs, whose
/// spreads are small by chance together, at many steps.
fn tail(n: usize) -> f64 {
    (n as f64 / 4.0).min(1.5)
}

/// A metric of the runs and of the new run, at the same steps; all values finite.
#[derive(Debug, Clone, Copy)]
pub struct Metric<'a> {
    /// For each run, its value at each step.
    pub runs: &'a [Vec<f64>],
    /// The values of the new run.
    pub new: &'a [f64],
    /// Spacing of a metric that takes few values, such as 1/300 for the accuracy of 300 images; otherwise 0.
    pub spacing: f64,
}

/// The new run beside the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// `T` of the new run.
    pub deviation: f64,
    /// `T_i` of the others, each beside all others and the new run.
    pub of_runs: Vec<f64>,
    /// The new run, metric by metric.
    pub metrics: Vec<Scores>,
}

/// The new run's values of one metric, step by step.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// Mean of the other runs.
    pub mean: Vec<f64>,
    /// Standard deviation of a new run around it, `s √(1 + 1/n)`.
    pub spread: Vec<f64>,
    /// `z`: how many of these the new run is off.
    pub score: Vec<f64>,
    /// `u`: the largest that the other runs are off nearby, at least 1.
    pub usual: Vec<f64>,
}

/// Compares a run with at least two others.
///
/// # Panics
///
/// If metrics have different runs, or runs different steps.
pub fn compare(metrics: &[Metric]) -> Comparison {
    let n = metrics.first().map_or(2, |metric| metric.runs.len());
    assert!(n >= 2, "a spread needs at least two runs, found {n}");
    let mut of_runs = vec![LEAST_DEVIATION; n];
    let mut deviation = LEAST_DEVIATION;
    let mut all = Vec::with_capacity(metrics.len());
    for metric in metrics {
        assert_eq!(metric.runs.len(), n, "each metric has all runs");
        let steps = metric.new.len();
        assert!(metric.runs.iter().all(|run| run.len() == steps), "all runs have the same steps");
        let rows: Vec<&[f64]> = metric.runs.iter().map(Vec::as_slice).chain([metric.new]).collect();
        let all_scores: Vec<Scores> = (0..=n).map(|i| scores(&rows, i, metric.spacing)).collect();
        let nearby: Vec<Vec<f64>> = all_scores.iter().map(Scores::largest_nearby).collect();
        let beside_others = |i: usize| {
            let mut of_run = all_scores[i].clone();
            let others = nearby.iter().enumerate().filter(|(k, _)| *k != i);
            for largest in others.map(|(_, largest)| largest) {
                for (usual, other) in of_run.usual.iter_mut().zip(largest) {
                    *usual = usual.max(*other);
                }
            }
            of_run
        };
        for (i, largest) in of_runs.iter_mut().enumerate() {
            *largest = largest.max(beside_others(i).largest());
        }
        let new = beside_others(n);
        deviation = deviation.max(new.largest());
        all.push(new);
    }
    Comparison { deviation, of_runs, metrics: all }
}

/// Run `i` beside all others.
fn scores(rows: &[&[f64]], i: usize, spacing: f64) -> Scores {
    let others = (rows.len() - 1) as f64;
    let degrees = others - 1.0;
    let steps = rows[i].len();
    let (mut mean, mut variance) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
    for step in 0..steps {
        let values =
            || rows.iter().enumerate().filter(|(row, _)| *row != i).map(|(_, row)| row[step]);
        // Centred by one of them, so that equal values have a variance of zero.
        let origin = rows[usize::from(i == 0)][step];
        let centre = origin + values().map(|x| x - origin).sum::<f64>() / others;
        let squares: f64 = values().map(|x| (x - centre) * (x - centre)).sum();
        let relative = RELATIVE_RESOLUTION * centre;
        mean.push(centre);
        variance.push(squares / degrees + spacing * spacing + relative * relative);
    }
    // A metric that is zero in all runs has no logarithm.
    let logarithms: Vec<f64> =
        variance.iter().map(|v| libm::log(v.max(f64::MIN_POSITIVE))).collect();
    let spread: Vec<f64> = (0..steps)
        .map(|step| {
            let near = &logarithms[step.saturating_sub(REACH)..(step + REACH + 1).min(steps)];
            let smooth = libm::exp(near.iter().sum::<f64>() / near.len() as f64)
                .min(MOST_SMOOTHED * variance[step]);
            let moderated = (degrees * variance[step] + DEGREES_OF_NEIGHBOURS * smooth)
                / (degrees + DEGREES_OF_NEIGHBOURS);
            (moderated * (1.0 + 1.0 / others)).sqrt()
        })
        .collect();
    // Where all runs are zero, there is no spread.
    let score = |step: usize| match rows[i][step] - mean[step] {
        0.0 => 0.0,
        difference => difference / spread[step],
    };
    let score = (0..steps).map(score).collect();
    Scores { mean, spread, score, usual: vec![LEAST_DEVIATION; steps] }
}

impl Scores {
    /// `|z|/u` at a step.
    pub fn relative(&self, step: usize) -> f64 {
        self.score[step].abs() / self.usual[step]
    }

    /// The largest of these.
    pub fn largest(&self) -> f64 {
        (0..self.score.len()).fold(0.0, |largest, step| self.relative(step).max(largest))
    }

    /// Largest `|z|` at each step and its neighbours.
    fn largest_nearby(&self) -> Vec<f64> {
        let steps = self.score.len();
        let around =
            |step: usize| &self.score[step.saturating_sub(REACH)..(step + REACH + 1).min(steps)];
        (0..steps)
            .map(|step| around(step).iter().fold(0.0, |most: f64, z| most.max(z.abs())))
            .collect()
    }
}

impl Comparison {
    /// Share of the runs, the new one included, that are as far off as the new one.
    pub fn rank_p(&self) -> f64 {
        let as_far = self.of_runs.iter().filter(|of_run| **of_run >= self.deviation).count();
        (1 + as_far) as f64 / self.runs_and_new()
    }

    /// The same, continued by the tail where no run is as far off.
    pub fn tail_p(&self) -> f64 {
        let largest = self.largest_of_runs();
        if self.deviation <= largest {
            return self.rank_p();
        }
        libm::pow(largest / self.deviation, tail(self.of_runs.len())) / self.runs_and_new()
    }

    /// By the predictive t of the logarithms.
    pub fn t_p(&self) -> f64 {
        let [mean, error, degrees] = self.predicted();
        let off = libm::log(self.deviation) - mean;
        // Runs that are all equally far off leave no room.
        if error == 0.0 {
            return if off > 0.0 { 0.0 } else { 1.0 };
        }
        student_cdf(-off / error, degrees)
    }

    /// The larger of both.
    pub fn p(&self) -> f64 {
        self.tail_p().max(self.t_p())
    }

    /// The deviation beyond which `p` is at most `level`.
    ///
    /// # Panics
    ///
    /// Unless `0 < level < 1`.
    pub fn limit(&self, level: f64) -> f64 {
        let mut largest_first = self.of_runs.clone();
        largest_first.sort_by(|a, b| b.total_cmp(a));
        // So many runs may be as far off, the new one included.
        let allowed = (level * self.runs_and_new()) as usize;
        let by_tail = match allowed {
            0 => {
                largest_first[0]
                    * libm::pow(1.0 / (level * self.runs_and_new()), 1.0 / tail(self.of_runs.len()))
            }
            _ => largest_first[(allowed - 1).min(largest_first.len() - 1)],
        };
        let [mean, error, degrees] = self.predicted();
        by_tail.max(libm::exp(mean + error * student_quantile(1.0 - level, degrees)))
    }

    /// The largest deviation among the other runs.
    pub fn largest_of_runs(&self) -> f64 {
        self.of_runs.iter().fold(0.0, |largest, of_run| of_run.max(largest))
    }

    /// How many runs would decide at this level by their rank, if none of the further ones were farther off than those at hand. `None`
    /// where there are as many: what does not decide is the spread of the deviations.
    pub fn runs_needed(&self, level: f64) -> Option<usize> {
        let ratio = (self.largest_of_runs() / self.deviation).min(1.0);
        let ratio = libm::pow(ratio, tail(self.of_runs.len()));
        let runs = ((ratio / level).ceil() as usize).saturating_sub(1);
        (runs > self.of_runs.len()).then_some(runs)
    }

    fn runs_and_new(&self) -> f64 {
        (self.of_runs.len() + 1) as f64
    }

    /// Mean, prediction error and degrees of freedom of the logarithm of a further deviation.
    fn predicted(&self) -> [f64; 3] {
        let n = self.of_runs.len() as f64;
        let logarithms: Vec<f64> = self.of_runs.iter().map(|of_run| libm::log(*of_run)).collect();
        let origin = logarithms[0];
        let mean = origin + logarithms.iter().map(|x| x - origin).sum::<f64>() / n;
        let squares: f64 = logarithms.iter().map(|x| (x - mean) * (x - mean)).sum();
        [mean, (squares / (n - 1.0) * (1.0 + 1.0 / n)).sqrt(), n - 1.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn runs(n: usize, value: impl Fn(usize, usize) -> f64, steps: usize) -> Vec<Vec<f64>> {
        (0..n).map(|run| (0..steps).map(|step| value(run, step)).collect()).collect()
    }

    fn one(runs: &[Vec<f64>], new: &[f64], spacing: f64) -> Comparison {
        compare(&[Metric { runs, new, spacing }])
    }

    fn noise(run: usize, step: usize) -> f64 {
        Stream::new(3, run as u64).normal(step as u64)
    }

    #[test]
    fn the_order_of_the_runs_does_not_matter() {
        let mut all = runs(6, noise, 30);
        let new = all.pop().unwrap();
        let found = one(&all, &new, 0.0);
        all.reverse();
        let mut turned = one(&all, &new, 0.0);
        turned.of_runs.reverse();
        for (a, b) in found.of_runs.iter().zip(&turned.of_runs) {
            // Sums of five numbers in two orders, then squares, differences and a quotient: some tens of roundings.
            assert!((a / b - 1.0).abs() < 100.0 * f64::EPSILON, "{a} and {b}");
        }
        assert!((found.deviation / turned.deviation - 1.0).abs() < 100.0 * f64::EPSILON);
    }

    #[test]
    fn any_run_may_be_the_new_one() {
        let all = runs(6, noise, 30);
        let (last, first) = (all.split_last().unwrap(), all.split_first().unwrap());
        let one_way = one(last.1, last.0, 0.0);
        let other_way = one(first.1, first.0, 0.0);
        assert!((one_way.of_runs[0] / other_way.deviation - 1.0).abs() < 100.0 * f64::EPSILON);
        assert!((one_way.deviation / other_way.of_runs[4] - 1.0).abs() < 100.0 * f64::EPSILON);
    }

    #[test]
    fn units_do_not_matter() {
        let mut all = runs(5, |run, step| 3.0 + noise(run, step), 30);
        let new = all.pop().unwrap();
        let found = one(&all, &new, 0.0);
        let scaled: Vec<Vec<f64>> =
            all.iter().map(|run| run.iter().map(|x| x * 1024.0).collect()).collect();
        let new: Vec<f64> = new.iter().map(|x| x * 1024.0).collect();
        let again = one(&scaled, &new, 0.0);
        // A power of two: only the logarithm of the variance rounds differently, by an ulp of about 14.
        assert!((found.deviation / again.deviation - 1.0).abs() < 100.0 * f64::EPSILON);
    }

    #[test]
    fn where_all_runs_are_equal_a_few_ulps_are_inside_and_a_percent_is_not() {
        let rate = runs(8, |_, step| 1e-3 * (1.0 + step as f64).recip(), 20);
        let off = |factor: f64| rate[0].iter().map(|x| x * factor).collect::<Vec<_>>();
        let ulps = one(&rate, &off(1.0 + 4.0 * 2f64.powi(-23)), 0.0);
        assert!(ulps.deviation <= ulps.limit(0.01) && ulps.p() > 0.01, "{ulps:?}");
        let percent = one(&rate, &off(1.01), 0.0);
        assert!(percent.deviation > percent.limit(0.01) && percent.p() < 1e-4, "{percent:?}");
        let zero = one(&runs(8, |_, _| 0.0, 3), &[0.0, 0.0, 0.0], 0.0);
        assert_eq!((zero.deviation, zero.p()), (1.0, 1.0));
        let not_zero = one(&runs(8, |_, _| 0.0, 3), &[0.0, 1.0, 0.0], 0.0);
        assert!(not_zero.p() < 0.01);
    }

    #[test]
    fn the_spacing_of_a_metric_is_no_deviation() {
        let accuracy = runs(8, |_, step| step as f64 / 300.0, 20);
        let mut new = accuracy[0].clone();
        new[7] += 1.0 / 300.0;
        assert!(one(&accuracy, &new, 1.0 / 300.0).p() > 0.1);
        assert!(one(&accuracy, &new, 0.0).p() < 0.01);
        new[7] += 30.0 / 300.0;
        assert!(one(&accuracy, &new, 1.0 / 300.0).p() < 0.01);
    }

    #[test]
    fn p_and_limit_agree() {
        for n in [2, 4, 8, 16, 120] {
            let all = runs(n, noise, 30);
            let mut found = one(&all, &[0.0; 30], 0.0);
            for level in [0.05, 0.01, 0.001] {
                let limit = found.limit(level);
                // Far above the 1e-12 to which quantiles of t are found.
                found.deviation = limit * (1.0 + 1e-9);
                assert!(found.p() <= level, "{n} runs at {level}: {}", found.p());
                found.deviation = limit * (1.0 - 1e-9);
                assert!(found.p() > level, "{n} runs at {level}: {}", found.p());
            }
        }
    }

    #[test]
    fn runs_needed_are_those_at_which_the_tail_decides() {
        let mut found = one(&runs(8, noise, 30), &[0.0; 30], 0.0);
        found.deviation = found.largest_of_runs();
        assert_eq!(found.runs_needed(0.01), Some(99));
        found.deviation *= 4.0;
        // 4^-1.5 is an eighth.
        assert_eq!(found.runs_needed(0.01), Some(12));
        let p = |n: f64| 0.125 / (n + 1.0);
        assert!(p(12.0) < 0.01 && p(11.0) > 0.01);
    }
}
