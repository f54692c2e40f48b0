//! Twins of the loss (`step.cu`) and of its derivative (`dot_norm.cu`), in double precision.

use super::bound::{Near, Sum, exactly};
use super::view::Side;
use super::{Kind, Run};
use crate::jobs::{LossDotJob, LossJob};

/// Kinds of losses.
const CROSS_ENTROPY: i32 = 0;
const BINARY_CROSS_ENTROPY: i32 = 1;
const HALF_MSE: i32 = 2;

impl Run {
    /// Targets of a replica: classes, or one number to an output.
    fn targets(&self, job: &LossJob, r: usize) -> (Vec<i32>, Vec<f64>) {
        let [images, outputs, capacity] =
            [job.images, job.outputs, job.capacity].map(|n| n as usize);
        let first = self.ram.ints(job.slot, r, 1)[0] as usize * capacity;
        if job.classes == 0 {
            return (vec![], self.ram.reals(job.reals, first * outputs, images * outputs));
        }
        let classes = self.ram.ints(job.classes, first, images);
        let one = |i: usize| {
            let (class, c) = (classes[i / outputs], (i % outputs) as i32);
            f64::from(u8::from(if outputs == 1 { class == 1 } else { class == c }))
        };
        let targets = (0..images * outputs).map(one).collect();
        (classes, targets)
    }

    /// The softmax of an example, and the logarithm of what it is divided by.
    fn softmax(&self, values: &[Near]) -> (Vec<Near>, Near) {
        let d = self.double;
        let largest = values.iter().copied().reduce(|a, b| if b.x > a.x { b } else { a });
        let largest = largest.expect("at least one output");
        let powers: Vec<Near> = values.iter().map(|x| d.exp(d.round(*x - largest))).collect();
        let total = Sum::of(powers.iter().copied()).rounded(d);
        let shares = powers.iter().map(|power| d.round(*power / total)).collect();
        (shares, d.round(largest + d.ln(total)))
    }

    fn logistic(&self, x: Near) -> Near {
        let d = self.double;
        d.round(Near::ONE / d.round(Near::ONE + d.exp(-x)))
    }

    pub fn loss_examples(&mut self, job: &LossJob) {
        let (d, n) = (self.double, job.outputs as usize);
        let share = d.round(exactly(1.0 / f64::from(job.images)));
        let of_output = d.round(share / exactly(n as f64));
        for r in 0..self.replicas(1) {
            let (classes, targets) = self.targets(job, r);
            let values = self.side(&job.output, r, job.images).all(Side::value);
            let (mut losses, mut gradient) = (vec![], vec![]);
            let (mut answers, mut right) = (vec![], vec![]);
            for (i, (x, y)) in values.chunks(n).zip(targets.chunks(n)).enumerate() {
                let mut loss = Sum::default();
                if job.kind == CROSS_ENTROPY {
                    let (shares, log_of_total) = self.softmax(x);
                    let off = shares.iter().zip(y).map(|(p, y)| d.round(*p - exactly(*y)));
                    gradient.extend(off.map(|off| d.round(off * share)));
                    loss.add(d.round(log_of_total - x[classes[i] as usize]));
                } else if job.kind == BINARY_CROSS_ENTROPY {
                    for (x, y) in x.iter().zip(y) {
                        let (y, size) = (exactly(*y), Near { x: x.x.abs(), e: x.e });
                        let above = Near { x: x.x.max(0.0), e: x.e };
                        let tail = d.ln_1p(d.exp(-size));
                        loss.add(d.round(d.round(above - d.round(*x * y)) + tail));
                        let off = d.round(self.logistic(*x) - y);
                        gradient.push(d.round(off * of_output));
                    }
                } else {
                    assert_eq!(job.kind, HALF_MSE);
                    for (x, y) in x.iter().zip(y) {
                        let off = d.round(*x - exactly(*y));
                        loss.add(off * off);
                        gradient.push(d.round(off * share));
                    }
                }
                let divisor = match job.kind {
                    CROSS_ENTROPY => 1.0,
                    BINARY_CROSS_ENTROPY => n as f64,
                    _ => 2.0,
                };
                losses.push(d.round(loss.rounded(d) / exactly(divisor)));
                let answer = self.answer(job, x);
                let is_right = classes
                    .get(i)
                    .map(|class| exactly(f64::from(u8::from(f64::from(*class) == answer.x))));
                right.push(Near { e: answer.e, ..is_right.unwrap_or(Near::ZERO) });
                answers.push(answer);
            }
            let gradient = gradient.into_iter().map(|g| self.t.round(g)).collect();
            self.write(Kind::Real, job.output.u, r * job.output.stride as usize, gradient);
            let first = r * job.capacity as usize;
            self.write(Kind::Double, job.losses, first, losses);
            self.write(Kind::Int, job.answers, first, answers);
            self.write(Kind::Int, job.right, first, right);
        }
    }

