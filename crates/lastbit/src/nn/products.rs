//! Matrix products at the speed of the multiply-add units, for layers with more weights than a cache holds.
//!
//! ```text
//! multiply   out[t, o]  = Σ_c a[t, c] · b[c, o]          rows t: examples, or patches of images
//! outer      g[o, c]   += Σ_t d[t, o] · a[t, c]
//! ```
//!
//! `a` and `d` lie in *column blocks*: 16 columns of all rows, then the next 16, so that both products read
//! them from end to end whatever their size (rows a power of two apart would all fall on the same few lines
//! of the cache):
//!
//! ```text
//! a[t, c] at ((c / 16) · room + t) · 16 + c mod 16,      room: rows, rounded up to a multiple of 8
//! ```
//!
//! `b` lies in panels of one register's width, rows one after the other. Registers run over `o` in `multiply` and
//! over `c` in `outer`. Each sum is one chain of fused multiply-adds in one lane, over `c` or `t` in ascending order:
//! neither the register width nor the number of sums that are held in registers can change a bit. Rows and columns
//! that fill up a block may hold anything; nothing of them is added to what is asked for.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::kernel::{load, store, unrolled};
use crate::Real;
use crate::simd::{width, with_simd};

/// Columns of a block: whole registers of any width.
pub(super) const BLOCK: usize = 16;
/// Rows that pass through the weights together.
pub(super) const STRIP: usize = 8;

/// A matrix in column blocks: how many rows and columns count, and the rows there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub rows: usize,
    pub cols: usize,
    pub room: usize,
}

impl Shape {
    /// Numbers it takes.
    pub fn len(self) -> usize {
        self.cols.div_ceil(BLOCK) * BLOCK * self.room
    }

    /// Puts a row into its place.
    pub fn set_row<F: Copy>(self, values: &mut [F], row: usize, of: &[F]) {
        for (block, of) in of.chunks(BLOCK).enumerate() {
            let at = (block * self.room + row) * BLOCK;
            values[at..at + of.len()].copy_from_slice(of);
        }
    }
}

/// Panels that go through [`multiply`] together, and columns registers through [`outer`]: as many as the registers
/// of the machine have room for.
fn together<F: Real>() -> usize {
    if width::<F>() * size_of::<F>() == 64 { 2 } else { 1 }
}

/// Columns of `b` that a task computes best.
pub(super) fn panel_group<F: Real>() -> usize {
    together::<F>() * width::<F>()
}

/// `multiply` of the module doc for some columns of `a`, from a whole block on, and one group of panels: `b` has
/// [`panel_group`] columns, panel after panel. `out[t]` starts from `start` (as many numbers as the group has columns) or
/// from what is there.
pub(super) fn multiply<F: Real>(
    a: &[F],
    shape: Shape,
    columns: Range<usize>,
    b: &[F],
    start: Option<&[F]>,
    out: &mut [F],
) {
    let group = panel_group::<F>();
    assert_eq!(b.len(), shape.cols * group, "numbers of a group of panels");
    assert!(columns.start.is_multiple_of(BLOCK) && columns.end <= shape.cols, "{columns:?}");
    assert!(out.len() >= shape.rows.next_multiple_of(STRIP) * group, "room for the result");
    with_simd(Multiply { a, shape, columns, b, start, out });
}

struct Multiply<'a, F> {
    a: &'a [F],
    shape: Shape,
    columns: Range<usize>,
    b: &'a [F],
    start: Option<&'a [F]>,
    out: &'a mut [F],
}

impl<F: Real> WithSimd for Multiply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if F::lanes::<S>() * size_of::<F>() == 64 {
            self.group::<S, 2>(simd);
        } else {
            self.group::<S, 1>(simd);
        }
    }
}

impl<F: Real> Multiply<'_, F> {
    /// The product with `P` panels; `out[t]` has `P` registers.
    #[inline(always)]
    fn group<S: Simd, const P: usize>(self, simd: S) {
        let Self { a, shape, columns, b, start, out } = self;
        let b = F::vectors::<S>(b);
        let panels: [&[F::Vector<S>]; P] =
            std::array::from_fn(|p| &b[p * shape.cols..(p + 1) * shape.cols][columns.clone()]);
        let a = &a[columns.start * shape.room..];
        let part = Shape { cols: columns.len(), ..shape };
        let strips = F::vectors_mut::<S>(out).as_chunks_mut::<P>().0.as_chunks_mut::<STRIP>().0;
        for (strip, out) in strips.iter_mut().enumerate().take(shape.rows.div_ceil(STRIP)) {
            let mut sums = *out;
            if let Some(start) = start {
                let start: &[F::Vector<S>; P] =
                    F::vectors::<S>(start).first_chunk().expect("a start for each panel");
                sums = [*start; STRIP];
            }
            *out = strip_times_panels::<S, F, P>(simd, a, part, strip * STRIP, panels, sums);
        }
    }
}

