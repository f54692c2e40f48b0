//! References of the loss (`step.cu`) and of its tangent (`tangent_norm.cu`), in double precision.

use super::bound::{Bounded, Sum, exactly};
use super::view::LayerView;
use super::{Kind, Launch};
use crate::kernel_args::{LossArgs, LossTangentArgs};

/// Kinds of losses.
const CROSS_ENTROPY: i32 = 0;
const BINARY_CROSS_ENTROPY: i32 = 1;
const HALF_MSE: i32 = 2;

impl Launch {
    /// Targets of a replica: classes, and one number per output.
    fn targets(&self, args: &LossArgs) -> (Vec<i32>, Vec<f64>) {
        let [images, outputs, capacity] =
            [args.images, args.outputs, args.capacity].map(|n| n as usize);
        let first = self.memory.ints(args.slot, self.r, 1)[0] as usize * capacity;
        if args.classes == 0 {
            return (vec![], self.memory.reals(args.reals, first * outputs, images * outputs));
        }
        let classes = self.memory.ints(args.classes, first, images);
        let one = |i: usize| {
            let (class, c) = (classes[i / outputs], (i % outputs) as i32);
            f64::from(u8::from(if outputs == 1 { class == 1 } else { class == c }))
        };
        let targets = (0..images * outputs).map(one).collect();
        (classes, targets)
    }

    /// The softmax of an example, and the logarithm of what it is divided by.
    fn softmax(&self, values: &[Bounded]) -> (Vec<Bounded>, Bounded) {
        let d = self.double;
        let largest = values.iter().copied().reduce(|a, b| if b.x > a.x { b } else { a });
        let largest = largest.expect("at least one output");
        let powers: Vec<Bounded> = values.iter().map(|x| d.exp(d.round(*x - largest))).collect();
        let total = Sum::of(powers.iter().copied()).rounded(d);
        let shares = powers.iter().map(|power| d.round(*power / total)).collect();
        (shares, d.round(largest + d.ln(total)))
    }

    fn logistic(&self, x: Bounded) -> Bounded {
        let d = self.double;
        d.round(Bounded::ONE / d.round(Bounded::ONE + d.exp(-x)))
    }

    pub fn loss_examples(&mut self, args: &LossArgs) {
        let (d, n) = (self.double, args.outputs as usize);
        let share = d.round(exactly(1.0 / f64::from(args.images)));
        let of_output = d.round(share / exactly(n as f64));
        let (classes, targets) = self.targets(args);
        let values = self.layer(&args.output, args.images).all(LayerView::value);
        let (mut losses, mut gradient) = (vec![], vec![]);
        let (mut answers, mut right) = (vec![], vec![]);
        for (i, (x, y)) in values.chunks(n).zip(targets.chunks(n)).enumerate() {
            let mut loss = Sum::default();
            if args.kind == CROSS_ENTROPY {
                let (shares, log_of_total) = self.softmax(x);
                let off = shares.iter().zip(y).map(|(p, y)| d.round(*p - exactly(*y)));
                gradient.extend(off.map(|off| d.round(off * share)));
                loss.add(d.round(log_of_total - x[classes[i] as usize]));
            } else if args.kind == BINARY_CROSS_ENTROPY {
                for (x, y) in x.iter().zip(y) {
                    let (y, size) = (exactly(*y), Bounded { x: x.x.abs(), e: x.e });
                    let above = Bounded { x: x.x.max(0.0), e: x.e };
                    let tail = d.ln_1p(d.exp(-size));
                    loss.add(d.round(d.round(above - d.round(*x * y)) + tail));
                    let off = d.round(self.logistic(*x) - y);
                    gradient.push(d.round(off * of_output));
                }
            } else {
                assert_eq!(args.kind, HALF_MSE);
                for (x, y) in x.iter().zip(y) {
                    let off = d.round(*x - exactly(*y));
                    loss.add(off * off);
                    gradient.push(d.round(off * share));
                }
            }
            let divisor = match args.kind {
                CROSS_ENTROPY => 1.0,
                BINARY_CROSS_ENTROPY => n as f64,
                _ => 2.0,
            };
            losses.push(d.round(loss.rounded(d) / exactly(divisor)));
            let answer = self.prediction(args, x);
            let is_right = classes
                .get(i)
                .map(|class| exactly(f64::from(u8::from(f64::from(*class) == answer.x))));
            right.push(Bounded { e: answer.e, ..is_right.unwrap_or(Bounded::ZERO) });
            answers.push(answer);
        }
        let gradient = gradient.into_iter().map(|g| self.t.round(g)).collect();
        self.write(Kind::Real, args.output.u, self.r * args.output.stride as usize, gradient);
        let first = self.r * args.capacity as usize;
        self.write(Kind::Double, args.losses, first, losses);
        self.write(Kind::Int, args.answers, first, answers);
        self.write(Kind::Int, args.right, first, right);
    }

