//! The optimizers, one variant each, with all that the rest of the program asks about them.
//!
//! The formulas with their roundings are in [`direction`](super::direction). An optimizer is declared in
//! these two files; each question below is a `match` without a wildcard where every optimizer must
//! answer, so the compiler lists what a new one has to say.
//!
//! # Stability thresholds
//!
//! On a quadratic of curvature `λ` a step multiplies what the optimizer remembers by a matrix whose
//! eigenvalues `x` must lie inside the unit circle. For all methods here the first to leave it, as
//! `λ` grows, does so at `x = −1`, an oscillation from step to step:
//!
//! ```text
//! SGD            x = 1 − dt λ                                            λ < 2/dt
//! heavy ball     x² − (1 + mu − dt λ) x + mu                             λ < (2 + 2 mu)/dt
//! Nesterov       x² − (1 + mu)(1 − dt λ) x + mu (1 − dt λ)               λ < (2 + 2 mu)/((1 + 2 mu) dt)
//! Nesterov (PDE) the same with dt² (1 + mu)/2 for dt                     λ < 4/((1 + 2 mu) dt²)
//! Adam           x² − (1 + β₁ − (1 − β₁) dt λ) x + β₁                    λ < (2 + 2 β₁)/((1 − β₁) dt)
//! ```
//!
//! (put `x = −1` and solve for `λ`; the product of the roots stays below 1 until then). PyTorch's form
//! of Nesterov's momentum has that polynomial: its `θ` is the point where the gradient is taken.
//!
//! Adam's `λ` is that of the **preconditioned** Hessian
//! ([`Optimizer::preconditioner`](super::direction::Optimizer::preconditioner)); with `β₁ = 0.9` the
//! limit is 38/dt. The CFL step is gradient descent on a Hessian that it has preconditioned.
//!
//! These are thresholds of the full-batch Hessian for full-batch steps. With mini-batches the literature finds
//! that the sharpness of a *batch* (along its own gradient,
//! [`batch_sharpness`](crate::curvature::stochastic::batch_sharpness)) settles at a threshold, for plain steps
//! at `2/dt`, with heavy-ball momentum near `2 (1 − mu)/dt` for small batches and near `2 (1 + mu)/dt` for large ones
//! (Andreyev and Beneventano, *Edge of stochastic stability*, 2024; arXiv 2604.14108).
//!
//! Two ways to state how near the edge is, with `λ` the largest eigenvalue: the *edge ratio*
//! `λ/threshold`, 1 at the edge, and the *normalized sharpness* `2 λ/threshold`, which is `dt λ` for
//! gradient descent and 2 at the edge.
//!
//! References: Cohen et al., *Gradient descent on neural networks typically occurs at the edge of
//! stability*, ICLR 2021; *Adaptive gradient methods at the edge of stability*, 2022.

crate::named_enum! {
    /// Optimizers by name.
    pub enum Name {
        /// Gradient descent.
        Sgd = "sgd",
        /// Polyak's momentum.
        HeavyBall = "heavy-ball",
        /// Nesterov's momentum, as in PyTorch.
        Nesterov = "nesterov",
        /// Nesterov's method as the paper discretizes it.
        NesterovPde = "nesterov-pde",
        /// Adam.
        Adam = "adam",
        /// Gradient descent whose step is capped at the stability limit of each layer.
        Cfl = "cfl",
    }
}

/// How a direction is made of gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// Gradient descent.
    Sgd,
    /// Polyak's momentum.
    HeavyBall {
        /// Momentum: the share of the old velocity that stays.
        mu: f64,
    },
    /// Nesterov's momentum as training frameworks have it.
    Nesterov {
        /// Momentum: the share of the old velocity that stays.
        mu: f64,
    },
    /// Adam.
    Adam {
        /// Decay of the mean of gradients.
        beta1: f64,
        /// Decay of the mean of their squares.
        beta2: f64,
        /// Added to the root.
        epsilon: f64,
    },
    /// Gradient descent whose step is capped at the stability limit of each layer ([`cfl`](super::cfl)).
    Cfl {
        /// Steps from one Hessian-vector product to the next, after the denser start of
        /// [`cfl::is_due`](super::cfl::is_due).
        every: u64,
        /// Share of the limit that is used.
        safety: f64,
        /// Whether layers have limits of their own; one for the whole network otherwise.
        by_layer: bool,
    },
    /// Nesterov's method as the paper discretizes it, `dt` being a step in time.
    NesterovPde {
        /// Momentum.
        mu: f64,
    },
}

