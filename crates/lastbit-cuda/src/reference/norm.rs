//! References of `norm.cu` and of the same sums in `vec4.cu`: batch norm and biases.
//!
//! Sums over pixels are in the kernels' own precision, everything after them in double.

use super::bound::{Bounded, Sum, exactly};
use super::view::LayerView;
use super::{Kind, Launch};
use crate::kernel_args::{MOMENTS, NormArgs};

/// What is added to a variance, and the share of a batch in the running statistics.
const EPSILON: Bounded = exactly(1e-5);
const SHARE: Bounded = exactly(0.1);
const REST: Bounded = exactly(1.0 - 0.1);

pub fn channels(args: &NormArgs) -> usize {
    args.layer.channels as usize
}

/// Pixels of a batch.
pub fn count(args: &NormArgs) -> Bounded {
    exactly(f64::from(args.images) * f64::from(args.layer.height * args.layer.width))
}

impl Launch {
    /// Mean of each channel and the squares about it.
    pub fn moments_of(&self, numbers: &[Bounded], channels: usize) -> Vec<Bounded> {
        let (t, pixels) = (self.t, exactly((numbers.len() / channels) as f64));
        let of = |c: usize| numbers.iter().skip(c).step_by(channels).copied();
        let mean = |c: usize| t.round(Sum::of(of(c)).rounded(t) / pixels);
        let means: Vec<Bounded> = (0..channels).map(mean).collect();
        let square = |c: usize| {
            let off = of(c).map(|z| t.round(z - means[c]));
            Sum::of(off.map(|off| off * off)).rounded(t)
        };
        let squares: Vec<Bounded> = (0..channels).map(square).collect();
        [means, squares].concat()
    }

    pub fn norm_moments(&mut self, args: &NormArgs) {
        let layer = self.layer(&args.layer, args.images).all(LayerView::raw);
        let images = layer.chunks(layer.len() / args.images as usize);
        let all: Vec<Bounded> = images.flat_map(|z| self.moments_of(z, channels(args))).collect();
        self.write(Kind::Real, args.sums, self.r * all.len(), all);
    }

