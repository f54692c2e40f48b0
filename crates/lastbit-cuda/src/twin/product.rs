//! Twins of `gemm.cu` and `plane.cu` and of their derivatives in `dot.cu`: convolutions of any shape.
//!
//! A kernel sums up one product, its derivative two: first that with the weights' (or the gradient's)
//! derivative, then that with the values'.

use super::bound::{Near, Sum, exactly};
use super::conv::{Shape, exact};
use super::view::Side;
use super::{Kind, Run};
use crate::jobs::{Address, ConvDotJob, ConvJob};

/// Factors of a sum of products.
type Factors = (Vec<Near>, Vec<Near>);

/// What a kernel reads for one replica.
impl Run {
    fn values(&self, r: usize, job: &ConvJob) -> Vec<Near> {
        self.side(&job.input, r, job.images).all(Side::value)
    }

    fn gradients(&self, r: usize, job: &ConvJob) -> Vec<Near> {
        self.side(&job.output, r, job.images).all(Side::gradient)
    }

    /// None where values do not move.
    fn values_dot(&self, r: usize, job: &ConvDotJob) -> Option<Vec<Near>> {
        let input = self.side_dot(&job.conv.input, &job.input, r, job.conv.images);
        input.moves().then(|| input.all(Side::value_dot))
    }

    fn gradients_dot(&self, r: usize, job: &ConvDotJob) -> Vec<Near> {
        self.side_dot(&job.conv.output, &job.output, r, job.conv.images).all(Side::gradient_dot)
    }

    fn weights_at(&self, at: Address, r: usize, job: &ConvJob) -> Vec<Near> {
        let shape = Shape::of(job);
        let len = shape.taps() * shape.from[2] * shape.to[2];
        exact(&self.ram.reals(at, r * job.parameters as usize + job.weight as usize, len))
    }

    fn bias_at(&self, at: Address, r: usize, job: &ConvJob) -> Option<Vec<Near>> {
        let first = r * job.parameters as usize + job.bias as usize;
        let channels = job.output.channels as usize;
        (job.has_bias != 0).then(|| exact(&self.ram.reals(at, first, channels)))
    }

    /// Weights as a forward product reads them, `[tap][ci][co]`, put back into their own order.
    fn packed_at(&self, at: Address, r: usize, job: &ConvJob) -> Vec<Near> {
        let shape = Shape::of(job);
        let (ci, co, taps) = (shape.from[2], shape.to[2], shape.taps());
        let packed = self.ram.reals(at, r * ci * co * taps, ci * co * taps);
        let place = |i: usize| (i % taps * ci + i / taps % ci) * co + i / taps / ci;
        (0..packed.len()).map(|i| exactly(packed[place(i)])).collect()
    }
}

/// What it writes.
impl Run {
    fn forward_of(
        &mut self,
        r: usize,
        job: &ConvJob,
        begin: Address,
        to: Address,
        terms: &[Factors],
    ) {
        let bias = self.bias_at(begin, r, job);
        let mut sums = Self::begin(bias.as_deref(), Self::numbers(&job.output, job.images));
        for (values, weights) in terms {
            Shape::of(job).forward(values, weights, &mut sums);
        }
        self.write(Kind::Real, to, r * job.output.stride as usize, self.rounded(&sums));
    }

    fn data_of(&mut self, r: usize, job: &ConvJob, to: Address, terms: &[Factors]) {
        let mut sums = vec![Sum::default(); Self::numbers(&job.input, job.images)];
        for (gradients, weights) in terms {
            Shape::of(job).data(gradients, weights, &mut sums);
        }
        self.write_gradients(to, r * job.input.stride as usize, job.add, &sums);
    }

    /// Sums over chunks of images; where a bias goes along, also that of the gradient itself, which is the
    /// first term's second factor.
    fn partials_of(&mut self, r: usize, job: &ConvJob, with_bias: bool, terms: &[Factors]) {
        let shape = Shape::of(job);
        let (chunks, each) = (job.chunks as usize, job.images_per_chunk as usize);
        let pixels = shape.to[0] * shape.to[1];
        let mut all = Vec::new();
        for chunk in 0..chunks {
            let end = ((chunk + 1) * each).min(shape.images);
            let images = (chunk * each).min(end)..end;
            let mut sums = vec![Sum::default(); shape.taps() * shape.from[2] * shape.to[2]];
            for (values, gradients) in terms {
                shape.weights(values, gradients, images.clone(), shape.from[2], &mut sums);
            }
            if with_bias {
                let own = &terms[0].1[images.start * pixels..images.end * pixels];
                sums.push(Sum::of(own.iter().copied()));
            }
            all.extend(self.rounded(&sums));
        }
        self.write(Kind::Real, job.partials, r * all.len(), all);
    }
}

