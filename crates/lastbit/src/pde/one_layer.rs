//! The one-layer network on one image, whose gradient flow is the paper's PDE for a kernel.
//!
//! ```text
//! c  = K * I                               cross-correlation where the kernel fits
//! ŷ  = s(p Σ_x r(c(x)) − b),               p = 1 (sum) or 1/positions (mean)
//! L  = −y ln ŷ − (1−y) ln(1−ŷ) + α/2 |K|²
//! ∇L = a p r'(c) * I + α K,                a = ŷ − y
//! ∇²L V = ŷ(1−ŷ) G ⟨G, V⟩ + a p (r''(c) · (V*I)) * I + α V,     G = p r'(c) * I
//! ```
//!
//! The paper writes an integral for the pooling. Its figures of the non-linear equation come out
//! with the mean, those of the linear one with the sum; the choice is named in every output.
//!
//! Sums are formed in `f64` and rounded once to the precision of the kernel.
//!
//! Reference: the paper, Section 5.1 and Appendix D.1.

use std::convert::Infallible;
use std::sync::Arc;

use crate::Real;
use crate::activation::Activation;
use crate::correlate::Correlator;
use crate::exp::sigmoid;
use crate::objective::{Objective, StochasticObjective, TrainableModel};
use crate::reduce::{sum, sum_by};
use crate::simd::vectorized;

crate::named_enum! {
    /// How the positions are gathered.
    pub enum Pooling {
        /// Sum over the positions: the paper's linear figures.
        Sum = "sum",
        /// Mean over the positions: the paper's non-linear figures.
        Mean = "mean",
    }
}

impl Pooling {
    /// Weight `p` of one position among `positions`.
    pub fn weight(self, positions: usize) -> f64 {
        match self {
            Self::Sum => 1.0,
            Self::Mean => 1.0 / positions as f64,
        }
    }
}

/// Parameters of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Activation `r`.
    pub activation: Activation,
    /// Pooling.
    pub pooling: Pooling,
    /// Label `y`, 0 or 1.
    pub label: f64,
    /// Bias `b` of the sigmoid.
    pub bias: f64,
    /// Weight decay `α`.
    pub alpha: f64,
}

/// The network with its image and work space.
#[derive(Debug, Clone)]
pub struct OneLayer {
    settings: Settings,
    correlator: Correlator,
    kernel: Vec<f64>,
    /// Logit of `kernel`, if it has been computed.
    logit: Option<f64>,
    /// `c = K * I`.
    map: Vec<f64>,
    /// A second map, and a kernel, to work in.
    other_map: Vec<f64>,
    other_kernel: Vec<f64>,
    pooled: Vec<f64>,
}

impl OneLayer {
    /// The network on the image of `correlator`.
    pub fn new(settings: Settings, correlator: Correlator) -> Self {
        let size = |(height, width): (usize, usize)| height * width;
        let (kernel, map) = (size(correlator.window()), size(correlator.positions()));
        Self {
            settings,
            correlator,
            kernel: vec![0.0; kernel],
            logit: None,
            map: vec![0.0; map],
            other_map: vec![0.0; map],
            other_kernel: vec![0.0; kernel],
            pooled: vec![0.0; kernel],
        }
    }

    /// Parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Rows and columns of the map `K * I`.
    pub fn positions(&self) -> (usize, usize) {
        self.correlator.positions()
    }

    /// `K * I` at all positions.
    pub fn map<F: Real>(&mut self, kernel: &[F]) -> &[f64] {
        self.load(kernel);
        &self.map
    }

    fn weight(&self) -> f64 {
        self.settings.pooling.weight(self.map.len())
    }