    /// The predicted class; in doubt only where two outputs are closer than their errors.
    fn prediction(&self, args: &LossArgs, x: &[Bounded]) -> Bounded {
        let n = x.len();
        if n == 1 {
            let threshold = if args.kind == HALF_MSE { 0.5 } else { 0.0 };
            let in_doubt = (x[0].x - threshold).abs() < x[0].e;
            return Bounded {
                x: f64::from(u8::from(x[0].x > threshold)),
                e: f64::from(u8::from(in_doubt)),
            };
        }
        let best = (1..n).fold(0, |best, c| if x[c].x > x[best].x { c } else { best });
        let near = |c: usize| c != best && x[c].x + x[c].e + x[best].e > x[best].x;
        Bounded { x: best as f64, e: if (0..n).any(near) { n as f64 } else { 0.0 } }
    }

    pub fn loss_mean(&mut self, args: &LossArgs) {
        let (d, images) = (self.double, args.images as usize);
        let losses = self.memory.doubles(args.losses, self.r * args.capacity as usize, images);
        let sum = Sum::of(losses.into_iter().map(exactly)).rounded(d);
        let mean = d.round(sum / exactly(images as f64));
        self.write(Kind::Double, args.mean, self.r, vec![mean]);
    }

    pub fn loss_examples_tangent(&mut self, both: &LossTangentArgs) {
        let (d, args) = (self.double, &both.loss);
        let n = args.outputs as usize;
        let share = d.round(exactly(1.0 / f64::from(args.images)));
        let of_output = d.round(share / exactly(n as f64));
        let layer = self.layer_tangent(&args.output, &both.output, args.images);
        let (values, has_tangent) = (layer.all(LayerView::value), layer.all(LayerView::value_dot));
        let mut all = Vec::new();
        for (x, x_dot) in values.chunks(n).zip(has_tangent.chunks(n)) {
            if args.kind == CROSS_ENTROPY {
                let (shares, _) = self.softmax(x);
                let mean = Sum::of(shares.iter().zip(x_dot).map(|(p, x)| *p * *x)).rounded(d);
                let off = x_dot.iter().map(|x| d.round(*x - mean));
                all.extend(off.zip(&shares).map(|(off, p)| d.round(d.round(*p * off) * share)));
            } else if args.kind == BINARY_CROSS_ENTROPY {
                all.extend(x.iter().zip(x_dot).map(|(x, x_dot)| {
                    let s = self.logistic(*x);
                    let slope = d.round(s * d.round(Bounded::ONE - s));
                    d.round(d.round(slope * *x_dot) * of_output)
                }));
            } else {
                all.extend(x_dot.iter().map(|x| d.round(*x * share)));
            }
        }
        let all = all.into_iter().map(|x| self.t.round(x)).collect();
        self.write(Kind::Real, both.output.u, self.r * args.output.stride as usize, all);
    }
}
