//! One layer as a batch sees it: the constants of the theory, and the step it predicts.
//!
//! The theory reads the gradient of layer `i` as that of a one-layer network with `a` replaced by
//! `ahat = a γ`, `γ` a constant in place of the bracket `B(x)`. Linearized where the activation is at
//! zero, `r'(c) ≈ r'(0) + r''(0) c` (1/2 and β/2 for Swish), a mode of the kernel has the curvature
//!
//! ```text
//! z = α + ahat p (β/2) e,        e an eigenvalue of PᵀP, P the patches of the layer's input I_i
//! ```
//!
//! and over a batch the operator is the mean over its images. Forward Euler is stable iff
//! `0 < z < 2/dt` for all of them, as in [`window`]. Every model below is
//!
//! ```text
//! V ↦ mean over images of ( [w · (V*I)] * I  +  ŷ(1−ŷ) g ⟨g, V⟩ )  +  α V
//! ```
//!
//! with its own weight `w` of a position and gradient `g` of the logit:
//!
//! | model | w | g | what is approximated |
//! |---|---|---|---|
//! | `Constant` | mean(aγ) p r''(0) | – | one ahat for all images |
//! | `PerImage` | a γ p r''(0) | – | **the theory**: a constant in K, bracket constant in x |
//! | `Stringent` | \|a\| max\|B\| p r''(0) | – | the same with the most stringent constant |
//! | `Bracket` | a B(x) p r''(0) | – | activation at zero |
//! | `OwnLayer` | a B(x) p r''(c(x)) | – | a constant in K, later layers linear |
//! | `MovingResidual` | a γ p r''(0) | p γ r'(0) 1*I | the theory with `a` linear in K (Appendix D.4) |
//! | `LaterLayers` | a Γ p r''(0) | p γ r'(0) 1*I | the same, with a bracket that moves |
//! | `GaussNewton` | 0 | p [B r'(c)] * I | nothing bends |
//! | `AllButLater` | a B(x) p r''(c(x)) | p [B r'(c)] * I | later layers linear |
//!
//! `Stringent` bounds `OwnLayer` from above, because no `|r''|` exceeds `r''(0)` of Swish.
//!
//! **Later layers.** The bracket is *not* independent of `K_i`: each later activation bends, too. With
//! constants throughout, a change `ċ_i` of the layer's map arrives at layer `j` as `g_ij ċ_i`, and the
//! sum over the output bends by `Σ_{j ≥ i} γ_j r''(0) g_ij² ċ_i²`. So `γ_i` is to be replaced by
//!
//! ```text
//! Γ_i = Σ_{j ≥ i} γ_j g_ij²,       g_ii = 1,   γ_N = 1
//! ```
//!
//! which for two layers is about `γ + γ²`: not small beside `γ`, and where `γ < 0` of the other sign.
//! `g_ij` is measured here as the mean over positions of what a `ċ_i` of ones becomes.

use super::layer::Layer;
use super::stack::{Example, Stack, scaled};
use crate::krylov::{EigenOptions, EigenResult, eigenpairs, infallible};
use crate::reduce::{max_abs, sum, sum_by};
use crate::spectrum::window::{self, Range};

/// What is kept of the second derivative; the table stands in the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// One `ahat` for all images.
    Constant,
    /// The theory: one `ahat` for each image.
    PerImage,
    /// The theory with the most stringent constant for each image.
    Stringent,
    /// The bracket as it is, the activation at zero.
    Bracket,
    /// The bracket and the layer's own `r''` as they are.
    OwnLayer,
    /// The theory with a residual that is linear in the kernel.
    MovingResidual,
    /// The same, with later layers that bend as well.
    LaterLayers,
    /// What comes from the residual alone.
    GaussNewton,
    /// `OwnLayer` and `GaussNewton`.
    AllButLater,
}

impl Model {
    /// All of them, from the crudest to the most complete.
    pub const ALL: [Self; 9] = [
        Self::Constant,
        Self::PerImage,
        Self::Stringent,
        Self::Bracket,
        Self::OwnLayer,
        Self::MovingResidual,
        Self::LaterLayers,
        Self::GaussNewton,
        Self::AllButLater,
    ];
}

/// Mean and standard deviation over the images of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
}

/// What a model says about one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Smallest and largest curvature.
    pub z: Range,
    /// How far either can be off.
    pub residual: f64,
    /// Largest stable step; none where a mode grows at every step.
    pub dt: Option<f64>,
    /// Weight decay above which no mode grows at every step.
    pub alpha_min: f64,
}

/// A layer with all that the images of a batch make of it.
#[derive(Debug, Clone)]
pub struct Observed {
    layer: Layer,
    alpha: f64,
    pool_weight: f64,
    /// `r'` and `r''` at zero.
    at_zero: [f64; 2],
    images: Vec<Seen>,
    /// Mean of `ahat`.
    mean_ahat: f64,
}

#[derive(Debug, Clone)]
struct Seen {
    input: Vec<f64>,
    residual: f64,
    /// `ŷ(1 − ŷ)`.
    slope: f64,
    gamma: f64,
    /// `Γ`: `γ` with the layers behind.
    gamma_with_later: f64,
    bracket: Vec<f64>,
    /// `r''(c)`.
    bend: Vec<f64>,
    /// `p [B r'(c)] * I`.
    gradient: Vec<f64>,
    /// `p γ r'(0) 1*I`.
    constant_gradient: Vec<f64>,
}

