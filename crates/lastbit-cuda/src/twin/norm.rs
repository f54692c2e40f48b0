//! Twins of `norm.cu` and of the same sums in `fours.cu`: batch norm and biases.
//!
//! Sums over pixels are made in the kernels' own precision, everything after them in double.

use super::bound::{Near, Sum, exactly};
use super::view::Side;
use super::{Kind, Run};
use crate::jobs::{MOMENTS, NormJob};

/// What is added to a variance, and the share of a batch in the running statistics.
const EPSILON: Near = exactly(1e-5);
const SHARE: Near = exactly(0.1);
const REST: Near = exactly(1.0 - 0.1);

pub fn channels(job: &NormJob) -> usize {
    job.layer.channels as usize
}

/// Pixels of a batch.
pub fn count(job: &NormJob) -> Near {
    exactly(f64::from(job.images) * f64::from(job.layer.height * job.layer.width))
}

impl Run {
    /// Mean of each channel and the squares about it.
    pub fn moments_of(&self, numbers: &[Near], channels: usize) -> Vec<Near> {
        let (t, pixels) = (self.t, exactly((numbers.len() / channels) as f64));
        let of = |c: usize| numbers.iter().skip(c).step_by(channels).copied();
        let mean = |c: usize| t.round(Sum::of(of(c)).rounded(t) / pixels);
        let means: Vec<Near> = (0..channels).map(mean).collect();
        let square = |c: usize| {
            let off = of(c).map(|z| t.round(z - means[c]));
            Sum::of(off.map(|off| off * off)).rounded(t)
        };
        let squares: Vec<Near> = (0..channels).map(square).collect();
        [means, squares].concat()
    }

    pub fn norm_moments(&mut self, job: &NormJob) {
        for r in 0..self.replicas(1) {
            let layer = self.side(&job.layer, r, job.images).all(Side::raw);
            let images = layer.chunks(layer.len() / job.images as usize);
            let all: Vec<Near> = images.flat_map(|z| self.moments_of(z, channels(job))).collect();
            self.write(Kind::Real, job.sums, r * all.len(), all);
        }
    }

    /// For each image `kinds` sums over its pixels, channel by channel.
    pub fn image_sums(
        &self,
        layer: &Side,
        images: i32,
        kinds: &[&dyn Fn(usize) -> Near],
    ) -> Vec<Near> {
        let (len, channels) = (layer.z.len() / images as usize, layer.channels);
        let mut all = Vec::new();
        for image in 0..images as usize {
            for kind in kinds {
                for c in 0..channels {
                    let of = (image * len + c..(image + 1) * len).step_by(channels);
                    all.push(Sum::of(of.map(kind)).rounded(self.t));
                }
            }
        }
        all
    }

    /// Per image and channel: sum of `g` and of `g (z − mean)`.
    pub fn gradient_sums(&mut self, layer: &Side, to: u64, r: usize, images: i32) {
        let t = self.t;
        let g = |i: usize| layer.slope(i);
        let product = |i: usize| layer.slope(i) * t.round(layer.raw(i) - layer.mean(i));
        let all = self.image_sums(layer, images, &[&g, &product]);
        self.write(Kind::Real, to, r * all.len(), all);
    }

    pub fn norm_gradient_sums(&mut self, job: &NormJob) {
        for r in 0..self.replicas(1) {
            let layer = self.side(&job.layer, r, job.images);
            self.gradient_sums(&layer, job.sums, r, job.images);
            if job.slopes != 0 {
                let start = r * job.layer.stride as usize;
                self.write(Kind::Real, job.layer.u, start, layer.all(Side::slope));
            }
        }
    }

    pub fn bias_sums(&mut self, job: &NormJob) {
        for r in 0..self.replicas(1) {
            let layer = self.side(&job.layer, r, job.images);
            let all = self.image_sums(&layer, job.images, &[&|i| layer.gradient(i)]);
            self.write(Kind::Real, job.sums, r * all.len(), all);
        }
    }

    pub fn bias_finish(&mut self, job: &NormJob) {
        let (parts, d) = (job.images as usize, self.double);
        for r in 0..self.replicas(1) {
            let sums = self.ram.reals(job.sums, r * parts * channels(job), parts * channels(job));
            let total = |c: usize| {
                let own = (0..parts).map(|i| exactly(sums[i * channels(job) + c]));
                self.t.round(Sum::of(own).rounded(d))
            };
            let gradient = (0..channels(job)).map(total).collect();
            self.write_parameter(job, job.shift, r, gradient);
        }
    }

    /// One of `kinds` sums of a channel, part by part.
    pub fn parts(&self, job: &NormJob, r: usize, parts: i32, kinds: usize) -> Vec<f64> {
        let len = parts as usize * kinds * channels(job);
        self.ram.reals(job.sums, r * len, len)
    }

    pub fn parameter(&self, at: u64, job: &NormJob, place: u64, r: usize) -> Vec<f64> {
        self.ram.reals(at, r * job.parameters as usize + place as usize, channels(job))
    }

    pub fn write_parameter(&mut self, job: &NormJob, place: u64, r: usize, values: Vec<Near>) {
        let start = r * job.parameters as usize + place as usize;
        self.write(Kind::Real, job.gradient, start, values);
    }

