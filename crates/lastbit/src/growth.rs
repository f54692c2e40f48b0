//! Growth rate of a small difference: the finite-time Lyapunov exponent and its standard error.
//!
//! ```text
//! growth per step = mean over the window of ln( d_{n+1} / d_n )
//! standard error² = v + max(0, D² − 8v)
//! v = s²/m          s the sample deviation of the means of the m blocks in the window
//! D                 growth in the last quarter of the window less that in its first quarter
//! ```
//!
//! The window is the second half of the run: the first half may hold a transient. A transient that
//! lasts into the window is part of the error: it makes the rate drift by `D`, of which the noise of
//! two quarters explains `8v` on average. Blocks absorb correlation from step to step; their number
//! stays between 32 and 64 (each time 64 are full, neighbours are merged), so the memory used does not
//! depend on the length of the run.

/// Standard errors between a rate and its confidence limits.
pub const CONFIDENCE: f64 = 3.0;

/// Exponential rate at which a small difference grows, per step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Mean of `ln(d_{n+1}/d_n)`; positive when differences grow.
    pub per_step: f64,
    /// Standard error of `per_step`.
    pub standard_error: f64,
    /// Steps in the window.
    pub steps: usize,
}

impl Growth {
    /// Factor by which the difference grew over the window, as a natural logarithm.
    pub fn e_folds(&self) -> f64 {
        self.per_step * self.steps as f64
    }

    /// Lower confidence limit of the rate, three standard errors below it.
    pub fn lower(&self) -> f64 {
        self.per_step - CONFIDENCE * self.standard_error
    }

    /// Upper confidence limit of the rate, three standard errors above it.
    pub fn upper(&self) -> f64 {
        self.per_step + CONFIDENCE * self.standard_error
    }

    /// Least-squares slope of `ln d` over the steps at which a plain twin grows: those between
    /// its start and the first distance above `ceiling`, beyond which it saturates.
    ///
    /// The standard error is that of the slope. `None` with fewer than three usable points.
    pub fn of_plain_twin(points: &[(usize, f64)], ceiling: f64) -> Option<Self> {
        ExponentialFit::of_plain_twin(points, ceiling).map(|fit| fit.growth)
    }
}

/// An exponential through a distance that grows: a straight line on a logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialFit {
    /// Its rate.
    pub growth: Growth,
    /// First step used, and the line there.
    pub from: (f64, f64),
    /// Last step used, and the line there.
    pub to: (f64, f64),
}

impl ExponentialFit {
    /// The line of [`Growth::of_plain_twin`].
    pub fn of_plain_twin(points: &[(usize, f64)], ceiling: f64) -> Option<Self> {
        let rising: Vec<(f64, f64)> = points
            .iter()
            .take_while(|(_, distance)| *distance <= ceiling)
            .filter(|(_, distance)| *distance > 0.0)
            .map(|&(step, distance)| (step as f64, libm::log(distance)))
            .collect();
        let n = rising.len() as f64;
        if rising.len() < 3 {
            return None;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| rising.iter().map(of).sum::<f64>() / n;
        let (x_mean, y_mean) = (mean(|p| p.0), mean(|p| p.1));
        let spread: f64 = rising.iter().map(|p| (p.0 - x_mean) * (p.0 - x_mean)).sum();
        let slope = rising.iter().map(|p| (p.0 - x_mean) * (p.1 - y_mean)).sum::<f64>() / spread;
        let residual: f64 =
            rising.iter().map(|p| (p.1 - y_mean - slope * (p.0 - x_mean)).powi(2)).sum();
        let [first, last] = [rising[0].0, rising[rising.len() - 1].0];
        let growth = Growth {
            per_step: slope,
            standard_error: (residual / (n - 2.0) / spread).sqrt(),
            steps: (last - first) as usize,
        };
        let line = |x: f64| (x, libm::exp(y_mean + slope * (x - x_mean)));
        Some(Self { growth, from: line(first), to: line(last) })
    }
}

const MOST_BLOCKS: usize = 64;

/// What one step showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// `ln(d_{n+1}/d_n)` of the twin.
    pub log_growth: f64,
    /// Whether rounding hides the twin: it lies too few roundings of the state away.
    pub twin_is_hidden: bool,
    /// Distance the run moved.
    pub motion: f64,
    /// Largest change of a value, in roundings of the largest value.
    pub roundings: f64,
    /// What the energy showed.
    pub energy: EnergyChange,
    /// `dt h/2`, `h` the curvature that the energy showed: 1 where it did not fall, 0 where it is not known.
    pub overshoot: f64,
}