    /// The class answered; in doubt only where two outputs are as near as their errors.
    fn answer(&self, job: &LossJob, x: &[Near]) -> Near {
        let n = x.len();
        if n == 1 {
            let threshold = if job.kind == HALF_MSE { 0.5 } else { 0.0 };
            let in_doubt = (x[0].x - threshold).abs() < x[0].e;
            return Near {
                x: f64::from(u8::from(x[0].x > threshold)),
                e: f64::from(u8::from(in_doubt)),
            };
        }
        let best = (1..n).fold(0, |best, c| if x[c].x > x[best].x { c } else { best });
        let near = |c: usize| c != best && x[c].x + x[c].e + x[best].e > x[best].x;
        Near { x: best as f64, e: if (0..n).any(near) { n as f64 } else { 0.0 } }
    }

    pub fn loss_mean(&mut self, job: &LossJob) {
        let (d, images) = (self.double, job.images as usize);
        for r in 0..self.replicas(0) {
            let losses = self.ram.doubles(job.losses, r * job.capacity as usize, images);
            let sum = Sum::of(losses.into_iter().map(exactly)).rounded(d);
            let mean = d.round(sum / exactly(images as f64));
            self.write(Kind::Double, job.mean, r, vec![mean]);
        }
    }

    pub fn loss_examples_dot(&mut self, both: &LossDotJob) {
        let (d, job) = (self.double, &both.loss);
        let n = job.outputs as usize;
        let share = d.round(exactly(1.0 / f64::from(job.images)));
        let of_output = d.round(share / exactly(n as f64));
        for r in 0..self.replicas(1) {
            let side = self.side_dot(&job.output, &both.output, r, job.images);
            let (values, moves) = (side.all(Side::value), side.all(Side::value_dot));
            let mut all = Vec::new();
            for (x, x_dot) in values.chunks(n).zip(moves.chunks(n)) {
                if job.kind == CROSS_ENTROPY {
                    let (shares, _) = self.softmax(x);
                    let mean = Sum::of(shares.iter().zip(x_dot).map(|(p, x)| *p * *x)).rounded(d);
                    let off = x_dot.iter().map(|x| d.round(*x - mean));
                    all.extend(off.zip(&shares).map(|(off, p)| d.round(d.round(*p * off) * share)));
                } else if job.kind == BINARY_CROSS_ENTROPY {
                    all.extend(x.iter().zip(x_dot).map(|(x, x_dot)| {
                        let s = self.logistic(*x);
                        let slope = d.round(s * d.round(Near::ONE - s));
                        d.round(d.round(slope * *x_dot) * of_output)
                    }));
                } else {
                    all.extend(x_dot.iter().map(|x| d.round(*x * share)));
                }
            }
            let all = all.into_iter().map(|x| self.t.round(x)).collect();
            self.write(Kind::Real, both.output.u, r * job.output.stride as usize, all);
        }
    }
}
