//! Cross-correlation with one image, as networks mean by "convolution".
//!
//! ```text
//! valid      (K * I)(x) = Σ_z K(z) I(x + z)      x where the kernel fits into the image
//! adjoint    (R * I)(z) = Σ_x R(x) I(x + z)      z in the window; ⟨K * I, R⟩ = ⟨K, R * I⟩
//! periodic   the same on a torus, with a kernel as large as the image
//! ```
//!
//! Both are one sum and one function. It is added up directly for small windows and by Fourier
//! transform for large ones; which, depends on the sizes alone. All sums are formed in `f64`.

use std::f64::consts::PI;

use num_complex::Complex64;

use crate::fft::{Fft2, Spectrum};
use crate::reduce::sum_by;
use crate::simd::vectorized;

/// Windows of at most this many pixels are summed directly.
const DIRECT: usize = 36;

/// What happens at the edges of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// Only positions where the window fits.
    Valid,
    /// The image repeats itself; the window is the image.
    Periodic,
}

/// Correlates with one image.
#[derive(Debug, Clone)]
pub struct Correlator {
    image: Vec<f64>,
    image_size: (usize, usize),
    window: (usize, usize),
    edges: Edges,
    fourier: Option<Fourier>,
}

#[derive(Debug, Clone)]
struct Fourier {
    fft: Fft2,
    image: Spectrum,
    work: Spectrum,
}

impl Correlator {
    /// For windows of `window` (rows, columns) on an image of `size`, given by rows.
    ///
    /// # Panics
    ///
    /// If the image has another size, the window does not fit, or a periodic image has sides that
    /// are no powers of two.
    pub fn new(image: &[f64], size: (usize, usize), window: (usize, usize), edges: Edges) -> Self {
        let (height, width) = size;
        assert_eq!(image.len(), height * width, "pixels of a {height} x {width} image");
        assert!(
            (1..=height).contains(&window.0) && (1..=width).contains(&window.1),
            "a window of {} x {} on an image of {height} x {width}",
            window.0,
            window.1
        );
        let fourier = (edges == Edges::Periodic || window.0 * window.1 > DIRECT).then(|| {
            let padded = match edges {
                Edges::Valid => {
                    (height.next_power_of_two().max(2), width.next_power_of_two().max(2))
                }
                Edges::Periodic => size,
            };
            let mut fft = Fft2::new(padded.0, padded.1);
            let (mut spectrum, work) = (fft.spectrum(), fft.spectrum());
            fft.forward(image, width, &mut spectrum);
            Fourier { fft, image: spectrum, work }
        });
        if edges == Edges::Periodic {
            assert_eq!(window, size, "the window of a periodic correlation is the image");
        }
        Self { image: image.to_vec(), image_size: size, window, edges, fourier }
    }

    /// Rows and columns of the window.
    pub fn window(&self) -> (usize, usize) {
        self.window
    }

    /// Rows and columns of positions.
    pub fn positions(&self) -> (usize, usize) {
        match self.edges {
            Edges::Valid => {
                (self.image_size.0 - self.window.0 + 1, self.image_size.1 - self.window.1 + 1)
            }
            Edges::Periodic => self.image_size,
        }
    }

    /// `out = K * I`, from the window to the positions.
    pub fn valid(&mut self, kernel: &[f64], out: &mut [f64]) {
        let (from, to) = (self.window, self.positions());
        self.correlate(kernel, from, out, to);
    }

    /// `out = R * I`, from the positions to the window.
    pub fn adjoint(&mut self, map: &[f64], out: &mut [f64]) {
        let (from, to) = (self.positions(), self.window);
        self.correlate(map, from, out, to);
    }

    fn correlate(
        &mut self,
        input: &[f64],
        from: (usize, usize),
        out: &mut [f64],
        to: (usize, usize),
    ) {
        assert_eq!(input.len(), from.0 * from.1, "values to correlate");
        assert_eq!(out.len(), to.0 * to.1, "values of the correlation");
        match &mut self.fourier {
            Some(Fourier { fft, image, work }) => {
                fft.correlate((input, from.1), image, work, (out, to.1));
            }
            None if from.0 * from.1 <= to.0 * to.1 => self.spread(input, from, out, to),
            None => self.gather(input, from, out, to),
        }
    }

