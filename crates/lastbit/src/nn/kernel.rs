//! The two loops in which a network spends its time, at the speed of the multiply-add units.
//!
//! An output pixel of a convolution is a sum over the *runs* of its patch: row `r` of the kernel
//! meets `len` consecutive numbers of the padded input (`kernel width × channels`, NHWC).
//!
//! ```text
//! multiply   out[q, o]  = Σ_r Σ_j  x[p + r·stride + j] · w[r·len + j, o]        p ↦ q: a list of pixels
//! outer      w[r·len + j, o] += Σ_p x[p + r·stride + j] · d[q, o]
//! ```
//!
//! Registers run over `o`, so each sum stays in one lane and is added up in the order written, with
//! fused multiply-adds: neither the register width nor the blocking can change a bit. Eight pixels
//! (or sixteen `j`) share a register of weights (or of `d`), which is loaded once for all of them.
//! A fully connected layer is one long run, which is cut: its sums are stored and taken up again.

#[cfg(test)]
mod naive;

use pulp::{Simd, WithSimd};

use crate::Real;
use crate::simd::{width, with_simd};

/// Pixels that go through the weights together.
pub(super) const STRIP: usize = 8;
/// Rows of weights held in registers meanwhile.
const BLOCK: usize = 4;
/// Numbers of a long run that pass through [`multiply`] before the next ones: with a register of
/// weights each they fill half a first-level cache.
pub(super) const LONG_RUN: usize = 256;
/// Bytes of `d` that pass through [`outer`] before the next block of weights: half a first-level
/// cache.
const BAND_BYTES: usize = 16 * 1024;
/// Pixels that do so at least: a block of weights is loaded and stored once for all of them.
const SMALLEST_BAND: usize = 128;

/// A pixel read and a pixel written, as offsets of their first numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pixel {
    pub from: usize,
    pub to: usize,
}

/// Where the numbers under the kernel lie, from a pixel's first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    pub count: usize,
    pub stride: usize,
    pub len: usize,
}

impl Runs {
    /// Rows of the matrix of weights.
    pub fn rows(self) -> usize {
        self.count * self.len
    }
}

/// A matrix in panels of one register's width, rows one after the other inside a panel; the last
/// panel is filled up with zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Panels<F> {
    pub values: Vec<F>,
    pub rows: usize,
    pub cols: usize,
    pub width: usize,
}

impl<F: Real> Panels<F> {
    /// Length of the values of a matrix.
    pub fn len_of(rows: usize, cols: usize) -> usize {
        let width = width::<F>();
        rows * cols.div_ceil(width) * width
    }

    /// Takes the shape of a matrix; the panels that `fill` gets are to be written row by row.
    pub fn fill(
        &mut self,
        rows: usize,
        cols: usize,
        fill: impl Fn(std::ops::Range<usize>, &mut [F]) + Sync,
    ) {
        let width = width::<F>();
        (self.rows, self.cols, self.width) = (rows, cols, width);
        if !cols.is_multiple_of(width) {
            // What fills up the last panel must be zero; all else is overwritten.
            self.values.clear();
        }
        self.values.resize(Self::len_of(rows, cols), F::default());
        super::parallel::chunks(&mut self.values, rows * width, |panel, values| {
            fill(panel * width..cols.min((panel + 1) * width), values);
        });
    }
}

/// What a sum starts from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start<'a, F> {
    Zero,
    /// One number per column.
    Bias(&'a [F]),
    /// What is there already.
    Out,
}

/// `multiply` of the module doc.
pub(super) fn multiply<F: Real>(
    x: &[F],
    pixels: &[Pixel],
    runs: Runs,
    w: &Panels<F>,
    start: Start<F>,
    out: &mut [F],
) {
    assert_eq!(w.rows, runs.rows(), "rows of weights");
    with_simd(Multiply { x, pixels, runs, w, start, out });
}

struct Multiply<'a, F> {
    x: &'a [F],
    pixels: &'a [Pixel],
    runs: Runs,
    w: &'a Panels<F>,
    start: Start<'a, F>,
    out: &'a mut [F],
}