impl Seen {
    /// A step of which nothing but the motion was looked at.
    pub fn motion_alone(motion: f64) -> Self {
        let energy = EnergyChange::Fell;
        Self {
            log_growth: 0.0,
            twin_is_hidden: false,
            motion,
            roundings: 0.0,
            energy,
            overshoot: 0.0,
        }
    }
}

/// What the change of the energy in one step shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnergyChange {
    /// It fell, or nothing moved, or there is none to look at.
    Fell,
    /// It did not fall although the run moved.
    DidNotFall,
    /// Rounding hides whether it fell.
    Hidden,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    steps: usize,
    log_growth: f64,
    log_motion: f64,
    log_roundings: f64,
    hidden_twins: usize,
    unstable: usize,
    hidden_energies: usize,
    overshoot: f64,
}

impl Block {
    fn of(seen: Seen) -> Self {
        let log = |x: f64| libm::log(x.max(f64::MIN_POSITIVE));
        Self {
            steps: 1,
            log_growth: seen.log_growth,
            log_motion: log(seen.motion),
            log_roundings: log(seen.roundings),
            hidden_twins: seen.twin_is_hidden.into(),
            unstable: (seen.energy == EnergyChange::DidNotFall).into(),
            hidden_energies: (seen.energy == EnergyChange::Hidden).into(),
            overshoot: seen.overshoot,
        }
    }

    fn add(&mut self, other: Block) {
        self.steps += other.steps;
        self.log_growth += other.log_growth;
        self.log_motion += other.log_motion;
        self.log_roundings += other.log_roundings;
        self.hidden_twins += other.hidden_twins;
        self.unstable += other.unstable;
        self.hidden_energies += other.hidden_energies;
        self.overshoot += other.overshoot;
    }
}

/// What has been seen along a run, in blocks of equal length.
#[derive(Debug, Clone)]
pub struct Blocks {
    size: usize,
    full: Vec<Block>,
    open: Block,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { size: 1, full: Vec::with_capacity(MOST_BLOCKS), open: Block::default() }
    }
}

impl Blocks {
    /// Adds a step.
    pub fn push(&mut self, seen: Seen) {
        self.open.add(Block::of(seen));
        if self.open.steps < self.size {
            return;
        }
        self.full.push(std::mem::take(&mut self.open));
        if self.full.len() == MOST_BLOCKS {
            let pairs = self.full.chunks(2).map(|pair| {
                let mut merged = pair[0];
                merged.add(pair[1]);
                merged
            });
            self.full = pairs.collect();
            self.size *= 2;
        }
    }

    fn window(&self) -> &[Block] {
        &self.full[self.full.len() / 2..]
    }

    /// Growth over the window.
    pub fn growth(&self) -> Growth {
        let steps: usize = self.window().iter().map(|block| block.steps).sum();
        if self.window().len() < 2 {
            return Growth { per_step: 0.0, standard_error: f64::INFINITY, steps };
        }
        let (per_step, variance) = self.mean_and_variance(|block| block.log_growth);
        let [then, now] = self.growth_then_and_now();
        let drift = (now - then) * (now - then);
        let transient = (drift - 8.0 * variance).max(0.0);
        Growth { per_step, standard_error: (variance + transient).sqrt(), steps }
    }

    /// Mean per step over the window, and the variance of that mean, by blocks.
    fn mean_and_variance(&self, of: fn(&Block) -> f64) -> (f64, f64) {
        let window = self.window();
        let count = window.len() as f64;
        let rate = |block: &Block| of(block) / block.steps as f64;
        let mean = window.iter().map(rate).sum::<f64>() / count;
        let squares = window.iter().map(|block| (rate(block) - mean).powi(2)).sum::<f64>();
        (mean, squares / (count - 1.0) / count)
    }

    /// Share of the window's steps that were unstable.
    pub fn unstable_share(&self) -> f64 {
        self.share(|block| block.unstable)
    }

    /// Share of the window's steps at which rounding hid the twin.
    pub fn hidden_twin_share(&self) -> f64 {
        self.share(|block| block.hidden_twins)
    }

    fn share(&self, of: fn(&Block) -> usize) -> f64 {
        let window = self.window();
        let (some, all) =
            window.iter().fold((0, 0), |(some, all), block| (some + of(block), all + block.steps));
        if all == 0 { 0.0 } else { some as f64 / all as f64 }
    }

