//! Twins of `conv3x3.cu` and `weights3x3.cu`: 3x3 convolutions between images of 32x32, 16x16 and 8x8.

use super::bound::{Near, Sum, exactly};
use super::conv::{Shape, exact, shape};
use super::view::Side;
use super::{Kind, Run};
use crate::jobs::{FastJob, PackJob, WeightsJob};

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
        let shape = Shape::three_by_three(job.images, [height, width, ci], to);
        for r in 0..job.replicas as usize {
            let values = self.factors_of(&self.side(&job.from, r, job.images), Side::value);
            let w = self.unpacked(job, r, ci, to[2], false);
            let bias = exact(&self.reals_if(job.bias, r * job.bias_stride as usize, to[2]));
            let numbers = shape.images * to[0] * to[1] * to[2];
            let mut sums = Self::begin((!bias.is_empty()).then_some(&bias[..]), numbers);
            shape.forward(&values, &w, &mut sums);
            let start = r * job.result_stride as usize;
            let results = self.put(job.add, job.result, start, self.rounded(&sums));
            if job.sums != 0 {
                self.moments3x3(job, r, to, &results);
            }
            self.write(Kind::Real, job.result, start, results);
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
        let shape = Shape::three_by_three(job.images, from, [height, width, co]);
        for r in 0..job.replicas as usize {
            let gradients = self.factors_of(&self.side(&job.from, r, job.images), Side::gradient);
            let w = self.unpacked(job, r, from[2], co, true);
            let mut sums = vec![Sum::default(); shape.images * from[0] * from[1] * from[2]];
            shape.data(&gradients, &w, &mut sums);
            self.write_gradients(job.result, r * job.result_stride as usize, job.add, &sums);
        }
    }

    pub fn weights3x3(&mut self, job: &WeightsJob) {
        let (from, to) = (shape(&job.input), shape(&job.output));
        let shape = Shape::three_by_three(job.images, from, to);
        // There may be room for more chunks than these.
        let (chunks, room) = (self.grid.blocks[1] as usize, job.chunks as usize);
        let (each, rows) = (job.images_per_chunk as usize, job.rows as usize);
        let count = 9 * rows * to[2];
        for r in 0..self.replicas(2) {
            let values = self.factors_of(&self.side(&job.input, r, job.images), Side::value);
            let output = self.side(&job.output, r, job.images);
            let gradients = self.factors_of(&output, Side::gradient);
            let mut all = Vec::new();
            for chunk in 0..chunks {
                let end = ((chunk + 1) * each).min(shape.images);
                let mut sums = vec![Sum::default(); count];
                shape.weights(&values, &gradients, chunk * each..end, rows, &mut sums);
                all.extend(self.rounded(&sums));
            }
            self.write(Kind::Real, job.partials, r * room * count, all);
        }
    }
}
