//! Reading a layer: norm and activation applied to what is stored, row by row.
//!
//! With `z` the raw value, `n = norm(z)`, `v = act(n)`, `u = ∂L/∂v` and dots for derivatives along a
//! direction:
//!
//! ```text
//! value          v  = r(n),                      n  = scale z + shift
//! value_dot      v̇  = r'(n) ṅ,                   ṅ  = scale ż + q z + r
//! gradient       ∂L/∂z = scale g + b z + c,      g  = r'(n) u
//! gradient_dot         = scale ġ + q g + b ż + ḃ z + ċ,    ġ = r'(n) u̇ + r''(n) u ṅ
//! ```
//!
//! The coefficients are [`super::norm`]'s, repeated over a row of an image, so that a row is one
//! loop over numbers whatever the number of channels.

use super::geometry::Placement;
use super::network::Layer;
use super::norm::{Coefficients, Lines};
use crate::Real;
use crate::activation::Activation;
use crate::simd::vectorized;

/// Raw values and gradients of some images; a part that the reading does not need is empty.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stored<'a, F> {
    pub z: &'a [F],
    pub z_dot: &'a [F],
    pub u: &'a [F],
    pub u_dot: &'a [F],
}

/// Which reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Value,
    ValueDot,
    Gradient,
    GradientDot,
}

/// Reads images into padded copies, one after the other.
pub(super) fn read<F: Real>(
    reading: Reading,
    layer: &Layer,
    norm: &Coefficients<F>,
    stored: Stored<F>,
    place: Placement,
    out: &mut [F],
) {
    let job = Job { row: layer.row(), image: layer.len(), norm, stored };
    match reading {
        Reading::Value => dispatch(layer, Read::<_, 1> { job, place, outs: [out, &mut []] }),
        Reading::ValueDot => dispatch(layer, Read::<_, 2> { job, place, outs: [&mut [], out] }),
        Reading::Gradient => dispatch(layer, Read::<_, 4> { job, place, outs: [out, &mut []] }),
        Reading::GradientDot => dispatch(layer, Read::<_, 8> { job, place, outs: [&mut [], out] }),
    }
}

/// Reads values and their derivatives, or gradients and theirs, in one go: `reading` says which, by its derivative.
pub(super) fn read_both<F: Real>(
    reading: Reading,
    layer: &Layer,
    norm: &Coefficients<F>,
    stored: Stored<F>,
    place: Placement,
    outs: [&mut [F]; 2],
) {
    let job = Job { row: layer.row(), image: layer.len(), norm, stored };
    match reading {
        Reading::Value | Reading::ValueDot => dispatch(layer, Read::<_, 3> { job, place, outs }),
        Reading::Gradient | Reading::GradientDot => {
            dispatch(layer, Read::<_, 12> { job, place, outs });
        }
    }
}

/// Per image and channel `Σ g` and `Σ g (z − mean)`; with `dot` also their derivatives' parts
/// `Σ ġ`, `Σ ġ (z − mean)`, `Σ g (ż − mean_dot)` instead.
pub(super) fn gradient_sums<F: Real>(
    layer: &Layer,
    norm: &Coefficients<F>,
    stored: Stored<F>,
    dot: bool,
    rows: &mut Vec<F>,
    out: &mut [F],
) {
    let job = Job { row: layer.row(), image: layer.len(), norm, stored };
    let channels = layer.shape[2];
    if dot {
        dispatch(layer, GradientSums::<_, true> { job, channels, rows, out });
    } else {
        dispatch(layer, GradientSums::<_, false> { job, channels, rows, out });
    }
}

/// Per image and channel: mean and sum of squares about it.
pub(super) fn moments<F: Real>(layer: &Layer, z: &[F], rows: &mut Vec<F>, out: &mut [F]) {
    let (row, channels) = (layer.row(), layer.shape[2]);
    let count = F::of((layer.len() / channels) as f64);
    rows.clear();
    rows.resize(2 * row, F::default());
    vectorized(
        #[inline(always)]
        || {
            let (sums, means) = rows.split_at_mut(row);
            for (z, out) in z.chunks_exact(layer.len()).zip(out.chunks_exact_mut(2 * channels)) {
                let (mean, squares) = out.split_at_mut(channels);
                sums.fill(F::default());
                for z in z.chunks_exact(row) {
                    sums.iter_mut().zip(z).for_each(|(sum, z)| *sum += *z);
                }
                fold(sums, mean);
                mean.iter_mut().for_each(|mean| *mean = *mean / count);
                means.chunks_exact_mut(channels).for_each(|part| part.copy_from_slice(mean));
                sums.fill(F::default());
                for z in z.chunks_exact(row) {
                    for ((sum, z), mean) in sums.iter_mut().zip(z).zip(means.iter()) {
                        let off = *z - *mean;
                        *sum = off.mul_add(off, *sum);
                    }
                }
                fold(sums, squares);
            }
        },
    );
}