impl Observed {
    /// Layer `i` (from 0) of a stack on a batch.
    ///
    /// # Panics
    ///
    /// If the batch is empty or does not fit.
    pub fn new(stack: &Stack, theta: &[f64], i: usize, examples: &[Example]) -> Self {
        assert!(!examples.is_empty(), "an empty batch");
        let layer = stack.layers[i];
        let [_, r1, r2] = stack.activation.at(0.0);
        let pool_weight = stack.pool_weight();
        let ones = vec![1.0; layer.outputs()];
        let seen = |example: &Example| {
            let mut pass = stack.pass(theta, *example);
            let gradient = stack.output_gradient(&pass, i);
            let arriving = stack.maps_dot(theta, &pass, i, ones.clone());
            let behind = pass.brackets[i..].iter().zip(&arriving);
            let gamma_with_later = behind.map(|(b, c)| mean_of(b) * mean_of(c) * mean_of(c)).sum();
            let input = pass.inputs.swap_remove(i);
            let bracket = pass.brackets.swap_remove(i);
            let gamma = mean_of(&bracket);
            let patch_sums = layer.patches(&ones, &input);
            Seen {
                residual: pass.residual,
                slope: pass.answer * (1.0 - pass.answer),
                gamma,
                gamma_with_later,
                bend: stack.each(&pass.maps[i], 2),
                gradient,
                constant_gradient: scaled(pool_weight * gamma * r1, patch_sums),
                input,
                bracket,
            }
        };
        let images: Vec<Seen> = examples.iter().map(seen).collect();
        let mean_ahat = mean(&images, |seen| seen.residual * seen.gamma);
        Self { layer, alpha: stack.alpha, pool_weight, at_zero: [r1, r2], images, mean_ahat }
    }

    /// `γ`, the mean of the bracket over the positions.
    pub fn gamma(&self) -> Spread {
        self.spread(|seen| seen.gamma)
    }

    /// Standard deviation of the bracket over the positions, relative to the largest `|B|`: zero where
    /// a constant is exact.
    pub fn roughness(&self) -> Spread {
        self.spread(|seen| {
            let square = |b: &f64| (b - seen.gamma) * (b - seen.gamma);
            let variance = seen.bracket.iter().map(square).sum::<f64>() / seen.bracket.len() as f64;
            variance.sqrt() / max_abs(&seen.bracket)
        })
    }

    /// `ahat = a γ`.
    pub fn ahat(&self) -> Spread {
        self.spread(|seen| seen.residual * seen.gamma)
    }

    fn spread(&self, of: impl Fn(&Seen) -> f64) -> Spread {
        let centre = mean(&self.images, &of);
        let variance = mean(&self.images, |seen| (of(seen) - centre) * (of(seen) - centre));
        Spread { mean: centre, std: variance.sqrt() }
    }

    /// What a model predicts.
    pub fn predict(&self, model: Model) -> Prediction {
        let found = self.spectrum(model);
        let range = Range { min: found.lambda_min(), max: found.lambda_max() };
        let residuals = found.largest.iter().chain(&found.smallest).map(|pair| pair.residual);
        Prediction {
            z: window::curvatures(self.alpha, 1.0, range),
            residual: residuals.fold(f64::NAN, f64::max),
            dt: window::largest_dt(self.alpha, 1.0, range),
            alpha_min: window::alpha_interval(1.0, range, f64::INFINITY).min,
        }
    }

    /// Both ends of the spectrum of a model, weight decay apart.
    pub fn spectrum(&self, model: Model) -> EigenResult {
        let n = self.layer.weights();
        let multiply = infallible(|v, out| self.multiply(model, v, out));
        let options = EigenOptions::both_ends(1e-12, n.min(200));
        let Ok(found) = eigenpairs(&vec![0.0; n], vec![], options, multiply);
        found
    }

    /// `out` = the operator of a model, weight decay apart, times `v`.
    pub fn multiply(&self, model: Model, v: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for seen in &self.images {
            if model != Model::GaussNewton {
                let mut map = self.layer.map(v, &seen.input);
                self.weigh(model, seen, &mut map);
                let bent = self.layer.patches(&map, &seen.input);
                out.iter_mut().zip(&bent).for_each(|(o, b)| *o += b);
            }
            let g = match model {
                Model::GaussNewton | Model::AllButLater => &seen.gradient,
                Model::MovingResidual | Model::LaterLayers => &seen.constant_gradient,
                _ => continue,
            };
            let along = seen.slope * sum_by(g.len(), |k| g[k] * v[k]);
            out.iter_mut().zip(g).for_each(|(o, g)| *o += along * g);
        }
        let count = self.images.len() as f64;
        out.iter_mut().for_each(|o| *o /= count);
    }

    /// `map ← w · map`.
    fn weigh(&self, model: Model, seen: &Seen, map: &mut [f64]) {
        let (a, p, [_, bend]) = (seen.residual, self.pool_weight, self.at_zero);
        let by_bracket = map.iter_mut().zip(&seen.bracket);
        let constant = match model {
            Model::Constant => self.mean_ahat,
            Model::PerImage | Model::MovingResidual => a * seen.gamma,
            Model::LaterLayers => a * seen.gamma_with_later,
            Model::Stringent => a.abs() * max_abs(&seen.bracket),
            Model::Bracket => return by_bracket.for_each(|(m, b)| *m *= a * p * bend * b),
            Model::OwnLayer | Model::AllButLater => {
                return by_bracket
                    .zip(&seen.bend)
                    .for_each(|((m, b), bend)| *m *= a * p * bend * b);
            }
            Model::GaussNewton => unreachable!("nothing bends in this model"),
        };
        map.iter_mut().for_each(|m| *m *= constant * p * bend);
    }
}

fn mean(images: &[Seen], of: impl Fn(&Seen) -> f64) -> f64 {
    sum_by(images.len(), |n| of(&images[n])) / images.len() as f64
}

fn mean_of(values: &[f64]) -> f64 {
    sum(values) / values.len() as f64
}
