//! Transformed patches of some tiles.

use pulp::{Simd, WithSimd};

use super::{CHANNELS, Grid, PATCH};
use crate::Real;
use crate::nn::kernel::Pixel;
use crate::nn::products::{BLOCK, STRIP, Shape};
use crate::simd::with_simd;

// A block of columns is as many channels.
const _: () = assert!(BLOCK == CHANNELS);

/// Sixteen matrices (tiles × channels), one for each number of a transformed patch, each in the column blocks of
/// [`crate::nn::products`].
#[derive(Debug, Clone, Copy)]
pub(in crate::nn) struct Patches<'a, F> {
    values: &'a [F],
    pub shape: Shape,
}

/// Bytes of patches that are multiplied together, if 64 tiles take no more: they stay in a second-level cache beside the
/// kernels they meet.
const CACHED: usize = 256 * 1024;

/// Tiles whose patches are multiplied together.
pub(in crate::nn) fn tiles_together<F>(channels: usize) -> usize {
    (CACHED / (PATCH * channels * size_of::<F>())).next_multiple_of(STRIP).clamp(64, 256)
}

/// What is read of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nn) enum Transform {
    /// `Bᵀ d B` of the 4×4 pixels from `Pixel::from` on.
    Input,
    /// `A dY Aᵀ` of the 2×2 pixels from `Pixel::to` on.
    Output,
}

impl<'a, F: Real> Patches<'a, F> {
    /// Length of a buffer for the patches of up to `room` tiles.
    pub fn len_of(channels: usize, room: usize) -> usize {
        PATCH * apart(channels, room)
    }

    /// Reads patches of a group of images into `values`.
    pub fn gather(
        transform: Transform,
        x: &[F],
        grid: Grid,
        tiles: &[Pixel],
        room: usize,
        values: &'a mut [F],
    ) -> Self {
        let values = &mut values[..Self::len_of(grid.channels, room)];
        with_simd(Gather { transform, x, grid, tiles, room, values: &mut *values });
        Self::of(values, grid.channels, tiles.len(), room)
    }

    /// Patches gathered before.
    pub fn of(values: &'a [F], channels: usize, tiles: usize, room: usize) -> Self {
        assert!(tiles <= room && room.is_multiple_of(STRIP), "{tiles} tiles in room for {room}");
        Self { values, shape: Shape { rows: tiles, cols: channels, room } }
    }

    /// The matrix of one number of the patches.
    #[inline(always)]
    pub(super) fn number(&self, number: usize) -> &'a [F] {
        let Shape { cols, room, .. } = self.shape;
        &self.values[number * apart(cols, room)..][..cols * room]
    }
}

/// From one matrix to the next: 16 numbers more than it needs, since powers of two would all fall on the same few
/// sets of the cache.
const fn apart(channels: usize, room: usize) -> usize {
    channels * room + CHANNELS
}

pub(super) struct Gather<'a, F> {
    pub transform: Transform,
    pub x: &'a [F],
    pub grid: Grid,
    pub tiles: &'a [Pixel],
    pub room: usize,
    pub values: &'a mut [F],
}

impl<F: Real> WithSimd for Gather<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { transform, x, grid, tiles, room, values } = self;
        for (t, tile) in tiles.iter().enumerate() {
            let out = &mut values[t * BLOCK..];
            match transform {
                Transform::Input => transform_input(simd, &x[tile.from..], grid, room, out),
                Transform::Output => transform_output(simd, &x[tile.to..], grid, room, out),
            }
        }
    }
}

/// `Bᵀ d B` of one patch, all channels.
#[inline(always)]
fn transform_input<S: Simd, F: Real>(simd: S, x: &[F], grid: Grid, room: usize, out: &mut [F]) {
    let registers = grid.channels / F::lanes::<S>();
    let mut rows: [&[F::Vector<S>]; 4] = [&[]; 4];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = F::vectors::<S>(&x[r * grid.stride..][..4 * grid.channels]);
    }
    for channel in 0..registers {
        let mut columns = [[F::splat(simd, F::default()); 4]; 4];
        for (c, column) in columns.iter_mut().enumerate() {
            let at = c * registers + channel;
            let d = [rows[0][at], rows[1][at], rows[2][at], rows[3][at]];
            *column = differences::<S, F>(simd, d);
        }
        let mut patch = [columns[0]; 4];
        for (row, out) in patch.iter_mut().enumerate() {
            let [a, b, c, d] = columns;
            *out = differences::<S, F>(simd, [a[row], b[row], c[row], d[row]]);
        }
        write::<S, F>(&patch, channel, grid.channels, room, out);
    }
}

/// `A dY Aᵀ` of one 2×2 tile, all channels.
#[inline(always)]
fn transform_output<S: Simd, F: Real>(simd: S, d: &[F], grid: Grid, room: usize, out: &mut [F]) {
    let registers = grid.channels / F::lanes::<S>();
    let above = F::vectors::<S>(&d[..2 * grid.channels]);
    let below = F::vectors::<S>(&d[grid.stride..][..2 * grid.channels]);
    for channel in 0..registers {
        let left = spread::<S, F>(simd, above[channel], below[channel]);
        let next = registers + channel;
        let right = spread::<S, F>(simd, above[next], below[next]);
        let mut patch = [left; 4];
        for (row, out) in patch.iter_mut().enumerate() {
            *out = spread::<S, F>(simd, left[row], right[row]);
        }
        write::<S, F>(&patch, channel, grid.channels, room, out);
    }
}

/// The sixteen numbers of a patch to their matrices, for one register of channels.
#[inline(always)]
fn write<S: Simd, F: Real>(
    patch: &[[F::Vector<S>; 4]; 4],
    register: usize,
    channels: usize,
    room: usize,
    out: &mut [F],
) {
    let lanes = F::lanes::<S>();
    let (block, within) = (register * lanes / BLOCK, register * lanes % BLOCK);
    let out = &mut out[block * room * BLOCK + within..];
    for (number, value) in patch.as_flattened().iter().enumerate() {
        F::vectors_mut::<S>(&mut out[number * apart(channels, room)..][..lanes])[0] = *value;
    }
}

/// `Bᵀ` of four registers.
#[inline(always)]
fn differences<S: Simd, F: Real>(simd: S, d: [F::Vector<S>; 4]) -> [F::Vector<S>; 4] {
    [
        F::minus(simd, d[0], d[2]),
        F::plus(simd, d[1], d[2]),
        F::minus(simd, d[2], d[1]),
        F::minus(simd, d[1], d[3]),
    ]
}

/// `A` of two registers.
#[inline(always)]
fn spread<S: Simd, F: Real>(simd: S, a: F::Vector<S>, b: F::Vector<S>) -> [F::Vector<S>; 4] {
    let zero = F::splat(simd, F::default());
    [a, F::plus(simd, a, b), F::minus(simd, a, b), F::minus(simd, zero, b)]
}