    /// Mean `dt h/2` in the first quarter of the window and in its last.
    pub fn overshoot_then_and_now(&self) -> [f64; 2] {
        self.first_and_last_quarter(|block| block.overshoot)
    }

    /// Factor, as a natural logarithm, by which the motion shrank from the first quarter of the
    /// window to its last.
    pub fn motion_decay(&self) -> f64 {
        let [first, last] = self.first_and_last_quarter(|block| block.log_motion);
        first - last
    }

    /// Lower confidence limit of the factor, as a natural logarithm, by which the motion grew from the
    /// first quarter of the window to its last. A quarter has four times the variance of the whole.
    pub fn motion_growth(&self) -> f64 {
        let window = self.window();
        let count = window.len() as f64;
        if window.len() < 4 {
            return f64::NEG_INFINITY;
        }
        // The trend itself is no uncertainty: the variance is that about a straight line.
        let place = |i: usize| i as f64 - (count - 1.0) / 2.0;
        let motion: Vec<f64> =
            window.iter().map(|block| block.log_motion / block.steps as f64).collect();
        let mean = motion.iter().sum::<f64>() / count;
        let spread: f64 = (0..motion.len()).map(|i| place(i) * place(i)).sum();
        let slope = motion.iter().enumerate().map(|(i, m)| place(i) * m).sum::<f64>() / spread;
        let residual = |(i, m): (usize, &f64)| (m - mean - slope * place(i)).powi(2);
        let squares: f64 = motion.iter().enumerate().map(residual).sum();
        let variance = squares / (count - 2.0) / count;
        -self.motion_decay() - CONFIDENCE * (8.0 * variance).sqrt()
    }

    /// Length of a step in the last quarter of the window, as a geometric mean.
    pub fn motion(&self) -> f64 {
        let [_, last] = self.first_and_last_quarter(|block| block.log_motion);
        libm::exp(last)
    }

    /// Largest change of a value in the last quarter of the window, as a geometric mean, in roundings of
    /// the largest value.
    pub fn roundings(&self) -> f64 {
        let [_, last] = self.first_and_last_quarter(|block| block.log_roundings);
        libm::exp(last)
    }

    /// Growth per step in the first quarter of the window and in its last.
    pub fn growth_then_and_now(&self) -> [f64; 2] {
        self.first_and_last_quarter(|block| block.log_growth)
    }

    fn first_and_last_quarter(&self, of: fn(&Block) -> f64) -> [f64; 2] {
        let window = self.window();
        let quarter = window.len().div_ceil(4);
        [&window[..quarter], &window[window.len() - quarter..]].map(|blocks| {
            let steps: usize = blocks.iter().map(|block| block.steps).sum();
            blocks.iter().map(of).sum::<f64>() / steps.max(1) as f64
        })
    }

    /// Whether unstable steps come back: at least two blocks of the window hold one.
    pub fn instability_recurs(&self) -> bool {
        self.recurs(|block| block.unstable)
    }

    /// Whether steps whose energy rounding hides come back.
    pub fn hidden_energy_recurs(&self) -> bool {
        self.recurs(|block| block.hidden_energies)
    }