    /// Computes `c` and returns the logit `p Σ r(c) − b`; at the kernel it was last asked for, at no
    /// cost.
    fn load<F: Real>(&mut self, kernel: &[F]) -> f64 {
        let same =
            self.kernel.iter().zip(kernel).all(|(own, k)| own.to_bits() == k.to_f64().to_bits());
        if let (true, Some(logit)) = (same, self.logit) {
            return logit;
        }
        for (own, given) in self.kernel.iter_mut().zip(kernel) {
            *own = given.to_f64();
        }
        self.correlator.valid(&self.kernel, &mut self.map);
        self.activate();
        let logit = self.weight() * sum(&self.other_map) - self.settings.bias;
        self.logit = Some(logit);
        logit
    }

    /// `other_map = r(c)`.
    fn activate(&mut self) {
        let (map, out) = (&self.map[..], &mut self.other_map[..]);
        let activation = self.settings.activation;
        vectorized(
            #[inline(always)]
            move || {
                for (o, c) in out.iter_mut().zip(map) {
                    *o = activation.at(*c)[0];
                }
            },
        );
    }

    /// `ŷ − y` at a logit.
    fn residual(&self, logit: f64) -> f64 {
        sigmoid(logit) - self.settings.label
    }

    /// `pooled = G = p r'(c) * I`, from the `c` of the last load.
    fn pool_slopes(&mut self) {
        let (map, out) = (&self.map[..], &mut self.other_map[..]);
        let (activation, weight) =
            (self.settings.activation, self.settings.pooling.weight(map.len()));
        vectorized(
            #[inline(always)]
            move || {
                for (o, c) in out.iter_mut().zip(map) {
                    *o = weight * activation.at(*c)[1];
                }
            },
        );
        self.correlator.adjoint(&self.other_map, &mut self.pooled);
    }

    /// Multiplies `other_map` by `factor r''(c)`.
    fn multiply_curvatures(&mut self, factor: f64) {
        let (map, out) = (&self.map[..], &mut self.other_map[..]);
        let activation = self.settings.activation;
        vectorized(
            #[inline(always)]
            move || {
                for (o, c) in out.iter_mut().zip(map) {
                    *o *= factor * activation.at(*c)[2];
                }
            },
        );
    }
}

/// `ln(1 + e^x)` without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

impl<F: Real> Objective<F> for OneLayer {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.kernel.len()
    }

    fn loss(&mut self, kernel: &[F]) -> Result<f64, Infallible> {
        let logit = self.load(kernel);
        let Settings { label, alpha, .. } = self.settings;
        let entropy = label * softplus(-logit) + (1.0 - label) * softplus(logit);
        let squares = sum_by(self.kernel.len(), |i| self.kernel[i] * self.kernel[i]);
        Ok(entropy + alpha / 2.0 * squares)
    }

    fn gradient(&mut self, kernel: &[F], out: &mut [F]) -> Result<(), Infallible> {
        let logit = self.load(kernel);
        let (a, alpha) = (self.residual(logit), self.settings.alpha);
        self.pool_slopes();
        for ((o, g), k) in out.iter_mut().zip(&self.pooled).zip(&self.kernel) {
            *o = F::of(a * g + alpha * k);
        }
        Ok(())
    }

    fn hessian_vector(&mut self, kernel: &[F], v: &[F], out: &mut [F]) -> Result<(), Infallible> {
        let logit = self.load(kernel);
        let (a, alpha) = (self.residual(logit), self.settings.alpha);
        let prediction = sigmoid(logit);
        self.pool_slopes();
        let direction: Vec<f64> = v.iter().map(|x| x.to_f64()).collect();
        let along = sum_by(direction.len(), |i| self.pooled[i] * direction[i]);
        let rank_one = prediction * (1.0 - prediction) * along;
        self.correlator.valid(&direction, &mut self.other_map);
        self.multiply_curvatures(a * self.weight());
        self.correlator.adjoint(&self.other_map, &mut self.other_kernel);
        let terms = self.pooled.iter().zip(&self.other_kernel).zip(&direction);
        for (o, ((g, curved), d)) in out.iter_mut().zip(terms) {
            *o = F::of(rank_one * g + curved + alpha * d);
        }
        Ok(())
    }

    /// Sums are formed in `f64`, whatever the precision of the kernel.
    fn loss_roundoff(&self) -> f64 {
        f64::UNIT_ROUNDOFF
    }
}

