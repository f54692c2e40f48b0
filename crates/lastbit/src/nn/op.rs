//! Everything between convolutions: sums, pooling and the shortcut without parameters, by image.
//!
//! All of them are linear in their input once it is known where the largest numbers stand, so the
//! derivative along a direction is the same function of the derivative.

use std::ops::Range;

use super::network::{Layer, Op, Pool, PoolKind};
use crate::Real;
use crate::simd::vectorized;

/// `out = op(x)` for one image; maxima are looked for in `select`, the input's value.
pub(super) fn apply<F: Real>(
    op: &Op,
    from: &Layer,
    to: &Layer,
    select: &[F],
    x: &[F],
    out: &mut [F],
) {
    match op {
        Op::Pool(kind) => pool(*kind, from, to, select, x, out),
        Op::Subsample { stride } => subsample(*stride, from, to, x, out),
        Op::Mean => out[0] = x.iter().copied().sum::<F>() * F::of(1.0 / x.len() as f64),
        Op::Input | Op::Add | Op::Conv(_) => unreachable!("computed by the engine"),
    }
}

/// Whether the operation looks for maxima in its input's value.
pub(super) fn selects(op: &Op) -> bool {
    matches!(op, Op::Pool(pool) if pool.kind == PoolKind::Max)
}

/// `dx = opᵀ(d)` for one image.
pub(super) fn apply_transposed<F: Real>(
    op: &Op,
    from: &Layer,
    to: &Layer,
    select: &[F],
    d: &[F],
    dx: &mut [F],
) {
    match op {
        Op::Pool(kind) => pool_transposed(*kind, from, to, select, d, dx),
        Op::Subsample { stride } => subsample_transposed(*stride, from, to, d, dx),
        Op::Mean => {
            let share = F::of(1.0 / dx.len() as f64);
            dx.fill(d[0] * share);
        }
        Op::Input | Op::Add | Op::Conv(_) => unreachable!("computed by the engine"),
    }
}

/// Channels that pass through a window together.
const CHANNELS: usize = 64;

/// `out = pool(x)`; maxima are looked for in `select`, the input's value. Of equal ones the first
/// counts, and a NaN counts as largest, as in PyTorch.
fn pool<F: Real>(pool: Pool, from: &Layer, to: &Layer, select: &[F], x: &[F], out: &mut [F]) {
    let share = F::of(1.0 / (pool.size[0] * pool.size[1]) as f64);
    vectorized(
        #[inline(always)]
        || {
            each_window(
                pool,
                from,
                to,
                #[inline(always)]
                |pixel, channels, mut window| {
                    let out = &mut out[pixel + channels.start..pixel + channels.end];
                    let len = channels.len();
                    let first = window.next().expect("a window has a pixel") + channels.start;
                    out.copy_from_slice(&x[first..first + len]);
                    match pool.kind {
                        PoolKind::Max => {
                            let mut best = [F::default(); CHANNELS];
                            let best = &mut best[..len];
                            best.copy_from_slice(&select[first..first + len]);
                            for at in window {
                                let at = at + channels.start;
                                let (select, x) = (&select[at..at + len], &x[at..at + len]);
                                for i in 0..len {
                                    let is_larger = exceeds(select[i], best[i]);
                                    best[i] = if is_larger { select[i] } else { best[i] };
                                    out[i] = if is_larger { x[i] } else { out[i] };
                                }
                            }
                        }
                        PoolKind::Average => {
                            for at in window {
                                let x = &x[at + channels.start..][..len];
                                out.iter_mut().zip(x).for_each(|(sum, x)| *sum += *x);
                            }
                            out.iter_mut().for_each(|sum| *sum = *sum * share);
                        }
                    }
                },
            );
        },
    );
}

