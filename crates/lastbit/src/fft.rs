//! Fourier transform of a real image whose sides are powers of two.
//!
//! ```text
//! X[v, k] = Σ_{y,x} u[y, x] e^{−2πi (k y/H + v x/W)},     k = 0 … H/2,  v = 0 … W−1
//! ```
//!
//! Stockham's self-sorting algorithm of radix 4, applied to all columns at once: the inner loops
//! run along rows of contiguous numbers, so they use vectors of any width with the same bits. Two
//! real columns travel as one complex column.
//!
//! Written here and not taken from a crate because those choose their kernels, with fused
//! multiply-adds, by the machine and take their twiddle factors from the system's libm: both would
//! change bits.

use std::f64::consts::TAU;

use crate::simd::vectorized;

/// A complex matrix by rows, real and imaginary parts apart.
#[derive(Debug, Clone, Default)]
struct Planes {
    re: Vec<f64>,
    im: Vec<f64>,
}

impl Planes {
    fn zeros(len: usize) -> Self {
        Self { re: vec![0.0; len], im: vec![0.0; len] }
    }
}

/// `e^{−2πi p/n}`, `p = 0 … n−1`.
fn twiddles(n: usize) -> Vec<(f64, f64)> {
    let angle = |p: usize| TAU * p as f64 / n as f64;
    (0..n).map(|p| (libm::cos(angle(p)), -libm::sin(angle(p)))).collect()
}

/// The half spectrum `X[v, k]` of the module doc, `v` by rows.
#[derive(Debug, Clone)]
pub struct Spectrum(Planes);

impl Spectrum {
    /// `|X[v, k]|²`, `v` by rows of `lanes` values of `k`.
    fn power_at(&self, v: usize, k: usize, lanes: usize) -> f64 {
        let (re, im) = (self.0.re[v * lanes + k], self.0.im[v * lanes + k]);
        re * re + im * im
    }

    /// `X ← conj(X) Y`, the spectrum of a circular cross-correlation.
    pub fn correlate_with(&mut self, other: &Spectrum) {
        let (re, im) = (&mut self.0.re[..], &mut self.0.im[..]);
        let (other_re, other_im) = (&other.0.re[..], &other.0.im[..]);
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
}

/// The transform of images of one size, with its tables and work space.
#[derive(Debug, Clone)]
pub struct Fft2 {
    height: usize,
    width: usize,
    /// Twiddle factors of columns of `height` and of rows of `width`.
    down: Vec<(f64, f64)>,
    across: Vec<(f64, f64)>,
    columns: Planes,
    scratch: Planes,
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
            columns: Planes::zeros(height * width / 2),
            scratch: Planes::zeros((height / 2 + 1) * width),
        }
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// An empty spectrum to write into.
    pub fn spectrum(&self) -> Spectrum {
        Spectrum(Planes::zeros((self.height / 2 + 1) * self.width))
    }

    /// Transforms an image of `rows × columns`, zero elsewhere.
    pub fn forward(&mut self, image: &[f64], columns: usize, out: &mut Spectrum) {
        let half = self.width / 2;
        self.columns.re.fill(0.0);
        self.columns.im.fill(0.0);
        for (y, row) in image.chunks_exact(columns).enumerate() {
            let re = &mut self.columns.re[y * half..][..half];
            let im = &mut self.columns.im[y * half..][..half];
            for (pair, (re, im)) in row.chunks(2).zip(re.iter_mut().zip(im)) {
                *re = pair[0];
                *im = pair.get(1).copied().unwrap_or(0.0);
            }
        }
        self.scratch_for(half * self.height);
        transform(&self.down, half, &mut self.columns, &mut self.scratch);
        self.untangle(&mut out.0);
        let lanes = self.height / 2 + 1;
        self.scratch_for(lanes * self.width);
        transform(&self.across, lanes, &mut out.0, &mut self.scratch);
    }

    /// `|X|²` as an image: rows `k = 0 … H/2` (frequencies 0 to π downwards), columns `v` from `−W/2`
    /// to `W/2 − 1` (frequencies −π to π), with its rows and columns.
    pub fn power_map(&self, spectrum: &Spectrum) -> (usize, usize, Vec<f64>) {
        let (lanes, width) = (self.height / 2 + 1, self.width);
        let at = |i: usize| spectrum.power_at((i % width + width / 2) % width, i / width, lanes);
        (lanes, width, (0..lanes * width).map(at).collect())
    }

