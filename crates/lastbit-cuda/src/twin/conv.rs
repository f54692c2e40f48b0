//! Twins of all convolutions: three loops, whichever way the kernels go.
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
use super::view::Side;
use super::{Kind, Run};
use crate::jobs::{ConvDotJob, ConvJob, FastJob, PackJob, View, WeightsJob};

/// Shapes of a convolution.
struct Shape {
    images: usize,
    from: [usize; 3],
    to: [usize; 3],
    kernel: [usize; 2],
    stride: usize,
    before: [usize; 2],
}

impl Shape {
    fn of(job: &ConvJob) -> Self {
        Self {
            images: job.images as usize,
            from: shape(&job.input),
            to: shape(&job.output),
            kernel: [job.rows as usize, job.cols as usize],
            stride: job.stride as usize,
            before: [job.above as usize, job.left as usize],
        }
    }

    fn taps(&self) -> usize {
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
    fn forward(&self, values: &[Near], w: &[Near], sums: &mut [Sum]) {
        let (ci, co) = (self.from[2], self.to[2]);
        let w = self.by_tap(w, true);
        self.pairs(0..self.images, |pixel, tap, from| {
            for (i, value) in values[from * ci..][..ci].iter().enumerate() {
                add_products(&mut sums[pixel * co..][..co], *value, &w[(tap * ci + i) * co..]);
            }
        });
    }

    /// Adds to the sums `[pixel of the input][ci]`.
    fn data(&self, dz: &[Near], w: &[Near], sums: &mut [Sum]) {
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

fn shape(view: &View) -> [usize; 3] {
    [view.height, view.width, view.channels].map(|n| n as usize)
}

/// Numbers as they were read.
fn exact(numbers: &[f64]) -> Vec<Near> {
    numbers.iter().map(|x| exactly(*x)).collect()
}

/// A convolution of one replica with all that its kernels read: `[value, dz]`, and weights `[co][ci][tap]`.
struct Factors {
    value: Vec<Near>,
    gradient: Vec<Near>,
    weights: Vec<Near>,
    bias: Option<Vec<Near>>,
}

/// Their derivatives; values of the network's input have none.
struct Moves {
    value: Option<Vec<Near>>,
    gradient: Vec<Near>,
}

impl Run {
    fn weights_at(&self, at: u64, replica: usize, job: &ConvJob) -> Vec<Near> {
        let shape = Shape::of(job);
        let len = shape.taps() * shape.from[2] * shape.to[2];
        exact(&self.ram.reals(at, replica * job.parameters as usize + job.weight as usize, len))
    }

    fn bias_at(&self, at: u64, replica: usize, job: &ConvJob) -> Option<Vec<Near>> {
        let first = replica * job.parameters as usize + job.bias as usize;
        let channels = job.output.channels as usize;
        (job.has_bias != 0).then(|| exact(&self.ram.reals(at, first, channels)))
    }

    /// Weights as a forward product reads them, `[tap][ci][co]`, put back into their own order.
    fn packed_at(&self, at: u64, replica: usize, job: &ConvJob) -> Vec<Near> {
        let shape = Shape::of(job);
        let (ci, co, taps) = (shape.from[2], shape.to[2], shape.taps());
        let packed = self.ram.reals(at, replica * ci * co * taps, ci * co * taps);
        let place = |i: usize| (i % taps * ci + i / taps % ci) * co + i / taps / ci;
        (0..packed.len()).map(|i| exactly(packed[place(i)])).collect()
    }

    fn factors(&self, replica: usize, job: &ConvJob) -> Factors {
        let output = self.side(&job.output, replica, job.images);
        let has_gradient = !output.u.is_empty();
        Factors {
            value: self.side(&job.input, replica, job.images).all(Side::value),
            gradient: if has_gradient { output.all(Side::gradient) } else { vec![] },
            weights: self.weights_at(job.theta, replica, job),
            bias: self.bias_at(job.theta, replica, job),
        }
    }

    fn moves(&self, replica: usize, job: &ConvDotJob) -> Moves {
        let ConvDotJob { conv, input, output, .. } = job;
        let from = self.side_dot(&conv.input, input, replica, conv.images);
        Moves {
            value: from.moves().then(|| from.all(Side::value_dot)),
            gradient: self
                .side_dot(&conv.output, output, replica, conv.images)
                .all(Side::gradient_dot),
        }
    }

    /// What a bias begins each sum with.
    fn begin(bias: Option<&Vec<Near>>, numbers: usize) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); numbers];
        if let Some(bias) = bias {
            sums.iter_mut().zip(bias.iter().cycle()).for_each(|(sum, bias)| sum.add(*bias));
        }
        sums
    }

