//! A network as data: layers in the order they are computed, and where their parameters lie.
//!
//! A layer computes a *raw* value from the *values* of earlier layers; its own value is the raw one
//! after an optional batch norm and an optional activation:
//!
//! ```text
//! raw = op(values of the inputs)        value = act(norm(raw))
//! ```
//!
//! Only raw values are stored; whoever needs a value applies norm and activation while reading. A
//! fully connected layer is a convolution whose kernel covers its input: PyTorch's weight of
//! `Linear` behind `Flatten` is that kernel, number by number.

use std::ops::Range;

use super::loss::{Batch, Loss};
use crate::Real;
use crate::activation::Activation;

/// A named tensor inside the flat vector of parameters (or of buffers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// As in PyTorch's `state_dict`.
    pub name: String,
    /// As in PyTorch: `[out, in, height, width]`, `[out, in]` or `[channels]`.
    pub shape: Vec<usize>,
    /// Its place.
    pub range: Range<usize>,
    /// What it is.
    pub role: Role,
}

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Weights of a layer; each output sums over `fan_in` inputs.
    Weight {
        /// Inputs of one output.
        fan_in: usize,
    },
    /// Added to each output.
    Bias {
        /// Inputs of one output.
        fan_in: usize,
    },
    /// Scale of a batch norm.
    Scale,
    /// Shift of a batch norm.
    Shift,
    /// Running mean of a batch norm: a buffer.
    RunningMean,
    /// Running variance of a batch norm: a buffer.
    RunningVariance,
}

crate::named_enum! {
    /// How far a convolution's kernel may stick out over the edge.
    pub enum Padding, default Same {
        /// `k − 1` zeros in each direction, the larger half behind: stride 1 keeps the size.
        Same = "same",
        /// Not at all.
        Valid = "valid",
    }
}

/// What a layer computes from its inputs.
#[derive(Debug, Clone)]
pub enum Op {
    /// Nothing: it is the network's input.
    Input,
    /// A convolution or, with a kernel that covers the input, a fully connected layer.
    Conv(Conv),
    /// The sum of all inputs.
    Add,
    /// Maxima or means of windows.
    Pool(Pool),
    /// Every `stride`-th pixel, zero channels before and behind: a shortcut without parameters.
    Subsample {
        /// Pixels from one that is kept to the next.
        stride: usize,
    },
    /// The mean of all numbers of an image.
    Mean,
}

/// A convolution; weights lie as in PyTorch: output, input, kernel row, kernel column.
#[derive(Debug, Clone)]
pub struct Conv {
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Pixels from one place of the kernel to the next.
    pub stride: usize,
    /// Zeros above and to the left.
    pub before: [usize; 2],
    /// Place of the weights among the parameters.
    pub weight: Range<usize>,
    /// Place of the biases.
    pub bias: Option<Range<usize>>,
}

impl Conv {
    /// Whether it is a fully connected layer: its kernel has one place, where it covers the input.
    pub(super) fn is_dense(&self, from: &Layer, to: &Layer) -> bool {
        let [rows, cols, _] = from.shape;
        self.kernel == [rows, cols] && self.before == [0, 0] && to.shape[..2] == [1, 1]
    }
}

/// Pooling: one number for each window and channel.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    /// Which number.
    pub kind: PoolKind,
    /// Height and width of the window.
    pub size: [usize; 2],
    /// Pixels from one window to the next.
    pub stride: usize,
}

/// What pooling makes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest number; of equal ones the first, and NaN counts as largest.
    Max,
    /// The mean.
    Average,
}

/// Batch norm.
#[derive(Debug, Clone)]
pub struct Norm {
    /// Place of the scales among the parameters.
    pub scale: Range<usize>,
    /// Place of the shifts.
    pub shift: Range<usize>,
    /// Place of the running means among the buffers.
    pub mean: Range<usize>,
    /// Place of the running variances.
    pub variance: Range<usize>,
}

/// A layer.
#[derive(Debug, Clone)]
pub struct Layer {
    /// How its raw value comes about.
    pub op: Op,
    /// The layers whose values it reads, all of them earlier ones.
    pub inputs: Vec<usize>,
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// What is done to the raw value first,
    pub norm: Option<Norm>,
    /// and then.
    pub activation: Option<Activation>,
}