/// `gemm.cu`
impl Run {
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
            let terms = [(self.values(r, job), self.packed_at(job.packed, r, job))];
            self.forward_of(r, job, job.theta, job.output.z, &terms);
        }
    }

    pub fn conv_forward_dot(&mut self, job: &ConvDotJob) {
        let conv = &job.conv;
        for r in 0..self.replicas(2) {
            let weights = [conv.packed, job.packed].map(|at| self.packed_at(at, r, conv));
            self.forward_dot_of(r, job, weights);
        }
    }

    fn forward_dot_of(&mut self, r: usize, job: &ConvDotJob, [w, w_dot]: [Vec<Near>; 2]) {
        let mut terms = vec![(self.values(r, &job.conv), w_dot)];
        terms.extend(self.values_dot(r, job).map(|values_dot| (values_dot, w)));
        self.forward_of(r, &job.conv, job.direction, job.output.z, &terms);
    }

    pub fn conv_data(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(2) {
            self.plain_data_of(r, job);
        }
    }

    fn plain_data_of(&mut self, r: usize, job: &ConvJob) {
        let terms = [(self.gradients(r, job), self.weights_at(job.theta, r, job))];
        self.data_of(r, job, job.input.u, &terms);
    }

    pub fn conv_data_dot(&mut self, job: &ConvDotJob) {
        for r in 0..self.replicas(2) {
            self.data_dot_of(r, job);
        }
    }

    fn data_dot_of(&mut self, r: usize, job: &ConvDotJob) {
        let conv = &job.conv;
        let [w, w_dot] = [conv.theta, job.direction].map(|at| self.weights_at(at, r, conv));
        let terms = [(self.gradients_dot(r, job), w), (self.gradients(r, conv), w_dot)];
        self.data_of(r, conv, job.input.u, &terms);
    }

    pub fn conv_weights(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(2) {
            self.plain_weights_of(r, job, false);
        }
    }

    fn plain_weights_of(&mut self, r: usize, job: &ConvJob, with_bias: bool) {
        let terms = [(self.values(r, job), self.gradients(r, job))];
        self.partials_of(r, job, with_bias, &terms);
    }

    pub fn conv_weights_dot(&mut self, job: &ConvDotJob) {
        for r in 0..self.replicas(2) {
            self.weights_dot_of(r, job, false);
        }
    }

    fn weights_dot_of(&mut self, r: usize, job: &ConvDotJob, with_bias: bool) {
        let conv = &job.conv;
        let mut terms = vec![(self.values(r, conv), self.gradients_dot(r, job))];
        let second = |values_dot| (values_dot, self.gradients(r, conv));
        terms.extend(self.values_dot(r, job).map(second));
        self.partials_of(r, conv, with_bias, &terms);
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
}

/// `plane.cu`
impl Run {
    pub fn plane_forward(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(1) {
            let terms = [(self.values(r, job), self.weights_at(job.theta, r, job))];
            self.forward_of(r, job, job.theta, job.output.z, &terms);
        }
    }

    pub fn plane_forward_dot(&mut self, job: &ConvDotJob) {
        let conv = &job.conv;
        for r in 0..self.replicas(1) {
            let weights = [conv.theta, job.direction].map(|at| self.weights_at(at, r, conv));
            self.forward_dot_of(r, job, weights);
        }
    }

    pub fn plane_data(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(1) {
            self.plain_data_of(r, job);
        }
    }

    pub fn plane_data_dot(&mut self, job: &ConvDotJob) {
        for r in 0..self.replicas(1) {
            self.data_dot_of(r, job);
        }
    }

    pub fn plane_weights(&mut self, job: &ConvJob) {
        for r in 0..self.replicas(1) {
            self.plain_weights_of(r, job, true);
        }
    }

    pub fn plane_weights_dot(&mut self, job: &ConvDotJob) {
        for r in 0..self.replicas(1) {
            self.weights_dot_of(r, job, true);
        }
    }

    /// Adds the chunks in double precision.
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
            let (gradient, bias) = ((0..taps).map(total).collect(), total(taps));
            self.write(Kind::Real, job.gradient, first + job.weight as usize, gradient);
            if job.has_bias != 0 {
                self.write(Kind::Real, job.gradient, first + job.bias as usize, vec![bias]);
            }
        }
    }
}