/// Per image and channel: `Σ ż` and `Σ (z − mean) ż`.
pub(super) fn moments_dot<F: Real>(
    layer: &Layer,
    norm: &Coefficients<F>,
    z: &[F],
    z_dot: &[F],
    rows: &mut Vec<F>,
    out: &mut [F],
) {
    let (row, channels) = (layer.row(), layer.shape[2]);
    rows.clear();
    rows.resize(2 * row, F::default());
    vectorized(
        #[inline(always)]
        || {
            let (sums, products) = rows.split_at_mut(row);
            let images = z.chunks_exact(layer.len()).zip(z_dot.chunks_exact(layer.len()));
            for ((z, z_dot), out) in images.zip(out.chunks_exact_mut(2 * channels)) {
                sums.fill(F::default());
                products.fill(F::default());
                for (z, z_dot) in z.chunks_exact(row).zip(z_dot.chunks_exact(row)) {
                    let mean = &norm.mean[..row];
                    let (sums, products) = (&mut sums[..row], &mut products[..row]);
                    for i in 0..row {
                        sums[i] += z_dot[i];
                        products[i] = (z[i] - mean[i]).mul_add(z_dot[i], products[i]);
                    }
                }
                let (first, second) = out.split_at_mut(channels);
                fold(sums, first);
                fold(products, second);
            }
        },
    );
}

/// Per image and channel: the sum over the pixels of a padded copy.
pub(super) fn pixel_sums<F: Real>(
    channels: usize,
    place: Placement,
    values: &[F],
    rows: &mut Vec<F>,
    out: &mut [F],
) {
    rows.clear();
    rows.resize(place.cols, F::default());
    vectorized(
        #[inline(always)]
        || {
            for (values, out) in
                values.chunks_exact(place.image).zip(out.chunks_exact_mut(channels))
            {
                rows.fill(F::default());
                for y in 0..place.rows {
                    let values = &values[place.start + y * place.stride..][..place.cols];
                    rows.iter_mut().zip(values).for_each(|(sum, value)| *sum += *value);
                }
                fold(rows, out);
            }
        },
    );
}

/// Adds the pixels of a row, in order.
#[inline(always)]
fn fold<F: Real>(row: &[F], out: &mut [F]) {
    out.fill(F::default());
    for pixel in row.chunks_exact(out.len()) {
        out.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += *value);
    }
}

struct Job<'a, F> {
    row: usize,
    image: usize,
    norm: &'a Coefficients<F>,
    stored: Stored<'a, F>,
}

impl<'a, F: Real> Job<'a, F> {
    /// The first `cols` numbers of row `y` of an image.
    #[inline(always)]
    fn line(&self, part: &'a [F], image: usize, y: usize, cols: usize) -> &'a [F] {
        &part[image * self.image + y * self.row..][..cols]
    }

    /// The first `len` numbers from row `y` of an image on, of all parts that are there.
    #[inline(always)]
    fn lines(&self, image: usize, y: usize, len: usize) -> Stored<'a, F> {
        let part = |part: &'a [F]| match part {
            [] => part,
            _ => self.line(part, image, y, len),
        };
        let Stored { z, z_dot, u, u_dot } = self.stored;
        Stored { z: part(z), z_dot: part(z_dot), u: part(u), u_dot: part(u_dot) }
    }
}

/// An activation as a type, so that each gets loops of its own: `[r, r', r'']` at a number, of which the
/// compiler leaves out what is not used.
trait Curve<F>: Copy {
    const CURVED: bool;
    fn at(self, n: F) -> [F; 3];
}

#[derive(Clone, Copy)]
struct Identity;

impl<F: Real> Curve<F> for Identity {
    const CURVED: bool = false;
    #[inline(always)]
    fn at(self, n: F) -> [F; 3] {
        [n, F::of(1.0), F::default()]
    }
}