    /// Few inputs, many outputs: each input adds a shifted row of the image.
    fn spread(&self, input: &[f64], from: (usize, usize), out: &mut [f64], to: (usize, usize)) {
        out.fill(0.0);
        let (image, stride) = (&self.image[..], self.image_size.1);
        vectorized(
            #[inline(always)]
            move || {
                for (y, row) in out.chunks_exact_mut(to.1).enumerate() {
                    for (k, weight) in input.iter().enumerate() {
                        let start = (y + k / from.1) * stride + k % from.1;
                        for (o, pixel) in row.iter_mut().zip(&image[start..][..to.1]) {
                            *o += weight * pixel;
                        }
                    }
                }
            },
        );
    }

    /// Many inputs, few outputs: each output is a sum over the rows of sums along them.
    fn gather(&self, input: &[f64], from: (usize, usize), out: &mut [f64], to: (usize, usize)) {
        for (k, o) in out.iter_mut().enumerate() {
            let (z_row, z_column) = (k / to.1, k % to.1);
            let row_sum = |y: usize| {
                let row = &input[y * from.1..][..from.1];
                let pixels = &self.image[(y + z_row) * self.image_size.1 + z_column..][..from.1];
                vectorized(
                    #[inline(always)]
                    move || sum_by(row.len(), |x| row[x] * pixels[x]),
                )
            };
            *o = (0..from.0).map(row_sum).sum();
        }
    }

    /// `|Î(ω)|²` over the frequencies of the image itself: rows, columns and values as in
    /// [`Fft2::power_map`]. Padding would add frequencies that a kernel as large as the image has not.
    pub fn power_map(&self) -> (usize, usize, Vec<f64>) {
        let (height, width) = self.image_size;
        if ![height, width].iter().all(|side| side.is_power_of_two() && *side >= 2) {
            return direct_power_map(&self.image, (height, width));
        }
        let mut fft = Fft2::new(height, width);
        let mut spectrum = fft.spectrum();
        fft.forward(&self.image, width, &mut spectrum);
        fft.power_map(&spectrum)
    }

    /// Smallest and largest `|Î(ω)|²`.
    pub fn extreme_power(&self) -> (f64, f64) {
        let (_, _, power) = self.power_map();
        power.iter().fold((f64::INFINITY, 0.0), |(low, high), p| (p.min(low), p.max(high)))
    }
}