    /// Writes raw values.
    fn write_raw(&mut self, at: u64, replica: usize, view: &View, sums: &[Sum]) {
        let values = self.rounded(sums);
        self.write(Kind::Real, at, replica * view.stride as usize, values);
    }

    /// Writes gradients of values, or adds to what is there.
    fn write_gradient(&mut self, at: u64, start: usize, add: i32, sums: &[Sum]) {
        let values = self.rounded(sums);
        let values = self.put(add, at, start, values);
        self.write(Kind::Real, at, start, values);
    }

    fn rounded(&self, sums: &[Sum]) -> Vec<Near> {
        sums.iter().map(|sum| sum.rounded(self.of_products())).collect()
    }

    pub fn conv_pack(&mut self, job: &ConvJob) {
        let shape = Shape::of(job);
        let (ci, co, taps) = (shape.from[2], shape.to[2], shape.taps());
        for r in 0..self.replicas(1) {
            let w = self.weights_at(job.theta, r, job);
            let place = |i: usize| (i % co * ci + i / co % ci) * taps + i / co / ci;
            let packed = (0..w.len()).map(|i| w[place(i)]).collect();
            self.write(Kind::Real, job.packed, r * w.len(), packed);
        }
    }

    pub fn conv_forward(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(2) {
            let weights = self.packed_at(job.packed, r, job);
            self.forward_of(r, job, &Factors { weights, ..self.factors(r, job) });
        }
    }

    pub fn plane_forward(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(1) {
            self.forward_of(r, job, &self.factors(r, job));
        }
    }

    fn forward_of(&mut self, r: usize, job: &ConvJob, factors: &Factors) {
        let mut sums = Self::begin(factors.bias.as_ref(), Self::numbers(&job.output, job.images));
        Shape::of(job).forward(&factors.value, &factors.weights, &mut sums);
        self.write_raw(job.output.z, r, &job.output, &sums);
    }

    pub fn conv_data(&mut self, job: &ConvJob) {
        self.data_of(self.replicas(2), job);
    }

    pub fn plane_data(&mut self, job: &ConvJob) {
        self.data_of(self.replicas(1), job);
    }

    fn data_of(&mut self, replicas: usize, job: &ConvJob) {
        for r in 0..replicas {
            let factors = self.factors(r, job);
            let mut sums = vec![Sum::default(); Self::numbers(&job.input, job.images)];
            Shape::of(job).data(&factors.gradient, &factors.weights, &mut sums);
            self.write_gradient(job.input.u, r * job.input.stride as usize, job.add, &sums);
        }
    }

    pub fn conv_weights(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(2) {
            let factors = self.factors(r, job);
            self.partials_of(r, job, false, &[(&factors.value, &factors.gradient)]);
        }
    }

    pub fn plane_weights(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(1) {
            let factors = self.factors(r, job);
            self.partials_of(r, job, true, &[(&factors.value, &factors.gradient)]);
        }
    }

    /// Sums over chunks of images; with that of the gradient itself, for a bias, the first of the
    /// products' second factors.
    fn partials_of(
        &mut self,
        r: usize,
        job: &ConvJob,
        bias: bool,
        terms: &[(&Vec<Near>, &Vec<Near>)],
    ) {
        let shape = Shape::of(job);
        let (chunks, each) = (job.chunks as usize, job.images_per_chunk as usize);
        let pixels = shape.to[0] * shape.to[1];
        let count = shape.taps() * shape.from[2] * shape.to[2];
        let mut all = Vec::new();
        for chunk in 0..chunks {
            let end = ((chunk + 1) * each).min(shape.images);
            let images = (chunk * each).min(end)..end;
            let mut sums = vec![Sum::default(); count];
            for (value, gradient) in terms {
                shape.weights(value, gradient, images.clone(), shape.from[2], &mut sums);
            }
            if bias {
                let pixels = images.start * pixels..images.end * pixels;
                sums.push(Sum::of(terms[0].1[pixels].iter().copied()));
            }
            all.extend(self.rounded(&sums));
        }
        self.write(Kind::Real, job.partials, r * all.len(), all);
    }

