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
    let w = Weights { values: w, step, kernel: extent.kernel };
    vectorized(
        #[inline(always)]
        || match extent.kernel {
            [3, 3] => convolve_rows::<F, 3>(x, from, extent, w, start, out, images),
            _ => convolve_rows::<F, 0>(x, from, extent, w, start, out, images),
        },
    );
}

#[derive(Clone, Copy)]
struct Weights<'a, F> {
    values: &'a [F],
    step: usize,
    kernel: [usize; 2],
}

/// All rows, with a kernel of `K x K` or, where `K` is 0, of any size.
#[inline(always)]
fn convolve_rows<F: Real, const K: usize>(
    x: &[F],
    from: Plane,
    extent: Extent,
    w: Weights<F>,
    start: Start<F>,
    out: &mut [F],
    images: usize,
) {
    let Extent { rows, cols, .. } = extent;
    for row in 0..images * rows {
        let (image, y) = (row / rows, row % rows);
        let out = &mut out[row * cols..(row + 1) * cols];
        match start {
            Start::Zero => out.fill(F::default()),
            Start::Bias(bias) => out.fill(bias[0]),
            Start::Out => {}
        }
        let x = &x[from.start + image * from.image + y * from.stride..];
        let mut done = 0;
        while cols - done >= 16 {
            done = convolve_part::<F, 16, K>(x, from.stride, w, out, done);
        }
        while cols - done >= 4 {
            done = convolve_part::<F, 4, K>(x, from.stride, w, out, done);
        }
        while cols > done {
            done = convolve_part::<F, 1, K>(x, from.stride, w, out, done);
        }
    }
}

/// The `N` outputs from `at` on, kept in registers for the whole kernel; returns where they end.
#[inline(always)]
fn convolve_part<F: Real, const N: usize, const K: usize>(
    x: &[F],
    stride: usize,
    w: Weights<F>,
    out: &mut [F],
    at: usize,
) -> usize {
    let [height, width] = if K > 0 { [K, K] } else { w.kernel };
    let out = &mut out[at..at + N];
    let mut sums: [F; N] = std::array::from_fn(|i| out[i]);
    for r in 0..height {
        let x = &x[r * stride + at..][..width - 1 + N];
        for c in 0..width {
            let (x, w) = (&x[c..c + N], w.values[(r * width + c) * w.step]);
            for i in 0..N {
                sums[i] = w.mul_add(x[i], sums[i]);
            }
        }
    }
    out.copy_from_slice(&sums);
    at + N
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
    let Extent { cols, kernel, .. } = extent;
    columns.clear();
    columns.resize(kernel[0] * kernel[1] * cols, F::default());
    vectorized(
        #[inline(always)]
        || {
            for image in 0..images {
                let x = &x[from.start + image * from.image..];
                let d = &d[to.start + image * to.image..];
                let strides = [from.stride, to.stride];
                let mut done = 0;
                while cols - done >= 16 {
                    done = outer_part::<F, 16>(x, d, strides, extent, columns, done);
                }
                while cols - done >= 4 {
                    done = outer_part::<F, 4>(x, d, strides, extent, columns, done);
                }
                while cols > done {
                    done = outer_part::<F, 1>(x, d, strides, extent, columns, done);
                }
                for (sums, w) in columns.chunks_exact(cols).zip(w.iter_mut().step_by(step)) {
                    *w += sums.iter().copied().sum::<F>();
                }
            }
        },
    );
}

/// The sums of `N` columns from `at` on for all of the kernel, three of its columns at a time where it
/// has so many; returns where they end.
#[inline(always)]
fn outer_part<F: Real, const N: usize>(
    x: &[F],
    d: &[F],
    strides: [usize; 2],
    extent: Extent,
    columns: &mut [F],
    at: usize,
) -> usize {
    let Extent { rows, cols, kernel } = extent;
    for r in 0..kernel[0] {
        let x = &x[r * strides[0] + at..];
        let mut c = 0;
        while c < kernel[1] {
            let sums = &mut columns[(r * kernel[1] + c) * cols + at..];
            if kernel[1] - c >= 3 {
                add_rows::<F, N, 3>(&x[c..], &d[at..], strides, rows, sums, cols);
                c += 3;
            } else {
                add_rows::<F, N, 1>(&x[c..], &d[at..], strides, rows, sums, cols);
                c += 1;
            }
        }
    }
    at + N
}

/// `sums[c][i] = Σ_y x[y][c + i] d[y][i]` for `C` neighbouring columns of the kernel.
#[inline(always)]
fn add_rows<F: Real, const N: usize, const C: usize>(
    x: &[F],
    d: &[F],
    [stride, d_stride]: [usize; 2],
    rows: usize,
    sums: &mut [F],
    cols: usize,
) {
    let mut kept = [[F::default(); N]; C];
    for y in 0..rows {
        let (x, d) = (&x[y * stride..y * stride + C - 1 + N], &d[y * d_stride..y * d_stride + N]);
        for c in 0..C {
            for i in 0..N {
                kept[c][i] = x[c + i].mul_add(d[i], kept[c][i]);
            }
        }
    }
    for (c, kept) in kept.iter().enumerate() {
        sums[c * cols..c * cols + N].copy_from_slice(kept);
    }
}