/// The same by the definition of the transform, along rows and then along columns, for sides that are
/// no powers of two.
fn direct_power_map(image: &[f64], (height, width): (usize, usize)) -> (usize, usize, Vec<f64>) {
    // e^{−2πi k/n}; the angle is reduced by whole turns, so that it is exact to rounding.
    let root = |k: usize, n: usize| {
        let angle = -2.0 * PI * (k % n) as f64 / n as f64;
        Complex64::new(libm::cos(angle), libm::sin(angle))
    };
    let roots: Vec<Complex64> = (0..width).map(|k| root(k, width)).collect();
    let along_row = |y: usize, v: usize| -> Complex64 {
        let row = &image[y * width..][..width];
        row.iter().enumerate().map(|(x, value)| roots[x * v % width] * *value).sum()
    };
    let rows: Vec<Complex64> =
        (0..height * width).map(|i| along_row(i / width, i % width)).collect();
    let roots: Vec<Complex64> = (0..height).map(|k| root(k, height)).collect();
    let at = |i: usize| {
        // Columns from the lowest frequency, −⌊W/2⌋, on.
        let (u, v) = (i / width, (i % width + width.div_ceil(2)) % width);
        let sum: Complex64 = (0..height).map(|y| roots[y * u % height] * rows[y * width + v]).sum();
        sum.norm_sqr()
    };
    let count = height / 2 + 1;
    (count, width, (0..count * width).map(at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::{checkerboard, normal};

    fn naive(
        image: &[f64],
        size: (usize, usize),
        input: &[f64],
        from: (usize, usize),
        to: (usize, usize),
    ) -> Vec<f64> {
        let mut out = vec![0.0; to.0 * to.1];
        for (k, o) in out.iter_mut().enumerate() {
            for (j, value) in input.iter().enumerate() {
                let (y, x) = (k / to.1 + j / from.1, k % to.1 + j % from.1);
                *o += value * image[y % size.0 * size.1 + x % size.1];
            }
        }
        out
    }

    fn assert_close(a: &[f64], b: &[f64], what: &str) {
        // Sums of at most 1200 products of normal numbers, below 100 in size; the transform adds
        // a few dozen roundings of the largest.
        let worst = a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-11, "{what}: {worst:e}");
    }

    #[test]
    fn direct_and_fourier_are_the_definition() {
        for (size, window) in [
            ((5, 7), (1, 1)),
            ((9, 8), (3, 3)),
            ((20, 33), (6, 6)),
            ((20, 33), (7, 9)),
            ((32, 32), (32, 32)),
        ] {
            let image = normal(size.0 * size.1, 1);
            let mut correlator = Correlator::new(&image, size, window, Edges::Valid);
            let positions = correlator.positions();
            let kernel = normal(window.0 * window.1, 2);
            let mut out = vec![0.0; positions.0 * positions.1];
            correlator.valid(&kernel, &mut out);
            assert_close(&out, &naive(&image, size, &kernel, window, positions), "valid");
            let map = normal(positions.0 * positions.1, 3);
            let mut back = vec![0.0; window.0 * window.1];
            correlator.adjoint(&map, &mut back);
            assert_close(&back, &naive(&image, size, &map, positions, window), "adjoint");
            // ⟨K * I, R⟩ = ⟨K, R * I⟩
            let left = sum_by(out.len(), |i| out[i] * map[i]);
            let right = sum_by(back.len(), |i| back[i] * kernel[i]);
            assert!((left - right).abs() < 1e-10 * left.abs().max(1.0), "{left} {right}");
        }
    }

    #[test]
    fn periodic_wraps_around() {
        let (size, image) = ((8, 16), normal(128, 1));
        let mut correlator = Correlator::new(&image, size, size, Edges::Periodic);
        let kernel = normal(128, 2);
        let mut out = vec![0.0; 128];
        correlator.valid(&kernel, &mut out);
        assert_close(&out, &naive(&image, size, &kernel, size, size), "periodic");
    }

    #[test]
    fn a_checkerboard_has_all_its_power_in_one_frequency() {
        let image = checkerboard(64, 64);
        let correlator = Correlator::new(&image, (64, 64), (3, 3), Edges::Valid);
        let (low, high) = correlator.extreme_power();
        assert!(low < 1e-18 && (high - 64.0_f64.powi(4)).abs() < 1e-6);
    }

    #[test]
    fn the_direct_transform_agrees_with_the_fast_one_and_with_parseval() {
        let image = normal(8 * 16, 3);
        let correlator = Correlator::new(&image, (8, 16), (2, 2), Edges::Valid);
        let (rows, columns, fast) = correlator.power_map();
        let (direct_rows, direct_columns, direct) = direct_power_map(&image, (8, 16));
        assert_eq!((rows, columns), (direct_rows, direct_columns));
        // Sums of 128 terms of size 1, squared: a few hundred roundings of values up to some 500.
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-10;
        assert!(fast.iter().zip(&direct).all(near));
        // On 5 x 7 pixels rows 1 and 2 stand for −1 and −2 too: Σ |Î|² = n Σ I².
        let image = normal(5 * 7, 4);
        let (rows, columns, power) = direct_power_map(&image, (5, 7));
        assert_eq!((rows, columns), (3, 7));
        let once: f64 = power[..7].iter().sum();
        let twice: f64 = power[7..].iter().sum();
        let squares: f64 = image.iter().map(|value| value * value).sum();
        assert!(((once + 2.0 * twice) / (35.0 * squares) - 1.0).abs() < 1e-13);
        // Frequency 0 is the middle of the first row: the square of the sum of the image.
        let total: f64 = image.iter().sum();
        assert!((power[3] - total * total).abs() < 1e-12, "{}", power[3]);
    }
}