macro_rules! curve {
    ($name:ident { $($field:ident)? }, $curved:literal) => {
        #[derive(Clone, Copy)]
        struct $name { $($field: f64)? }

        impl<F: Real> Curve<F> for $name {
            const CURVED: bool = $curved;
            #[inline(always)]
            fn at(self, n: F) -> [F; 3] {
                let Self { $($field)? } = self;
                Activation::$name { $($field)? }.at(n)
            }
        }
    };
}

curve!(Relu {}, false);
curve!(Tanh {}, true);
curve!(Sigmoid {}, true);
curve!(Swish { beta }, true);

trait Elementwise<F> {
    fn run<A: Curve<F>, const NORM: bool>(self, activation: A);
}

fn dispatch<F: Real>(layer: &Layer, work: impl Elementwise<F>) {
    let has_norm = layer.norm.is_some();
    vectorized(
        #[inline(always)]
        || match layer.activation {
            None => run(work, Identity, has_norm),
            Some(Activation::Relu) => run(work, Relu {}, has_norm),
            Some(Activation::Tanh) => run(work, Tanh {}, has_norm),
            Some(Activation::Sigmoid) => run(work, Sigmoid {}, has_norm),
            Some(Activation::Swish { beta }) => run(work, Swish { beta }, has_norm),
        },
    );
}

#[inline(always)]
fn run<F: Real>(work: impl Elementwise<F>, activation: impl Curve<F>, has_norm: bool) {
    if has_norm { work.run::<_, true>(activation) } else { work.run::<_, false>(activation) }
}

/// `WHAT` is a sum of 1 for values, 2 for their derivatives, 4 for gradients and 8 for theirs. The first output gets
/// values or gradients, the second derivatives.
struct Read<'a, F, const WHAT: usize> {
    job: Job<'a, F>,
    place: Placement,
    outs: [&'a mut [F]; 2],
}

/// Numbers that are computed at once where rows are short: a row of 28 would leave registers of 8 or 16
/// half empty at its end, and an exponential there costs as much as in a full one.
const TOGETHER: usize = 512;

impl<F: Real, const WHAT: usize> Elementwise<F> for Read<'_, F, WHAT> {
    #[inline(always)]
    fn run<A: Curve<F>, const NORM: bool>(self, act: A) {
        let Self { job, place, outs: [first_out, second_out] } = self;
        let cols = place.cols;
        let lines = if NORM { job.norm.lines(cols) } else { Default::default() };
        // Coefficients of a norm are those of a row.
        let short = !NORM && cols == job.row && cols < TOGETHER / 8;
        let group = if short { TOGETHER / cols } else { 1 };
        let mut buffers = [[F::default(); TOGETHER]; 2];
        for image in 0..first_out.len().max(second_out.len()) / place.image {
            for first in (0..place.rows).step_by(group) {
                let rows = group.min(place.rows - first);
                let len = rows * cols;
                let stored = job.lines(image, first, len);
                let at = image * place.image + place.start + first * place.stride;
                if short {
                    let [buffer, buffer_dot] = &mut buffers;
                    compute::<F, A, NORM, WHAT>(act, &lines, stored, buffer, buffer_dot, len);
                    for (buffer, out) in [(buffer, &mut *first_out), (buffer_dot, &mut *second_out)]
                    {
                        if out.is_empty() {
                            continue;
                        }
                        for (y, row) in buffer[..len].chunks_exact(cols).enumerate() {
                            out[at + y * place.stride..][..cols].copy_from_slice(row);
                        }
                    }
                } else {
                    let out = first_out.get_mut(at..at + cols).unwrap_or_default();
                    let out_dot = second_out.get_mut(at..at + cols).unwrap_or_default();
                    compute::<F, A, NORM, WHAT>(act, &lines, stored, out, out_dot, cols);
                }
            }
        }
    }
}

