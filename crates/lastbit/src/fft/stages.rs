//! The stages of Stockham's algorithm on one panel.

use pulp::{Simd, WithSimd};

use super::panels::{PANEL, PanelMut};
use crate::simd::with_simd;

/// Transforms the columns of a panel of `twiddles.len()` rows in place, given that only the first
/// `used` rows are not zero and only the first `wanted` of the result will be looked at. What
/// stands in the other rows matters neither before nor after.
pub(super) fn transform(
    twiddles: &[(f64, f64)],
    panel: PanelMut,
    work: PanelMut,
    used: usize,
    wanted: usize,
) {
    let len = twiddles.len() * PANEL;
    let work = (&mut work.0[..len], &mut work.1[..len]);
    with_simd(Stages { twiddles, panel, work, used, wanted });
}

struct Stages<'a> {
    twiddles: &'a [(f64, f64)],
    panel: PanelMut<'a>,
    work: PanelMut<'a>,
    used: usize,
    wanted: usize,
}

/// Explicit vectors: left to itself the compiler does not see that the twelve rows of a butterfly
/// are apart. No fused multiply-add, so the width changes no bit.
impl WithSimd for Stages<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { twiddles, panel, work, used, wanted } = self;
        let mut x = (S::as_mut_simd_f64s(panel.0).0, S::as_mut_simd_f64s(panel.1).0);
        let mut y = (S::as_mut_simd_f64s(work.0).0, S::as_mut_simd_f64s(work.1).0);
        let row = x.0.len() / twiddles.len();
        let (mut n, mut stride, mut swapped) = (twiddles.len(), 1, false);
        while n > 1 {
            let radix = if n.is_multiple_of(4) { 4 } else { 2 };
            let m = n / radix;
            let part = stride * row;
            let stage = Stage { twiddles, m, stride, part, run: part.min(wanted * row) };
            let (from, to) = ((&*x.0, &*x.1), (&mut *y.0, &mut *y.1));
            if radix == 2 {
                stage.of_2(simd, from, to);
            } else if used <= m {
                stage.of_4::<S, 1, 4>(simd, used, from, to);
            } else if used == 2 * m {
                stage.of_4::<S, 2, 4>(simd, m, from, to);
            } else if wanted <= stride {
                stage.of_4::<S, 4, 1>(simd, m, from, to);
            } else if wanted == 2 * stride {
                stage.of_4::<S, 4, 2>(simd, m, from, to);
            } else {
                stage.of_4::<S, 4, 4>(simd, m, from, to);
            }
            (x, y) = (y, x);
            swapped = !swapped;
            (n, stride) = (m, stride * radix);
        }
        if swapped {
            y.0.copy_from_slice(x.0);
            y.1.copy_from_slice(x.1);
        }
    }
}

/// A stage of Stockham's algorithm on a panel: from rows `(p + j m) stride + q` to rows
/// `(radix p + j) stride + q`, for `p < m` and `q < stride`.
struct Stage<'a> {
    twiddles: &'a [(f64, f64)],
    m: usize,
    stride: usize,
    /// Vectors in all `q`, and in those that are wanted.
    part: usize,
    run: usize,
}

type Vectors<'a, T> = (&'a [T], &'a [T]);
type VectorsMut<'a, T> = (&'a mut [T], &'a mut [T]);

