//! A two-layer tanh network with softmax, written plainly, that carries a running mean of its
//! inputs along; and clouds of points for it to tell apart.

use std::convert::Infallible;
use std::ops::Range;

use super::*;
use crate::data::{Dataset, Inputs, Targets as StoredTargets};
use crate::nn::{Batch, Targets};
use crate::rng::Stream;

const INPUTS: usize = 8;
const CLASSES: usize = 3;

/// Points around three centres four deviations apart, as images of 2 x 2 pixels and two channels.
pub fn clouds(count: usize) -> Dataset {
    let stream = Stream::new(11, 0);
    let labels: Vec<u32> = (0..count as u32).map(|i| i % CLASSES as u32).collect();
    // All pixels of a channel are alike up to noise, so that crops and flips keep the class.
    let centre =
        |label: u32, channel: usize| [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]][label as usize][channel];
    let value = |i: usize| centre(labels[i / INPUTS], i % 2) + stream.normal(i as u64);
    Dataset {
        shape: [2, 2, 2],
        inputs: Inputs::Reals((0..count * INPUTS).map(value).collect()),
        targets: StoredTargets::Classes { count: CLASSES, labels },
    }
}

/// `softmax(W₂ tanh(W₁ (x − running mean)))`.
#[derive(Debug, Clone)]
pub struct Perceptron<F> {
    hidden: usize,
    batch: Option<Arc<Batch<F>>>,
    buffers: Vec<F>,
    /// Mean of the inputs that the last gradient saw.
    mean: Vec<F>,
    loss: f64,
    right: Vec<bool>,
}

impl<F: Real> Perceptron<F> {
    pub fn new(hidden: usize) -> Self {
        let zeros = vec![F::default(); INPUTS];
        Self { hidden, batch: None, buffers: zeros.clone(), mean: zeros, loss: 0.0, right: vec![] }
    }

    pub fn initial(&self, seed: u64) -> Vec<F> {
        let stream = Stream::new(seed, 0);
        (0..self.len() as u64).map(|i| F::of(0.3 * stream.normal(i))).collect()
    }

    /// Loss, the class answered, and the gradient of one example added to `out`.
    fn example(&self, theta: &[F], x: &[F], label: usize, out: &mut [F]) -> (f64, usize) {
        let (first, second) = theta.split_at(self.hidden * INPUTS);
        let x: Vec<F> = x.iter().zip(&self.buffers).map(|(x, mean)| *x - *mean).collect();
        let dot = |row: &[F], x: &[F]| row.iter().zip(x).map(|(w, x)| *w * *x).sum::<F>();
        let active: Vec<F> =
            first.chunks(INPUTS).map(|row| F::of(libm::tanh(dot(row, &x).to_f64()))).collect();
        let logits: Vec<f64> =
            second.chunks(self.hidden).map(|row| dot(row, &active).to_f64()).collect();
        let largest = logits.iter().copied().fold(f64::MIN, f64::max);
        let powers: Vec<f64> = logits.iter().map(|z| libm::exp(z - largest)).collect();
        let total: f64 = powers.iter().sum();
        let residual: Vec<F> = (0..CLASSES)
            .map(|class| F::of(powers[class] / total - f64::from(u8::from(class == label))))
            .collect();
        for unit in 0..self.hidden {
            let mut back = F::default();
            for (class, residual) in residual.iter().enumerate() {
                back += *residual * second[class * self.hidden + unit];
                out[self.hidden * INPUTS + class * self.hidden + unit] += *residual * active[unit];
            }
            let slope = back * (F::of(1.0) - active[unit] * active[unit]);
            for (i, x) in x.iter().enumerate() {
                out[unit * INPUTS + i] += slope * *x;
            }
        }
        let answer =
            (0..CLASSES).fold(label, |best, c| if logits[c] > logits[best] { c } else { best });
        (libm::log(total) + largest - logits[label], answer)
    }

    /// Mean loss and answers on a batch, and the sum of its gradients into `out`.
    fn batch(&self, theta: &[F], batch: &Batch<F>, out: &mut [F]) -> Evaluation {
        let Targets::Classes(labels) = &batch.targets else { panic!("classes expected") };
        let mut sum = Evaluation::default();
        for (x, label) in batch.inputs.chunks(INPUTS).zip(labels) {
            let (loss, answer) = self.example(theta, x, *label as usize, out);
            sum.loss += loss;
            sum.right.push(answer == *label as usize);
            sum.classes.push(answer as u32);
        }
        Evaluation { loss: sum.loss / labels.len() as f64, ..sum }
    }
}

impl<F: Real> Objective<F> for Perceptron<F> {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.hidden * (INPUTS + CLASSES)
    }

    fn loss(&mut self, theta: &[F]) -> Result<f64, Infallible> {
        let batch = self.batch.clone().expect("a batch is set");
        Ok(self.batch(theta, &batch, &mut vec![F::default(); self.len()]).loss)
    }

    fn gradient(&mut self, theta: &[F], out: &mut [F]) -> Result<(), Infallible> {
        let batch = self.batch.clone().expect("a batch is set");
        out.fill(F::default());
        let Evaluation { loss, right, .. } = self.batch(theta, &batch, out);
        let count = F::of(right.len() as f64);
        out.iter_mut().for_each(|g| *g = *g / count);
        self.mean.fill(F::default());
        for x in batch.inputs.chunks(INPUTS) {
            self.mean.iter_mut().zip(x).for_each(|(mean, x)| *mean += *x / count);
        }
        (self.loss, self.right) = (loss, right);
        Ok(())
    }

    /// A difference quotient of gradients.
    fn hessian_vector(&mut self, theta: &[F], v: &[F], out: &mut [F]) -> Result<(), Infallible> {
        let batch = self.batch.clone().expect("a batch is set");
        let (small, count) = (F::of(1e-3), F::of(batch.targets.len(CLASSES) as f64));
        let mut before = vec![F::default(); self.len()];
        self.batch(theta, &batch, &mut before);
        let beyond: Vec<F> = theta.iter().zip(v).map(|(t, v)| *t + small * *v).collect();
        out.fill(F::default());
        self.batch(&beyond, &batch, out);
        out.iter_mut().zip(&before).for_each(|(o, b)| *o = (*o - *b) / (small * count));
        Ok(())
    }
}

impl<F: Real> StochasticObjective<F> for Perceptron<F> {
    type Batch = Batch<F>;

    fn set_batch(&mut self, batch: &Arc<Batch<F>>) {
        self.batch = Some(batch.clone());
    }

    fn buffers(&self) -> &[F] {
        &self.buffers
    }

    fn load_buffers(&mut self, buffers: &[F]) {
        self.buffers.copy_from_slice(buffers);
    }

    fn update_running_stats(&mut self) {
        let tenth = F::of(0.1);
        for (buffer, mean) in self.buffers.iter_mut().zip(&self.mean) {
            *buffer += tenth * (*mean - *buffer);
        }
    }
}

impl<F: Real> TrainableModel<F> for Perceptron<F> {
    fn last_loss(&mut self, _: &[F]) -> Result<f64, Infallible> {
        Ok(self.loss)
    }

    fn right_answers(&self) -> Vec<bool> {
        self.right.clone()
    }

    fn layers(&self) -> Vec<Range<usize>> {
        let first = self.hidden * INPUTS;
        vec![0..first, first..self.len()]
    }

    fn evaluate(&mut self, theta: &[F], batch: &Arc<Batch<F>>) -> Result<Evaluation, Infallible> {
        Ok(self.batch(theta, batch, &mut vec![F::default(); self.len()]))
    }
}