    /// Adds the chunks: `[tap][ci][co]` to `[co][ci][tap]`.
    pub fn conv_weights_finish(&mut self, job: &ConvJob) {
        let shape = Shape::of(job);
        let (ci, co, taps) = (shape.from[2], shape.to[2], shape.taps());
        let (chunks, rows) = (job.chunks as usize, job.inputs as usize);
        let count = taps * rows * co;
        for r in 0..self.replicas(1) {
            let partials = self.ram.reals(job.partials, r * chunks * count, chunks * count);
            let weight = |i: usize| {
                let at = (i % taps * rows + i / taps % ci) * co + i / taps / ci;
                let own = (0..chunks).map(|chunk| exactly(partials[chunk * count + at]));
                Sum::of(own).rounded(self.t)
            };
            let gradient = (0..co * ci * taps).map(weight).collect();
            let start = r * job.parameters as usize + job.weight as usize;
            self.write(Kind::Real, job.gradient, start, gradient);
        }
    }

    /// The same of one channel, in double precision.
    pub fn plane_finish(&mut self, job: &ConvJob) {
        let taps = (job.rows * job.cols) as usize;
        let (chunks, sums) = (job.chunks as usize, taps + 1);
        for r in 0..self.replicas(0) {
            let partials = self.ram.reals(job.partials, r * chunks * sums, chunks * sums);
            let total = |t: usize| {
                let own = (0..chunks).map(|chunk| exactly(partials[chunk * sums + t]));
                self.t.round(Sum::of(own).rounded(self.double))
            };
            let first = r * job.parameters as usize;
            let gradient = (0..taps).map(total).collect();
            let bias = total(taps);
            self.write(Kind::Real, job.gradient, first + job.weight as usize, gradient);
            if job.has_bias != 0 {
                self.write(Kind::Real, job.gradient, first + job.bias as usize, vec![bias]);
            }
        }
    }

    pub fn conv_forward_dot(&mut self, job: &ConvDotJob) {
        for r in 0..self.replicas(2) {
            let weights = self.packed_at(job.conv.packed, r, &job.conv);
            let direction = self.packed_at(job.packed, r, &job.conv);
            self.forward_dot_of(r, job, &weights, &direction);
        }
    }

    pub fn plane_forward_dot(&mut self, job: &ConvDotJob) {
        for r in 0..self.replicas(1) {
            let weights = self.weights_at(job.conv.theta, r, &job.conv);
            let direction = self.weights_at(job.direction, r, &job.conv);
            self.forward_dot_of(r, job, &weights, &direction);
        }
    }

    fn forward_dot_of(&mut self, r: usize, job: &ConvDotJob, w: &[Near], w_dot: &[Near]) {
        let ConvDotJob { conv, input, output, .. } = job;
        let bias = self.bias_at(job.direction, r, conv);
        let mut sums = Self::begin(bias.as_ref(), Self::numbers(&conv.output, conv.images));
        let from = self.side_dot(&conv.input, input, r, conv.images);
        Shape::of(conv).forward(&from.all(Side::value), w_dot, &mut sums);
        if from.moves() {
            Shape::of(conv).forward(&from.all(Side::value_dot), w, &mut sums);
        }
        self.write_raw(output.z, r, &conv.output, &sums);
    }

    pub fn conv_data_dot(&mut self, job: &ConvDotJob) {
        self.data_dot_of(self.replicas(2), job);
    }

    pub fn plane_data_dot(&mut self, job: &ConvDotJob) {
        self.data_dot_of(self.replicas(1), job);
    }

