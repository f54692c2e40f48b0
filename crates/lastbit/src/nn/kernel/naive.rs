//! Naive twins of the two loops, compared with them at every register width of this machine.

use proptest::prelude::*;
use pulp::{Scalar, Simd};

use super::{Multiply, Outer, Panels, Pixel, Runs, Start, multiply, outer};
use crate::Real;
use crate::nn::naive::{assert_same_bits, normal};
use crate::simd::width;

/// `multiply` as defined; `w` row by row.
fn naive_multiply<F: Real>(case: &Case<F>, start: Start<F>, out: &mut [F]) {
    let Case { x, pixels, runs, cols, w, .. } = case;
    for pixel in pixels {
        for o in 0..*cols {
            let mut sum = match start {
                Start::Zero => F::default(),
                Start::Bias(bias) => bias[o],
                Start::Out => out[pixel.to + o],
            };
            for r in 0..runs.count {
                for j in 0..runs.len {
                    let x = x[pixel.from + r * runs.stride + j];
                    sum = x.mul_add(w[(r * runs.len + j) * cols + o], sum);
                }
            }
            out[pixel.to + o] = sum;
        }
    }
}

/// `outer` as defined; `w` row by row.
fn naive_outer<F: Real>(case: &Case<F>, d: &[F], w: &mut [F]) {
    let Case { x, pixels, runs, cols, .. } = case;
    for r in 0..runs.count {
        for j in 0..runs.len {
            for o in 0..*cols {
                let sum = &mut w[(r * runs.len + j) * cols + o];
                for pixel in pixels {
                    let x = x[pixel.from + r * runs.stride + j];
                    *sum = x.mul_add(d[pixel.to + o], *sum);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    runs: Runs,
    cols: usize,
    pixels: usize,
    /// Numbers between two output pixels.
    gap: usize,
}

/// Up to 40 columns: more than two of the widest registers of `f32`. Up to 150 pixels of them: more
/// than pass through `outer` at a time. Now and then one run that `multiply` cuts.
fn sizes() -> impl Strategy<Value = Sizes> {
    let runs = prop_oneof![
        4 => (1..4_usize, 1..40_usize, 0..9_usize),
        1 => (Just(1), 250..600_usize, Just(0)),
    ];
    (runs, 1..41_usize, 1..150_usize, 0..3_usize).prop_map(
        |((count, len, more), cols, pixels, gap)| Sizes {
            runs: Runs { count, stride: len + more, len },
            cols,
            pixels,
            gap,
        },
    )
}

struct Case<F> {
    x: Vec<F>,
    pixels: Vec<Pixel>,
    runs: Runs,
    cols: usize,
    w: Vec<F>,
    bias: Vec<F>,
    out_len: usize,
}

impl<F: Real> Case<F> {
    fn new(Sizes { runs, cols, pixels, gap }: Sizes) -> Self {
        // Read here and there, written from the end to the beginning.
        let from = |i: usize| i * 7 % (3 * pixels);
        let to = |i: usize| (pixels - 1 - i) * (cols + gap);
        Self {
            x: normal(3 * pixels + runs.count * runs.stride, 1),
            pixels: (0..pixels).map(|i| Pixel { from: from(i), to: to(i) }).collect(),
            runs,
            cols,
            w: normal(runs.rows() * cols, 2),
            bias: normal(cols, 3),
            out_len: pixels * (cols + gap),
        }
    }

    /// `w` in panels of a width.
    fn in_panels(&self, width: usize) -> Vec<F> {
        let rows = self.runs.rows();
        let mut values = vec![F::default(); rows * self.cols.div_ceil(width) * width];
        for row in 0..rows {
            for col in 0..self.cols {
                let at = (col / width * rows + row) * width + col % width;
                values[at] = self.w[row * self.cols + col];
            }
        }
        values
    }

    fn in_rows(&self, width: usize, values: &[F]) -> Vec<F> {
        let rows = self.runs.rows();
        let at = |i: usize| (i / self.cols, i % self.cols);
        let place = |(row, col): (usize, usize)| (col / width * rows + row) * width + col % width;
        (0..rows * self.cols).map(|i| values[place(at(i))]).collect()
    }

    fn multiply_at<S: Simd>(&self, simd: S, start: Start<F>, out: &mut [F]) {
        let (rows, cols, width) = (self.runs.rows(), self.cols, F::lanes::<S>());
        let w = &Panels { values: self.in_panels(width), rows, cols, width };
        let (x, pixels, runs) = (&self.x[..], &self.pixels[..], self.runs);
        simd.vectorize(Multiply { x, pixels, runs, w, start, out });
    }

    fn outer_at<S: Simd>(&self, simd: S, d: &[F]) -> Vec<F> {
        let width = F::lanes::<S>();
        let mut panels = self.in_panels(width);
        let (x, pixels, runs, cols) = (&self.x[..], &self.pixels[..], self.runs, self.cols);
        simd.vectorize(Outer { x, d, pixels, runs, cols, w: &mut panels });
        self.in_rows(width, &panels)
    }
}

fn check_multiply<F: Real>(sizes: Sizes) {
    let case = Case::<F>::new(sizes);
    // What no sum starts from is dirt, and what lies between the pixels stays as it is.
    let dirt = vec![F::of(f64::NAN); case.out_len];
    let filled = normal(case.out_len, 4);
    for (start, before) in
        [(Start::Zero, &dirt), (Start::Bias(&case.bias), &dirt), (Start::Out, &filled)]
    {
        let mut twin = before.clone();
        naive_multiply(&case, start, &mut twin);
        let check = |what: &str, work: &dyn Fn(&mut [F])| {
            let mut out = before.clone();
            work(&mut out);
            assert_same_bits(&format!("{what}, {sizes:?}, {start:?}"), &out, &twin);
        };
        check("as called", &|out| {
            let mut w = Panels::default();
            w.fill(case.runs.rows(), case.cols, |cols, values| {
                for (row, values) in values.chunks_exact_mut(width::<F>()).enumerate() {
                    let row = &case.w[row * case.cols..][..case.cols];
                    values[..cols.len()].copy_from_slice(&row[cols.clone()]);
                }
            });
            multiply(&case.x, &case.pixels, case.runs, &w, start, out);
        });
        check("scalar", &|out| case.multiply_at(Scalar, start, out));
        #[cfg(target_arch = "x86_64")]
        {
            use pulp::x86::{V3, V4};
            if let Some(avx2) = V3::try_new() {
                check("AVX2", &|out| case.multiply_at(avx2, start, out));
            }
            if let Some(avx512) = V4::try_new() {
                check("AVX-512", &|out| case.multiply_at(avx512, start, out));
            }
        }
    }
}

fn check_outer<F: Real>(sizes: Sizes) {
    let case = Case::<F>::new(sizes);
    let d = normal(case.out_len, 5);
    let mut twin = case.w.clone();
    naive_outer(&case, &d, &mut twin);
    let check = |what: &str, w: Vec<F>| assert_same_bits(&format!("{what}, {sizes:?}"), &w, &twin);
    let mut panels = case.in_panels(width::<F>());
    outer(&case.x, &d, &case.pixels, case.runs, case.cols, &mut panels);
    check("as called", case.in_rows(width::<F>(), &panels));
    check("scalar", case.outer_at(Scalar, &d));
    #[cfg(target_arch = "x86_64")]
    {
        use pulp::x86::{V3, V4};
        if let Some(avx2) = V3::try_new() {
            check("AVX2", case.outer_at(avx2, &d));
        }
        if let Some(avx512) = V4::try_new() {
            check("AVX-512", case.outer_at(avx512, &d));
        }
    }
}

proptest! {
    #![proptest_config(crate::fixed_seed())]

    #[test]
    fn multiply_is_its_definition_at_every_width(sizes in sizes()) {
        check_multiply::<f32>(sizes);
        check_multiply::<f64>(sizes);
    }

    #[test]
    fn outer_is_its_definition_at_every_width(sizes in sizes()) {
        check_outer::<f32>(sizes);
        check_outer::<f64>(sizes);
    }
}