    /// Scale, shift and mean from mean and variance.
    fn set_values(&mut self, job: &NormJob, r: usize, statistics: &[[Near; 2]]) {
        let (d, channels) = (self.double, channels(job));
        let gamma = self.parameter(job.theta, job, job.scale, r);
        let beta = self.parameter(job.theta, job, job.shift, r);
        let mut norm = vec![Near::ZERO; 3 * channels];
        let mut moments = vec![Near::ZERO; 2 * channels];
        for (c, &[mean, variance]) in statistics.iter().enumerate() {
            let s = d.round(Near::ONE / d.sqrt(d.round(variance + EPSILON)));
            let scale = d.round(exactly(gamma[c]) * s);
            norm[c] = self.t.round(scale);
            norm[channels + c] = self.t.round(d.round(exactly(beta[c]) - d.round(mean * scale)));
            norm[2 * channels + c] = self.t.round(mean);
            moments[c] = mean;
            moments[channels + c] = s;
        }
        self.write(Kind::Real, job.norm, r * 5 * channels, norm);
        self.write(Kind::Double, job.moments, r * MOMENTS * channels, moments);
    }

    /// No replica has ended in these tests: running statistics follow in all of them.
    pub fn norm_forward(&mut self, job: &NormJob) {
        let (d, channels) = (self.double, channels(job));
        let all = f64::from(job.images * job.layer.height * job.layer.width);
        let of_part =
            |i: usize| exactly((all - i as f64 * f64::from(job.pixels)).min(f64::from(job.pixels)));
        for r in 0..self.replicas(1) {
            let own = self.parts(job, r, job.parts, 2);
            let part =
                |i: usize, kind: usize, c: usize| exactly(own[(i * 2 + kind) * channels + c]);
            let statistics: Vec<[Near; 2]> = (0..channels)
                .map(|c| {
                    let parts = 0..job.parts as usize;
                    let sum = Sum::of(parts.clone().map(|i| part(i, 0, c) * of_part(i)));
                    let mean = d.round(sum.rounded(d) / exactly(all));
                    let squares = parts.map(|i| {
                        let off = d.round(part(i, 0, c) - mean);
                        d.round(part(i, 1, c) + d.round(of_part(i) * d.round(off * off)))
                    });
                    [mean, d.round(Sum::of(squares).rounded(d) / exactly(all))]
                })
                .collect();
            if job.settle != 0 {
                let unbiased = d.round(exactly(all) / exactly((all - 1.0).max(1.0)));
                self.follow(job, job.mean, r, statistics.iter().map(|[mean, _]| *mean).collect());
                let of_all = |[_, variance]: &[Near; 2]| d.round(*variance * unbiased);
                self.follow(job, job.variance, r, statistics.iter().map(of_all).collect());
            }
            self.set_values(job, r, &statistics);
        }
    }

    /// A running statistic follows what was seen.
    fn follow(&mut self, job: &NormJob, place: u64, r: usize, seen: Vec<Near>) {
        let d = self.double;
        let start = r * job.statistics as usize + place as usize;
        let old = self.ram.reals(job.buffers, start, seen.len());
        let next = |(old, seen): (&f64, &Near)| {
            self.t.round(d.round(d.round(REST * exactly(*old)) + d.round(SHARE * *seen)))
        };
        let values = old.iter().zip(&seen).map(next).collect();
        self.write(Kind::Real, job.buffers, start, values);
    }

    pub fn norm_running(&mut self, job: &NormJob) {
        for r in 0..self.replicas(1) {
            let of = |place: u64| {
                let start = r * job.statistics as usize + place as usize;
                self.ram.reals(job.buffers, start, channels(job))
            };
            let both = of(job.mean).into_iter().zip(of(job.variance));
            let statistics: Vec<[Near; 2]> = both.map(|(a, b)| [a, b].map(exactly)).collect();
            self.set_values(job, r, &statistics);
        }
    }

    /// Mean, s, m1, m2, mean_dot, t of a replica's channels.
    pub fn moments(&self, job: &NormJob, r: usize) -> Vec<f64> {
        let len = MOMENTS * channels(job);
        self.ram.doubles(job.moments, r * len, len)
    }

    pub fn norm_backward(&mut self, job: &NormJob) {
        let (d, t, channels, count) = (self.double, self.t, channels(job), count(job));
        for r in 0..self.replicas(1) {
            let own = self.parts(job, r, job.parts, 2);
            let total = |kind: usize, c: usize| {
                let parts = 0..job.parts as usize;
                Sum::of(parts.map(|i| exactly(own[(i * 2 + kind) * channels + c]))).rounded(d)
            };
            let moments = self.moments(job, r);
            let gamma = self.parameter(job.theta, job, job.scale, r);
            let mut rows = vec![Near::ZERO; 2 * channels];
            let (mut norm, mut scale, mut shift) = (rows.clone(), vec![], vec![]);
            for c in 0..channels {
                let [mean, s] = [0, 1].map(|row| exactly(moments[row * channels + c]));
                let m1 = d.round(total(0, c) / count);
                let m2 = d.round(d.round(s * total(1, c)) / count);
                scale.push(t.round(d.round(count * m2)));
                shift.push(t.round(d.round(count * m1)));
                rows[c] = m1;
                rows[channels + c] = m2;
                if job.running == 0 {
                    let slope = d.round(-exactly(gamma[c]) * s);
                    let b = d.round(d.round(slope * s) * m2);
                    norm[c] = t.round(b);
                    norm[channels + c] = t.round(d.round(d.round(slope * m1) - d.round(b * mean)));
                }
            }
            self.write_parameter(job, job.scale, r, scale);
            self.write_parameter(job, job.shift, r, shift);
            self.write(Kind::Double, job.moments, (r * MOMENTS + 2) * channels, rows);
            self.write(Kind::Real, job.norm, (r * 5 + 3) * channels, norm);
        }
    }
}
