//! Test signals and images, made by formula so that every run can have them.

use std::f64::consts::TAU;

use crate::rng::Stream;

/// The paper's initial condition for the heat equation: zero at both ends of `0 … n − 1`, linear
/// up to `height` at `(n − 1)/2` and down again.
pub fn triangle(n: usize, height: f64) -> Vec<f64> {
    let middle = (n - 1) as f64 / 2.0;
    (0..n).map(|i| height * (1.0 - (i as f64 - middle).abs() / middle)).collect()
}

/// A signal with two plateaus, a ramp and an arch, between 0 and 1, plus normal noise of
/// deviation `noise`.
pub fn blocks_and_ramp(n: usize, noise: f64, seed: u64) -> Vec<f64> {
    let stream = Stream::new(seed, 0);
    let value = |x: f64| match x {
        x if x < 0.15 => 0.1,
        x if x < 0.35 => 0.9,
        x if x < 0.5 => 0.3,
        x if x < 0.7 => 0.3 + 3.0 * (x - 0.5),
        x if x < 0.75 => 0.2,
        x => 0.2 + 0.6 * libm::sin(TAU * (x - 0.75) * 2.0).max(0.0),
    };
    (0..n).map(|i| value((i as f64 + 0.5) / n as f64) + noise * stream.normal(i as u64)).collect()
}

/// An image, row by row: a disc, a square, a ring, stripes and a smooth ground, between 0 and 1,
/// plus normal noise of deviation `noise`.
pub fn shapes(height: usize, width: usize, noise: f64, seed: u64) -> Vec<f64> {
    let stream = Stream::new(seed, 0);
    let pixel = |row: usize, column: usize| {
        let (y, x) = ((row as f64 + 0.5) / height as f64, (column as f64 + 0.5) / width as f64);
        let from = |cy: f64, cx: f64| ((y - cy).powi(2) + (x - cx).powi(2)).sqrt();
        if from(0.3, 0.3) < 0.18 {
            0.9
        } else if (0.6..0.9).contains(&y) && (0.12..0.42).contains(&x) {
            0.15
        } else if (0.12..0.2).contains(&from(0.3, 0.72)) {
            0.75
        } else if (0.6..0.9).contains(&y) && (0.55..0.9).contains(&x) {
            let stripe = ((x - 0.55) / 0.05) as usize;
            if stripe.is_multiple_of(2) { 0.85 } else { 0.25 }
        } else {
            0.35 + 0.2 * x
        }
    };
    (0..height * width)
        .map(|i| pixel(i / width, i % width) + noise * stream.normal(i as u64))
        .collect()
}

/// `+1` and `−1` in turn, `+1` in the upper left corner.
pub fn checkerboard(height: usize, width: usize) -> Vec<f64> {
    let value = |i: usize| if (i / width + i % width).is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..height * width).map(value).collect()
}

/// Independent normal numbers of mean 0 and variance 1.
pub fn normal(len: usize, seed: u64) -> Vec<f64> {
    let stream = Stream::new(seed, 0);
    (0..len as u64).map(|i| stream.normal(i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triangle_of_the_paper() {
        let u = triangle(31, 1.5);
        assert_eq!((u[0], u[15], u[30]), (0.0, 1.5, 0.0));
        assert_eq!(u[5], 0.5);
    }

    #[test]
    fn signals_stay_between_zero_and_one_without_noise() {
        for values in [blocks_and_ramp(500, 0.0, 1), shapes(40, 60, 0.0, 1)] {
            assert!(values.iter().all(|v| (0.0..=1.0).contains(v)));
        }
    }
}