#[expect(clippy::len_without_is_empty, reason = "no layer is empty")]
impl Layer {
    /// Numbers of one image.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Numbers of one row of an image.
    pub fn row(&self) -> usize {
        self.shape[1] * self.shape[2]
    }
}

/// A network; its last layer is its output.
#[derive(Debug, Clone)]
pub struct Network {
    pub(super) layers: Vec<Layer>,
    parameters: Vec<Parameter>,
    buffers: Vec<Parameter>,
}

impl Network {
    /// The layers in the order they are computed; the first is the input, the last the output.
    pub fn nodes(&self) -> &[Layer] {
        &self.layers
    }

    /// Whether the output is linear in the parameters, up to a constant: one layer that has some, and
    /// nothing that bends.
    pub fn is_linear(&self) -> bool {
        let bends = |layer: &Layer| {
            let takes_maxima = matches!(&layer.op, Op::Pool(pool) if pool.kind == PoolKind::Max);
            layer.norm.is_some() || layer.activation.is_some() || takes_maxima
        };
        let convs = self.layers.iter().filter(|layer| matches!(layer.op, Op::Conv(_))).count();
        convs <= 1 && !self.layers.iter().any(bends)
    }

    /// Whether this loss of it is a quadratic function of the parameters.
    pub fn is_quadratic(&self, loss: Loss) -> bool {
        loss == Loss::HalfMse && self.is_linear()
    }

    /// Makes sure that a batch fits.
    ///
    /// # Panics
    ///
    /// If it is empty, or its inputs or targets do not fit the network.
    pub fn check_batch<F: Real>(&self, batch: &Batch<F>) {
        let (examples, shape) = (batch.targets.len(self.outputs()), self.input_shape());
        let len: usize = shape.iter().product();
        assert!(examples > 0, "an empty batch");
        assert_eq!(batch.inputs.len(), examples * len, "{examples} inputs of shape {shape:?}");
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.parameters.last().map_or(0, |last| last.range.end)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parameters in PyTorch's order; their ranges tile the flat vector.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Where the parameters of each tensor lie.
    pub fn tensors(&self) -> Vec<Range<usize>> {
        self.parameters.iter().map(|parameter| parameter.range.clone()).collect()
    }

    /// The parameters of each layer that has some (weights and bias, scale and shift), tiling the
    /// flat vector.
    pub fn layers(&self) -> Vec<Range<usize>> {
        fn layer_of(parameter: &Parameter) -> &str {
            parameter.name.rsplit_once('.').map_or("", |(layer, _)| layer)
        }
        let same_layer = |a: &Parameter, b: &Parameter| layer_of(a) == layer_of(b);
        let range = |of: &[Parameter]| of[0].range.start..of[of.len() - 1].range.end;
        self.parameters.chunk_by(same_layer).map(range).collect()
    }

    /// The running statistics of all batch norms, tiling a flat vector of their own.
    pub fn buffers(&self) -> &[Parameter] {
        &self.buffers
    }

    /// Height, width and channels of an input.
    pub fn input_shape(&self) -> [usize; 3] {
        self.layers[0].shape
    }

    /// Numbers in an output.
    pub fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].len()
    }
}

/// A layer under construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(usize);

/// Builds a [`Network`] layer by layer; the calls' order is the order of the parameters.
///
/// ```
/// use lastbit::activation::Activation;
/// use lastbit::nn::{Builder, Padding};
///
/// let mut net = Builder::new([28, 28, 1]);
/// let x = net.conv(net.input(), "conv1", 8, [3, 3], 1, Padding::Same, true);
/// let x = net.activation(x, Activation::Tanh);
/// let x = net.global_average(x);
/// net.linear(x, "fc", 10, true);
/// assert_eq!(net.build().len(), 8 * 9 + 8 + 80 + 10);
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    layers: Vec<Layer>,
    parameters: Vec<Parameter>,
    buffers: Vec<Parameter>,
}

