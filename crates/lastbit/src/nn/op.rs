//! Everything between convolutions: sums, pooling and the shortcut without parameters, by image.
//!
//! All of them are linear in their input once it is known where the largest numbers stand, so the
//! derivative along a direction is the same function of the derivative.

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

/// `out = pool(x)`; maxima are looked for in `select`, the input's value. Of equal ones the first
/// counts, and a NaN counts as largest, as in PyTorch.
///
/// A row of the output is computed from *taps*: for each pixel of the window, what all windows of the row see there,
/// in one line. So loops are long whatever the number of channels.
fn pool<F: Real>(pool: Pool, from: &Layer, to: &Layer, select: &[F], x: &[F], out: &mut [F]) {
    let windows = Windows::new(pool, from, to);
    let is_value = std::ptr::eq(select, x);
    let mut taps = windows.lines();
    let mut own = if is_value { vec![] } else { windows.lines() };
    for (y, out) in out.chunks_exact_mut(windows.line).enumerate() {
        windows.gather(y, x, &mut taps);
        let (first, rest) = taps.split_at(windows.line);
        out.copy_from_slice(first);
        match pool.kind {
            PoolKind::Average => {
                rest.chunks_exact(windows.line).for_each(|tap| add(out, tap));
                let share = windows.share();
                out.iter_mut().for_each(|sum| *sum = *sum * share);
            }
            PoolKind::Max if is_value => {
                rest.chunks_exact(windows.line).for_each(|tap| raise(out, tap));
            }
            PoolKind::Max => {
                windows.gather(y, select, &mut own);
                let (best, own) = own.split_at_mut(windows.line);
                for (tap, own) in
                    rest.chunks_exact(windows.line).zip(own.chunks_exact(windows.line))
                {
                    choose(out, tap, best, own);
                    raise(best, own);
                }
            }
        }
    }
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
    dx.fill(F::default());
    let windows = Windows::new(pool, from, to);
    let mut taps = windows.lines();
    let mut own = windows.lines();
    let mut best = vec![F::default(); windows.line];
    for (y, d) in d.chunks_exact(windows.line).enumerate() {
        match pool.kind {
            PoolKind::Average => {
                let share = windows.share();
                for tap in taps.chunks_exact_mut(windows.line) {
                    tap.iter_mut().zip(d).for_each(|(tap, d)| *tap = *d * share);
                }
            }
            PoolKind::Max => {
                windows.gather(y, select, &mut own);
                best.copy_from_slice(&own[..windows.line]);
                own.chunks_exact(windows.line).skip(1).for_each(|own| raise(&mut best, own));
                // What has not met its maximum yet is kept in the last line.
                let last = taps.len() - windows.line;
                taps[last..].copy_from_slice(d);
                let (taps, left) = taps.split_at_mut(last);
                for (tap, own) in
                    taps.chunks_exact_mut(windows.line).zip(own.chunks_exact(windows.line))
                {
                    hand_out(tap, left, &best, own);
                }
            }
        }
        windows.scatter_add(y, &taps, dx);
    }
}

/// `best = max(best, own)`.
fn raise<F: Real>(best: &mut [F], own: &[F]) {
    vectorized(
        #[inline(always)]
        || {
            for (best, own) in best.iter_mut().zip(own) {
                *best = if exceeds(*own, *best) { *own } else { *best };
            }
        },
    );
}

/// Takes from a tap where its own number is larger than the best so far.
fn choose<F: Real>(out: &mut [F], tap: &[F], best: &[F], own: &[F]) {
    vectorized(
        #[inline(always)]
        || {
            for ((out, tap), (best, own)) in out.iter_mut().zip(tap).zip(best.iter().zip(own)) {
                *out = if exceeds(*own, *best) { *tap } else { *out };
            }
        },
    );
}

/// Gives what is left to a tap where its own number is the best.
fn hand_out<F: Real>(tap: &mut [F], left: &mut [F], best: &[F], own: &[F]) {
    vectorized(
        #[inline(always)]
        || {
            for ((tap, left), (best, own)) in
                tap.iter_mut().zip(&mut *left).zip(best.iter().zip(own))
            {
                let is_best = (*own == *best) | (is_nan(*own) & is_nan(*best));
                *tap = if is_best { *left } else { F::default() };
                *left = if is_best { F::default() } else { *left };
            }
        },
    );
}

fn add<F: Real>(sum: &mut [F], tap: &[F]) {
    vectorized(
        #[inline(always)]
        || sum.iter_mut().zip(tap).for_each(|(sum, tap)| *sum += *tap),
    );
}

/// Whether a number takes the place of the largest so far: a NaN does, and stays.
#[inline(always)]
fn exceeds<F: Real>(value: F, best: F) -> bool {
    (value > best) | (is_nan(value) & !is_nan(best))
}

#[inline(always)]
#[expect(clippy::eq_op, reason = "a NaN is not equal to itself")]
fn is_nan<F: Real>(value: F) -> bool {
    value != value
}

/// Which input pixels each output pixel looks at.
#[derive(Clone, Copy)]
struct Windows {
    size: [usize; 2],
    stride: usize,
    /// Pixels in a row of the input.
    width: usize,
    channels: usize,
    /// Numbers in a row of the output.
    line: usize,
}

impl Windows {
    fn new(pool: Pool, from: &Layer, to: &Layer) -> Self {
        let Pool { size, stride, .. } = pool;
        Self { size, stride, width: from.shape[1], channels: to.shape[2], line: to.row() }
    }

    /// Room for the taps of a row.
    fn lines<F: Real>(self) -> Vec<F> {
        vec![F::default(); self.size[0] * self.size[1] * self.line]
    }

    /// What a pixel counts in a mean.
    fn share<F: Real>(self) -> F {
        F::of(1.0 / (self.size[0] * self.size[1]) as f64)
    }

    fn gather<F: Real>(self, y: usize, x: &[F], taps: &mut [F]) {
        self.each_pixel(y, 0..taps.len() / self.line, |at, tap, len| {
            taps[tap..tap + len].copy_from_slice(&x[at..at + len]);
        });
    }

    /// Where windows overlap, a pixel adds them up in their order: the first window that sees it, sees it last.
    fn scatter_add<F: Real>(self, y: usize, taps: &[F], dx: &mut [F]) {
        self.each_pixel(y, (0..taps.len() / self.line).rev(), |at, tap, len| {
            dx[at..at + len].iter_mut().zip(&taps[tap..tap + len]).for_each(|(dx, d)| *dx += *d);
        });
    }

    /// Calls `work` with the offset of a pixel of the input, that in the taps, and how many numbers a pixel has. It
    /// knows this number where it is a frequent one.
    #[inline(always)]
    fn each_pixel(
        self,
        y: usize,
        taps: impl Iterator<Item = usize>,
        mut work: impl FnMut(usize, usize, usize),
    ) {
        vectorized(
            #[inline(always)]
            || {
                let Self { size: [_, width], channels, line, .. } = self;
                for tap in taps {
                    let row = (y * self.stride + tap / width) * self.width + tap % width;
                    for pixel in 0..line / channels {
                        let at = (row + pixel * self.stride) * channels;
                        let to = tap * line + pixel * channels;
                        match channels {
                            8 => work(at, to, 8),
                            16 => work(at, to, 16),
                            32 => work(at, to, 32),
                            channels => work(at, to, channels),
                        }
                    }
                }
            },
        );
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
