//! A step that keeps to the CFL condition layer by layer.
//!
//! Gradient descent with a step of its own for each layer, `D = diag(dt_l)`, is stable on a quadratic
//! iff all eigenvalues of `D^{1/2} H D^{1/2}` are below 2. Layers are coupled: the largest eigenvalue of
//! each diagonal block `H_ll` does not tell (56 layers that are coupled with full strength are
//! together 56 times as sharp as each by itself). So the sharpness of a layer is taken with what the
//! others add to it: unit vectors `v_l`, one for each layer, and numbers `λ_l` with
//!
//! ```text
//! Σ_m H_lm v_m = λ_l v_l      for all l              (one product with the whole Hessian: H v)
//! ```
//!
//! With `dt_l = 2c/λ_l` this says `D H v = 2c v`: the layers *together* are at the share `c` of their
//! limit, and each has its part in it. With one layer it is the usual eigenvalue equation. The
//! solution is a stationary point of `vᵀ H v` over unit vectors in each layer, and one product and one
//! normalization per layer lead towards its maximum (where `H` has no negative eigenvalue, no step
//! lowers it):
//!
//! ```text
//! w = H v,    λ_l = max(|w_l|, 0.9 λ_l),    v_l = w_l/|w_l|                   every so many steps
//! d_l = fl(s_l g_l),    s_l = min(1, 2c / (dt (λ_l + alpha)))                 in f64, rounded once
//! ```
//!
//! `v` starts along the gradient, with [`FIRST`] products instead of one. An estimate follows a rise
//! at once and a fall by a tenth each time: overshooting costs more than a short step. What is not
//! guaranteed: that `2c` is the *largest* eigenvalue of `D H`. It is where `Λ − H` has no negative
//! eigenvalue; on real networks it is measured (`[sharpness]` of a training run).
//!
//! The Hessian is that of the step's own batch. Cost: with the forward and backward pass of the
//! gradient at hand a product costs two gradients, so one every 16 steps adds an eighth.

use std::ops::Range;

use super::direction::Memory;
use crate::Real;
use crate::reduce::norm;

/// Products before the first step.
pub const FIRST: usize = 8;
/// What remains of an estimate when a smaller one follows.
const REMAINS: f64 = 0.9;

/// Whether the step after so many has a product of its own: every step at first, every second from the
/// 16th on, every third from the 24th, until `every` is reached. Curvature changes fastest in the
/// beginning.
pub fn is_due(steps: u64, every: u64) -> bool {
    steps.is_multiple_of((steps / 8).clamp(1, every))
}

/// The memory: `v`, then for each parameter the sharpness of its layer.
fn parts<F>(memory: &mut Memory<F>) -> (&mut [F], &mut [F]) {
    let half = memory.values.len() / 2;
    memory.values.split_at_mut(half)
}

/// The directions to multiply by the Hessian; before the first step those of the gradient.
pub fn directions<'a, F: Real>(
    layers: &[Range<usize>],
    memory: &'a mut Memory<F>,
    gradient: &[F],
) -> &'a [F] {
    let at_rest = memory.values.iter().all(|x| x.to_f64() == 0.0);
    let (v, _) = parts(memory);
    if at_rest {
        for layer in layers {
            point_along(&mut v[layer.clone()], &gradient[layer.clone()]);
        }
    }
    v
}

/// Takes in the product of the Hessian and the directions.
pub fn follow<F: Real>(layers: &[Range<usize>], memory: &mut Memory<F>, product: &[F]) {
    let (v, sharpness) = parts(memory);
    for layer in layers {
        let size = point_along(&mut v[layer.clone()], &product[layer.clone()]);
        let known = REMAINS * sharpness[layer.start].to_f64();
        // What is no number is left to the step, which will end the run.
        if size.is_finite() {
            sharpness[layer.clone()].fill(F::of(size.max(known)));
        }
    }
}

/// Makes `v` the unit vector along `x`, of which it returns the norm; `v` stays if `x` has no direction.
fn point_along<F: Real>(v: &mut [F], x: &[F]) -> f64 {
    let size = norm(x);
    if size > 0.0 && size.is_finite() {
        v.iter_mut().zip(x).for_each(|(v, x)| *v = F::of(x.to_f64() / size));
    }
    size
}

/// The factor `s` of a step in a layer of this sharpness.
pub fn factor(sharpness: f64, alpha: f64, dt: f64, safety: f64) -> f64 {
    (2.0 * safety / (dt * (sharpness + alpha))).min(1.0)
}

/// `d = fl(s g)` for all layers.
pub(super) fn shorten<F: Real>(g: &mut [F], memory: &Memory<F>, alpha: f64, dt: f64, safety: f64) {
    let mut rest = g;
    for alike in memory.values[rest.len()..].chunk_by(|a, b| a == b) {
        let (layer, after) = rest.split_at_mut(alike.len());
        let s = F::of(factor(alike[0].to_f64(), alpha, dt, safety));
        layer.iter_mut().for_each(|g| *g = s * *g);
        rest = after;
    }
}

#[cfg(test)]
mod tests;
