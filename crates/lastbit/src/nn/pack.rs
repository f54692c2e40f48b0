//! Weights of a fully connected layer in panels of one register's width, for [`super::products::multiply`].

use crate::Real;
use crate::simd::{vectorized, width};

/// Panels of the transposed matrix: panel `p` has row `k` of `w[first + p · width ..][k]`, for `panels` panels. `w` has
/// rows of `cols` numbers. Where `w` has no such row, the last one stands in: nobody looks at what comes of it.
pub(super) fn transposed<F: Real>(
    w: &[F],
    cols: usize,
    first: usize,
    panels: usize,
    out: &mut Vec<F>,
) {
    let width = width::<F>();
    out.resize(panels * cols * width, F::default());
    for (panel, out) in out.chunks_exact_mut(cols * width).enumerate() {
        let first = first + panel * width;
        vectorized(
            #[inline(always)]
            || match width {
                16 => transposed_panel::<F, 16>(w, cols, first, out),
                8 => transposed_panel::<F, 8>(w, cols, first, out),
                4 => transposed_panel::<F, 4>(w, cols, first, out),
                2 => transposed_panel::<F, 2>(w, cols, first, out),
                _ => transposed_panel::<F, 1>(w, cols, first, out),
            },
        );
    }
}

#[inline(always)]
fn transposed_panel<F: Real, const LANES: usize>(
    w: &[F],
    cols: usize,
    first: usize,
    out: &mut [F],
) {
    // A line of the cache at a time: rows may lie whole pages apart, where few lines of each stay in the cache.
    const TILE: usize = 16;
    let last = w.len() / cols - 1;
    let rows: [&[F]; LANES] =
        std::array::from_fn(|lane| &w[(first + lane).min(last) * cols..][..cols]);
    let (rows_out, _) = out.as_chunks_mut::<LANES>();
    let (tiles, rest) = rows_out.as_chunks_mut::<TILE>();
    let done = tiles.len() * TILE;
    for (tile, out) in tiles.iter_mut().enumerate() {
        for lane in 0..LANES {
            let row: &[F; TILE] = rows[lane][tile * TILE..].first_chunk().expect("within the row");
            for k in 0..TILE {
                out[k][lane] = row[k];
            }
        }
    }
    for (k, out) in rest.iter_mut().enumerate() {
        for lane in 0..LANES {
            out[lane] = rows[lane][done + k];
        }
    }
}

/// Panels of the matrix as it is: panel `p` has row `o` of `w[o][first + p · width ..]`. Columns beyond the last hold
/// anything.
pub(super) fn straight<F: Real>(
    w: &[F],
    cols: usize,
    first: usize,
    panels: usize,
    out: &mut Vec<F>,
) {
    let width = width::<F>();
    let rows = w.len() / cols;
    out.resize(panels * rows * width, F::default());
    for (panel, out) in out.chunks_exact_mut(rows * width).enumerate() {
        let first = (first + panel * width).min(cols);
        vectorized(
            #[inline(always)]
            || match width.min(cols - first) {
                16 => straight_panel::<F, 16>(w, cols, first, out),
                8 if width == 8 => straight_panel::<F, 8>(w, cols, first, out),
                4 if width == 4 => straight_panel::<F, 4>(w, cols, first, out),
                some => {
                    for (w, out) in w.chunks_exact(cols).zip(out.chunks_exact_mut(width)) {
                        out[..some].copy_from_slice(&w[first..first + some]);
                    }
                }
            },
        );
    }
}

#[inline(always)]
fn straight_panel<F: Real, const LANES: usize>(w: &[F], cols: usize, first: usize, out: &mut [F]) {
    for (w, out) in w.chunks_exact(cols).zip(out.as_chunks_mut::<LANES>().0) {
        *out = *w[first..].first_chunk().expect("within the row");
    }
}
