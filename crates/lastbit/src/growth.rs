//! Growth rate of a small difference: the finite-time Lyapunov exponent and its standard error.
//!
//! ```text
//! growth per step = mean over the window of ln( d_{n+1} / d_n )
//! standard error  = s / √m,   s the sample deviation of the means of the m blocks in the window
//! ```
//!
//! The window is the second half of the run: the first half may hold a transient. Blocks absorb
//! correlation from step to step; their number stays between 32 and 64 (each time 64 are full,
//! neighbours are merged), so the memory used does not depend on the length of the run.

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

    /// Whether the rate is positive by more than three standard errors, and the growth over the
    /// window more than a hundredth: a twin at rest shows rounding, with no error at all.
    pub fn is_positive(&self) -> bool {
        self.per_step > 3.0 * self.standard_error && self.e_folds() > 0.01
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

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    steps: usize,
    log_growth: f64,
    log_motion: f64,
    unstable: usize,
}

impl Block {
    fn add(&mut self, other: Block) {
        self.steps += other.steps;
        self.log_growth += other.log_growth;
        self.log_motion += other.log_motion;
        self.unstable += other.unstable;
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
    /// Adds a step with its `ln(d_{n+1}/d_n)`, the distance it moved, and whether it was seen to be
    /// unstable.
    pub fn push(&mut self, log_growth: f64, motion: f64, unstable: bool) {
        let log_motion = libm::log(motion.max(f64::MIN_POSITIVE));
        self.open.add(Block { steps: 1, log_growth, log_motion, unstable: unstable.into() });
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
        let window = self.window();
        let steps: usize = window.iter().map(|block| block.steps).sum();
        if window.len() < 2 {
            return Growth { per_step: 0.0, standard_error: f64::INFINITY, steps };
        }
        let count = window.len() as f64;
        let rate = |block: &Block| block.log_growth / block.steps as f64;
        let mean = window.iter().map(rate).sum::<f64>() / count;
        let variance =
            window.iter().map(|block| (rate(block) - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Growth { per_step: mean, standard_error: (variance / count).sqrt(), steps }
    }

    /// Share of the window's steps that were unstable.
    pub fn unstable_share(&self) -> f64 {
        let (unstable, steps) = self
            .window()
            .iter()
            .fold((0, 0), |(u, s), block| (u + block.unstable, s + block.steps));
        if steps == 0 { 0.0 } else { unstable as f64 / steps as f64 }
    }

    /// Factor, as a natural logarithm, by which the motion shrank from the first quarter of the
    /// window to its last.
    pub fn motion_decay(&self) -> f64 {
        let [first, last] = self.first_and_last_quarter(|block| block.log_motion);
        first - last
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
        self.window().iter().filter(|block| block.unstable > 0).count() >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn the_window_is_the_second_half_at_every_length() {
        for n in [3_usize, 4, 63, 64, 65, 1000, 4096, 12_345] {
            let mut blocks = Blocks::default();
            (0..n).for_each(|i| blocks.push(if i < n / 4 { 50.0 } else { 0.5 }, 1.0, false));
            let growth = blocks.growth();
            assert_eq!(growth.per_step, 0.5, "n = {n}: the first quarter must not count");
            // Whole blocks only: at most two of at most n/32 steps are missing or surplus.
            let slack = 2 * n.div_ceil(32);
            assert!(growth.steps.abs_diff(n / 2) <= slack, "n = {n}: {} steps", growth.steps);
        }
    }

    #[test]
    fn standard_error_of_independent_increments() {
        let stream = Stream::new(1, 0);
        let mut blocks = Blocks::default();
        let n = 20_000;
        (0..n).for_each(|i| blocks.push(0.01 + stream.normal(i), 1.0, false));
        let growth = blocks.growth();
        let expected = 1.0 / (growth.steps as f64).sqrt();
        // A sample deviation from m ≥ 16 blocks is within 1 ± 4/√(2·16) of the truth, 4 sigma.
        let ratio = growth.standard_error / expected;
        assert!((0.29..1.71).contains(&ratio), "ratio {ratio}");
        assert!((growth.per_step - 0.01).abs() < 4.0 * expected);
    }

    #[test]
    fn one_burst_does_not_recur() {
        let mut blocks = Blocks::default();
        (0..1000).for_each(|i| blocks.push(0.0, 1.0, i == 900));
        assert!(!blocks.instability_recurs());
        assert!(blocks.unstable_share() > 0.0);
        (0..1000).for_each(|i| blocks.push(0.0, 1.0, i % 100 == 0));
        assert!(blocks.instability_recurs());
    }

    #[test]
    fn decay_of_the_motion_is_measured_over_the_window() {
        let mut blocks = Blocks::default();
        (0..4000).for_each(|i| blocks.push(0.0, libm::exp(-0.01 * f64::from(i)), false));
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
