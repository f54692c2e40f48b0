//! Twins of `op.cu` and of the sums of two layers in `fours.cu`, for values and derivatives alike.

use super::bound::{Near, Sum, exactly};
use super::view::Side;
use super::{Kind, Run};
use crate::jobs::{Address, OpDotJob, OpJob, SumJob};

type Op = fn(&Run, &OpJob, &Side, &Side) -> Vec<Near>;

impl Run {
    /// Writes what an op makes of both layers of each replica to a place, replicas so far apart.
    fn run_op(
        &mut self,
        job: &OpJob,
        sides: impl Fn(&Self, usize) -> [Side; 2],
        (to, stride): (Address, u64),
        op: Op,
    ) {
        for r in 0..self.replicas(1) {
            let [input, output] = sides(self, r);
            let (values, start) = (op(self, job, &input, &output), r * stride as usize);
            let values = self.put(job.add, to, start, values);
            self.write(Kind::Real, to, start, values);
        }
    }

    fn sides(&self, job: &OpJob, r: usize) -> [Side; 2] {
        [&job.input, &job.output].map(|view| self.side(view, r, job.images))
    }

    fn forth(&mut self, job: &OpJob, op: Op) {
        let to = (job.output.z, job.output.stride);
        self.run_op(job, |run, r| run.sides(job, r), to, op);
    }

    fn back(&mut self, job: &OpJob, op: Op) {
        let to = (job.input.u, job.input.stride);
        self.run_op(job, |run, r| run.sides(job, r), to, op);
    }

    fn forth_dot(&mut self, job: &OpDotJob, op: Op) {
        let OpDotJob { op: own, input, output } = job;
        let sides = |run: &Self, r: usize| {
            let [_, plain] = run.sides(own, r);
            [run.side_dot(&own.input, input, r, own.images), plain]
        };
        self.run_op(own, sides, (output.z, own.output.stride), op);
    }

    fn back_dot(&mut self, job: &OpDotJob, op: Op) {
        let OpDotJob { op: own, input, output } = job;
        let sides = |run: &Self, r: usize| {
            let [plain, _] = run.sides(own, r);
            [plain, run.side_dot(&own.output, output, r, own.images)]
        };
        self.run_op(own, sides, (input.u, own.input.stride), op);
    }

    pub fn add_forward(&mut self, job: &OpJob) {
        self.forth(job, |_, _, input, _| input.all(Side::forth));
    }

    pub fn add_forward_dot(&mut self, job: &OpDotJob) {
        self.forth_dot(job, |_, _, input, _| input.all(Side::forth));
    }

    pub fn add_backward(&mut self, job: &OpJob) {
        self.back(job, |_, _, _, output| output.all(Side::back));
    }

    pub fn add_backward_dot(&mut self, job: &OpDotJob) {
        self.back_dot(job, |_, _, _, output| output.all(Side::back));
    }

    pub fn pool_forward(&mut self, job: &OpJob) {
        self.forth(job, Run::pooled);
    }

    pub fn pool_forward_dot(&mut self, job: &OpDotJob) {
        self.forth_dot(job, Run::pooled);
    }

    pub fn pool_backward(&mut self, job: &OpJob) {
        self.back(job, Run::pooled_back);
    }

    pub fn pool_backward_dot(&mut self, job: &OpDotJob) {
        self.back_dot(job, Run::pooled_back);
    }

    pub fn subsample_forward(&mut self, job: &OpJob) {
        self.forth(job, Run::subsampled);
    }

    pub fn subsample_forward_dot(&mut self, job: &OpDotJob) {
        self.forth_dot(job, Run::subsampled);
    }

    pub fn subsample_backward(&mut self, job: &OpJob) {
        self.back(job, Run::subsampled_back);
    }

    pub fn subsample_backward_dot(&mut self, job: &OpDotJob) {
        self.back_dot(job, Run::subsampled_back);
    }

    pub fn mean_forward(&mut self, job: &OpJob) {
        self.forth(job, Run::averaged);
    }

    pub fn mean_forward_dot(&mut self, job: &OpDotJob) {
        self.forth_dot(job, Run::averaged);
    }

    pub fn mean_backward(&mut self, job: &OpJob) {
        self.back(job, Run::averaged_back);
    }

    pub fn mean_backward_dot(&mut self, job: &OpDotJob) {
        self.back_dot(job, Run::averaged_back);
    }

    /// One over a count, as the device has it.
    fn share(&self, count: usize) -> Near {
        self.t.round(self.double.round(exactly(1.0 / count as f64)))
    }

    fn pooled(&self, job: &OpJob, input: &Side, _: &Side) -> Vec<Near> {
        let mut results = Vec::new();
        windows(job, |_, window| {
            results.push(if job.largest != 0 {
                let (best, others) = largest(input, window);
                let value = input.forth(best);
                let off = others.iter().map(|i| (input.forth(*i).x - value.x).abs());
                Near { e: value.e + off.fold(0.0, f64::max), ..value }
            } else {
                let sum = Sum::of(window.iter().map(|i| input.forth(*i)));
                self.t.round(sum.rounded(self.t) * self.share(window.len()))
            });
        });
        results
    }

