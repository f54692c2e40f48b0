//! References of `gemm.cu`, of `plane.cu` and of their tangents in `tangent.cu`: convolutions of any shape.
//!
//! A kernel computes one sum of products, its tangent two: first that with the weights' (or the
//! gradient's) tangent, then that with the values'.

use super::bound::{Bounded, Sum, exactly};
use super::conv::{Factors, Shape, exact};
use super::view::LayerView;
use super::{Kind, Launch};
use crate::kernel_args::{Address, ConvArgs, ConvTangentArgs, FinishArgs};

/// What a kernel reads for one replica.
impl Launch {
    fn values(&self, args: &ConvArgs) -> Vec<Bounded> {
        self.layer(&args.input, args.images).all(LayerView::value)
    }

    fn gradients(&self, args: &ConvArgs) -> Vec<Bounded> {
        self.layer(&args.output, args.images).all(LayerView::gradient)
    }

    /// `None` for the network's input, which has no tangent.
    fn value_tangents(&self, args: &ConvTangentArgs) -> Option<Vec<Bounded>> {
        let input = self.layer_tangent(&args.conv.input, &args.input, args.conv.images);
        input.has_tangent().then(|| input.all(LayerView::value_dot))
    }

    fn gradient_tangents(&self, args: &ConvTangentArgs) -> Vec<Bounded> {
        self.layer_tangent(&args.conv.output, &args.output, args.conv.images)
            .all(LayerView::gradient_dot)
    }

    fn weights_at(&self, at: Address, args: &ConvArgs) -> Vec<Bounded> {
        let shape = Shape::of(args);
        let len = shape.taps() * shape.from[2] * shape.to[2];
        exact(&self.memory.reals(at, self.r * args.parameters as usize + args.weight as usize, len))
    }

    fn bias_at(&self, at: Address, args: &ConvArgs) -> Option<Vec<Bounded>> {
        let first = self.r * args.parameters as usize + args.bias as usize;
        let channels = args.output.channels as usize;
        (args.has_bias != 0).then(|| exact(&self.memory.reals(at, first, channels)))
    }

    /// Weights as a forward product reads them, `[tap][ci][co]`, in the order of the parameters.
    fn packed_at(&self, at: Address, args: &ConvArgs) -> Vec<Bounded> {
        let shape = Shape::of(args);
        let (ci, co, taps) = (shape.from[2], shape.to[2], shape.taps());
        let packed = self.memory.reals(at, self.r * ci * co * taps, ci * co * taps);
        let index = |i: usize| (i % taps * ci + i / taps % ci) * co + i / taps / ci;
        (0..packed.len()).map(|i| exactly(packed[index(i)])).collect()
    }
}

/// What it writes.
impl Launch {
    fn forward_of(&mut self, args: &ConvArgs, begin: Address, to: Address, terms: &[Factors]) {
        let bias = self.bias_at(begin, args);
        let results = self.forward_sums(&Shape::of(args), bias.as_deref(), terms);
        self.write(Kind::Real, to, self.r * args.output.stride as usize, results);
    }

    fn data_of(&mut self, args: &ConvArgs, to: Address, terms: &[Factors]) {
        let results = self.data_sums(&Shape::of(args), terms);
        self.write_op(args.add, to, args.input.stride, results);
    }

    /// Sums over chunks of images; with a bias also those of the gradient itself, which is the first term's
    /// second factor.
    fn partials_of(&mut self, args: &ConvArgs, with_bias: bool, terms: &[Factors]) {
        let shape = Shape::of(args);
        let (each, pixels) = (args.images_per_chunk as usize, shape.to[0] * shape.to[1]);
        let mut all = Vec::new();
        for chunk in 0..args.chunks as usize {
            let images = shape.chunk(chunk, each);
            all.extend(self.weight_sums(&shape, images.clone(), shape.from[2], terms));
            if with_bias {
                let own = &terms[0].1[images.start * pixels..images.end * pixels];
                all.push(Sum::of(own.iter().copied()).rounded(self.t));
            }
        }
        self.write(Kind::Real, args.partials, self.r * all.len(), all);
    }
}

/// What distinguishes the general kernels from those with one channel on both sides.
#[derive(Clone, Copy)]
pub struct Family {
    /// Whether the forward pass reads packed weights.
    is_packed: bool,
    /// Whether the gradient of the bias is summed with that of the weights.
    with_bias: bool,
}

/// `gemm.cu`
pub const GEMM: Family = Family { is_packed: true, with_bias: false };
/// `plane.cu`
pub const PLANE: Family = Family { is_packed: false, with_bias: true };

