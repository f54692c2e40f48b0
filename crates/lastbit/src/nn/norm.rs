//! Batch norm as coefficients: of the value, of its gradient and of the derivatives of both.
//!
//! ```text
//! x = (z − μ) s,  s = (σ² + ε)^{−1/2},  n = γ x + β                 M: pixels of the batch
//! scale = γ s     shift = β − μ scale
//! ∂L/∂z = scale g + b z + c,   b = −γ s² m₂,   c = −scale m₁ − b μ,   m₁ = ⟨g⟩, m₂ = ⟨g x⟩
//! ∂L/∂γ = M m₂,  ∂L/∂β = M m₁
//! ```
//!
//! Along a direction, with `μ̇ = ⟨ż⟩`, `t = ⟨x ż⟩`, so that `ṡ = −s² t`:
//!
//! ```text
//! ṅ = scale ż + q z + r,   q = γ̇ s − γ s² t  (the derivative of scale),   r = β̇ − q μ − scale μ̇
//! ṁ₁ = ⟨ġ⟩,   ṁ₂ = ⟨ġ x⟩ + s (⟨g (ż − μ̇)⟩ − t m₂)
//! ḃ = −(γ̇ s² m₂ + 2 γ s ṡ m₂ + γ s² ṁ₂),   ċ = −(q m₁ + scale ṁ₁) − (ḃ μ + b μ̇)
//! ```
//!
//! In evaluation mode `μ` and `s` are the running ones and constant: `b = c = μ̇ = t = 0`, and so the
//! rest. Coefficients are computed in double precision and rounded once. The variance comes from
//! the images' means and squares about them, so no digits are lost to a large mean.

use super::network::{Layer, Norm};
use crate::Real;

/// PyTorch's `eps`.
const EPSILON: f64 = 1e-5;
/// PyTorch's `momentum`: the share of the new batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// Whether batch norm looks at the batch or at the running statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchNormMode {
    /// At the batch.
    Training,
    /// At the running statistics.
    Evaluation,
}

/// Coefficients of a layer, repeated over a row; empty without batch norm.
#[derive(Debug, Clone, Default)]
pub(super) struct Coefficients<F> {
    pub scale: Vec<F>,
    pub shift: Vec<F>,
    pub mean: Vec<F>,
    pub b: Vec<F>,
    pub c: Vec<F>,
    pub mean_dot: Vec<F>,
    pub q: Vec<F>,
    pub r: Vec<F>,
    pub b_dot: Vec<F>,
    pub c_dot: Vec<F>,
    moments: Vec<Moments>,
}

/// What the coefficients of a channel came from.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    mean: f64,
    variance: f64,
    s: f64,
    m1: f64,
    m2: f64,
    mean_dot: f64,
    t: f64,
}

/// The first numbers of each row of coefficients, all of one length.
#[derive(Clone, Copy, Default)]
pub(super) struct Lines<'a, F> {
    pub scale: &'a [F],
    pub shift: &'a [F],
    pub mean: &'a [F],
    pub b: &'a [F],
    pub c: &'a [F],
    pub mean_dot: &'a [F],
    pub q: &'a [F],
    pub r: &'a [F],
    pub b_dot: &'a [F],
    pub c_dot: &'a [F],
}

impl<F: Real> Lines<'_, F> {
    #[inline(always)]
    pub fn n(&self, i: usize, z: F) -> F {
        z.mul_add(self.scale[i], self.shift[i])
    }

    #[inline(always)]
    pub fn n_dot(&self, i: usize, z: F, z_dot: F) -> F {
        self.scale[i].mul_add(z_dot, self.q[i].mul_add(z, self.r[i]))
    }
}

impl<F: Real> Coefficients<F> {
    /// Room for a layer's; nothing where it has no batch norm.
    pub fn new(layer: &Layer) -> Self {
        if layer.norm.is_none() {
            return Self::default();
        }
        let row = || vec![F::default(); layer.row()];
        Self {
            scale: row(),
            shift: row(),
            mean: row(),
            b: row(),
            c: row(),
            mean_dot: row(),
            q: row(),
            r: row(),
            b_dot: row(),
            c_dot: row(),
            moments: vec![Moments::default(); layer.shape[2]],
        }
    }

