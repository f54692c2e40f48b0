//! The stacked network, and the gradient theorem as the paper states it.
//!
//! ```text
//! I_{i+1} = r(c_i),  c_i = K_i * I_i        ŷ = s(p Σ_x I_{N+1}(x)),   a = ŷ − y
//! B_i(x) = Σ_z ∂F_{N,i+1}(z)/∂I_{i+1}(x)    the bar of the theorem: a sum over the output
//! ∇_Ki L = a p [B_i · r'(c_i)] * I_i + α K_i
//! ```
//!
//! `F_{N,i+1}` are the layers behind layer `i`, `p` the weight of the pooling (1 for the sum, one over
//! the numbers pooled for the mean). Nothing lies behind the last layer, so `B_N = 1`; and since
//! `∂F_i(z)/∂I_i(x) = r'(c_i)(z) K_i(x − z)` (the paper's Appendix F), `B_{i−1} = K_i ⋆ [B_i · r'(c_i)]`.

use std::ops::Range;

use super::layer::Layer;
use crate::activation::Activation;
use crate::exp::sigmoid;
use crate::nn::Padding;
use crate::pde::one_layer::Pooling;
use crate::reduce::sum;

/// An image (planes, channel by channel) with its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example<'a> {
    /// Pixels.
    pub image: &'a [f64],
    /// Label `y`, 0 or 1.
    pub label: f64,
}

/// Convolutions with an activation behind each, pooling, sigmoid; cross-entropy and weight decay.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The convolutions.
    pub layers: Vec<Layer>,
    /// Behind each of them.
    pub activation: Activation,
    /// At the end, over all positions and channels.
    pub pooling: Pooling,
    /// Weight decay `α`.
    pub alpha: f64,
}

/// What one image makes of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// `I_i`, the input of each layer.
    pub inputs: Vec<Vec<f64>>,
    /// `c_i = K_i * I_i`.
    pub maps: Vec<Vec<f64>>,
    /// `B_i`, how much the sum over the output moves with each number behind layer `i`.
    pub brackets: Vec<Vec<f64>>,
    /// `ŷ`.
    pub answer: f64,
    /// `a = ŷ − y`.
    pub residual: f64,
}

impl Stack {
    /// A stack of convolutions of one kernel size on images of `input` (channels, rows, columns),
    /// without weight decay.
    pub fn new(
        input: [usize; 3],
        channels: &[usize],
        kernel: [usize; 2],
        padding: Padding,
        activation: Activation,
        pooling: Pooling,
    ) -> Self {
        assert!(!channels.is_empty(), "a stack of no layers");
        let mut from = input;
        let layer = |channels: &usize| {
            let layer = Layer::new(from, *channels, kernel, padding);
            from = layer.to;
            layer
        };
        let layers = channels.iter().map(layer).collect();
        Self { layers, activation, pooling, alpha: 0.0 }
    }

    /// Number of weights.
    pub fn len(&self) -> usize {
        self.layers.iter().map(Layer::weights).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the weights of layer `i` (from 0) lie.
    pub fn range(&self, i: usize) -> Range<usize> {
        let start = self.layers[..i].iter().map(Layer::weights).sum();
        start..start + self.layers[i].weights()
    }

    /// Weight `p` of a number at the end.
    pub fn pool_weight(&self) -> f64 {
        let last = self.layers.last().expect("a stack has a layer");
        self.pooling.weight(last.outputs())
    }

    /// All that one image makes of the network.
    ///
    /// # Panics
    ///
    /// If the weights or the image have another length.
    pub fn pass(&self, theta: &[f64], example: Example) -> Pass {
        assert_eq!(theta.len(), self.len(), "weights");
        assert_eq!(example.image.len(), self.layers[0].inputs(), "pixels");
        let mut input = example.image.to_vec();
        let (mut inputs, mut maps) = (Vec::new(), Vec::new());
        for (i, layer) in self.layers.iter().enumerate() {
            let map = layer.map(&theta[self.range(i)], &input);
            let next = self.each(&map, 0);
            inputs.push(std::mem::replace(&mut input, next));
            maps.push(map);
        }
        let answer = sigmoid(self.pool_weight() * sum(&input));
        let mut brackets = vec![vec![1.0; input.len()]];
        for i in (1..self.layers.len()).rev() {
            let slopes = product(&brackets[0], &self.each(&maps[i], 1));
            brackets.insert(0, self.layers[i].pixels(&theta[self.range(i)], &slopes));
        }
        Pass { inputs, maps, brackets, answer, residual: answer - example.label }
    }

    /// The theorem: the gradient of the mean loss over the examples, all layers in turn.
    pub fn gradient(&self, theta: &[f64], examples: &[Example]) -> Vec<f64> {
        let mut total = vec![0.0; theta.len()];
        for example in examples {
            let pass = self.pass(theta, *example);
            for i in 0..self.layers.len() {
                let moved = self.output_gradient(&pass, i);
                let add = |(t, g): (&mut f64, &f64)| *t += pass.residual * g;
                total[self.range(i)].iter_mut().zip(&moved).for_each(add);
            }
        }
        let count = examples.len() as f64;
        let with_decay = |(t, k): (&f64, &f64)| t / count + self.alpha * k;
        total.iter().zip(theta).map(with_decay).collect()
    }

    /// `G_i = p [B_i · r'(c_i)] * I_i`, the gradient of the logit by the weights of layer `i`.
    pub fn output_gradient(&self, pass: &Pass, i: usize) -> Vec<f64> {
        let slopes = product(&pass.brackets[i], &self.each(&pass.maps[i], 1));
        scaled(self.pool_weight(), self.layers[i].patches(&slopes, &pass.inputs[i]))
    }

    /// `r`, `r'` or `r''` of each number: order 0, 1 or 2.
    pub(super) fn each(&self, map: &[f64], order: usize) -> Vec<f64> {
        map.iter().map(|c| self.activation.at(*c)[order]).collect()
    }
}

/// `a · b`, number by number.
pub(super) fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

/// `factor · a`.
pub(super) fn scaled(factor: f64, mut a: Vec<f64>) -> Vec<f64> {
    a.iter_mut().for_each(|a| *a *= factor);
    a
}
