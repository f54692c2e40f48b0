//! Convolutions from one channel to one channel: registers run along the rows of the image.
//!
//! A single channel would leave a register of channels all but empty. Here a row of outputs is
//! computed at a time, `out[x] ← out[x] + w[r, c] · in[x + c]`, for the kernel's rows and columns in
//! turn: for each output the same chain of fused multiply-adds as [`super::kernel::multiply`], with
//! the same bits. The gradient by a weight adds up each column of an image over its rows, then the
//! columns from left to right, then the images.

use super::kernel::Start;
use crate::Real;
use crate::simd::vectorized;

/// Images of one channel: offset of the first number, and distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    pub start: usize,
    pub image: usize,
    pub stride: usize,
}

/// What is computed: rows and columns of an image's outputs, and of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub rows: usize,
    pub cols: usize,
    pub kernel: [usize; 2],
}

/// `out = w * x`; `w` holds one weight every `step` numbers, `out` its images one after the other.
#[expect(clippy::too_many_arguments, reason = "two images, weights and what joins them")]
pub(super) fn convolve<F: Real>(
    x: &[F],
    from: Plane,
    extent: Extent,
    w: &[F],
    step: usize,
    start: Start<F>,
    out: &mut [F],
    images: usize,
) {
    let Extent { rows, cols, kernel } = extent;
    vectorized(
        #[inline(always)]
        || {
            for row in 0..images * rows {
                let (image, y) = (row / rows, row % rows);
                let out = &mut out[row * cols..(row + 1) * cols];
                match start {
                    Start::Zero => out.fill(F::default()),
                    Start::Bias(bias) => out.fill(bias[0]),
                    Start::Out => {}
                }
                let first = from.start + image * from.image + y * from.stride;
                for tap in 0..kernel[0] * kernel[1] {
                    let at = first + tap / kernel[1] * from.stride + tap % kernel[1];
                    let (x, w) = (&x[at..at + cols], w[tap * step]);
                    out.iter_mut().zip(x).for_each(|(out, x)| *out = w.mul_add(*x, *out));
                }
            }
        },
    );
}

/// Adds the gradient by the weights of some images to `w`; `columns` is work space.
#[expect(clippy::too_many_arguments, reason = "two images, weights and what joins them")]
pub(super) fn outer<F: Real>(
    x: &[F],
    from: Plane,
    d: &[F],
    to: Plane,
    extent: Extent,
    w: &mut [F],
    step: usize,
    images: usize,
    columns: &mut Vec<F>,
) {
    let Extent { rows, cols, kernel } = extent;
    let taps = kernel[0] * kernel[1];
    columns.clear();
    columns.resize(taps * cols, F::default());
    vectorized(
        #[inline(always)]
        || {
            for image in 0..images {
                columns.fill(F::default());
                for y in 0..rows {
                    let at = to.start + image * to.image + y * to.stride;
                    let d = &d[at..at + cols];
                    let first = from.start + image * from.image + y * from.stride;
                    for (tap, sums) in columns.chunks_exact_mut(cols).enumerate() {
                        let at = first + tap / kernel[1] * from.stride + tap % kernel[1];
                        let x = &x[at..at + cols];
                        for ((sum, x), d) in sums.iter_mut().zip(x).zip(d) {
                            *sum = x.mul_add(*d, *sum);
                        }
                    }
                }
                for (sums, w) in columns.chunks_exact(cols).zip(w.iter_mut().step_by(step)) {
                    *w += sums.iter().copied().sum::<F>();
                }
            }
        },
    );
}