    fn recurs(&self, of: fn(&Block) -> usize) -> bool {
        self.window().iter().filter(|block| of(block) > 0).count() >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn seen(log_growth: f64, motion: f64, unstable: bool) -> Seen {
        let energy = if unstable { EnergyChange::DidNotFall } else { EnergyChange::Fell };
        Seen { log_growth, twin_is_hidden: false, motion, roundings: 1e6, energy, overshoot: 0.0 }
    }

    #[test]
    fn the_window_is_the_second_half_at_every_length() {
        for n in [3_usize, 4, 63, 64, 65, 1000, 4096, 12_345] {
            let mut blocks = Blocks::default();
            (0..n).for_each(|i| blocks.push(seen(if i < n / 4 { 50.0 } else { 0.5 }, 1.0, false)));
            let growth = blocks.growth();
            assert_eq!(growth.per_step, 0.5, "n = {n}: the first quarter must not count");
            // Whole blocks only: at most two of at most n/32 steps are missing or surplus.
            let slack = 2 * n.div_ceil(32);
            assert!(growth.steps.abs_diff(n / 2) <= slack, "n = {n}: {} steps", growth.steps);
        }
    }

    #[test]
    fn standard_error_of_independent_increments() {
        let n = 20_000;
        let mut ratios = Vec::new();
        for seed in 0..41 {
            let stream = Stream::new(seed, 0);
            let mut blocks = Blocks::default();
            (0..n).for_each(|i| blocks.push(seen(0.01 + stream.normal(i), 1.0, false)));
            let growth = blocks.growth();
            let expected = 1.0 / (growth.steps as f64).sqrt();
            // The mean of independent increments is normal: five deviations in 41 draws.
            assert!((growth.per_step - 0.01).abs() < 5.0 * expected);
            ratios.push(growth.standard_error / expected);
        }
        ratios.sort_by(f64::total_cmp);
        // Without drift the median of max(0, D² − 8v) is 0, and that of a deviation from m ≥ 16 blocks
        // within 1 ± 1/√(2·16) of the truth; the error is never smaller than that of the blocks alone.
        assert!((0.82..1.2).contains(&ratios[20]), "median {}", ratios[20]);
        assert!(ratios[0] > 0.5, "smallest {}", ratios[0]);
    }

    #[test]
    fn a_transient_is_part_of_the_standard_error() {
        // The rate tends to 0.5 like 0.3 e^{-n/τ}: what is left of it in the window must be covered. (A
        // transient that takes longer than the window cannot be told from a rate.)
        for n in [28_u32, 100, 300] {
            for tau in [0.03, 0.1, 0.3].map(|share| share * f64::from(n)) {
                let mut blocks = Blocks::default();
                let rate = |i: u32| 0.5 - 0.3 * libm::exp(-f64::from(i) / tau);
                (0..n).for_each(|i| blocks.push(seen(rate(i), 1.0, false)));
                let growth = blocks.growth();
                // Rounding of the sums: a few u.
                let covered = CONFIDENCE * growth.standard_error + 1e-15;
                assert!((growth.per_step - 0.5).abs() <= covered, "{tau}, {n}: {growth:?}");
            }
        }
    }

    #[test]
    fn motion_that_grows_is_told_from_motion_that_fluctuates() {
        let stream = Stream::new(2, 0);
        let noisy = |trend: f64| {
            let mut blocks = Blocks::default();
            let motion = |i: u64| libm::exp(trend * i as f64 + 0.5 * stream.normal(i));
            (0..4000).for_each(|i| blocks.push(seen(0.1, motion(i), false)));
            blocks.motion_growth()
        };
        assert!(noisy(0.0) < 0.0);
        // 1500 steps lie between the middles of the quarters: 0.75, less three times √8 of the error of the
        // mean, 0.5/√2000.
        assert!((0.5..0.75).contains(&noisy(5e-4)));
    }

    #[test]
    fn one_burst_does_not_recur() {
        let mut blocks = Blocks::default();
        (0..1000).for_each(|i| blocks.push(seen(0.0, 1.0, i == 900)));
        assert!(!blocks.instability_recurs());
        assert!(blocks.unstable_share() > 0.0);
        (0..1000).for_each(|i| blocks.push(seen(0.0, 1.0, i % 100 == 0)));
        assert!(blocks.instability_recurs());
    }

    #[test]
    fn decay_of_the_motion_is_measured_over_the_window() {
        let mut blocks = Blocks::default();
        (0..4000).for_each(|i| blocks.push(seen(0.0, libm::exp(-0.01 * f64::from(i)), false)));
        // From the middle of the first quarter of 2000 steps to that of the last: 1500 steps,
        // give or take two blocks of 64.
        assert!((blocks.motion_decay() - 15.0).abs() < 1.3, "{}", blocks.motion_decay());
    }

    #[test]
    fn slope_of_a_plain_twin_ignores_saturation() {
        let points: Vec<(usize, f64)> =
            (0..200).map(|n| (n, (1e-16 * libm::exp(0.3 * n as f64)).min(1.0))).collect();
        let growth = Growth::of_plain_twin(&points, 1e-2).unwrap();
        // Exact line: what remains is rounding of ln d, about 37 u per point.
        assert!((growth.per_step - 0.3).abs() < 1e-13, "{growth:?}");
        assert!(growth.standard_error < 1e-13);
        let fit = ExponentialFit::of_plain_twin(&points, 1e-2).unwrap();
        // The line passes through the points: ln d is off by 37 u or so, d by as much relatively.
        for (step, distance) in [fit.from, fit.to] {
            let exact = points[step as usize].1;
            assert!((distance / exact - 1.0).abs() < 1e-13, "{distance} at {step}");
        }
        assert!(Growth::of_plain_twin(&points[..2], 1.0).is_none());
    }
}