/// Eight rows times `P` panels, in registers.
#[inline(always)]
pub(super) fn strip_times_panels<S: Simd, F: Real, const P: usize>(
    simd: S,
    a: &[F],
    shape: Shape,
    row: usize,
    panels: [&[F::Vector<S>]; P],
    mut sums: [[F::Vector<S>; P]; STRIP],
) -> [[F::Vector<S>; P]; STRIP] {
    const CELL: usize = STRIP * BLOCK;
    let whole = shape.cols / BLOCK;
    for block in 0..whole {
        let a: &[F; CELL] = a[(block * shape.room + row) * BLOCK..].first_chunk().expect("a strip");
        let mut b: [&[F::Vector<S>; BLOCK]; P] = [panels[0].first_chunk().expect("a block"); P];
        for (b, panel) in b.iter_mut().zip(panels) {
            *b = panel[block * BLOCK..].first_chunk().expect("a block");
        }
        for four in 0..BLOCK / 4 {
            unrolled!(4, j, {
                let j = 4 * four + j;
                unrolled!(STRIP, i, {
                    let a = F::splat(simd, a[i * BLOCK + j]);
                    unrolled!(P, p, {
                        sums[i][p] = F::fused(simd, a, b[p][j], sums[i][p]);
                    });
                });
            });
        }
    }
    let rest = shape.cols % BLOCK;
    if rest > 0 {
        let a: &[F; CELL] = a[(whole * shape.room + row) * BLOCK..].first_chunk().expect("a strip");
        for j in 0..rest {
            unrolled!(STRIP, i, {
                let a = F::splat(simd, a[i * BLOCK + j]);
                unrolled!(P, p, {
                    sums[i][p] = F::fused(simd, a, panels[p][whole * BLOCK + j], sums[i][p]);
                });
            });
        }
    }
    sums
}

/// Rows of `g` held in registers by [`outer`].
pub(super) const HELD: usize = 8;

/// Some rows of both factors of [`outer`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors<'a, F> {
    pub d: &'a [F],
    pub d_shape: Shape,
    pub a: &'a [F],
    pub a_shape: Shape,
}

/// Adds `outer` of the module doc to `g`, for the columns of `d` from `first` on, as many as `g` has rows, over all
/// parts in turn. A row of `g` has as many numbers as `a` has columns. With `fresh` the sums start from zero.
pub(super) fn outer<F: Real>(parts: &[Factors<F>], first: usize, fresh: bool, g: &mut [F]) {
    let cols = parts[0].a_shape.cols;
    assert!(first.is_multiple_of(HELD) && g.len().is_multiple_of(cols), "whole blocks");
    for Factors { d_shape, a_shape, .. } in parts {
        assert_eq!((d_shape.rows, a_shape.cols), (a_shape.rows, cols), "factors that fit");
    }
    with_simd(Outer { parts, first, fresh, g });
}

struct Outer<'a, F> {
    parts: &'a [Factors<'a, F>],
    first: usize,
    fresh: bool,
    g: &'a mut [F],
}

impl<F: Real> WithSimd for Outer<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = F::lanes::<S>();
        let cols = self.parts[0].a_shape.cols.div_ceil(lanes);
        let mut col = 0;
        while col < cols {
            let left = cols - col;
            if lanes * size_of::<F>() == 64 && left >= 2 {
                self.columns::<S, 2>(simd, col);
                col += 2;
            } else {
                self.columns::<S, 1>(simd, col);
                col += 1;
            }
        }
    }
}

impl<F: Real> Outer<'_, F> {
    /// `N` registers of columns of all rows of `g`; those of `a` stay in the first-level cache meanwhile.
    #[inline(always)]
    fn columns<S: Simd, const N: usize>(&mut self, simd: S, col: usize) {
        let lanes = F::lanes::<S>();
        let row = self.parts[0].a_shape.cols;
        let columns_of = |n: usize| (col + n) * lanes..row.min((col + n + 1) * lanes);
        for (held, g) in self.g.chunks_mut(HELD * row).enumerate() {
            let column = self.first + held * HELD;
            let mut sums = [[F::splat(simd, F::default()); N]; HELD];
            if !self.fresh {
                for (sums, g) in sums.iter_mut().zip(g.chunks_exact(row)) {
                    for (n, sum) in sums.iter_mut().enumerate() {
                        *sum = load::<S, F>(simd, &g[columns_of(n)]);
                    }
                }
            }
            for part in self.parts {
                sums = add_outer(simd, *part, column, col, sums);
            }
            for (sums, g) in sums.iter().zip(g.chunks_exact_mut(row)) {
                for (n, sum) in sums.iter().enumerate() {
                    store::<S, F>(simd, *sum, &mut g[columns_of(n)]);
                }
            }
        }
    }
}

/// Adds the rows of one part to [`HELD`] rows of `g` from `column` of `d` on, `N` registers of columns from the `col`-th
/// on.
#[inline(always)]
pub(super) fn add_outer<S: Simd, F: Real, const N: usize>(
    simd: S,
    part: Factors<F>,
    column: usize,
    col: usize,
    mut sums: [[F::Vector<S>; N]; HELD],
) -> [[F::Vector<S>; N]; HELD] {
    let per_block = BLOCK / F::lanes::<S>();
    let Factors { d, d_shape, a, a_shape } = part;
    let rows = a_shape.rows;
    let d = &d[column / BLOCK * d_shape.room * BLOCK..][..rows * BLOCK];
    // Registers of a column, one for each row, so far apart.
    let mut registers: [&[F::Vector<S>]; N] = [&[]; N];
    for (n, registers) in registers.iter_mut().enumerate() {
        let (block, within) = ((col + n) / per_block, (col + n) % per_block);
        let block = &a[block * a_shape.room * BLOCK..][..rows * BLOCK];
        *registers = &F::vectors::<S>(block)[within..];
    }
    for (t, d) in d.as_chunks::<BLOCK>().0.iter().enumerate() {
        let d: &[F; HELD] = d[column % BLOCK..].first_chunk().expect("half a block");
        let mut a = [sums[0][0]; N];
        unrolled!(N, n, {
            a[n] = registers[n][t * per_block];
        });
        unrolled!(HELD, i, {
            let d = F::splat(simd, d[i]);
            unrolled!(N, n, {
                sums[i][n] = F::fused(simd, d, a[n], sums[i][n]);
            });
        });
    }
    sums
}
