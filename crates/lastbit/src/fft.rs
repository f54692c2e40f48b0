//! Fourier transform of a real image whose sides are powers of two.
//!
//! ```text
//! X[v, k] = Σ_{y,x} u[y, x] e^{−2πi (k y/H + v x/W)},     k = 0 … H/2,  v = 0 … W−1
//! ```
//!
//! Stockham's self-sorting algorithm of radix 4, applied to panels of 8 columns: the inner loops
//! run along contiguous numbers, so they use vectors of any width with the same bits, and a panel
//! goes through all stages without leaving the near caches. Two real columns travel as one complex
//! column. A small image leaves most rows of its frame zero and a small result most of them
//! unwanted; the first and the last stages skip those.
//!
//! Written here and not taken from a crate because those choose their kernels, with fused
//! multiply-adds, by the machine and take their twiddle factors from the system's libm: both would
//! change bits.

mod panels;
mod stages;

use std::f64::consts::TAU;

use self::panels::{PANEL, Panel, PanelMut, Panels};
use self::stages::transform;
use crate::simd::vectorized;

/// `e^{−2πi p/n}`, `p = 0 … n−1`.
fn twiddles(n: usize) -> Vec<(f64, f64)> {
    let angle = |p: usize| TAU * p as f64 / n as f64;
    (0..n).map(|p| (libm::cos(angle(p)), -libm::sin(angle(p)))).collect()
}

/// The half spectrum `X[v, k]` of the module doc: columns `k` in panels of rows `v`.
#[derive(Debug, Clone)]
pub struct Spectrum {
    columns: usize,
    panels: Panels,
}

impl Spectrum {
    /// `X[v, k]`.
    fn at(&self, v: usize, k: usize) -> (f64, f64) {
        let (re, im) = self.panels.panel(k / PANEL);
        let index = v * PANEL + k % PANEL;
        (re[index], im[index])
    }
}

/// The transform of images of one size, with its tables and work space.
#[derive(Debug, Clone)]
pub struct Fft2 {
    height: usize,
    width: usize,
    /// Twiddle factors of columns of `height` and of rows of `width`.
    down: Vec<(f64, f64)>,
    across: Vec<(f64, f64)>,
    /// One panel of pairs of real columns, and one to work in.
    pairs: Panels,
    scratch: Panels,
}

