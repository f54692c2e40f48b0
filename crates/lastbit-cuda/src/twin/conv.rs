//! What all convolutions compute: three loops, whichever way the kernels go.
//!
//! ```text
//! forward   z[p][co]       = Σ over taps, ci of value[stride p + tap − before][ci] W[co][ci][tap]
//! data      u[q][ci]       = Σ over taps, co of dz[p][co] W[co][ci][tap],  q = stride p + tap − before
//! weights   dW[tap][ci][co] = Σ over p of value[stride p + tap − before][ci] dz[p][co]
//! ```
//!
//! A derivative is the sum of two such, one for each factor that moves.

use std::ops::Range;

use super::bound::{Near, Sum, exactly};
use super::{Kind, Run};
use crate::jobs::{ConvJob, View};

/// Shapes of a convolution.
pub struct Shape {
    pub images: usize,
    pub from: [usize; 3],
    pub to: [usize; 3],
    kernel: [usize; 2],
    stride: usize,
    before: [usize; 2],
}

impl Shape {
    pub fn of(job: &ConvJob) -> Self {
        Self {
            images: job.images as usize,
            from: shape(&job.input),
            to: shape(&job.output),
            kernel: [job.rows as usize, job.cols as usize],
            stride: job.stride as usize,
            before: [job.above as usize, job.left as usize],
        }
    }

    /// A 3x3 convolution that keeps the size, or halves it.
    pub fn three_by_three(images: i32, from: [usize; 3], to: [usize; 3]) -> Self {
        let (images, stride) = (images as usize, from[0] / to[0]);
        Self { images, from, to, kernel: [3, 3], stride, before: [1, 1] }
    }

    pub fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Calls `pair(pixel, tap, pixel of the input)` for every tap that meets the input, for the pixels
    /// of some images.
    fn pairs(&self, images: Range<usize>, mut pair: impl FnMut(usize, usize, usize)) {
        let ([height, width, _], [rows, cols, _]) = (self.from, self.to);
        for pixel in images.start * rows * cols..images.end * rows * cols {
            let (image, y, x) = (pixel / (rows * cols), pixel / cols % rows, pixel % cols);
            for tap in 0..self.taps() {
                let [i, j] = [tap / self.kernel[1], tap % self.kernel[1]];
                let row = (y * self.stride + i).checked_sub(self.before[0]);
                let col = (x * self.stride + j).checked_sub(self.before[1]);
                let (Some(row), Some(col)) = (row, col) else { continue };
                if row < height && col < width {
                    pair(pixel, tap, (image * height + row) * width + col);
                }
            }
        }
    }

    /// Weights `[co][ci][tap]` as `[tap][first][second]`: neighbours in the order of the inner loop.
    fn by_tap(&self, w: &[Near], second_is_output: bool) -> Vec<Near> {
        let (ci, co, taps) = (self.from[2], self.to[2], self.taps());
        let weight = |i: usize| {
            let (tap, rest) = (i / (ci * co), i % (ci * co));
            let (i, o) =
                if second_is_output { (rest / co, rest % co) } else { (rest % ci, rest / ci) };
            w[(o * ci + i) * taps + tap]
        };
        (0..w.len()).map(weight).collect()
    }

    /// Adds to the sums `[pixel][co]`; weights lie as `[co][ci][tap]`.
    pub fn forward(&self, values: &[Near], w: &[Near], sums: &mut [Sum]) {
        let (ci, co) = (self.from[2], self.to[2]);
        let w = self.by_tap(w, true);
        self.pairs(0..self.images, |pixel, tap, from| {
            for (i, value) in values[from * ci..][..ci].iter().enumerate() {
                add_products(&mut sums[pixel * co..][..co], *value, &w[(tap * ci + i) * co..]);
            }
        });
    }

    /// Adds to the sums `[pixel of the input][ci]`.
    pub fn data(&self, dz: &[Near], w: &[Near], sums: &mut [Sum]) {
        let (ci, co) = (self.from[2], self.to[2]);
        let w = self.by_tap(w, false);
        self.pairs(0..self.images, |pixel, tap, from| {
            for (o, d) in dz[pixel * co..][..co].iter().enumerate() {
                add_products(&mut sums[from * ci..][..ci], *d, &w[(tap * co + o) * ci..]);
            }
        });
    }

    /// Adds to the sums `[tap][ci of rows][co]` over some images.
    pub fn weights(
        &self,
        values: &[Near],
        dz: &[Near],
        images: Range<usize>,
        rows: usize,
        sums: &mut [Sum],
    ) {
        let (ci, co) = (self.from[2], self.to[2]);
        self.pairs(images, |pixel, tap, from| {
            for (i, value) in values[from * ci..][..ci].iter().enumerate() {
                add_products(&mut sums[(tap * rows + i) * co..][..co], *value, &dz[pixel * co..]);
            }
        });
    }
}

/// Adds to each sum its product with one factor.
fn add_products(sums: &mut [Sum], factor: Near, others: &[Near]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| sum.add(factor * *other));
}

pub fn shape(view: &View) -> [usize; 3] {
    [view.height, view.width, view.channels].map(|n| n as usize)
}

/// Numbers as they were read.
pub fn exact(numbers: &[f64]) -> Vec<Near> {
    numbers.iter().map(|x| exactly(*x)).collect()
}

impl Run {
    /// What sums begin with: a bias, where there is one.
    pub fn begin(bias: Option<&[Near]>, numbers: usize) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); numbers];
        if let Some(bias) = bias {
            sums.iter_mut().zip(bias.iter().cycle()).for_each(|(sum, bias)| sum.add(*bias));
        }
        sums
    }

    pub fn rounded(&self, sums: &[Sum]) -> Vec<Near> {
        sums.iter().map(|sum| sum.rounded(self.of_products())).collect()
    }

    /// Writes gradients of values, or adds to what is there.
    pub fn write_gradients(&mut self, at: u64, start: usize, add: i32, sums: &[Sum]) {
        let values = self.put(add, at, start, self.rounded(sums));
        self.write(Kind::Real, at, start, values);
    }
}
