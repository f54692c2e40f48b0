//! The second derivative by the weights of one layer, in the parts it consists of.
//!
//! With `G = p [B · r'(c)] * I` of layer `i` (index left out), the derivative of the theorem's gradient
//! along `V` is
//!
//! ```text
//! ∇²_Ki L V =  ŷ(1−ŷ) G ⟨G, V⟩                 the residual a moves: Gauss-Newton
//!            + a p [B · r''(c) · (V*I)] * I      the layer's own activation bends: what the theory keeps
//!            + a p [Ḃ · r'(c)] * I               later activations bend: what the theory leaves out
//!            + α V
//! ```
//!
//! where the bracket changes because all later values do:
//!
//! ```text
//! ċ_i = V * I_i,   ċ_j = K_j * (r'(c_{j−1}) ċ_{j−1}),   Ḃ_N = 0,
//! Ḃ_{j−1} = K_j ⋆ [Ḃ_j r'(c_j) + B_j r''(c_j) ċ_j]
//! ```

use super::stack::{Example, Pass, Stack, product};
use crate::reduce::sum_by;

/// The product of each part with a vector, as a mean over examples.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// Because the residual moves.
    pub gauss_newton: Vec<f64>,
    /// Because the layer's own activation bends.
    pub own: Vec<f64>,
    /// Because later activations bend.
    pub later: Vec<f64>,
}

impl Stack {
    /// The parts of the second derivative by the weights of layer `i` along `v`, weight decay apart.
    pub fn second_derivative(
        &self,
        theta: &[f64],
        examples: &[Example],
        i: usize,
        v: &[f64],
    ) -> Parts {
        let nothing = vec![0.0; v.len()];
        let mut parts =
            Parts { gauss_newton: nothing.clone(), own: nothing.clone(), later: nothing };
        let share = 1.0 / examples.len() as f64;
        for example in examples {
            let pass = self.pass(theta, *example);
            let g = self.output_gradient(&pass, i);
            let along = sum_by(g.len(), |k| g[k] * v[k]);
            let slope = pass.answer * (1.0 - pass.answer);
            add(&mut parts.gauss_newton, share * slope * along, &g);
            let (layer, input) = (&self.layers[i], &pass.inputs[i]);
            let map_dot = layer.map(v, input);
            let bend = product(&pass.brackets[i], &self.each(&pass.maps[i], 2));
            let factor = share * pass.residual * self.pool_weight();
            add(&mut parts.own, factor, &layer.patches(&product(&bend, &map_dot), input));
            let moved = self.bracket_dot(theta, &pass, i, map_dot);
            let moved = product(&moved, &self.each(&pass.maps[i], 1));
            add(&mut parts.later, factor, &layer.patches(&moved, input));
        }
        parts
    }

    /// `ċ_i, ċ_{i+1}, …, ċ_N` for a `ċ_i`.
    pub(super) fn maps_dot(
        &self,
        theta: &[f64],
        pass: &Pass,
        i: usize,
        map_dot: Vec<f64>,
    ) -> Vec<Vec<f64>> {
        let mut dots = vec![map_dot];
        for j in i + 1..self.layers.len() {
            let input_dot = product(&self.each(&pass.maps[j - 1], 1), &dots[j - 1 - i]);
            dots.push(self.layers[j].map(&theta[self.range(j)], &input_dot));
        }
        dots
    }

    /// `Ḃ_i` for a `ċ_i`.
    fn bracket_dot(&self, theta: &[f64], pass: &Pass, i: usize, map_dot: Vec<f64>) -> Vec<f64> {
        let dots = self.maps_dot(theta, pass, i, map_dot);
        let mut bracket_dot = vec![0.0; self.layers[self.layers.len() - 1].outputs()];
        for j in (i + 1..self.layers.len()).rev() {
            let mut slopes = product(&bracket_dot, &self.each(&pass.maps[j], 1));
            let bend = product(&pass.brackets[j], &self.each(&pass.maps[j], 2));
            add(&mut slopes, 1.0, &product(&bend, &dots[j - i]));
            bracket_dot = self.layers[j].pixels(&theta[self.range(j)], &slopes);
        }
        bracket_dot
    }
}

fn add(total: &mut [f64], factor: f64, what: &[f64]) {
    total.iter_mut().zip(what).for_each(|(t, w)| *t += factor * w);
}