    fn data_dot_of(&mut self, replicas: usize, job: &ConvDotJob) {
        let conv = &job.conv;
        for r in 0..replicas {
            let (factors, moves) = (self.factors(r, conv), self.moves(r, job));
            let direction = self.weights_at(job.direction, r, conv);
            let mut sums = vec![Sum::default(); Self::numbers(&conv.input, conv.images)];
            Shape::of(conv).data(&moves.gradient, &factors.weights, &mut sums);
            Shape::of(conv).data(&factors.gradient, &direction, &mut sums);
            self.write_gradient(job.input.u, r * conv.input.stride as usize, conv.add, &sums);
        }
    }

    pub fn conv_weights_dot(&mut self, job: &ConvDotJob) {
        self.weights_dot_of(self.replicas(2), job, false);
    }

    pub fn plane_weights_dot(&mut self, job: &ConvDotJob) {
        self.weights_dot_of(self.replicas(1), job, true);
    }

    fn weights_dot_of(&mut self, replicas: usize, job: &ConvDotJob, bias: bool) {
        for r in 0..replicas {
            let (factors, moves) = (self.factors(r, &job.conv), self.moves(r, job));
            let mut terms = vec![(&factors.value, &moves.gradient)];
            if let Some(value_dot) = &moves.value {
                terms.push((value_dot, &factors.gradient));
            }
            self.partials_of(r, &job.conv, bias, &terms);
        }
    }
}

/// The 3x3 convolutions of `conv3x3.cu` and `weights3x3.cu`.
impl Run {
    /// Where kernel (row `k`, column `n`) of a tap lies among rows × columns: row by row, or on tensor
    /// cores 8 rows and 16 columns after each other, in the order of a warp's lanes.
    fn place_of_kernel(
        &self,
        tap: usize,
        k: usize,
        n: usize,
        rows: usize,
        columns: usize,
    ) -> usize {
        if !self.tensor {
            return (tap * rows + k) * columns + n;
        }
        let (lane, number) = (n % 8 * 4 + k % 4, n % 16 / 8 * 2 + k % 8 / 4);
        let block = (tap * (rows / 8) + k / 8) * (columns / 16) + n / 16;
        (block * 32 + lane) * 4 + number
    }

    pub fn pack_kernels(&mut self, job: &PackJob) {
        let [ci, co, rows] = [job.inputs, job.outputs, job.rows].map(|n| n as usize);
        for r in 0..self.replicas(1) {
            let start = r * job.parameters as usize + job.weight as usize;
            let w = self.ram.reals(job.theta, start, co * ci * 9);
            let mut both = [vec![Near::ZERO; 9 * rows * co], vec![Near::ZERO; 9 * rows * co]];
            for (i, w) in w.iter().enumerate() {
                let (tap, from, to) = (i % 9, i / 9 % ci, i / 9 / ci);
                let w = self.factor(exactly(*w));
                both[0][self.place_of_kernel(tap, from, to, rows, co)] = w;
                both[1][self.place_of_kernel(8 - tap, to, from, co, rows)] = w;
            }
            let [forward, backward] = both;
            self.write(Kind::Real, job.forward, r * job.stride as usize, forward);
            self.write(Kind::Real, job.backward, r * job.stride as usize, backward);
        }
    }

    /// Packed kernels in their own order `[co][ci][tap]`, without channels of zeros.
    fn unpacked(&self, job: &FastJob, r: usize, ci: usize, co: usize, back: bool) -> Vec<Near> {
        let rows = if back { ci } else { ci.next_multiple_of(16) };
        let start = r * job.kernels_stride as usize;
        let packed = self.ram.reals(job.kernels, start, 9 * rows * co);
        let weight = |i: usize| {
            let (tap, from, to) = (i % 9, i / 9 % ci, i / 9 / ci);
            let at = match back {
                false => self.place_of_kernel(tap, from, to, rows, co),
                true => self.place_of_kernel(8 - tap, to, from, co, rows),
            };
            exactly(packed[at])
        };
        (0..9 * ci * co).map(weight).collect()
    }

    /// The factors that a kernel reads of a layer, rounded for tensor cores.
    fn factors_of(&self, side: &Side, read: impl Fn(&Side, usize) -> Near) -> Vec<Near> {
        side.all(read).into_iter().map(|x| self.factor(x)).collect()
    }

