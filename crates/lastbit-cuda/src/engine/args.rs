//! The arguments of each kernel.

use lastbit::nn::{BatchNormMode, Conv, Layer, Loss, Op, PoolKind};
use lastbit::optim::method::Method;
use lastbit::verdict::BLOW_UP;

use super::Engine;
use crate::conv3x3_plan::Conv3x3Plan;
use crate::device::{DeviceReal, Grid};
use crate::kernel_args::{
    AddArgs, Address, Conv3x3Args, ConvArgs, LossArgs, NormArgs, OpArgs, StepArgs, View,
};
use crate::plane::Plane;
use crate::workspace::{chunks_of_images, partial_weights};

/// Names of the kernels of a sum, a pooling, a subsampling or a mean.
pub(super) struct OpKernels {
    pub forward: &'static str,
    pub backward: &'static str,
    pub forward_tangent: &'static str,
    pub backward_tangent: &'static str,
}

impl OpKernels {
    pub fn of(op: &Op) -> Self {
        macro_rules! named {
            ($op:literal) => {
                Self {
                    forward: concat!($op, "_forward"),
                    backward: concat!($op, "_backward"),
                    forward_tangent: concat!($op, "_forward_tangent"),
                    backward_tangent: concat!($op, "_backward_tangent"),
                }
            };
        }
        match op {
            Op::Add => named!("add"),
            Op::Pool(_) => named!("pool"),
            Op::Subsample { .. } => named!("subsample"),
            Op::Mean => named!("mean"),
            Op::Input | Op::Conv(_) => panic!("the input and convolutions have other kernels"),
        }
    }
}

impl<F: DeviceReal> Engine<F> {
    /// A layer's raw values and gradients, with batch norm and activation.
    pub(super) fn view(&self, l: usize) -> View {
        let view = self.workspace.view(l, &self.network.nodes()[l]);
        if l > 0 {
            return view;
        }
        View { z: self.inputs.address(), slot: self.slots(), ..view }
    }

    /// A layer's values; those of a smooth activation are stored.
    pub(super) fn values(&self, l: usize) -> View {
        let view = self.view(l);
        match self.workspace.values_of(l) {
            Some(z) => View { z, ..view }.plain(),
            None => view,
        }
    }

    /// A layer's complete gradient.
    pub(super) fn gradients_of(&self, l: usize) -> View {
        let view = self.view(l);
        if self.workspace.has_slope_applied(l) { view.without_activation() } else { view }
    }

    pub(super) fn slots(&self) -> Address {
        if self.all_read_slot_0 { self.same_slot.address() } else { self.slot.address() }
    }