/// `dx = poolᵀ(d)`.
fn pool_transposed<F: Real>(
    pool: Pool,
    from: &Layer,
    to: &Layer,
    select: &[F],
    d: &[F],
    dx: &mut [F],
) {
    let share = F::of(1.0 / (pool.size[0] * pool.size[1]) as f64);
    dx.fill(F::default());
    vectorized(
        #[inline(always)]
        || {
            each_window(
                pool,
                from,
                to,
                #[inline(always)]
                |pixel, channels, window| {
                    let len = channels.len();
                    let pixels = window.map(|at| at + channels.start..at + channels.end);
                    // What has not met its maximum yet.
                    let mut left = [F::default(); CHANNELS];
                    let left = &mut left[..len];
                    left.copy_from_slice(&d[pixel + channels.start..pixel + channels.end]);
                    match pool.kind {
                        PoolKind::Max => {
                            let mut best = [F::default(); CHANNELS];
                            let best = &mut best[..len];
                            for (nth, at) in pixels.clone().enumerate() {
                                let select = &select[at];
                                for i in 0..len {
                                    let is_larger = nth == 0 || exceeds(select[i], best[i]);
                                    best[i] = if is_larger { select[i] } else { best[i] };
                                }
                            }
                            for at in pixels {
                                let (select, dx) = (&select[at.clone()], &mut dx[at]);
                                for i in 0..len {
                                    let is_best = !(best[i] < select[i] || best[i] > select[i])
                                        && is_nan(best[i]) == is_nan(select[i]);
                                    dx[i] += if is_best { left[i] } else { F::default() };
                                    left[i] = if is_best { F::default() } else { left[i] };
                                }
                            }
                        }
                        PoolKind::Average => {
                            for at in pixels {
                                dx[at].iter_mut().zip(&*left).for_each(|(dx, d)| *dx += *d * share);
                            }
                        }
                    }
                },
            );
        },
    );
}

/// Whether a number takes the place of the largest so far: a NaN does, and stays.
#[inline(always)]
fn exceeds<F: Real>(value: F, best: F) -> bool {
    value > best || (is_nan(value) && !is_nan(best))
}

#[inline(always)]
fn is_nan<F: Real>(value: F) -> bool {
    value.partial_cmp(&value).is_none()
}

/// Calls `work` with the offset of each output pixel, a range of channels, and the offsets of the input pixels it
/// looks at.
#[inline(always)]
fn each_window(
    pool: Pool,
    from: &Layer,
    to: &Layer,
    mut work: impl FnMut(usize, Range<usize>, Window),
) {
    let [rows, cols, _] = to.shape;
    let [_, width, channels] = from.shape;
    for pixel in 0..rows * cols {
        let (y, x) = (pixel / cols * pool.stride, pixel % cols * pool.stride);
        let first = (y * width + x) * channels;
        let window = Window { first, size: pool.size, row: width * channels, channels, at: [0, 0] };
        for start in (0..channels).step_by(CHANNELS) {
            let some = start..channels.min(start + CHANNELS);
            work(pixel * channels, some, window.clone());
        }
    }
}

/// Offsets of the pixels of a window, row by row.
#[derive(Clone)]
struct Window {
    first: usize,
    size: [usize; 2],
    row: usize,
    channels: usize,
    at: [usize; 2],
}

impl Iterator for Window {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let [y, x] = self.at;
        if y == self.size[0] {
            return None;
        }
        self.at = if x + 1 == self.size[1] { [y + 1, 0] } else { [y, x + 1] };
        Some(self.first + y * self.row + x * self.channels)
    }
}

/// Every `stride`-th pixel with zero channels around.
fn subsample<F: Real>(stride: usize, from: &Layer, to: &Layer, x: &[F], out: &mut [F]) {
    out.fill(F::default());
    each_kept(stride, from, to, |at, inside, kept| {
        out[inside..inside + kept].copy_from_slice(&x[at..at + kept]);
    });
}

/// The transpose of [`subsample`].
fn subsample_transposed<F: Real>(stride: usize, from: &Layer, to: &Layer, d: &[F], dx: &mut [F]) {
    dx.fill(F::default());
    each_kept(stride, from, to, |at, inside, kept| {
        dx[at..at + kept].copy_from_slice(&d[inside..inside + kept]);
    });
}

fn each_kept(stride: usize, from: &Layer, to: &Layer, mut work: impl FnMut(usize, usize, usize)) {
    let [_, width, kept] = from.shape;
    let [rows, cols, channels] = to.shape;
    for pixel in 0..rows * cols {
        let (y, x) = (pixel / cols * stride, pixel % cols * stride);
        let inside = pixel * channels + (channels - kept) / 2;
        work((y * width + x) * kept, inside, kept);
    }
}
