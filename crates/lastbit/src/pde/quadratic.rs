//! The linear equations that approximate the one-layer network, as quadratic energies.
//!
//! ```text
//! E(K)  = c ⟨S, K⟩ + q/2 |K * I|² + w/2 ⟨S, K⟩² + α/2 |K|²
//! ∇E    = c S + q PᵀP K + w S ⟨S, K⟩ + α K
//! ```
//!
//! `P K = K * I` takes the kernel to the positions (`P` is the matrix of patches), and
//! `S(z) = Σ_x I(x + z)` is the paper's Ī, which on a window depends on the place `z`.
//!
//! | regime | `c` | `q` | `w` |
//! |---|---|---|---|
//! | transitioning, `a` constant | `a p/2` | `a p β/2` | 0 |
//! | transitioning, `a` linear in `K` | `(s(0)−y) p/2` | `(s(0)−y) p β/2` | `s'(0) p²/4` |
//! | activated | `(s(0)−y) p` | 0 | `s'(0) p²` |
//! | not activated | 0 | 0 | 0 |
//!
//! `p` is the weight of the pooling. With `r' = 1` the residual grows by `s'(0) p ⟨S, K⟩`: the
//! eigenvalue of the activated equation is `s'(0) p² |S|² + α`, with `|S|² ≈ w² Ī²` for a window of
//! `w²` pixels. The paper's `Ī²/8` drops these pixels and takes half the slope of the residual.
//!
//! Reference: the paper, Theorem 5.2, Appendices D.2, D.4, D.5 and Table 3.

use std::convert::Infallible;
use std::sync::Arc;

use super::one_layer::Settings;
use crate::Real;
use crate::activation::Activation;
use crate::correlate::Correlator;
use crate::exp::sigmoid;
use crate::objective::{Objective, StochasticObjective, TrainableModel};
use crate::reduce::sum_by;

/// A regime of the activation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Regime {
    /// `K * I ≈ 0`, the residual held at `a`.
    Transitioning {
        /// `ŷ − y`.
        a: f64,
    },
    /// `K * I ≈ 0`, the residual linear in the kernel.
    TransitioningLinearResidual,
    /// `K * I ≫ 0`.
    Activated,
    /// `K * I ≪ 0`.
    NotActivated,
}

/// Coefficients `c, q, w, α` of the module doc.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficients {
    /// `c`.
    pub constant: f64,
    /// `q`.
    pub patch: f64,
    /// `w`.
    pub rank_one: f64,
    /// `α`.
    pub alpha: f64,
}

impl Coefficients {
    /// The row of the table for a regime, with `positions` places to pool over.
    ///
    /// # Panics
    ///
    /// In a transitioning regime, if the activation is not Swish: only that bends at 0.
    pub fn of(regime: Regime, settings: &Settings, positions: usize) -> Self {
        let p = settings.pooling.weight(positions);
        let half_beta = || match settings.activation {
            Activation::Swish { beta } => beta / 2.0,
            other => panic!("{other:?} has no transitioning regime"),
        };
        let at_zero = sigmoid(-settings.bias);
        let (residual, slope) = (at_zero - settings.label, at_zero * (1.0 - at_zero));
        let (constant, patch, rank_one) = match regime {
            Regime::Transitioning { a } => (a * p / 2.0, a * p * half_beta(), 0.0),
            Regime::TransitioningLinearResidual => {
                (residual * p / 2.0, residual * p * half_beta(), slope * p * p / 4.0)
            }
            Regime::Activated => (residual * p, 0.0, slope * p * p),
            Regime::NotActivated => (0.0, 0.0, 0.0),
        };
        Self { constant, patch, rank_one, alpha: settings.alpha }
    }
}

/// A linear equation on an image.
#[derive(Debug, Clone)]
pub struct Quadratic {
    coefficients: Coefficients,
    correlator: Correlator,
    /// `S`.
    sums: Vec<f64>,
    kernel: Vec<f64>,
    map: Vec<f64>,
    product: Vec<f64>,
}

impl Quadratic {
    /// The equation with these coefficients on the image of `correlator`.
    pub fn new(coefficients: Coefficients, mut correlator: Correlator) -> Self {
        let size = |(height, width): (usize, usize)| height * width;
        let (kernel, map) = (size(correlator.window()), size(correlator.positions()));
        let mut sums = vec![0.0; kernel];
        correlator.adjoint(&vec![1.0; map], &mut sums);
        Self {
            coefficients,
            correlator,
            sums,
            kernel: vec![0.0; kernel],
            map: vec![0.0; map],
            product: vec![0.0; kernel],
        }
    }

    /// Another weight decay on the same image.
    pub fn with_alpha(mut self, alpha: f64) -> Self {
        self.coefficients.alpha = alpha;
        self
    }

    /// Leaves `H K` in `product` for the kernel given, and returns `⟨S, K⟩`.
    fn multiply<F: Real>(&mut self, kernel: &[F]) -> f64 {
        let Coefficients { patch, rank_one, alpha, .. } = self.coefficients;
        for (own, given) in self.kernel.iter_mut().zip(kernel) {
            *own = given.to_f64();
        }
        let along = sum_by(self.sums.len(), |i| self.sums[i] * self.kernel[i]);
        if patch == 0.0 {
            self.product.fill(0.0);
        } else {
            self.correlator.valid(&self.kernel, &mut self.map);
            self.correlator.adjoint(&self.map, &mut self.product);
        }
        let terms = self.sums.iter().zip(&self.kernel);
        for (o, (s, k)) in self.product.iter_mut().zip(terms) {
            *o = patch * *o + rank_one * along * s + alpha * k;
        }
        along
    }
}