/// Writes `$body` once for each `$i` below `$n`: a loop over registers must not be one at run time.
macro_rules! unrolled {
    ($n:expr, $i:ident, $body:block) => {
        unrolled!(@ $n, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $n:expr, $i:ident, $body:block, $($literal:literal)*) => {
        $( if $literal < $n { let $i = $crate::nn::kernel::at($literal); $body } )*
    };
}
pub(super) use unrolled;

/// A number that the compiler knows and that lints do not follow into the branches not taken.
#[inline(always)]
pub(super) fn at(i: usize) -> usize {
    i
}

impl<F: Real> WithSimd for Multiply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = F::lanes::<S>();
        let Self { x, pixels, runs, w, start, out } = self;
        let panels = F::vectors::<S>(&w.values);
        let cut = if runs.count == 1 { LONG_RUN } else { runs.rows().max(1) };
        for first in (0..w.rows).step_by(cut) {
            let rows = first..w.rows.min(first + cut);
            let (x, start) = match first {
                0 => (x, start),
                _ => (&x[first..], Start::Out),
            };
            let runs = if runs.count == 1 { Runs { len: rows.len(), ..runs } } else { runs };
            for (panel, w_panel) in panels.chunks_exact(w.rows).enumerate() {
                let columns = panel * lanes..w.cols.min((panel + 1) * lanes);
                let bias = match start {
                    Start::Bias(bias) => load::<S, F>(simd, &bias[columns.clone()]),
                    _ => F::splat(simd, F::default()),
                };
                for strip in pixels.chunks(STRIP) {
                    // A short strip repeats its last pixel and does not store it again.
                    let from: [usize; STRIP] =
                        std::array::from_fn(|i| strip[i.min(strip.len() - 1)].from);
                    let mut sums = [bias; STRIP];
                    if matches!(start, Start::Out) {
                        for (sum, pixel) in sums.iter_mut().zip(strip) {
                            let at = pixel.to + columns.start..pixel.to + columns.end;
                            *sum = load::<S, F>(simd, &out[at]);
                        }
                    }
                    let sums = strip_sums(simd, x, &from, runs, &w_panel[rows.clone()], sums);
                    for (sum, pixel) in sums.iter().zip(strip) {
                        let at = pixel.to + columns.start..pixel.to + columns.end;
                        store::<S, F>(simd, *sum, &mut out[at]);
                    }
                }
            }
        }
    }
}

/// Sums of eight pixels over all runs, in registers.
#[inline(always)]
pub(super) fn strip_sums<S: Simd, F: Real>(
    simd: S,
    x: &[F],
    from: &[usize; STRIP],
    runs: Runs,
    w: &[F::Vector<S>],
    mut sums: [F::Vector<S>; STRIP],
) -> [F::Vector<S>; STRIP] {
    for run in 0..runs.count {
        let x = &x[run * runs.stride..];
        let w = &w[run * runs.len..(run + 1) * runs.len];
        let mut rows: [&[F]; STRIP] = [&[]; STRIP];
        unrolled!(STRIP, i, {
            rows[i] = &x[from[i]..from[i] + runs.len];
        });
        let (blocks, rest) = w.as_chunks::<BLOCK>();
        for (b, block) in blocks.iter().enumerate() {
            unrolled!(STRIP, i, {
                let x: &[F; BLOCK] = rows[i][b * BLOCK..].first_chunk().expect("within the run");
                unrolled!(BLOCK, j, {
                    sums[i] = F::fused(simd, F::splat(simd, x[j]), block[j], sums[i]);
                });
            });
        }
        let done = blocks.len() * BLOCK;
        for (j, w) in rest.iter().enumerate() {
            unrolled!(STRIP, i, {
                sums[i] = F::fused(simd, F::splat(simd, rows[i][done + j]), *w, sums[i]);
            });
        }
    }
    sums
}

/// `outer` of the module doc, added to `w`, which has the layout of [`Panels`] and `cols` columns.
pub(super) fn outer<F: Real>(
    x: &[F],
    d: &[F],
    pixels: &[Pixel],
    runs: Runs,
    cols: usize,
    w: &mut [F],
) {
    assert_eq!(w.len(), Panels::<F>::len_of(runs.rows(), cols), "length of weights");
    with_simd(Outer { x, d, pixels, runs, cols, w });
}