impl Fft2 {
    /// # Panics
    ///
    /// Unless both sides are powers of two and at least 2.
    pub fn new(height: usize, width: usize) -> Self {
        for side in [height, width] {
            assert!(side >= 2 && side.is_power_of_two(), "side {side} of a Fourier transform");
        }
        Self {
            height,
            width,
            down: twiddles(height),
            across: twiddles(width),
            pairs: Panels::zeros(height, PANEL),
            scratch: Panels::zeros(height.max(width), PANEL),
        }
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// An empty spectrum to write into.
    pub fn spectrum(&self) -> Spectrum {
        let columns = self.height / 2 + 1;
        Spectrum { columns, panels: Panels::zeros(self.width, columns) }
    }

    /// Transforms an image of `rows × columns`, zero elsewhere.
    pub fn forward(&mut self, image: &[f64], columns: usize, out: &mut Spectrum) {
        self.transform_down(image, columns, out);
        let used = at_least_2(columns);
        for k in 0..out.panels.count {
            self.transform_across(out.panels.panel_mut(k), used, self.width);
        }
    }

    /// `|X|²` as an image: rows `k = 0 … H/2` (frequencies 0 to π downwards), columns `v` from `−W/2`
    /// to `W/2 − 1` (frequencies −π to π), with its rows and columns.
    pub fn power_map(&self, spectrum: &Spectrum) -> (usize, usize, Vec<f64>) {
        let (rows, width) = (spectrum.columns, self.width);
        let at = |i: usize| {
            let (re, im) = spectrum.at((i % width + width / 2) % width, i / width);
            re * re + im * im
        };
        (rows, width, (0..rows * width).map(at).collect())
    }

    /// Transforms back and keeps the upper left `out.len()/columns × columns`. Destroys `spectrum`.
    pub fn inverse(&mut self, spectrum: &mut Spectrum, columns: usize, out: &mut [f64]) {
        for k in 0..spectrum.panels.count {
            // The inverse is the transform with real and imaginary parts exchanged.
            let (re, im) = spectrum.panels.panel_mut(k);
            self.transform_across((im, re), self.width, at_least_2(columns));
        }
        self.transform_up(spectrum, columns, out);
    }

    /// The circular cross-correlation `Σ_z input(z) image(x + z)` with an image given by its
    /// spectrum, kept where `out` is. Panel by panel what `forward`, a product with `conj` and
    /// `inverse` would do, `work` between them.
    pub fn correlate(
        &mut self,
        (input, columns): (&[f64], usize),
        image: &Spectrum,
        work: &mut Spectrum,
        (out, out_columns): (&mut [f64], usize),
    ) {
        self.transform_down(input, columns, work);
        for k in 0..work.panels.count {
            self.transform_across(work.panels.panel_mut(k), at_least_2(columns), self.width);
            multiply(work.panels.panel_mut(k), image.panels.panel(k));
            let (re, im) = work.panels.panel_mut(k);
            self.transform_across((im, re), self.width, at_least_2(out_columns));
        }
        self.transform_up(work, out_columns, out);
    }

    fn transform_across(&mut self, panel: PanelMut, used: usize, wanted: usize) {
        transform(&self.across, panel, self.scratch.panel_mut(0), used, wanted);
    }

    /// The columns of an image, transformed and laid across the rows of `out`.
    fn transform_down(&mut self, image: &[f64], columns: usize, out: &mut Spectrum) {
        let used = at_least_2(image.len() / columns);
        let pairs = columns.div_ceil(2);
        for panel in 0..pairs.div_ceil(PANEL) {
            self.load(image, columns, panel, used);
            let height = self.height;
            transform(&self.down, self.pairs.panel_mut(0), self.scratch.panel_mut(0), used, height);
            self.untangle(panel, pairs, out);
        }
        let zeros = 2 * pairs * PANEL..at_least_2(columns) * PANEL;
        for k in 0..out.panels.count {
            let (re, im) = out.panels.panel_mut(k);
            re[zeros.clone()].fill(0.0);
            im[zeros.clone()].fill(0.0);
        }
    }

    /// The other way, keeping what fits `out`.
    fn transform_up(&mut self, spectrum: &Spectrum, columns: usize, out: &mut [f64]) {
        let wanted = at_least_2(out.len() / columns);
        let pairs = columns.div_ceil(2);
        for panel in 0..pairs.div_ceil(PANEL) {
            self.tangle(panel, pairs, spectrum);
            let (re, im) = self.pairs.panel_mut(0);
            transform(&self.down, (im, re), self.scratch.panel_mut(0), self.height, wanted);
            self.store(panel, columns, out);
        }
    }

    /// Pairs of columns of the image, the first of a pair real and the second imaginary.
    fn load(&mut self, image: &[f64], columns: usize, panel: usize, used: usize) {
        let first = 2 * PANEL * panel;
        let last = columns.min(first + 2 * PANEL);
        let (re, im) = self.pairs.panel_mut(0);
        let mut lines = re.chunks_exact_mut(PANEL).zip(im.chunks_exact_mut(PANEL)).take(used);
        for (row, (re, im)) in image.chunks_exact(columns).zip(&mut lines) {
            let row = &row[first..last];
            let whole = row.len() / 2;
            for (pair, (re, im)) in row.chunks_exact(2).zip(re.iter_mut().zip(im.iter_mut())) {
                (*re, *im) = (pair[0], pair[1]);
            }
            re[whole..].fill(0.0);
            im[whole..].fill(0.0);
            if row.len() % 2 == 1 {
                re[whole] = row[row.len() - 1];
            }
        }
        for (re, im) in lines {
            re.fill(0.0);
            im.fill(0.0);
        }
    }

    fn store(&self, panel: usize, columns: usize, out: &mut [f64]) {
        let scale = 1.0 / (self.height * self.width) as f64;
        let first = 2 * PANEL * panel;
        let last = columns.min(first + 2 * PANEL);
        let (re, im) = self.pairs.panel(0);
        let lines = re.chunks_exact(PANEL).zip(im.chunks_exact(PANEL));
        for (row, (re, im)) in out.chunks_exact_mut(columns).zip(lines) {
            for (pair, (re, im)) in row[first..last].chunks_mut(2).zip(re.iter().zip(im)) {
                pair[0] = re * scale;
                if let Some(second) = pair.get_mut(1) {
                    *second = im * scale;
                }
            }
        }
    }

    /// Two real columns `a + ib` have `A_k = (Z_k + conj Z_{−k})/2`, `B_k = (Z_k − conj Z_{−k})/2i`.
    fn untangle(&self, panel: usize, pairs: usize, out: &mut Spectrum) {
        let (z_re, z_im) = self.pairs.panel(0);
        let live = PANEL.min(pairs - panel * PANEL);
        let first = 2 * panel * PANEL * PANEL;
        for k in 0..out.columns {
            let (plus, minus) = (k * PANEL, (self.height - k) % self.height * PANEL);
            let (ar, ai) = (&z_re[plus..][..PANEL], &z_im[plus..][..PANEL]);
            let (cr, ci) = (&z_re[minus..][..PANEL], &z_im[minus..][..PANEL]);
            let (re, im) = out.panels.panel_mut(k / PANEL);
            let re = re[first..].chunks_exact_mut(2 * PANEL);
            let im = im[first..].chunks_exact_mut(2 * PANEL);
            let lane = k % PANEL;
            for (j, (re, im)) in re.zip(im).take(live).enumerate() {
                let (a, b, c, d) = (ar[j], ai[j], cr[j], ci[j]);
                (re[lane], im[lane]) = ((a + c) * 0.5, (b - d) * 0.5);
                (re[lane + PANEL], im[lane + PANEL]) = ((b + d) * 0.5, (c - a) * 0.5);
            }
        }
    }

    /// The other way: `Z_k = A_k + i B_k` and `Z_{−k} = conj A_k + i conj B_k`.
    fn tangle(&mut self, panel: usize, pairs: usize, spectrum: &Spectrum) {
        let (z_re, z_im) = self.pairs.panel_mut(0);
        let live = PANEL.min(pairs - panel * PANEL);
        let first = 2 * panel * PANEL * PANEL;
        for k in 0..spectrum.columns {
            let (plus, minus) = (k * PANEL, (self.height - k) % self.height * PANEL);
            let (re, im) = spectrum.panels.panel(k / PANEL);
            let re = re[first..].chunks_exact(2 * PANEL);
            let im = im[first..].chunks_exact(2 * PANEL);
            let lane = k % PANEL;
            for (j, (re, im)) in re.zip(im).take(live).enumerate() {
                let (a, b) = (re[lane], im[lane]);
                let (c, d) = (re[lane + PANEL], im[lane + PANEL]);
                (z_re[minus + j], z_im[minus + j]) = (a + d, c - b);
                (z_re[plus + j], z_im[plus + j]) = (a - d, b + c);
            }
        }
    }
}

/// How many rows of a panel to reckon with where `rows` matter: stages split a power of two into
/// parts that are live or dead as a whole.
fn at_least_2(rows: usize) -> usize {
    rows.next_power_of_two().max(2)
}

/// `X ← conj(X) Y`, the spectrum of a circular cross-correlation.
fn multiply((re, im): PanelMut, (other_re, other_im): Panel) {
    vectorized(
        #[inline(always)]
        move || {
            let others = other_re.iter().zip(other_im);
            for ((a, b), (&c, &d)) in re.iter_mut().zip(im.iter_mut()).zip(others) {
                (*a, *b) = (*a * c + *b * d, *a * d - *b * c);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::normal;

    /// The definition, term by term.
    fn naive(image: &[f64], rows: usize, columns: usize, k: f64, v: f64) -> (f64, f64) {
        let mut sum = (0.0, 0.0);
        for y in 0..rows {
            for x in 0..columns {
                let angle = -(k * y as f64 + v * x as f64);
                sum.0 += image[y * columns + x] * libm::cos(angle);
                sum.1 += image[y * columns + x] * libm::sin(angle);
            }
        }
        sum
    }

    #[test]
    fn every_frequency_is_its_definition() {
        for (height, width, rows, columns) in [
            (2, 2, 2, 2),
            (4, 8, 3, 5),
            (8, 4, 8, 4),
            (16, 32, 16, 31),
            (32, 2, 7, 1),
            (64, 32, 4, 9),
        ] {
            let image = normal(rows * columns, 5);
            let mut fft = Fft2::new(height, width);
            let mut spectrum = fft.spectrum();
            fft.forward(&image, columns, &mut spectrum);
            let lanes = height / 2 + 1;
            for v in 0..width {
                for k in 0..lanes {
                    let (kw, vw) = (TAU * k as f64 / height as f64, TAU * v as f64 / width as f64);
                    let (re, im) = naive(&image, rows, columns, kw, vw);
                    let ours = spectrum.at(v, k);
                    // The naive sum of 500 terms of size 1 carries angles up to 200 and 500 u.
                    let error = (ours.0 - re).abs().max((ours.1 - im).abs());
                    assert!(error < 1e-11, "{height}x{width}, v {v}, k {k}: {error:e}");
                }
            }
        }
    }

    #[test]
    fn a_wave_is_one_point_of_the_power_map() {
        let (height, width) = (8, 16);
        let wave = |i: usize| {
            libm::cos(TAU * ((2 * (i / width)) as f64 / 8.0 + (3 * (i % width)) as f64 / 16.0))
        };
        let image: Vec<f64> = (0..height * width).map(wave).collect();
        let mut fft = Fft2::new(height, width);
        let mut spectrum = fft.spectrum();
        fft.forward(&image, width, &mut spectrum);
        let (rows, columns, map) = fft.power_map(&spectrum);
        assert_eq!((rows, columns), (5, 16));
        // A cosine has half its amplitude at +ω: (128/2)² at k = 2, v = 3.
        let largest = (0..map.len()).max_by(|a, b| map[*a].total_cmp(&map[*b])).unwrap();
        assert_eq!((largest / columns, largest % columns), (2, 8 + 3));
        assert!((map[largest] - 4096.0).abs() < 1e-9);
    }

    #[test]
    fn there_and_back_is_the_image() {
        for (height, width, rows, columns) in
            [(2, 2, 2, 2), (8, 16, 5, 11), (64, 64, 64, 64), (64, 128, 3, 40), (256, 32, 17, 2)]
        {
            let image = normal(rows * columns, 5);
            let mut fft = Fft2::new(height, width);
            let mut spectrum = fft.spectrum();
            fft.forward(&image, columns, &mut spectrum);
            let mut back = vec![0.0; image.len()];
            fft.inverse(&mut spectrum, columns, &mut back);
            for (a, b) in image.iter().zip(&back) {
                // Twelve passes each way of a few roundings on values of at most 5.
                assert!((a - b).abs() < 1e-13, "{height}x{width}");
            }
        }
    }

    #[test]
    fn what_was_transformed_before_leaves_no_trace() {
        // Skipped rows keep what an earlier, larger image has left in them.
        let (large, small) = (normal(60 * 61, 5), normal(9 * 5, 5));
        let mut fft = Fft2::new(64, 64);
        let (mut fresh, mut dirty) = (fft.spectrum(), fft.spectrum());
        let transformed = |fft: &mut Fft2, spectrum: &mut Spectrum| {
            fft.forward(&small, 5, spectrum);
            let mut back = vec![0.0; 3 * 20];
            fft.inverse(spectrum, 20, &mut back);
            back
        };
        let expected = transformed(&mut fft.clone(), &mut fresh);
        fft.forward(&large, 61, &mut dirty);
        fft.inverse(&mut dirty, 61, &mut vec![0.0; 60 * 61]);
        assert_eq!(transformed(&mut fft, &mut dirty), expected);
    }
}