impl Launch {
    pub fn conv_forward(&mut self, args: &ConvArgs, family: Family) {
        let [w] = self.forward_weights([args.packed], [args.theta], args, family);
        self.forward_of(args, args.theta, args.output.z, &[(self.values(args), w)]);
    }

    pub fn conv_forward_tangent(&mut self, args: &ConvTangentArgs, family: Family) {
        let conv = &args.conv;
        let (packed, theta) = ([conv.packed, args.packed], [conv.theta, args.direction]);
        let [w, w_dot] = self.forward_weights(packed, theta, conv, family);
        let mut terms = vec![(self.values(conv), w_dot)];
        terms.extend(self.value_tangents(args).map(|values_dot| (values_dot, w)));
        self.forward_of(conv, args.direction, args.output.z, &terms);
    }

    fn forward_weights<const N: usize>(
        &self,
        packed: [Address; N],
        theta: [Address; N],
        args: &ConvArgs,
        family: Family,
    ) -> [Vec<Bounded>; N] {
        match family.is_packed {
            true => packed.map(|at| self.packed_at(at, args)),
            false => theta.map(|at| self.weights_at(at, args)),
        }
    }

    pub fn conv_data(&mut self, args: &ConvArgs) {
        let terms = [(self.gradients(args), self.weights_at(args.theta, args))];
        self.data_of(args, args.input.u, &terms);
    }

    pub fn conv_data_tangent(&mut self, args: &ConvTangentArgs) {
        let conv = &args.conv;
        let [w, w_dot] = [conv.theta, args.direction].map(|at| self.weights_at(at, conv));
        let terms = [(self.gradient_tangents(args), w), (self.gradients(conv), w_dot)];
        self.data_of(conv, args.input.u, &terms);
    }

    pub fn conv_weights(&mut self, args: &ConvArgs, family: Family) {
        let terms = [(self.values(args), self.gradients(args))];
        self.partials_of(args, family.with_bias, &terms);
    }

    pub fn conv_weights_tangent(&mut self, args: &ConvTangentArgs, family: Family) {
        let conv = &args.conv;
        let mut terms = vec![(self.values(conv), self.gradient_tangents(args))];
        let second = |values_dot| (values_dot, self.gradients(conv));
        terms.extend(self.value_tangents(args).map(second));
        self.partials_of(conv, family.with_bias, &terms);
    }

    pub fn conv_pack(&mut self, args: &ConvArgs) {
        let shape = Shape::of(args);
        let (ci, co, taps) = (shape.from[2], shape.to[2], shape.taps());
        let w = self.weights_at(args.theta, args);
        let index = |i: usize| (i % co * ci + i / co % ci) * taps + i / co / ci;
        let packed = (0..w.len()).map(|i| w[index(i)]).collect();
        self.write(Kind::Real, args.packed, self.r * w.len(), packed);
    }

    /// Adds the chunks: `[tap][ci][co]` to `[co][ci][tap]`.
    pub fn conv_weights_finish(&mut self, args: &FinishArgs) {
        for layer in &args.layers[..self.grid.blocks[2] as usize] {
            let [chunks, taps, rows] = [layer.chunks, layer.taps, layer.rows].map(|n| n as usize);
            let [ci, co] = [layer.inputs, layer.outputs].map(|n| n as usize);
            let count = taps * rows * co;
            let start = self.r * chunks * count;
            let partials = self.memory.reals(layer.partials, start, chunks * count);
            let weight = |i: usize| {
                let at = (i % taps * rows + i / taps % ci) * co + i / taps / ci;
                let own = (0..chunks).map(|chunk| exactly(partials[chunk * count + at]));
                Sum::of(own).rounded(self.t)
            };
            let gradient = (0..co * ci * taps).map(weight).collect();
            let start = self.r * args.parameters as usize + layer.weight as usize;
            self.write(Kind::Real, args.gradient, start, gradient);
        }
    }

    /// Adds the chunks in double precision.
    pub fn plane_finish(&mut self, args: &ConvArgs) {
        let taps = (args.rows * args.cols) as usize;
        let (chunks, sums) = (args.chunks as usize, taps + 1);
        let partials = self.memory.reals(args.partials, self.r * chunks * sums, chunks * sums);
        let total = |t: usize| {
            let own = (0..chunks).map(|chunk| exactly(partials[chunk * sums + t]));
            self.t.round(Sum::of(own).rounded(self.double))
        };
        let first = self.r * args.parameters as usize;
        let (gradient, bias) = ((0..taps).map(total).collect(), total(taps));
        self.write(Kind::Real, args.gradient, first + args.weight as usize, gradient);
        if args.has_bias != 0 {
            self.write(Kind::Real, args.gradient, first + args.bias as usize, vec![bias]);
        }
    }
}