struct Outer<'a, F> {
    x: &'a [F],
    d: &'a [F],
    pixels: &'a [Pixel],
    runs: Runs,
    cols: usize,
    w: &'a mut [F],
}

impl<F: Real> WithSimd for Outer<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = F::lanes::<S>();
        let Self { x, d, pixels, runs, cols, w } = self;
        let panels = F::vectors_mut::<S>(w);
        let band = (BAND_BYTES / (cols * size_of::<F>())).max(SMALLEST_BAND);
        for pixels in pixels.chunks(band) {
            for run in 0..runs.count {
                let x = &x[run * runs.stride..];
                let mut done = 0;
                // The x of a block stay in the first-level cache while the panels pass.
                while done < runs.len {
                    let (x, row) = (&x[done..], run * runs.len + done);
                    let left = runs.len - done;
                    for (panel, w) in panels.chunks_exact_mut(runs.rows()).enumerate() {
                        let column = panel * lanes;
                        let columns = column..cols.min(column + lanes);
                        let w = &mut w[row..row + left];
                        match rows_together(left) {
                            16 => block_sums::<S, F, 16>(simd, x, d, pixels, &columns, w),
                            9 => block_sums::<S, F, 9>(simd, x, d, pixels, &columns, w),
                            4 => block_sums::<S, F, 4>(simd, x, d, pixels, &columns, w),
                            3 => block_sums::<S, F, 3>(simd, x, d, pixels, &columns, w),
                            _ => block_sums::<S, F, 1>(simd, x, d, pixels, &columns, w),
                        }
                    }
                    done += rows_together(left);
                }
            }
        }
    }
}

/// Rows of weights that are summed together where so many are left of a run: 3 and 9 are the runs of 3×3 kernels on
/// one channel and on three.
#[inline(always)]
fn rows_together(left: usize) -> usize {
    match left {
        16.. => 16,
        9 => 9,
        4.. => 4,
        3 => 3,
        _ => 1,
    }
}

/// Sums of the first `J` rows of weights over all pixels, in registers.
#[inline(always)]
pub(super) fn block_sums<S: Simd, F: Real, const J: usize>(
    simd: S,
    x: &[F],
    d: &[F],
    pixels: &[Pixel],
    columns: &std::ops::Range<usize>,
    w: &mut [F::Vector<S>],
) {
    let w: &mut [F::Vector<S>; J] = w.first_chunk_mut().expect("at least so many rows");
    let mut sums = *w;
    if columns.len() == F::lanes::<S>() {
        for pixel in pixels {
            let x: &[F; J] = x[pixel.from..].first_chunk().expect("within the run");
            let at = pixel.to + columns.start;
            let d = F::vectors::<S>(&d[at..at + F::lanes::<S>()])[0];
            unrolled!(J, i, {
                sums[i] = F::fused(simd, F::splat(simd, x[i]), d, sums[i]);
            });
        }
    } else {
        for pixel in pixels {
            let x: &[F; J] = x[pixel.from..].first_chunk().expect("within the run");
            let d = load::<S, F>(simd, &d[pixel.to + columns.start..pixel.to + columns.end]);
            unrolled!(J, i, {
                sums[i] = F::fused(simd, F::splat(simd, x[i]), d, sums[i]);
            });
        }
    }
    *w = sums;
}

/// A register from at most as many numbers as it holds, zeros behind.
#[inline(always)]
pub(super) fn load<S: Simd, F: Real>(simd: S, values: &[F]) -> F::Vector<S> {
    match F::vectors::<S>(values) {
        [whole, ..] => *whole,
        [] => F::load_part(simd, values),
    }
}

/// As many numbers of a register as there is room for.
#[inline(always)]
pub(super) fn store<S: Simd, F: Real>(simd: S, vector: F::Vector<S>, values: &mut [F]) {
    match F::vectors_mut::<S>(values) {
        [whole, ..] => *whole = vector,
        [] => F::store_part(simd, values, vector),
    }
}