    fn pooled_back(&self, job: &OpJob, input: &Side, output: &Side) -> Vec<Near> {
        let mut sums = vec![Sum::default(); input.z.len()];
        windows(job, |place, window| {
            let d = output.back(place);
            if job.largest == 0 {
                let part = self.t.round(d * self.share(window.len()));
                window.iter().for_each(|i| sums[*i].add(part));
                return;
            }
            // Where rounding decides which is largest, the gradient may go to any of them.
            let (best, others) = largest(input, window);
            let doubt = if others.is_empty() { 0.0 } else { d.x.abs() + d.e };
            sums[best].add(Near { e: d.e + doubt, ..d });
            others.iter().for_each(|i| sums[*i].add(Near { x: 0.0, e: doubt }));
        });
        sums.iter().map(|sum| sum.rounded(self.t)).collect()
    }

    fn subsampled(&self, job: &OpJob, input: &Side, _: &Side) -> Vec<Near> {
        let mut results = Vec::new();
        kept(job, |from| results.push(from.map_or(Near::ZERO, |i| input.forth(i))));
        results
    }

    fn subsampled_back(&self, job: &OpJob, input: &Side, output: &Side) -> Vec<Near> {
        let mut results = vec![Near::ZERO; input.z.len()];
        let mut place = 0;
        kept(job, |from| {
            if let Some(i) = from {
                results[i] = output.back(place);
            }
            place += 1;
        });
        results
    }

    fn averaged(&self, job: &OpJob, input: &Side, _: &Side) -> Vec<Near> {
        let len = Self::numbers(&job.input, 1);
        let mean = |image: usize| {
            let sum = Sum::of((image * len..(image + 1) * len).map(|i| input.forth(i)));
            self.t.round(sum.rounded(self.t) * self.share(len))
        };
        (0..job.images as usize).map(mean).collect()
    }

    fn averaged_back(&self, job: &OpJob, input: &Side, output: &Side) -> Vec<Near> {
        let len = Self::numbers(&job.input, 1);
        let share = self.share(len);
        (0..input.z.len()).map(|i| self.t.round(output.back(i / len) * share)).collect()
    }

    pub fn sum_forward_fours(&mut self, job: &SumJob) {
        for r in 0..self.replicas(1) {
            let first = self.side(&job.first, r, job.images);
            let second = self.side(&job.second, r, job.images);
            let sum = |i: usize| self.t.round(first.value(i) + second.value(i));
            let values = (0..first.z.len()).map(sum).collect();
            self.write(Kind::Real, job.sum.z, r * job.sum.stride as usize, values);
        }
    }

    pub fn sum_backward_fours(&mut self, job: &SumJob) {
        for r in 0..self.replicas(1) {
            let gradients = self.side(&job.sum, r, job.images).all(Side::gradient);
            if job.sums != 0 {
                // The first input's gradient is the one that is written now.
                let mut first = self.side(&job.first, r, job.images);
                first.u.clone_from(&gradients);
                self.gradient_sums(&first, job.sums, r, job.images);
            }
            self.write(Kind::Real, job.sum.u, r * job.sum.stride as usize, gradients);
        }
    }
}

/// Calls `each(place of the result, window of the input)`, in the order of the results.
fn windows(job: &OpJob, mut each: impl FnMut(usize, &[usize])) {
    let [height, width, channels] =
        [job.input.height, job.input.width, job.input.channels].map(|n| n as usize);
    let [rows, cols, stride] = [job.rows, job.cols, job.stride].map(|n| n as usize);
    let [out_rows, out_cols] = [job.output.height, job.output.width].map(|n| n as usize);
    for place in 0..job.images as usize * out_rows * out_cols * channels {
        let (c, pixel) = (place % channels, place / channels);
        let (x, y, image) =
            (pixel % out_cols, pixel / out_cols % out_rows, pixel / out_cols / out_rows);
        let at = |i: usize| {
            let (row, col) = (y * stride + i / cols, x * stride + i % cols);
            ((image * height + row) * width + col) * channels + c
        };
        each(place, &(0..rows * cols).map(at).collect::<Vec<_>>());
    }
}

/// Place of the largest value, of equal ones the first; and of all others that may be largest on the
/// device. Values that are exact, such as the zeros of ReLU, leave no doubt.
fn largest(input: &Side, window: &[usize]) -> (usize, Vec<usize>) {
    let values: Vec<Near> = window.iter().map(|i| input.value(*i)).collect();
    let mut best = 0;
    for i in 1..window.len() {
        if values[i].x > values[best].x {
            best = i;
        }
    }
    let most = values[best];
    let in_doubt = |i: &usize| {
        let (own, doubt) = (values[*i], values[*i].e + most.e);
        *i != best && doubt > 0.0 && own.x + doubt >= most.x
    };
    (window[best], (0..window.len()).filter(in_doubt).map(|i| window[i]).collect())
}

/// Calls `each(where a result comes from)` in the order of the results; none beside the channels.
fn kept(job: &OpJob, mut each: impl FnMut(Option<usize>)) {
    let [height, width, own] =
        [job.input.height, job.input.width, job.input.channels].map(|n| n as usize);
    let [rows, cols, channels] =
        [job.output.height, job.output.width, job.output.channels].map(|n| n as usize);
    let (stride, before) = (job.stride as usize, (channels - own) / 2);
    for place in 0..job.images as usize * rows * cols * channels {
        let (c, pixel) = (place % channels, place / channels);
        let (x, y, image) =
            (pixel % cols * stride, pixel / cols % rows * stride, pixel / cols / rows);
        let is_kept = (before..before + own).contains(&c);
        each(is_kept.then(|| ((image * height + y) * width + x) * own + c - before));
    }
}