impl<F: Real> Objective<F> for Quadratic {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.kernel.len()
    }

    fn loss(&mut self, kernel: &[F]) -> Result<f64, Infallible> {
        let along = self.multiply(kernel);
        let curved = sum_by(self.kernel.len(), |i| self.kernel[i] * self.product[i]);
        Ok(self.coefficients.constant * along + 0.5 * curved)
    }

    fn gradient(&mut self, kernel: &[F], out: &mut [F]) -> Result<(), Infallible> {
        self.multiply(kernel);
        let constant = self.coefficients.constant;
        for ((o, product), s) in out.iter_mut().zip(&self.product).zip(&self.sums) {
            *o = F::of(product + constant * s);
        }
        Ok(())
    }

    fn hessian_vector(&mut self, _: &[F], v: &[F], out: &mut [F]) -> Result<(), Infallible> {
        self.multiply(v);
        out.iter_mut().zip(&self.product).for_each(|(o, product)| *o = F::of(*product));
        Ok(())
    }

    fn is_quadratic(&self) -> bool {
        true
    }

    /// Sums are formed in `f64`, whatever the precision of the kernel.
    fn loss_roundoff(&self) -> f64 {
        f64::UNIT_ROUNDOFF
    }
}

/// There is one image and nothing to draw batches from.
impl<F: Real> StochasticObjective<F> for Quadratic {
    type Batch = ();

    fn set_batch(&mut self, _: &Arc<()>) {}
}

impl<F: Real> TrainableModel<F> for Quadratic {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlate::Edges;
    use crate::pde::one_layer::{OneLayer, Pooling};
    use crate::rng::Stream;

    fn noise(seed: u64, len: usize, size: f64) -> Vec<f64> {
        let stream = Stream::new(seed, 0);
        (0..len as u64).map(|i| size * stream.normal(i)).collect()
    }

    fn settings(pooling: Pooling) -> Settings {
        let activation = Activation::Swish { beta: 1.3 };
        Settings { activation, pooling, label: 1.0, bias: 0.0, alpha: 0.7 }
    }

    fn correlator() -> Correlator {
        Correlator::new(&noise(1, 144, 0.3), (12, 12), (3, 4), Edges::Valid)
    }

    #[test]
    fn near_zero_the_network_follows_the_linear_residual() {
        // ∇L(K) − ∇L(0) is linear in K up to |K|²; so is the equation up to its dropped product
        // of two linear terms.
        let settings = settings(Pooling::Mean);
        let mut network = OneLayer::new(settings, correlator());
        let positions = network.positions().0 * network.positions().1;
        let regime = Regime::TransitioningLinearResidual;
        let mut linear =
            Quadratic::new(Coefficients::of(regime, &settings, positions), correlator());
        for size in [1e-3, 1e-4] {
            let kernel = noise(2, 12, size);
            let (mut exact, mut approximate) = (vec![0.0; 12], vec![0.0; 12]);
            network.gradient(&kernel, &mut exact);
            linear.gradient(&kernel, &mut approximate);
            for (e, a) in exact.iter().zip(&approximate) {
                // Second order: |I|³ |K|² with |I| of about 0.3 and a handful of pixels.
                assert!((e - a).abs() < 10.0 * size * size, "{size}: {:e}", (e - a).abs());
            }
        }
    }

    #[test]
    fn far_above_zero_the_network_has_the_activated_hessian() {
        // With I > 0 and K ≫ 0 the map is far above zero everywhere; a bias equal to the pooled
        // value keeps ŷ at one half, where s' is the 1/4 of the equation.
        let image: Vec<f64> = noise(1, 144, 0.3).iter().map(|x| x.abs() + 0.5).collect();
        let correlator = || Correlator::new(&image, (12, 12), (3, 4), Edges::Valid);
        let mut settings = settings(Pooling::Mean);
        let kernel = vec![10.0; 12];
        let map = OneLayer::new(settings, correlator()).map(&kernel).to_vec();
        settings.bias = map.iter().sum::<f64>() / map.len() as f64;
        let mut network = OneLayer::new(settings, correlator());
        let unbiased = Settings { bias: 0.0, ..settings };
        let coefficients = Coefficients::of(Regime::Activated, &unbiased, map.len());
        let mut linear = Quadratic::new(coefficients, correlator());
        let v = noise(3, 12, 1.0);
        let (mut exact, mut approximate) = (vec![0.0; 12], vec![0.0; 12]);
        network.hessian_vector(&kernel, &v, &mut exact);
        linear.hessian_vector(&kernel, &v, &mut approximate);
        for (e, a) in exact.iter().zip(&approximate) {
            // r' = 1 and r'' = 0 up to βx e^{−βx} with βx > 70.
            assert!((e - a).abs() < 1e-12, "{e} {a}");
        }
    }
}