/// There is one image and nothing to draw batches from.
impl<F: Real> StochasticObjective<F> for OneLayer {
    type Batch = ();

    fn set_batch(&mut self, _: &Arc<()>) {}
}

impl<F: Real> TrainableModel<F> for OneLayer {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlate::Edges;
    use crate::rng::Stream;

    fn noise(seed: u64, len: usize) -> Vec<f64> {
        let stream = Stream::new(seed, 0);
        (0..len as u64).map(|i| 0.3 * stream.normal(i)).collect()
    }

    fn networks() -> Vec<OneLayer> {
        let mut all = Vec::new();
        for window in [(3, 2), (7, 8)] {
            for activation in [Activation::Swish { beta: 1.3 }, Activation::Tanh] {
                for pooling in [Pooling::Sum, Pooling::Mean] {
                    for label in [0.0, 1.0] {
                        let image = noise(1, 12 * 11);
                        let correlator = Correlator::new(&image, (12, 11), window, Edges::Valid);
                        let settings =
                            Settings { activation, pooling, label, bias: 0.2, alpha: 0.7 };
                        all.push(OneLayer::new(settings, correlator));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn gradient_and_hessian_are_derivatives_of_the_loss() {
        for mut network in networks() {
            let n = Objective::<f64>::len(&network);
            let (kernel, v) = (noise(2, n), noise(3, n));
            let h = 1e-4;
            let moved = |sign: f64| -> Vec<f64> {
                kernel.iter().zip(&v).map(|(k, v)| k + sign * h * v).collect()
            };
            let mut gradient = vec![0.0; n];
            network.gradient(&kernel, &mut gradient);
            let [above, below] = [1.0, -1.0].map(|sign| network.loss(&moved(sign)).unwrap());
            let slope = (above - below) / (2.0 * h);
            let along = sum_by(n, |i| gradient[i] * v[i]);
            // Truncation h²/6 times a third derivative of order 10, rounding u L/h ≈ 1e-11.
            assert!((slope - along).abs() < 1e-7, "{:?}: {slope} {along}", network.settings);
            let (mut plus, mut minus, mut product) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            network.gradient(&moved(1.0), &mut plus);
            network.gradient(&moved(-1.0), &mut minus);
            network.hessian_vector(&kernel, &v, &mut product);
            for i in 0..n {
                let difference = (plus[i] - minus[i]) / (2.0 * h);
                assert!((difference - product[i]).abs() < 1e-6, "{:?}", network.settings);
            }
        }
    }

    #[test]
    fn the_hessian_is_symmetric() {
        for mut network in networks() {
            let n = Objective::<f64>::len(&network);
            let (kernel, v, w) = (noise(2, n), noise(3, n), noise(4, n));
            let (mut hv, mut hw) = (vec![0.0; n], vec![0.0; n]);
            network.hessian_vector(&kernel, &v, &mut hv);
            network.hessian_vector(&kernel, &w, &mut hw);
            let (left, right) = (sum_by(n, |i| hv[i] * w[i]), sum_by(n, |i| hw[i] * v[i]));
            assert!((left - right).abs() < 1e-12 * (1.0 + left.abs()), "{left} {right}");
        }
    }

    #[test]
    fn f32_rounds_the_f64_gradient_once() {
        let mut network = networks().remove(8);
        let n = Objective::<f64>::len(&network);
        let kernel: Vec<f32> = noise(2, n).into_iter().map(|x| x as f32).collect();
        let exact: Vec<f64> = kernel.iter().map(|x| f64::from(*x)).collect();
        let (mut single, mut double) = (vec![0.0_f32; n], vec![0.0_f64; n]);
        network.gradient(&kernel, &mut single);
        network.gradient(&exact, &mut double);
        assert!(single.iter().zip(&double).all(|(s, d)| *s == *d as f32));
    }
}