/// Readings of `len` numbers, each by itself.
#[inline(always)]
fn compute<F: Real, A: Curve<F>, const NORM: bool, const WHAT: usize>(
    act: A,
    lines: &Lines<F>,
    stored: Stored<F>,
    out: &mut [F],
    out_dot: &mut [F],
    len: usize,
) {
    let (plain, dot) = (WHAT & 5 != 0, WHAT & 10 != 0);
    // What a reading has no use for is empty, and never looked at.
    let some = |is_used: bool| if is_used { len } else { 0 };
    let z = &stored.z[..len];
    let (out, out_dot) = (&mut out[..some(plain)], &mut out_dot[..some(dot)]);
    let z_dot = &stored.z_dot[..some(dot)];
    let (u, u_dot) = (&stored.u[..some(WHAT > 3)], &stored.u_dot[..some(WHAT > 7)]);
    for i in 0..len {
        let n = if NORM { lines.n(i, z[i]) } else { z[i] };
        let [value, slope, curvature] = act.at(n);
        let mut n_dot = F::default();
        if dot {
            n_dot = if NORM { lines.n_dot(i, z[i], z_dot[i]) } else { z_dot[i] };
        }
        if WHAT & 1 != 0 {
            out[i] = value;
        }
        if WHAT & 2 != 0 {
            out_dot[i] = slope * n_dot;
        }
        if WHAT & 4 != 0 {
            let g = slope * u[i];
            out[i] = if NORM {
                lines.scale[i].mul_add(g, lines.b[i].mul_add(z[i], lines.c[i]))
            } else {
                g
            };
        }
        if WHAT & 8 != 0 {
            let g_dot = g_dot::<F, A>(slope, curvature, n_dot, u[i], u_dot[i]);
            out_dot[i] = if NORM {
                let rest =
                    lines.b[i].mul_add(z_dot[i], lines.b_dot[i].mul_add(z[i], lines.c_dot[i]));
                lines.scale[i].mul_add(g_dot, lines.q[i].mul_add(slope * u[i], rest))
            } else {
                g_dot
            };
        }
    }
}

#[inline(always)]
fn g_dot<F: Real, A: Curve<F>>(slope: F, curvature: F, n_dot: F, u: F, u_dot: F) -> F {
    if A::CURVED { slope.mul_add(u_dot, curvature * u * n_dot) } else { slope * u_dot }
}

struct GradientSums<'a, F, const DOT: bool> {
    job: Job<'a, F>,
    channels: usize,
    rows: &'a mut Vec<F>,
    out: &'a mut [F],
}

impl<F: Real, const DOT: bool> Elementwise<F> for GradientSums<'_, F, DOT> {
    #[inline(always)]
    fn run<A: Curve<F>, const NORM: bool>(self, act: A) {
        let Self { job, channels, rows, out } = self;
        let Stored { z, z_dot, u, u_dot } = job.stored;
        let row = job.row;
        let kinds = if DOT { 3 } else { 2 };
        rows.clear();
        rows.resize(3 * row, F::default());
        let (first, rest) = rows.split_at_mut(row);
        let (second, third) = rest.split_at_mut(row);
        let lines = job.norm.lines(row);
        for (image, out) in out.chunks_exact_mut(kinds * channels).enumerate() {
            first.fill(F::default());
            second.fill(F::default());
            third.fill(F::default());
            for y in 0..job.image / row {
                let (first, second, third) =
                    (&mut first[..row], &mut second[..row], &mut third[..row]);
                let (z, u) = (job.line(z, image, y, row), job.line(u, image, y, row));
                if DOT {
                    let u_dot = job.line(u_dot, image, y, row);
                    let z_dot = job.line(z_dot, image, y, row);
                    for i in 0..row {
                        let n = lines.n(i, z[i]);
                        let [_, slope, curvature] = act.at(n);
                        let n_dot = lines.n_dot(i, z[i], z_dot[i]);
                        let g_dot = g_dot::<F, A>(slope, curvature, n_dot, u[i], u_dot[i]);
                        first[i] += g_dot;
                        second[i] = g_dot.mul_add(z[i] - lines.mean[i], second[i]);
                        let z_dot = z_dot[i] - lines.mean_dot[i];
                        third[i] = (slope * u[i]).mul_add(z_dot, third[i]);
                    }
                } else {
                    for i in 0..row {
                        let n = lines.n(i, z[i]);
                        let g = act.at(n)[1] * u[i];
                        first[i] += g;
                        second[i] = g.mul_add(z[i] - lines.mean[i], second[i]);
                    }
                }
            }
            let mut sums = out.chunks_exact_mut(channels);
            for row in [&*first, &*second, &*third] {
                if let Some(sum) = sums.next() {
                    fold(row, sum);
                }
            }
        }
    }
}