    /// The first `cols` of each.
    #[inline(always)]
    pub fn lines(&self, cols: usize) -> Lines<'_, F> {
        Lines {
            scale: &self.scale[..cols],
            shift: &self.shift[..cols],
            mean: &self.mean[..cols],
            b: &self.b[..cols],
            c: &self.c[..cols],
            mean_dot: &self.mean_dot[..cols],
            q: &self.q[..cols],
            r: &self.r[..cols],
            b_dot: &self.b_dot[..cols],
            c_dot: &self.c_dot[..cols],
        }
    }

    /// From the images' means and squares (`read::moments`), `pixels` to an image.
    pub fn use_batch(&mut self, norm: &Norm, theta: &[F], images: &[F], pixels: usize) {
        let channels = norm.scale.len();
        let count = (images.len() / (2 * channels)) as f64;
        for channel in 0..channels {
            let each = || images.chunks_exact(2 * channels);
            let mean = each().map(|image| image[channel].to_f64()).sum::<f64>() / count;
            let squares = each()
                .map(|image| {
                    let off = image[channel].to_f64() - mean;
                    image[channels + channel].to_f64() + pixels as f64 * (off * off)
                })
                .sum::<f64>();
            let variance = squares / (count * pixels as f64);
            self.moments[channel] = Moments { mean, variance, ..self.moments[channel] };
        }
        self.set_value(norm, theta);
    }

    /// From the running statistics.
    pub fn use_running(&mut self, norm: &Norm, theta: &[F], buffers: &[F]) {
        for channel in 0..norm.scale.len() {
            let mean = buffers[norm.mean.start + channel].to_f64();
            let variance = buffers[norm.variance.start + channel].to_f64();
            self.moments[channel] = Moments { mean, variance, ..self.moments[channel] };
        }
        self.set_value(norm, theta);
    }

    fn set_value(&mut self, norm: &Norm, theta: &[F]) {
        for channel in 0..norm.scale.len() {
            let (gamma, beta) = parameters(norm, theta, channel);
            let Moments { mean, variance, .. } = self.moments[channel];
            let s = 1.0 / (variance + EPSILON).sqrt();
            self.moments[channel].s = s;
            spread(&mut self.scale, norm, channel, gamma * s);
            spread(&mut self.shift, norm, channel, beta - mean * (gamma * s));
            spread(&mut self.mean, norm, channel, mean);
        }
    }

    /// Folds the batch's statistics into the running ones; `count` pixels in the batch. The running
    /// variance is the unbiased one.
    pub fn update_running_stats(&self, norm: &Norm, count: usize, buffers: &mut [F]) {
        let unbiased = count as f64 / (count.max(2) - 1) as f64;
        for channel in 0..norm.scale.len() {
            let mut fold = |at: usize, new: f64| {
                let old = buffers[at].to_f64();
                buffers[at] = F::of((1.0 - MOMENTUM) * old + MOMENTUM * new);
            };
            let Moments { mean, variance, .. } = self.moments[channel];
            fold(norm.mean.start + channel, mean);
            fold(norm.variance.start + channel, variance * unbiased);
        }
    }

    /// From the images' sums (`read::gradient_sums`) to the coefficients of the gradient and the
    /// gradients of scale and shift.
    pub fn backward(
        &mut self,
        norm: &Norm,
        mode: BatchNormMode,
        theta: &[F],
        images: &[F],
        count: usize,
        out: &mut [F],
    ) {
        let channels = norm.scale.len();
        let count = count as f64;
        for channel in 0..channels {
            let sum = |kind: usize| sum_over(images, 2, kind * channels + channel, channels);
            let (gamma, _) = parameters(norm, theta, channel);
            let Moments { s, mean, .. } = self.moments[channel];
            let (m1, m2) = (sum(0) / count, s * sum(1) / count);
            self.moments[channel] = Moments { m1, m2, ..self.moments[channel] };
            out[norm.scale.start + channel] = F::of(count * m2);
            out[norm.shift.start + channel] = F::of(count * m1);
            let (b, c) = match mode {
                BatchNormMode::Training => {
                    let b = -gamma * s * s * m2;
                    (b, -gamma * s * m1 - b * mean)
                }
                BatchNormMode::Evaluation => (0.0, 0.0),
            };
            spread(&mut self.b, norm, channel, b);
            spread(&mut self.c, norm, channel, c);
        }
    }

    /// From the images' sums (`read::moments_dot`) to the coefficients of the value's derivative.
    pub fn forward_dot(
        &mut self,
        norm: &Norm,
        mode: BatchNormMode,
        theta: &[F],
        direction: &[F],
        images: &[F],
        count: usize,
    ) {
        let channels = norm.scale.len();
        let count = count as f64;
        for channel in 0..channels {
            let sum = |kind: usize| sum_over(images, 2, kind * channels + channel, channels);
            let (gamma, _) = parameters(norm, theta, channel);
            let (gamma_dot, beta_dot) = parameters(norm, direction, channel);
            let Moments { s, mean, .. } = self.moments[channel];
            let (mean_dot, t) = match mode {
                BatchNormMode::Training => (sum(0) / count, s * sum(1) / count),
                BatchNormMode::Evaluation => (0.0, 0.0),
            };
            self.moments[channel] = Moments { mean_dot, t, ..self.moments[channel] };
            let q = gamma_dot * s - gamma * s * s * t;
            spread(&mut self.mean_dot, norm, channel, mean_dot);
            spread(&mut self.q, norm, channel, q);
            spread(&mut self.r, norm, channel, beta_dot - q * mean - gamma * s * mean_dot);
        }
    }

    /// From the images' sums (`read::gradient_sums` with dots) to the coefficients of the
    /// gradient's derivative, and the derivatives of the gradients of scale and shift.
    #[expect(clippy::too_many_arguments, reason = "the derivative of a function of as many")]
    pub fn backward_dot(
        &mut self,
        norm: &Norm,
        mode: BatchNormMode,
        theta: &[F],
        direction: &[F],
        images: &[F],
        count: usize,
        out: &mut [F],
    ) {
        let channels = norm.scale.len();
        let count = count as f64;
        for channel in 0..channels {
            let sum = |kind: usize| sum_over(images, 3, kind * channels + channel, channels);
            let (gamma, _) = parameters(norm, theta, channel);
            let (gamma_dot, _) = parameters(norm, direction, channel);
            let Moments { mean, s, m1, m2, mean_dot, t, .. } = self.moments[channel];
            let m1_dot = sum(0) / count;
            let m2_dot = s * sum(1) / count + s * (sum(2) / count - t * m2);
            out[norm.scale.start + channel] = F::of(count * m2_dot);
            out[norm.shift.start + channel] = F::of(count * m1_dot);
            let (b_dot, c_dot) = match mode {
                BatchNormMode::Training => {
                    let (scale, s_dot) = (gamma * s, -s * s * t);
                    let q = gamma_dot * s + gamma * s_dot;
                    let b = -gamma * s * s * m2;
                    let b_dot = -(gamma_dot * s * s * m2
                        + 2.0 * gamma * s * s_dot * m2
                        + gamma * s * s * m2_dot);
                    (b_dot, -(q * m1 + scale * m1_dot) - (b_dot * mean + b * mean_dot))
                }
                BatchNormMode::Evaluation => (0.0, 0.0),
            };
            spread(&mut self.b_dot, norm, channel, b_dot);
            spread(&mut self.c_dot, norm, channel, c_dot);
        }
    }
}

fn parameters<F: Real>(norm: &Norm, theta: &[F], channel: usize) -> (f64, f64) {
    (theta[norm.scale.start + channel].to_f64(), theta[norm.shift.start + channel].to_f64())
}

fn sum_over<F: Real>(images: &[F], kinds: usize, at: usize, channels: usize) -> f64 {
    images.chunks_exact(kinds * channels).map(|image| image[at].to_f64()).sum()
}

/// One number per channel, repeated for each pixel of a row.
fn spread<F: Real>(row: &mut [F], norm: &Norm, channel: usize, value: f64) {
    let value = F::of(value);
    row.iter_mut().skip(channel).step_by(norm.scale.len()).for_each(|at| *at = value);
}