impl Stage<'_> {
    /// Input `j` at `p`.
    #[inline(always)]
    fn input<'a, T>(&self, x: Vectors<'a, T>, p: usize, j: usize) -> Vectors<'a, T> {
        let start = (p + j * self.m) * self.part;
        (&x.0[start..][..self.run], &x.1[start..][..self.run])
    }

    /// `e^{−2πi jp/n}`, entry `j p stride` of the table.
    #[inline(always)]
    fn factor<S: Simd>(&self, simd: S, p: usize, j: usize) -> (S::f64s, S::f64s) {
        let (re, im) = self.twiddles[j * p * self.stride];
        (simd.splat_f64s(re), simd.splat_f64s(im))
    }

    /// Of radix 4 for the first `count` of `p`, with the last `4 − IN` inputs zero and the last
    /// `4 − OUT` outputs not wanted.
    #[inline(always)]
    fn of_4<S: Simd, const IN: usize, const OUT: usize>(
        &self,
        simd: S,
        count: usize,
        x: Vectors<S::f64s>,
        y: VectorsMut<S::f64s>,
    ) {
        let (part, run) = (self.part, self.run);
        let plus = |a: (S::f64s, S::f64s), b: (S::f64s, S::f64s)| {
            (simd.add_f64s(a.0, b.0), simd.add_f64s(a.1, b.1))
        };
        let minus = |a: (S::f64s, S::f64s), b: (S::f64s, S::f64s)| {
            (simd.sub_f64s(a.0, b.0), simd.sub_f64s(a.1, b.1))
        };
        let outputs = y.0.chunks_exact_mut(4 * part).zip(y.1.chunks_exact_mut(4 * part));
        for (p, (re, im)) in outputs.take(count).enumerate() {
            let (w1, w2, w3) =
                (self.factor(simd, p, 1), self.factor(simd, p, 2), self.factor(simd, p, 3));
            let a = self.input(x, p, 0);
            let b = self.input(x, p, if IN > 1 { 1 } else { 0 });
            let c = self.input(x, p, if IN > 2 { 2 } else { 0 });
            let d = self.input(x, p, if IN > 2 { 3 } else { 0 });
            let (re0, rest) = re.split_at_mut(part);
            let (re1, rest) = rest.split_at_mut(part);
            let (re2, re3) = rest.split_at_mut(part);
            let (im0, rest) = im.split_at_mut(part);
            let (im1, rest) = rest.split_at_mut(part);
            let (im2, im3) = rest.split_at_mut(part);
            let (re0, im0) = (&mut re0[..run], &mut im0[..run]);
            let (re1, im1) = (&mut re1[..run], &mut im1[..run]);
            let (re2, im2) = (&mut re2[..run], &mut im2[..run]);
            let (re3, im3) = (&mut re3[..run], &mut im3[..run]);
            for i in 0..run {
                // u₀ = (a + c) + (b + d), u₁ = (a − c) − i(b − d), u₂ and u₃ with the other sign.
                let a = (a.0[i], a.1[i]);
                let (u0, u1, u2, u3) = if IN == 1 {
                    (a, a, a, a)
                } else {
                    let b = (b.0[i], b.1[i]);
                    let (sum, difference, beside, across) = if IN == 2 {
                        (a, a, b, b)
                    } else {
                        let (c, d) = ((c.0[i], c.1[i]), (d.0[i], d.1[i]));
                        (plus(a, c), minus(a, c), plus(b, d), minus(b, d))
                    };
                    // −i(b − d) is the difference with its parts exchanged and one sign changed.
                    let u1 = (
                        simd.add_f64s(difference.0, across.1),
                        simd.sub_f64s(difference.1, across.0),
                    );
                    let u3 = (
                        simd.sub_f64s(difference.0, across.1),
                        simd.add_f64s(difference.1, across.0),
                    );
                    (plus(sum, beside), u1, minus(sum, beside), u3)
                };
                (re0[i], im0[i]) = u0;
                if OUT > 1 {
                    (re1[i], im1[i]) = times(simd, w1, u1);
                }
                if OUT > 2 {
                    (re2[i], im2[i]) = times(simd, w2, u2);
                    (re3[i], im3[i]) = times(simd, w3, u3);
                }
            }
        }
    }

    #[inline(always)]
    fn of_2<S: Simd>(&self, simd: S, x: Vectors<S::f64s>, y: VectorsMut<S::f64s>) {
        let (part, run) = (self.part, self.run);
        let outputs = y.0.chunks_exact_mut(2 * part).zip(y.1.chunks_exact_mut(2 * part));
        for (p, (re, im)) in outputs.enumerate() {
            let w = self.factor(simd, p, 1);
            let (a, b) = (self.input(x, p, 0), self.input(x, p, 1));
            let ((re0, re1), (im0, im1)) = (re.split_at_mut(part), im.split_at_mut(part));
            for i in 0..run {
                re0[i] = simd.add_f64s(a.0[i], b.0[i]);
                im0[i] = simd.add_f64s(a.1[i], b.1[i]);
                let u = (simd.sub_f64s(a.0[i], b.0[i]), simd.sub_f64s(a.1[i], b.1[i]));
                (re1[i], im1[i]) = times(simd, w, u);
            }
        }
    }
}

/// `w u`.
#[inline(always)]
fn times<S: Simd>(simd: S, w: (S::f64s, S::f64s), u: (S::f64s, S::f64s)) -> (S::f64s, S::f64s) {
    let re = simd.sub_f64s(simd.mul_f64s(w.0, u.0), simd.mul_f64s(w.1, u.1));
    let im = simd.add_f64s(simd.mul_f64s(w.0, u.1), simd.mul_f64s(w.1, u.0));
    (re, im)
}