    /// Transforms back and keeps the upper left `out.len()/columns × columns`. Destroys `spectrum`.
    pub fn inverse(&mut self, spectrum: &mut Spectrum, columns: usize, out: &mut [f64]) {
        let lanes = self.height / 2 + 1;
        // The inverse is the transform with real and imaginary parts exchanged.
        self.scratch_for(lanes * self.width);
        swap_planes(&mut spectrum.0);
        transform(&self.across, lanes, &mut spectrum.0, &mut self.scratch);
        swap_planes(&mut spectrum.0);
        self.tangle(&spectrum.0);
        let half = self.width / 2;
        self.scratch_for(half * self.height);
        swap_planes(&mut self.columns);
        transform(&self.down, half, &mut self.columns, &mut self.scratch);
        swap_planes(&mut self.columns);
        let scale = 1.0 / (self.height * self.width) as f64;
        for (y, row) in out.chunks_exact_mut(columns).enumerate() {
            let re = &self.columns.re[y * half..][..half];
            let im = &self.columns.im[y * half..][..half];
            for (pair, (re, im)) in row.chunks_mut(2).zip(re.iter().zip(im)) {
                pair[0] = re * scale;
                if let Some(second) = pair.get_mut(1) {
                    *second = im * scale;
                }
            }
        }
    }

    fn scratch_for(&mut self, len: usize) {
        self.scratch.re.resize(len, 0.0);
        self.scratch.im.resize(len, 0.0);
    }

    /// Two real columns `a + ib` have `A_k = (Z_k + conj Z_{−k})/2`, `B_k = (Z_k − conj Z_{−k})/2i`.
    fn untangle(&self, out: &mut Planes) {
        let (half, lanes) = (self.width / 2, self.height / 2 + 1);
        let z = &self.columns;
        for k in 0..lanes {
            let (plus, minus) = (k * half, (self.height - k) % self.height * half);
            for j in 0..half {
                let (a, b) = (z.re[plus + j], z.im[plus + j]);
                let (c, d) = (z.re[minus + j], z.im[minus + j]);
                let (even, odd) = (2 * j * lanes + k, (2 * j + 1) * lanes + k);
                (out.re[even], out.im[even]) = ((a + c) * 0.5, (b - d) * 0.5);
                (out.re[odd], out.im[odd]) = ((b + d) * 0.5, (c - a) * 0.5);
            }
        }
    }

    /// The other way: `Z_k = A_k + i B_k` and `Z_{−k} = conj A_k + i conj B_k`.
    fn tangle(&mut self, spectrum: &Planes) {
        let (half, lanes) = (self.width / 2, self.height / 2 + 1);
        let z = &mut self.columns;
        for k in 0..lanes {
            let (plus, minus) = (k * half, (self.height - k) % self.height * half);
            for j in 0..half {
                let (even, odd) = (2 * j * lanes + k, (2 * j + 1) * lanes + k);
                let (a, b) = (spectrum.re[even], spectrum.im[even]);
                let (c, d) = (spectrum.re[odd], spectrum.im[odd]);
                (z.re[minus + j], z.im[minus + j]) = (a + d, c - b);
                (z.re[plus + j], z.im[plus + j]) = (a - d, b + c);
            }
        }
    }
}

fn swap_planes(planes: &mut Planes) {
    std::mem::swap(&mut planes.re, &mut planes.im);
}

/// Transforms `lanes` columns of `twiddles.len()` numbers each.
fn transform(twiddles: &[(f64, f64)], lanes: usize, x: &mut Planes, y: &mut Planes) {
    let whole = twiddles.len();
    let (mut n, mut stride) = (whole, 1);
    while n > 1 {
        let radix = if n.is_multiple_of(4) { 4 } else { 2 };
        let m = n / radix;
        let run = stride * lanes;
        for p in 0..m {
            // e^{−2πi jp/n} is entry j p (whole/n) of the table.
            let factor = |j: usize| twiddles[j * p * stride];
            let input = |j: usize| (p + j * m) * run;
            let output = radix * p * run;
            if radix == 4 {
                let rows =
                    [0, 1, 2, 3].map(|j| (&x.re[input(j)..][..run], &x.im[input(j)..][..run]));
                let re = &mut y.re[output..][..4 * run];
                let im = &mut y.im[output..][..4 * run];
                let factors = [factor(1), factor(2), factor(3)];
                vectorized(
                    #[inline(always)]
                    move || butterfly_4(rows, factors, re, im),
                );
            } else {
                let rows = [0, 1].map(|j| (&x.re[input(j)..][..run], &x.im[input(j)..][..run]));
                let re = &mut y.re[output..][..2 * run];
                let im = &mut y.im[output..][..2 * run];
                let factor = factor(1);
                vectorized(
                    #[inline(always)]
                    move || butterfly_2(rows, factor, re, im),
                );
            }
        }
        std::mem::swap(x, y);
        n = m;
        stride *= radix;
    }
}