    /// The plan of a layer, if it is a 3x3 convolution with kernels of its own.
    pub(super) fn conv3x3_of(&self, l: usize) -> Option<&'static Conv3x3Plan> {
        let layers = self.network.nodes();
        let Op::Conv(conv) = &layers[l].op else { return None };
        Conv3x3Plan::of(conv, &layers[layers[l].inputs[0]], &layers[l])
    }

    /// The kernels of a layer, if it is a convolution from one channel to one channel.
    pub(super) fn plane_of(&self, l: usize) -> Option<&'static Plane> {
        let layers = self.network.nodes();
        let Op::Conv(conv) = &layers[l].op else { return None };
        Plane::of(conv, &layers[layers[l].inputs[0]], &layers[l])
    }

    /// Threads for the results of an op: one for each number, or a warp for each mean.
    pub(super) fn op_grid(&self, layer: &Layer, images: usize) -> Grid {
        let threads = if matches!(layer.op, Op::Mean) { 32 } else { layer.len() };
        Grid::each(images * threads, self.replicas)
    }

    /// A 3x3 convolution to a result of some shape, without weights yet.
    pub(super) fn conv3x3_args(
        &self,
        from: View,
        result: Address,
        [height, width, channels]: [usize; 3],
        images: usize,
    ) -> Conv3x3Args {
        Conv3x3Args {
            from,
            result,
            result_stride: (self.capacity * height * width * channels) as u64,
            bias_stride: self.network.len() as u64,
            channels: channels as i32,
            images: images as i32,
            replicas: self.replicas as i32,
            ..Conv3x3Args::default()
        }
    }

    pub(super) fn add_args(&self, l: usize, images: usize) -> AddArgs {
        let layers = self.network.nodes();
        let [first, second] = layers[l].inputs[..] else { panic!("a sum of two") };
        let has_norm = layers[first].norm.is_some();
        AddArgs {
            first: self.view(first),
            second: self.view(second),
            sum: self.view(l),
            sums: if has_norm { self.workspace.sums.address() } else { 0 },
            images: images as i32,
            unused: 0,
        }
    }

    pub(super) fn conv(&self, conv: &Conv, l: usize, images: usize) -> ConvArgs {
        self.conv_by(self.conv3x3_of(l), conv, l, images)
    }

    /// A convolution whose gradient by weights is summed in the chunks of a plan, or of the general kernels.
    pub(super) fn conv_by(
        &self,
        plan: Option<&Conv3x3Plan>,
        conv: &Conv,
        l: usize,
        images: usize,
    ) -> ConvArgs {
        let layers = self.network.nodes();
        let from = &layers[layers[l].inputs[0]];
        let inputs = from.shape[2];
        let sums = partial_weights(conv, from, &layers[l], plan);
        let (chunks, images_per_chunk) = chunks_of_images(sums, images, plan);
        ConvArgs {
            input: self.values(layers[l].inputs[0]),
            output: self.gradients_of(l),
            theta: self.theta.address(),
            packed: self.workspace.packed_gemm.address(),
            partials: self.workspace.partials_of(l, plan),
            gradient: self.gradient.address(),
            parameters: self.network.len() as u64,
            weight: conv.weight.start as u64,
            bias: conv.bias.as_ref().map_or(0, |range| range.start as u64),
            has_bias: i32::from(conv.bias.is_some()),
            add: 0,
            rows: conv.kernel[0] as i32,
            cols: conv.kernel[1] as i32,
            stride: conv.stride as i32,
            above: conv.before[0] as i32,
            left: conv.before[1] as i32,
            images: images as i32,
            chunks: chunks as i32,
            images_per_chunk: images_per_chunk as i32,
            inputs: if plan.is_some() { Conv3x3Plan::rows(inputs) } else { inputs } as i32,
        }
    }

    /// The batch norm of a layer whose sums are over images or, where a 3x3 convolution computed them, over
    /// the parts of its plan.
    pub(super) fn norm(&self, l: usize, images: usize, by: Option<&Conv3x3Plan>) -> NormArgs {
        let [height, width, _] = self.network.nodes()[l].shape;
        let [parts, pixels] = match by {
            Some(plan) => plan.parts(images),
            None => [images, height * width],
        };
        let start = |range: Option<usize>| range.unwrap_or(0) as u64;
        let norm = self.network.nodes()[l].norm.as_ref();
        let last = self.network.buffers().last();
        NormArgs {
            layer: self.view(l),
            norm: self.workspace.norm_of(l),
            sums: self.workspace.sums.address(),
            moments: self.workspace.moments_of(l),
            theta: self.theta.address(),
            gradient: self.gradient.address(),
            buffers: self.buffers.address(),
            tally: self.tally.address(),
            parameters: self.network.len() as u64,
            statistics: start(last.map(|last| last.range.end)),
            scale: start(norm.map(|norm| norm.scale.start)),
            shift: start(norm.map(|norm| norm.shift.start)),
            mean: start(norm.map(|norm| norm.mean.start)),
            variance: start(norm.map(|norm| norm.variance.start)),
            images: images as i32,
            settle: 0,
            parts: parts as i32,
            pixels: pixels as i32,
            running: i32::from(self.mode == BatchNormMode::Evaluation),
            slopes: 0,
        }
    }

    pub(super) fn op(&self, l: usize, input: usize, images: usize) -> OpArgs {
        let (size, stride, is_max) = match &self.network.nodes()[l].op {
            Op::Pool(pool) => (pool.size, pool.stride, pool.kind == PoolKind::Max),
            Op::Subsample { stride } => ([1, 1], *stride, false),
            _ => ([1, 1], 1, false),
        };
        OpArgs {
            input: self.values(input),
            output: self.gradients_of(l),
            rows: size[0] as i32,
            cols: size[1] as i32,
            stride: stride as i32,
            is_max: i32::from(is_max),
            add: 0,
            images: images as i32,
        }
    }

    pub(super) fn loss(&self, images: usize) -> LossArgs {
        LossArgs {
            output: self.view(self.network.nodes().len() - 1),
            classes: if self.has_classes { self.classes.address() } else { 0 },
            reals: self.reals.address(),
            slot: self.slots(),
            losses: self.losses.address(),
            mean: self.mean.address(),
            answers: self.answers.address(),
            right: self.right.address(),
            kind: match self.loss {
                Loss::CrossEntropy => 0,
                Loss::BinaryCrossEntropy => 1,
                Loss::HalfMse => 2,
            },
            outputs: self.network.outputs() as i32,
            images: images as i32,
            capacity: self.capacity as i32,
        }
    }

    pub(super) fn step(&self, images: usize) -> StepArgs {
        let (method, mu, [beta1, beta2], epsilon) = match self.optimizer.method {
            Method::Sgd | Method::Cfl { .. } => (0, 0.0, [0.0; 2], 0.0),
            Method::HeavyBall { mu } => (1, mu, [0.0; 2], 0.0),
            Method::Nesterov { mu } => (2, mu, [0.0; 2], 0.0),
            Method::Adam { beta1, beta2, epsilon } => (3, 0.0, [beta1, beta2], epsilon),
            Method::NesterovPde { mu } => (4, mu, [0.0; 2], 0.0),
        };
        StepArgs {
            theta: self.theta.address(),
            gradient: self.gradient.address(),
            memory: self.memory.address(),
            tally: self.tally.address(),
            steps: self.steps.address(),
            losses: self.losses.address(),
            right: self.right.address(),
            block_max: self.block_max.address(),
            scale: self.scale.address(),
            parameters: self.network.len() as u64,
            method,
            images: images as i32,
            capacity: self.capacity as i32,
            blocks: self.network.len().div_ceil(256) as i32,
            alpha: self.optimizer.alpha,
            mu,
            beta1,
            beta2,
            c1: 1.0 - beta1,
            c2: 1.0 - beta2,
            epsilon,
            blow_up: BLOW_UP,
        }
    }
}

/// Whether the kernels of `vec4.cu`, whose threads share the pixels of an image, take so many channels.
pub(super) fn has_vec4_sums(channels: usize) -> bool {
    channels.is_power_of_two() && (4..=1024).contains(&channels)
}

/// The kernel of two for so many channels, where threads share the pixels of an image.
pub(super) fn vec4_sums(channels: usize, [one, vec4]: [&'static str; 2]) -> &'static str {
    if has_vec4_sums(channels) { vec4 } else { one }
}

/// The kernel of two for so many channels, and how many numbers a thread computes.
pub(super) fn vec4_if_multiple_of_4(
    channels: usize,
    [one, vec4]: [&'static str; 2],
) -> (&'static str, usize) {
    if channels.is_multiple_of(4) { (vec4, 4) } else { (one, 1) }
}