impl Builder {
    /// Starts with inputs of a height, width and number of channels.
    pub fn new(input: [usize; 3]) -> Self {
        assert!(input.iter().all(|&n| n > 0), "input shape {input:?}");
        let input =
            Layer { op: Op::Input, inputs: vec![], shape: input, norm: None, activation: None };
        Self { layers: vec![input], parameters: vec![], buffers: vec![] }
    }

    /// The input.
    pub fn input(&self) -> Node {
        Node(0)
    }

    /// Height, width and channels of a layer.
    pub fn shape(&self, node: Node) -> [usize; 3] {
        self.layers[node.0].shape
    }

    /// Cross-correlation with a kernel `[height, width]`, with parameters `name.weight` and
    /// `name.bias`.
    ///
    /// # Panics
    ///
    /// If the kernel does not fit.
    #[expect(clippy::too_many_arguments, reason = "these are what a convolution has")]
    pub fn conv(
        &mut self,
        from: Node,
        name: &str,
        channels: usize,
        kernel: [usize; 2],
        stride: usize,
        padding: Padding,
        bias: bool,
    ) -> Node {
        let [_, _, inputs] = self.shape(from);
        let shape = vec![channels, inputs, kernel[0], kernel[1]];
        self.correlation(from, name, shape, kernel, stride, padding, bias)
    }

    /// Fully connected, over all of the input in PyTorch's order (channel, row, column).
    pub fn linear(&mut self, from: Node, name: &str, outputs: usize, bias: bool) -> Node {
        let [height, width, channels] = self.shape(from);
        let shape = vec![outputs, height * width * channels];
        self.correlation(from, name, shape, [height, width], 1, Padding::Valid, bias)
    }

    #[expect(clippy::too_many_arguments, reason = "these are what a convolution has")]
    fn correlation(
        &mut self,
        from: Node,
        name: &str,
        shape: Vec<usize>,
        kernel: [usize; 2],
        stride: usize,
        padding: Padding,
        bias: bool,
    ) -> Node {
        let [height, width, _] = self.shape(from);
        let outputs = shape[0];
        let fan_in = shape[1..].iter().product();
        assert!(stride > 0 && outputs > 0 && kernel[0] > 0 && kernel[1] > 0, "{name}: {shape:?}");
        let extent = |size: usize, k: usize| {
            let padded = size + if padding == Padding::Same { k - 1 } else { 0 };
            assert!(padded >= k, "{name}: kernel {kernel:?} over {height}x{width}");
            (padded - k) / stride + 1
        };
        let out = [extent(height, kernel[0]), extent(width, kernel[1]), outputs];
        let before = match padding {
            Padding::Same => kernel.map(|k| (k - 1) / 2),
            Padding::Valid => [0, 0],
        };
        let weight =
            place(&mut self.parameters, format!("{name}.weight"), shape, Role::Weight { fan_in });
        let bias = bias.then(|| {
            let name = format!("{name}.bias");
            place(&mut self.parameters, name, vec![outputs], Role::Bias { fan_in })
        });
        let op = Op::Conv(Conv { kernel, stride, before, weight, bias });
        self.push(op, vec![from.0], out)
    }

    /// Batch norm with parameters `name.weight`, `name.bias` and running statistics.
    pub fn batch_norm(&mut self, node: Node, name: &str) -> Node {
        let bare = |layer: &Layer| layer.norm.is_none() && layer.activation.is_none();
        let node = self.open(node, bare);
        let channels = vec![self.shape(node)[2]];
        let mut parameter = |suffix: &str, role| {
            place(&mut self.parameters, format!("{name}.{suffix}"), channels.clone(), role)
        };
        let (scale, shift) = (parameter("weight", Role::Scale), parameter("bias", Role::Shift));
        let mut buffer = |suffix: &str, role| {
            place(&mut self.buffers, format!("{name}.{suffix}"), channels.clone(), role)
        };
        let mean = buffer("running_mean", Role::RunningMean);
        let variance = buffer("running_var", Role::RunningVariance);
        self.layers[node.0].norm = Some(Norm { scale, shift, mean, variance });
        node
    }