type Row<'a> = (&'a [f64], &'a [f64]);

#[inline(always)]
fn butterfly_2(rows: [Row; 2], (wr, wi): (f64, f64), re: &mut [f64], im: &mut [f64]) {
    let [(ar, ai), (br, bi)] = rows;
    let run = ar.len();
    let (re0, re1) = re.split_at_mut(run);
    let (im0, im1) = im.split_at_mut(run);
    for i in 0..run {
        (re0[i], im0[i]) = (ar[i] + br[i], ai[i] + bi[i]);
        let (dr, di) = (ar[i] - br[i], ai[i] - bi[i]);
        (re1[i], im1[i]) = (wr * dr - wi * di, wr * di + wi * dr);
    }
}

#[inline(always)]
fn butterfly_4(rows: [Row; 4], factors: [(f64, f64); 3], re: &mut [f64], im: &mut [f64]) {
    let run = rows[0].0.len();
    let [(ar, ai), (br, bi), (cr, ci), (dr, di)] = rows.map(|(re, im)| (&re[..run], &im[..run]));
    let [(w1r, w1i), (w2r, w2i), (w3r, w3i)] = factors;
    let (re0, rest) = re.split_at_mut(run);
    let (re1, rest) = rest.split_at_mut(run);
    let (re2, re3) = rest.split_at_mut(run);
    let (im0, rest) = im.split_at_mut(run);
    let (im1, rest) = rest.split_at_mut(run);
    let (im2, im3) = rest.split_at_mut(run);
    let (re3, im3) = (&mut re3[..run], &mut im3[..run]);
    for i in 0..run {
        let (spr, spi) = (ar[i] + cr[i], ai[i] + ci[i]);
        let (smr, smi) = (ar[i] - cr[i], ai[i] - ci[i]);
        let (tpr, tpi) = (br[i] + dr[i], bi[i] + di[i]);
        // i (b − d)
        let (tmr, tmi) = (di[i] - bi[i], br[i] - dr[i]);
        (re0[i], im0[i]) = (spr + tpr, spi + tpi);
        let (ur, ui) = (smr - tmr, smi - tmi);
        (re1[i], im1[i]) = (w1r * ur - w1i * ui, w1r * ui + w1i * ur);
        let (ur, ui) = (spr - tpr, spi - tpi);
        (re2[i], im2[i]) = (w2r * ur - w2i * ui, w2r * ui + w2i * ur);
        let (ur, ui) = (smr + tmr, smi + tmi);
        (re3[i], im3[i]) = (w3r * ur - w3i * ui, w3r * ui + w3i * ur);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn noise(len: usize) -> Vec<f64> {
        let stream = Stream::new(5, 0);
        (0..len as u64).map(|i| stream.normal(i)).collect()
    }

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
        for (height, width, rows, columns) in
            [(2, 2, 2, 2), (4, 8, 3, 5), (8, 4, 8, 4), (16, 32, 16, 31), (32, 2, 7, 1)]
        {
            let image = noise(rows * columns);
            let mut fft = Fft2::new(height, width);
            let mut spectrum = fft.spectrum();
            fft.forward(&image, columns, &mut spectrum);
            let lanes = height / 2 + 1;
            for v in 0..width {
                for k in 0..lanes {
                    let (kw, vw) = (TAU * k as f64 / height as f64, TAU * v as f64 / width as f64);
                    let (re, im) = naive(&image, rows, columns, kw, vw);
                    let ours = (spectrum.0.re[v * lanes + k], spectrum.0.im[v * lanes + k]);
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
        for (height, width, rows, columns) in [(2, 2, 2, 2), (8, 16, 5, 11), (64, 64, 64, 64)] {
            let image = noise(rows * columns);
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
}