    pub fn conv3x3_forward(&mut self, job: &FastJob) {
        self.forward3x3(job, 1);
    }

    pub fn conv3x3_halve(&mut self, job: &FastJob) {
        self.forward3x3(job, 2);
    }

    fn forward3x3(&mut self, job: &FastJob, stride: usize) {
        let [height, width, ci] = shape(&job.from);
        let to = [height / stride, width / stride, job.channels as usize];
        let shape = Shape {
            images: job.images as usize,
            from: [height, width, ci],
            to,
            kernel: [3, 3],
            stride,
            before: [1, 1],
        };
        for r in 0..job.replicas as usize {
            let values = self.factors_of(&self.side(&job.from, r, job.images), Side::value);
            let w = self.unpacked(job, r, ci, to[2], false);
            let bias = exact(&self.reals_if(job.bias, r * job.bias_stride as usize, to[2]));
            let numbers = shape.images * to[0] * to[1] * to[2];
            let mut sums = Self::begin((!bias.is_empty()).then_some(&bias), numbers);
            shape.forward(&values, &w, &mut sums);
            let results = self.rounded(&sums);
            if job.sums != 0 {
                self.moments3x3(job, r, to, &results);
            }
            self.write(Kind::Real, job.result, r * job.result_stride as usize, results);
        }
    }

    /// Moments of the parts of a result: 16 rows of an image, or two images of 8x8. They are made of
    /// the numbers that are written, hence with their errors.
    fn moments3x3(&mut self, job: &FastJob, r: usize, to: [usize; 3], results: &[Near]) {
        let channels = to[2];
        let pixels = if to[0] == 8 { 128 } else { 16 * to[1] };
        let parts: Vec<&[Near]> = results.chunks(pixels * channels).collect();
        let mut all = Vec::new();
        for part in &parts {
            all.extend(self.moments_of(part, channels));
        }
        self.write(Kind::Real, job.sums, r * all.len(), all);
    }

    pub fn conv3x3_data(&mut self, job: &FastJob) {
        self.data3x3(job, 1);
    }

    pub fn conv3x3_double(&mut self, job: &FastJob) {
        self.data3x3(job, 2);
    }

    fn data3x3(&mut self, job: &FastJob, stride: usize) {
        let [height, width, co] = shape(&job.from);
        let from = [height * stride, width * stride, job.channels as usize];
        let shape = Shape {
            images: job.images as usize,
            from,
            to: [height, width, co],
            kernel: [3, 3],
            stride,
            before: [1, 1],
        };
        for r in 0..job.replicas as usize {
            let gradients = self.factors_of(&self.side(&job.from, r, job.images), Side::gradient);
            let w = self.unpacked(job, r, from[2], co, true);
            let mut sums = vec![Sum::default(); shape.images * from[0] * from[1] * from[2]];
            shape.data(&gradients, &w, &mut sums);
            self.write_gradient(job.result, r * job.result_stride as usize, job.add, &sums);
        }
    }

    pub fn weights3x3(&mut self, job: &WeightsJob) {
        let (from, to) = (shape(&job.input), shape(&job.output));
        let stride = from[0] / to[0];
        let images = job.images as usize;
        let shape = Shape { images, from, to, kernel: [3, 3], stride, before: [1, 1] };
        let [chunks, each, rows] = [job.chunks, job.images_per_chunk, job.rows].map(|n| n as usize);
        for r in 0..self.replicas(2) {
            let values = self.factors_of(&self.side(&job.input, r, job.images), Side::value);
            let output = self.side(&job.output, r, job.images);
            let gradients = self.factors_of(&output, Side::gradient);
            let mut all = Vec::new();
            for chunk in 0..chunks {
                let end = ((chunk + 1) * each).min(images);
                let mut sums = vec![Sum::default(); 9 * rows * to[2]];
                shape.weights(&values, &gradients, chunk * each..end, rows, &mut sums);
                all.extend(self.rounded(&sums));
            }
            self.write(Kind::Real, job.partials, r * all.len(), all);
        }
    }
}