    /// An activation.
    pub fn activation(&mut self, node: Node, activation: Activation) -> Node {
        let node = self.open(node, |layer| layer.activation.is_none());
        self.layers[node.0].activation = Some(activation);
        node
    }

    /// Largest value of each `size`×`size` square, squares `stride` apart.
    pub fn max_pool(&mut self, from: Node, size: usize, stride: usize) -> Node {
        self.pool(from, Pool { kind: PoolKind::Max, size: [size, size], stride })
    }

    /// Mean of each `size`×`size` square, squares `stride` apart.
    pub fn average_pool(&mut self, from: Node, size: usize, stride: usize) -> Node {
        self.pool(from, Pool { kind: PoolKind::Average, size: [size, size], stride })
    }

    /// Mean over all pixels, channel by channel.
    pub fn global_average(&mut self, from: Node) -> Node {
        let [height, width, _] = self.shape(from);
        self.pool(from, Pool { kind: PoolKind::Average, size: [height, width], stride: 1 })
    }

    /// Mean over all pixels and channels: a single number.
    pub fn mean(&mut self, from: Node) -> Node {
        self.push(Op::Mean, vec![from.0], [1, 1, 1])
    }

    fn pool(&mut self, from: Node, pool: Pool) -> Node {
        let [height, width, channels] = self.shape(from);
        let [rows, cols] = pool.size;
        assert!(
            pool.stride > 0 && (1..=height).contains(&rows) && (1..=width).contains(&cols),
            "pooling {rows}x{cols} over {height}x{width}"
        );
        let out = [(height - rows) / pool.stride + 1, (width - cols) / pool.stride + 1, channels];
        self.push(Op::Pool(pool), vec![from.0], out)
    }

    /// Sum of two layers of one shape.
    pub fn add(&mut self, a: Node, b: Node) -> Node {
        assert_eq!(self.shape(a), self.shape(b), "shapes of a sum");
        self.push(Op::Add, vec![a.0, b.0], self.shape(a))
    }

    /// Every `stride`-th pixel with zero channels before and behind, `channels` in all.
    pub fn subsample(&mut self, from: Node, stride: usize, channels: usize) -> Node {
        let [height, width, inputs] = self.shape(from);
        assert!(stride > 0 && channels >= inputs && (channels - inputs).is_multiple_of(2));
        let out = [height.div_ceil(stride), width.div_ceil(stride), channels];
        self.push(Op::Subsample { stride }, vec![from.0], out)
    }

    /// The network whose output is the last layer.
    ///
    /// # Panics
    ///
    /// If there is no layer, or one whose value nobody uses.
    pub fn build(self) -> Network {
        let last = self.layers.len() - 1;
        assert!(last > 0, "a network needs a layer");
        for node in 0..last {
            let used = self.layers.iter().any(|layer| layer.inputs.contains(&node));
            assert!(used, "layer {node} of {last} is used by no other");
        }
        Network { layers: self.layers, parameters: self.parameters, buffers: self.buffers }
    }

    fn push(&mut self, op: Op, inputs: Vec<usize>, shape: [usize; 3]) -> Node {
        self.layers.push(Layer { op, inputs, shape, norm: None, activation: None });
        Node(self.layers.len() - 1)
    }

    /// The node itself where something may still be put behind its raw value, else a copy of it.
    fn open(&mut self, node: Node, is_open: impl Fn(&Layer) -> bool) -> Node {
        let used = self.layers.iter().any(|layer| layer.inputs.contains(&node.0));
        if node.0 > 0 && !used && is_open(&self.layers[node.0]) {
            return node;
        }
        self.push(Op::Add, vec![node.0], self.shape(node))
    }
}

fn place(list: &mut Vec<Parameter>, name: String, shape: Vec<usize>, role: Role) -> Range<usize> {
    assert!(list.iter().all(|other| other.name != name), "{name}: a second parameter of this name");
    let start = list.last().map_or(0, |last| last.range.end);
    let range = start..start + shape.iter().product::<usize>();
    list.push(Parameter { name, shape, range: range.clone(), role });
    range
}
