//! The three sums of every convolution, whichever kernel computes them.
//!
//! ```text
//! forward   z[p][co]       = Σ over taps, ci of value[stride p + tap − before][ci] W[co][ci][tap]
//! data      u[q][ci]       = Σ over taps, co of dz[p][co] W[co][ci][tap],  q = stride p + tap − before
//! weights   dW[tap][ci][co] = Σ over p of value[stride p + tap − before][ci] dz[p][co]
//! ```
//!
//! A tangent is the sum of two such, one for each factor that has a tangent.

use std::ops::Range;

use super::Launch;
use super::bound::{Bounded, Sum, exactly};
use crate::kernel_args::{ConvArgs, View};

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
    pub fn of(args: &ConvArgs) -> Self {
        Self {
            images: args.images as usize,
            from: shape(&args.input),
            to: shape(&args.output),
            kernel: [args.rows as usize, args.cols as usize],
            stride: args.stride as usize,
            before: [args.above as usize, args.left as usize],
        }
    }

    /// A 3x3 convolution that keeps the size, or halves it.
    pub fn three_by_three(images: i32, from: [usize; 3], to: [usize; 3]) -> Self {
        let (images, stride) = (images as usize, from[0] / to[0]);
        Self { images, from, to, kernel: [3, 3], stride, before: [1, 1] }
    }

    /// The images of a chunk.
    pub fn chunk(&self, chunk: usize, each: usize) -> Range<usize> {
        let end = ((chunk + 1) * each).min(self.images);
        (chunk * each).min(end)..end
    }

    pub fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Calls `pair(pixel, tap, pixel of the input)` for every tap inside the input, for the pixels of some
    /// images.
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

    /// Weights `[co][ci][tap]` as `[tap][first][second]`, contiguous for the inner loop.
    fn by_tap(&self, w: &[Bounded], second_is_output: bool) -> Vec<Bounded> {
        let (ci, co, taps) = (self.from[2], self.to[2], self.taps());
        let weight = |i: usize| {
            let (tap, rest) = (i / (ci * co), i % (ci * co));
            let (i, o) =
                if second_is_output { (rest / co, rest % co) } else { (rest % ci, rest / ci) };
            w[(o * ci + i) * taps + tap]
        };
        (0..w.len()).map(weight).collect()
    }

    /// Adds to the sums `[pixel][co]`; weights are `[co][ci][tap]`.
    fn forward(&self, values: &[Bounded], w: &[Bounded], sums: &mut [Sum]) {
        let (ci, co) = (self.from[2], self.to[2]);
        let w = self.by_tap(w, true);
        self.pairs(0..self.images, |pixel, tap, from| {
            for (i, value) in values[from * ci..][..ci].iter().enumerate() {
                add_products(&mut sums[pixel * co..][..co], *value, &w[(tap * ci + i) * co..]);
            }
        });
    }

    /// Adds to the sums `[pixel of the input][ci]`.
    fn data(&self, dz: &[Bounded], w: &[Bounded], sums: &mut [Sum]) {
        let (ci, co) = (self.from[2], self.to[2]);
        let w = self.by_tap(w, false);
        self.pairs(0..self.images, |pixel, tap, from| {
            for (o, d) in dz[pixel * co..][..co].iter().enumerate() {
                add_products(&mut sums[from * ci..][..ci], *d, &w[(tap * co + o) * ci..]);
            }
        });
    }

    /// Adds to the sums `[tap][ci of rows][co]` over some images.
    fn weights(
        &self,
        values: &[Bounded],
        dz: &[Bounded],
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
fn add_products(sums: &mut [Sum], factor: Bounded, others: &[Bounded]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| sum.add(factor * *other));
}

pub fn shape(view: &View) -> [usize; 3] {
    [view.height, view.width, view.channels].map(|n| n as usize)
}

/// Numbers that were read from the device.
pub fn exact(numbers: &[f64]) -> Vec<Bounded> {
    numbers.iter().map(|x| exactly(*x)).collect()
}

/// Factors of a sum of products.
pub type Factors = (Vec<Bounded>, Vec<Bounded>);

impl Launch {
    fn rounded(&self, sums: &[Sum]) -> Vec<Bounded> {
        sums.iter().map(|sum| sum.rounded(self.of_products())).collect()
    }

    /// Results of a forward convolution, whose sums begin with the bias, where there is one.
    pub fn forward_sums(
        &self,
        shape: &Shape,
        bias: Option<&[Bounded]>,
        terms: &[Factors],
    ) -> Vec<Bounded> {
        let mut sums = vec![Sum::default(); shape.images * shape.to.iter().product::<usize>()];
        if let Some(bias) = bias {
            sums.iter_mut().zip(bias.iter().cycle()).for_each(|(sum, bias)| sum.add(*bias));
        }
        terms.iter().for_each(|(values, w)| shape.forward(values, w, &mut sums));
        self.rounded(&sums)
    }

    /// Gradients by the input.
    pub fn data_sums(&self, shape: &Shape, terms: &[Factors]) -> Vec<Bounded> {
        let mut sums = vec![Sum::default(); shape.images * shape.from.iter().product::<usize>()];
        terms.iter().for_each(|(dz, w)| shape.data(dz, w, &mut sums));
        self.rounded(&sums)
    }

    /// Gradients by the weights over some images, with input channels padded to `rows`.
    pub fn weight_sums(
        &self,
        shape: &Shape,
        images: Range<usize>,
        rows: usize,
        terms: &[Factors],
    ) -> Vec<Bounded> {
        let mut sums = vec![Sum::default(); shape.taps() * rows * shape.to[2]];
        for (values, dz) in terms {
            shape.weights(values, dz, images.clone(), rows, &mut sums);
        }
        self.rounded(&sums)
    }
}
