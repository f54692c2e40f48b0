//! Everything between convolutions: sums, pooling and the shortcut without parameters, by image.
//!
//! All of them are linear in their input once it is known where the largest numbers stand, so the
//! derivative along a direction is the same function of the derivative.

use super::network::{Layer, Op, Pool, PoolKind};
use crate::Real;

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

/// `out = pool(x)`; maxima are looked for in `select`, the input's value. Of equal ones the first
/// counts, and a NaN counts as largest, as in PyTorch.
fn pool<F: Real>(pool: Pool, from: &Layer, to: &Layer, select: &[F], x: &[F], out: &mut [F]) {
    let share = F::of(1.0 / (pool.size[0] * pool.size[1]) as f64);
    each_window(pool, from, to, |pixel, window| {
        let channels = from.shape[2];
        for channel in 0..channels {
            out[pixel * channels + channel] = match pool.kind {
                PoolKind::Max => x[largest(select, window.clone(), channel)],
                PoolKind::Average => window.clone().map(|at| x[at + channel]).sum::<F>() * share,
            };
        }
    });
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
    each_window(pool, from, to, |pixel, window| {
        let channels = from.shape[2];
        for channel in 0..channels {
            let d = d[pixel * channels + channel];
            match pool.kind {
                PoolKind::Max => dx[largest(select, window.clone(), channel)] += d,
                PoolKind::Average => window.clone().for_each(|at| dx[at + channel] += d * share),
            }
        }
    });
}

/// Calls `work` with each output pixel and the offsets of the input pixels it looks at.
#[inline(always)]
fn each_window(pool: Pool, from: &Layer, to: &Layer, mut work: impl FnMut(usize, Window)) {
    let [rows, cols, _] = to.shape;
    let [_, width, channels] = from.shape;
    for pixel in 0..rows * cols {
        let (y, x) = (pixel / cols * pool.stride, pixel % cols * pool.stride);
        let first = (y * width + x) * channels;
        work(pixel, Window { first, size: pool.size, row: width * channels, channels, at: 0 });
    }
}

/// Offsets of the pixels of a window, row by row.
#[derive(Clone)]
struct Window {
    first: usize,
    size: [usize; 2],
    row: usize,
    channels: usize,
    at: usize,
}

impl Iterator for Window {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let [rows, cols] = self.size;
        let at = self.at;
        self.at += 1;
        (at < rows * cols).then(|| self.first + at / cols * self.row + at % cols * self.channels)
    }
}

#[inline(always)]
fn largest<F: Real>(x: &[F], window: Window, channel: usize) -> usize {
    let mut best = window.first + channel;
    for at in window {
        let value = x[at + channel];
        // A NaN is not equal to itself; it wins and stays.
        if value > x[best]
            || (value.partial_cmp(&value).is_none() && x[best].partial_cmp(&x[best]).is_some())
        {
            best = at + channel;
        }
    }
    best
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