impl Method {
    /// One of each, with usual numbers: the table that tests of optimizers run over.
    pub const EXAMPLES: [Self; 6] = [
        Self::Sgd,
        Self::HeavyBall { mu: 0.9 },
        Self::Nesterov { mu: 0.9 },
        Self::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
        Self::NesterovPde { mu: 0.9 },
        Self::Cfl { every: 10, safety: 0.9, by_layer: true },
    ];

    /// Its name in files and records.
    pub fn name(self) -> Name {
        match self {
            Self::Sgd => Name::Sgd,
            Self::HeavyBall { .. } => Name::HeavyBall,
            Self::Nesterov { .. } => Name::Nesterov,
            Self::NesterovPde { .. } => Name::NesterovPde,
            Self::Adam { .. } => Name::Adam,
            Self::Cfl { .. } => Name::Cfl,
        }
    }

    /// The vectors of the length of `θ` that it remembers, in their order. A run forked to another
    /// optimizer keeps its memory where both have the same list.
    pub fn memory(self) -> &'static [&'static str] {
        match self {
            Self::Sgd => &[],
            Self::HeavyBall { .. } | Self::Nesterov { .. } => &["velocity"],
            Self::NesterovPde { .. } => &["previous parameters"],
            Self::Adam { .. } => &["mean", "mean square"],
            Self::Cfl { .. } => &["direction", "sharpness of the layer"],
        }
    }

    /// The vector of the memory, counted from 0, that is never negative.
    pub fn nonnegative_memory(self) -> Option<usize> {
        match self {
            Self::Adam { .. } | Self::Cfl { .. } => Some(1),
            Self::Sgd
            | Self::HeavyBall { .. }
            | Self::Nesterov { .. }
            | Self::NesterovPde { .. } => None,
        }
    }

    /// Length of a step along its direction.
    pub fn length(self, dt: f64) -> f64 {
        match self {
            Self::NesterovPde { mu } => dt * dt * (1.0 + mu) / 2.0,
            _ => dt,
        }
    }

    /// The curvature at which a step of length `dt` becomes unstable.
    pub fn threshold(self, dt: f64) -> f64 {
        match self {
            Self::Sgd | Self::Cfl { .. } => 2.0 / dt,
            Self::HeavyBall { mu } => (2.0 + 2.0 * mu) / dt,
            Self::Nesterov { mu } => (2.0 + 2.0 * mu) / ((1.0 + 2.0 * mu) * dt),
            Self::NesterovPde { mu } => 4.0 / ((1.0 + 2.0 * mu) * dt * dt),
            Self::Adam { beta1, .. } => (2.0 + 2.0 * beta1) / ((1.0 - beta1) * dt),
        }
    }

    /// The threshold as a formula.
    pub fn threshold_formula(self) -> &'static str {
        match self {
            Self::Sgd | Self::Cfl { .. } => "2/dt",
            Self::HeavyBall { .. } => "(2 + 2 mu)/dt",
            Self::Nesterov { .. } => "(2 + 2 mu)/((1 + 2 mu) dt)",
            Self::NesterovPde { .. } => "4/((1 + 2 mu) dt²)",
            Self::Adam { .. } => "(2 + 2 beta1)/((1 - beta1) dt)",
        }
    }

    /// Where the sharpness of small batches settles at a step of length `dt`, as the literature has it; none where
    /// it says nothing.
    pub fn small_batch_threshold(self, dt: f64) -> Option<f64> {
        match self {
            Self::Sgd => Some(2.0 / dt),
            Self::HeavyBall { mu } => Some(2.0 * (1.0 - mu) / dt),
            Self::Nesterov { .. }
            | Self::NesterovPde { .. }
            | Self::Adam { .. }
            | Self::Cfl { .. } => None,
        }
    }

    /// The step whose threshold is this sharpness; none where no step is too long.
    pub fn stable_step(self, sharpness: f64) -> Option<f64> {
        // All thresholds are powers of the step.
        let of_one = self.threshold(1.0);
        (sharpness > 0.0).then(|| match self {
            Self::NesterovPde { .. } => (of_one / sharpness).sqrt(),
            _ => of_one / sharpness,
        })
    }

    /// Whether its steps see the Hessian between two diagonal matrices, made of what it remembers.
    pub fn is_preconditioned(self) -> bool {
        matches!(self, Self::Adam { .. } | Self::Cfl { .. })
    }

    /// Whether a step is linear in the state, on a quadratic: one that divides by roots or norms is not.
    pub fn is_linear(self) -> bool {
        !self.is_preconditioned()
    }

    /// Whether it takes the gradient elsewhere than at `θ`.
    pub fn looks_ahead(self) -> bool {
        matches!(self, Self::NesterovPde { .. })
    }

    /// Whether some of its steps need Hessian-vector products.
    pub fn needs_hessian(self) -> bool {
        matches!(self, Self::Cfl { .. })
    }

    /// Factors by which the means of a memory that started at zero are too small after `n` steps, as the
    /// direction divides by them: `e1`, `e2` of [`direction`](super::direction); 1 where there are none.
    pub fn bias_corrections(self, n: u64) -> [f64; 2] {
        match self {
            Self::Adam { beta1, beta2, .. } => {
                let [first, second] = [beta1, beta2].map(|beta| 1.0 - libm::pow(beta, n as f64));
                [first, second.sqrt()]
            }
            _ => [1.0; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::direction::{Memory, Optimizer};
    use crate::optim::perturbation::Perturbation;

    /// Runs on `λ θ²/2` until `|θ|` is a thousandth or a thousandfold of what it was, and says whether
    /// it grew. Momentum alone makes a transient of at most 1/(1 − mu) = 10 times.
    fn grows(method: Method, dt: f64, lambda: f64, memory: Option<Memory<f64>>) -> bool {
        let optimizer = Optimizer { method, alpha: 0.0 };
        // So small that Adam's v does not notice.
        let start = 1e-12;
        let mut theta = [start];
        let mut memory = memory.unwrap_or_else(|| optimizer.at_rest(&theta));
        loop {
            // Two in a row: an oscillation may pass near zero.
            let before = theta[0].abs();
            optimizer.look_ahead(&mut theta, &mut memory);
            let mut g = [lambda * theta[0]];
            optimizer.step(&mut theta, &mut g, &mut memory, dt, Perturbation::NONE);
            let size = theta[0].abs().max(before) / start;
            if !(1e-3..1e3).contains(&size) {
                return size > 1.0;
            }
        }
    }

    #[test]
    fn each_optimizer_is_stable_just_below_and_unstable_just_above() {
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
        let mut methods = vec![Method::Sgd, Method::Adam { beta1, beta2, epsilon }];
        for mu in [0.0, 0.5, 0.9] {
            methods.push(Method::HeavyBall { mu });
            methods.push(Method::Nesterov { mu });
            methods.push(Method::NesterovPde { mu });
        }
        for method in methods {
            for dt in [0.01, 1.0] {
                // v is held: a long past in which it was 4, and a memory that hardly fades.
                let (method, memory, scale) = match method {
                    Method::Adam { .. } => (
                        Method::Adam { beta1, beta2: 1.0 - 1e-12, epsilon },
                        Some(Memory { steps: 1 << 50, values: vec![0.0, 4.0] }),
                        2.0 + epsilon,
                    ),
                    other => (other, None, 1.0),
                };
                let edge = scale * method.threshold(dt);
                let [below, above] =
                    [0.99, 1.01].map(|factor| grows(method, dt, factor * edge, memory.clone()));
                assert!(!below, "{method:?}, dt {dt}: grows below the edge");
                assert!(above, "{method:?}, dt {dt}: does not grow above the edge");
            }
        }
        let adam = Method::Adam { beta1, beta2, epsilon };
        assert!((adam.threshold(1.0) - 38.0).abs() < 1e-12, "38/dt");
    }

    #[test]
    fn a_stable_step_is_the_one_whose_threshold_is_the_sharpness() {
        for method in Method::EXAMPLES {
            let dt = method.stable_step(7.0).unwrap();
            // Three roundings there, three back.
            assert!((method.threshold(dt) - 7.0).abs() < 1e-14, "{method:?}");
            assert_eq!(method.stable_step(-1.0), None);
        }
    }
}
