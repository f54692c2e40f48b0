//! References of `tangent_norm.cu`: the tangents of batch norm and biases.

use super::bound::{Bounded, Sum, exactly};
use super::norm::{channels, count};
use super::{Kind, Launch};
use crate::kernel_args::{MOMENTS, NormArgs, NormTangentArgs};

impl Launch {
    pub fn norm_moments_tangent(&mut self, args: &NormTangentArgs) {
        let t = self.t;
        let layer = self.layer_tangent(&args.norm.layer, &args.layer, args.norm.images);
        let product = |i: usize| t.round(layer.raw(i) - layer.mean(i)) * layer.raw_dot(i);
        let kinds: [&dyn Fn(usize) -> Bounded; 2] = [&|i| layer.raw_dot(i), &product];
        let all = self.image_sums(&layer, args.norm.images, &kinds);
        self.write(Kind::Real, args.norm.sums, self.r * all.len(), all);
    }

    pub fn norm_gradient_sums_tangent(&mut self, args: &NormTangentArgs) {
        let t = self.t;
        let layer = self.layer_tangent(&args.norm.layer, &args.layer, args.norm.images);
        let kinds: [&dyn Fn(usize) -> Bounded; 3] = [
            &|i| layer.slope_dot(i),
            &|i| layer.slope_dot(i) * t.round(layer.raw(i) - layer.mean(i)),
            &|i| layer.slope(i) * t.round(layer.raw_dot(i) - layer.mean_dot(i)),
        ];
        let all = self.image_sums(&layer, args.norm.images, &kinds);
        self.write(Kind::Real, args.norm.sums, self.r * all.len(), all);
    }

    /// A sum over all images in double precision.
    fn total(&self, args: &NormArgs, sums: &[f64], kind: usize, kinds: usize, c: usize) -> Bounded {
        let own = (0..args.images as usize)
            .map(|i| exactly(sums[(i * kinds + kind) * channels(args) + c]));
        Sum::of(own).rounded(self.double)
    }

    pub fn norm_forward_tangent(&mut self, args: &NormTangentArgs) {
        let (d, t, norm) = (self.double, self.t, &args.norm);
        let (channels, count) = (channels(norm), count(norm));
        let sums = self.parts(norm, norm.images, 2);
        let moments = self.moments(norm);
        let gamma = self.parameter(norm.theta, norm, norm.scale);
        let gamma_dot = self.parameter(args.direction, norm, norm.scale);
        let beta_dot = self.parameter(args.direction, norm, norm.shift);
        let mut rows = vec![Bounded::ZERO; 2 * channels];
        let mut coefficients = vec![Bounded::ZERO; 3 * channels];
        for c in 0..channels {
            let [mean, s] = [0, 1].map(|row| exactly(moments[row * channels + c]));
            let [gamma, gamma_dot, beta_dot] =
                [&gamma, &gamma_dot, &beta_dot].map(|x| exactly(x[c]));
            let (mut mean_dot, mut move_of_s) = (Bounded::ZERO, Bounded::ZERO);
            if norm.running == 0 {
                mean_dot = d.round(self.total(norm, &sums, 0, 2, c) / count);
                move_of_s = d.round(d.round(s * self.total(norm, &sums, 1, 2, c)) / count);
            }
            let scale = d.round(gamma * s);
            let bend = d.round(d.round(scale * s) * move_of_s);
            let q = d.round(d.round(gamma_dot * s) - bend);
            let rest = d.round(beta_dot - d.round(q * mean));
            rows[c] = mean_dot;
            rows[channels + c] = move_of_s;
            coefficients[c] = t.round(mean_dot);
            coefficients[channels + c] = t.round(q);
            coefficients[2 * channels + c] = t.round(d.round(rest - d.round(scale * mean_dot)));
        }
        self.write(Kind::Double, norm.moments, (self.r * MOMENTS + 4) * channels, rows);
        self.write(Kind::Real, args.coefficients, self.r * 5 * channels, coefficients);
    }

    pub fn norm_backward_tangent(&mut self, args: &NormTangentArgs) {
        let (d, t, norm) = (self.double, self.t, &args.norm);
        let (channels, count) = (channels(norm), count(norm));
        let sums = self.parts(norm, norm.images, 3);
        let moments = self.moments(norm);
        let gamma = self.parameter(norm.theta, norm, norm.scale);
        let gamma_dot = self.parameter(args.direction, norm, norm.scale);
        let mut coefficients = vec![Bounded::ZERO; 2 * channels];
        let (mut scale, mut shift) = (vec![], vec![]);
        for c in 0..channels {
            let [mean, s, m1, m2, mean_dot, move_of_s] =
                [0, 1, 2, 3, 4, 5].map(|row| exactly(moments[row * channels + c]));
            let [gamma, gamma_dot] = [&gamma, &gamma_dot].map(|x| exactly(x[c]));
            let total = |kind: usize| self.total(norm, &sums, kind, 3, c);
            let m1_dot = d.round(total(0) / count);
            let own = d.round(d.round(total(2) / count) - d.round(move_of_s * m2));
            let m2_dot = d.round(d.round(d.round(s * total(1)) / count) + d.round(s * own));
            scale.push(t.round(d.round(count * m2_dot)));
            shift.push(t.round(d.round(count * m1_dot)));
            if norm.running != 0 {
                continue;
            }
            let factor = d.round(gamma * s);
            let s_dot = d.round(d.round(-s * s) * move_of_s);
            let q = d.round(d.round(gamma_dot * s) + d.round(gamma * s_dot));
            let b = d.round(d.round(d.round(-gamma * s) * s) * m2);
            let first = d.round(d.round(d.round(gamma_dot * s) * s) * m2);
            let second = d.round(d.round(Bounded::TWO * factor * s_dot) * m2);
            let third = d.round(d.round(factor * s) * m2_dot);
            let b_dot = -d.round(d.round(first + second) + third);
            let slopes = d.round(d.round(q * m1) + d.round(factor * m1_dot));
            let means = d.round(d.round(b_dot * mean) + d.round(b * mean_dot));
            coefficients[c] = t.round(b_dot);
            coefficients[channels + c] = t.round(d.round(-slopes - means));
        }
        self.write_parameter(norm, norm.scale, scale);
        self.write_parameter(norm, norm.shift, shift);
        self.write(Kind::Real, args.coefficients, (self.r * 5 + 3) * channels, coefficients);
    }

    pub fn bias_sums_tangent(&mut self, args: &NormTangentArgs) {
        let layer = self.layer_tangent(&args.norm.layer, &args.layer, args.norm.images);
        let all = self.image_sums(&layer, args.norm.images, &[&|i| layer.gradient_dot(i)]);
        self.write(Kind::Real, args.norm.sums, self.r * all.len(), all);
    }
}