    /// For each image `kinds` sums over its pixels, channel by channel.
    pub fn image_sums(
        &self,
        layer: &LayerView,
        images: i32,
        kinds: &[&dyn Fn(usize) -> Bounded],
    ) -> Vec<Bounded> {
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
    pub fn gradient_sums(&mut self, layer: &LayerView, to: u64, images: i32) {
        let t = self.t;
        let g = |i: usize| layer.slope(i);
        let product = |i: usize| layer.slope(i) * t.round(layer.raw(i) - layer.mean(i));
        let all = self.image_sums(layer, images, &[&g, &product]);
        self.write(Kind::Real, to, self.r * all.len(), all);
    }

    pub fn norm_gradient_sums(&mut self, args: &NormArgs) {
        let layer = self.layer(&args.layer, args.images);
        self.gradient_sums(&layer, args.sums, args.images);
        if args.slopes != 0 {
            let start = self.r * args.layer.stride as usize;
            self.write(Kind::Real, args.layer.u, start, layer.all(LayerView::slope));
        }
    }

    pub fn bias_sums(&mut self, args: &NormArgs) {
        let layer = self.layer(&args.layer, args.images);
        let all = self.image_sums(&layer, args.images, &[&|i| layer.gradient(i)]);
        self.write(Kind::Real, args.sums, self.r * all.len(), all);
    }

    pub fn bias_finish(&mut self, args: &NormArgs) {
        let (parts, d) = (args.images as usize, self.double);
        let sums =
            self.memory.reals(args.sums, self.r * parts * channels(args), parts * channels(args));
        let total = |c: usize| {
            let own = (0..parts).map(|i| exactly(sums[i * channels(args) + c]));
            self.t.round(Sum::of(own).rounded(d))
        };
        let gradient = (0..channels(args)).map(total).collect();
        self.write_parameter(args, args.shift, gradient);
    }

    /// One of `kinds` sums of a channel, part by part.
    pub fn parts(&self, args: &NormArgs, parts: i32, kinds: usize) -> Vec<f64> {
        let len = parts as usize * kinds * channels(args);
        self.memory.reals(args.sums, self.r * len, len)
    }

    pub fn parameter(&self, at: u64, args: &NormArgs, place: u64) -> Vec<f64> {
        self.memory.reals(at, self.r * args.parameters as usize + place as usize, channels(args))
    }

    pub fn write_parameter(&mut self, args: &NormArgs, place: u64, values: Vec<Bounded>) {
        let start = self.r * args.parameters as usize + place as usize;
        self.write(Kind::Real, args.gradient, start, values);
    }

    /// Scale, shift and mean from mean and variance.
    fn set_values(&mut self, args: &NormArgs, statistics: &[[Bounded; 2]]) {
        let (d, channels) = (self.double, channels(args));
        let gamma = self.parameter(args.theta, args, args.scale);
        let beta = self.parameter(args.theta, args, args.shift);
        let mut norm = vec![Bounded::ZERO; 3 * channels];
        let mut moments = vec![Bounded::ZERO; 2 * channels];
        for (c, &[mean, variance]) in statistics.iter().enumerate() {
            let s = d.round(Bounded::ONE / d.sqrt(d.round(variance + EPSILON)));
            let scale = d.round(exactly(gamma[c]) * s);
            norm[c] = self.t.round(scale);
            norm[channels + c] = self.t.round(d.round(exactly(beta[c]) - d.round(mean * scale)));
            norm[2 * channels + c] = self.t.round(mean);
            moments[c] = mean;
            moments[channels + c] = s;
        }
        self.write(Kind::Real, args.norm, self.r * 5 * channels, norm);
        self.write(Kind::Double, args.moments, self.r * MOMENTS * channels, moments);
    }

    /// No replica has ended in these tests: the running statistics of all are updated.
    pub fn norm_forward(&mut self, args: &NormArgs) {
        let (d, channels) = (self.double, channels(args));
        let all = f64::from(args.images * args.layer.height * args.layer.width);
        let of_part = |i: usize| {
            exactly((all - i as f64 * f64::from(args.pixels)).min(f64::from(args.pixels)))
        };
        let own = self.parts(args, args.parts, 2);
        let part = |i: usize, kind: usize, c: usize| exactly(own[(i * 2 + kind) * channels + c]);
        let statistics: Vec<[Bounded; 2]> = (0..channels)
            .map(|c| {
                let parts = 0..args.parts as usize;
                let sum = Sum::of(parts.clone().map(|i| part(i, 0, c) * of_part(i)));
                let mean = d.round(sum.rounded(d) / exactly(all));
                let squares = parts.map(|i| {
                    let off = d.round(part(i, 0, c) - mean);
                    d.round(part(i, 1, c) + d.round(of_part(i) * d.round(off * off)))
                });
                [mean, d.round(Sum::of(squares).rounded(d) / exactly(all))]
            })
            .collect();
        if args.settle != 0 {
            let unbiased = d.round(exactly(all) / exactly((all - 1.0).max(1.0)));
            let means = statistics.iter().map(|[mean, _]| *mean).collect();
            self.update_running(args, args.mean, means);
            let of_all = |[_, variance]: &[Bounded; 2]| d.round(*variance * unbiased);
            self.update_running(args, args.variance, statistics.iter().map(of_all).collect());
        }
        self.set_values(args, &statistics);
    }

    /// Updates a running statistic by that of the batch.
    fn update_running(&mut self, args: &NormArgs, place: u64, seen: Vec<Bounded>) {
        let d = self.double;
        let start = self.r * args.statistics as usize + place as usize;
        let old = self.memory.reals(args.buffers, start, seen.len());
        let next = |(old, seen): (&f64, &Bounded)| {
            self.t.round(d.round(d.round(REST * exactly(*old)) + d.round(SHARE * *seen)))
        };
        let values = old.iter().zip(&seen).map(next).collect();
        self.write(Kind::Real, args.buffers, start, values);
    }

    pub fn norm_running(&mut self, args: &NormArgs) {
        let of = |place: u64| {
            let start = self.r * args.statistics as usize + place as usize;
            self.memory.reals(args.buffers, start, channels(args))
        };
        let both = of(args.mean).into_iter().zip(of(args.variance));
        let statistics: Vec<[Bounded; 2]> = both.map(|(a, b)| [a, b].map(exactly)).collect();
        self.set_values(args, &statistics);
    }

    /// Mean, s, m1, m2, mean_dot, t of a replica's channels.
    pub fn moments(&self, args: &NormArgs) -> Vec<f64> {
        let len = MOMENTS * channels(args);
        self.memory.doubles(args.moments, self.r * len, len)
    }

    pub fn norm_backward(&mut self, args: &NormArgs) {
        let (d, t, channels, count) = (self.double, self.t, channels(args), count(args));
        let own = self.parts(args, args.parts, 2);
        let total = |kind: usize, c: usize| {
            let parts = 0..args.parts as usize;
            Sum::of(parts.map(|i| exactly(own[(i * 2 + kind) * channels + c]))).rounded(d)
        };
        let moments = self.moments(args);
        let gamma = self.parameter(args.theta, args, args.scale);
        let mut rows = vec![Bounded::ZERO; 2 * channels];
        let (mut norm, mut scale, mut shift) = (rows.clone(), vec![], vec![]);
        for c in 0..channels {
            let [mean, s] = [0, 1].map(|row| exactly(moments[row * channels + c]));
            let m1 = d.round(total(0, c) / count);
            let m2 = d.round(d.round(s * total(1, c)) / count);
            scale.push(t.round(d.round(count * m2)));
            shift.push(t.round(d.round(count * m1)));
            rows[c] = m1;
            rows[channels + c] = m2;
            if args.running == 0 {
                let slope = d.round(-exactly(gamma[c]) * s);
                let b = d.round(d.round(slope * s) * m2);
                norm[c] = t.round(b);
                norm[channels + c] = t.round(d.round(d.round(slope * m1) - d.round(b * mean)));
            }
        }
        self.write_parameter(args, args.scale, scale);
        self.write_parameter(args, args.shift, shift);
        self.write(Kind::Double, args.moments, (self.r * MOMENTS + 2) * channels, rows);
        self.write(Kind::Real, args.norm, (self.r * 5 + 3) * channels, norm);
    }
}
