//! What each kernel is told.

use lastbit::nn::{Conv, Loss, Op, PoolKind};
use lastbit::optim::direction::Method;
use lastbit::verdict::BLOW_UP;

use super::{Engine, Look};
use crate::device::DeviceReal;
use crate::fast::Fast;
use crate::jobs::{
    Address, ConvJob, FastJob, LossJob, NormJob, OpJob, PackJob, StepJob, SumJob, View,
};
use crate::places::{chunks_of_images, partial_weights};
use crate::plane::Plane;

impl<F: DeviceReal> Engine<F> {
    pub(super) fn view(&self, l: usize) -> View {
        let view = self.places.view(l, &self.network.nodes()[l]);
        if l > 0 {
            return view;
        }
        View { z: self.inputs.address(), slot: self.slots(), ..view }
    }

    /// How a layer's values are read: those of a curved activation as they are.
    pub(super) fn values(&self, l: usize) -> View {
        let view = self.view(l);
        match self.places.values_of(l) {
            Some(z) => View { z, ..view }.as_is(),
            None => view,
        }
    }

    /// How a layer's complete gradient is read.
    pub(super) fn gradients_of(&self, l: usize) -> View {
        let view = self.view(l);
        if self.places.is_sloped(l) { view.without_activation() } else { view }
    }

    pub(super) fn slots(&self) -> Address {
        if self.all_look_at_one { self.same_slot.address() } else { self.slot.address() }
    }

    /// The fast way of a layer, if it is a convolution that has one.
    pub(super) fn fast_of(&self, l: usize) -> Option<&'static Fast> {
        let layers = self.network.nodes();
        let Op::Conv(conv) = &layers[l].op else { return None };
        Fast::of(conv, &layers[layers[l].inputs[0]], &layers[l])
    }

    /// The way of a layer if it is a convolution from one channel to one.
    pub(super) fn plane_of(&self, l: usize) -> Option<&'static Plane> {
        let layers = self.network.nodes();
        let Op::Conv(conv) = &layers[l].op else { return None };
        Plane::of(conv, &layers[layers[l].inputs[0]], &layers[l])
    }

    pub(super) fn pack(&self, conv: &Conv, l: usize) -> PackJob {
        let layers = self.network.nodes();
        let from = &layers[layers[l].inputs[0]];
        let [forward, backward] = self.places.packed(l);
        PackJob {
            theta: self.theta.address(),
            forward,
            backward,
            parameters: self.network.len() as u64,
            weight: conv.weight.start as u64,
            stride: partial_weights(conv, from, &layers[l], self.fast_of(l)) as u64,
            inputs: from.shape[2] as i32,
            outputs: layers[l].shape[2] as i32,
            rows: Fast::rows(from.shape[2]) as i32,
            unused: 0,
        }
    }

    /// A fast convolution from what is read to a result of some shape, without kernels yet.
    pub(super) fn fast_job(
        &self,
        from: View,
        result: Address,
        [height, width, channels]: [usize; 3],
        images: usize,
    ) -> FastJob {
        let pixels = height * width;
        FastJob {
            from,
            result,
            kernels: 0,
            bias: 0,
            sums: 0,
            result_stride: (self.capacity * pixels * channels) as u64,
            kernels_stride: 0,
            bias_stride: self.network.len() as u64,
            channels: channels as i32,
            add: 0,
            images: images as i32,
            replicas: self.replicas as i32,
        }
    }

    pub(super) fn sum(&self, l: usize, images: usize) -> SumJob {
        let layers = self.network.nodes();
        let [first, second] = layers[l].inputs[..] else { panic!("a sum of two") };
        let has_norm = layers[first].norm.is_some();
        SumJob {
            first: self.view(first),
            second: self.view(second),
            sum: self.view(l),
            sums: if has_norm { self.places.sums.address() } else { 0 },
            images: images as i32,
            unused: 0,
        }
    }

    pub(super) fn conv(&self, conv: &Conv, l: usize, images: usize) -> ConvJob {
        self.conv_by(self.fast_of(l), conv, l, images)
    }

    /// A convolution whose weights' gradient is summed as the fast kernels do, or as the others.
    pub(super) fn conv_by(
        &self,
        fast: Option<&Fast>,
        conv: &Conv,
        l: usize,
        images: usize,
    ) -> ConvJob {
        let layers = self.network.nodes();
        let from = &layers[layers[l].inputs[0]];
        let sums = partial_weights(conv, from, &layers[l], fast);
        let (chunks, images_per_chunk) = chunks_of_images(sums, images, fast);
        ConvJob {
            input: self.values(layers[l].inputs[0]),
            output: self.gradients_of(l),
            theta: self.theta.address(),
            packed: self.places.ordered.address(),
            partials: self.places.partials.address(),
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
            inputs: if fast.is_some() { Fast::rows(from.shape[2]) } else { from.shape[2] } as i32,
        }
    }

    /// The batch norm of a layer whose sums are those of images or, made by a fast convolution, of
    /// what its blocks have.
    pub(super) fn norm(&self, l: usize, images: usize, by: Option<&Fast>) -> NormJob {
        let [height, width, _] = self.network.nodes()[l].shape;
        let [parts, pixels] = match by {
            Some(fast) => fast.parts(images),
            None => [images, height * width],
        };
        let place = |range: Option<usize>| range.unwrap_or(0) as u64;
        let norm = self.network.nodes()[l].norm.as_ref();
        let last = self.network.buffers().last();
        NormJob {
            layer: self.view(l),
            norm: self.places.norm_of(l),
            sums: self.places.sums.address(),
            moments: self.places.moments_of(l),
            theta: self.theta.address(),
            gradient: self.gradient.address(),
            buffers: self.buffers.address(),
            tally: self.tally.address(),
            parameters: self.network.len() as u64,
            statistics: place(last.map(|last| last.range.end)),
            scale: place(norm.map(|norm| norm.scale.start)),
            shift: place(norm.map(|norm| norm.shift.start)),
            mean: place(norm.map(|norm| norm.mean.start)),
            variance: place(norm.map(|norm| norm.variance.start)),
            images: images as i32,
            settle: 0,
            parts: parts as i32,
            pixels: pixels as i32,
            running: i32::from(self.look == Look::Running),
            slopes: 0,
        }
    }

    pub(super) fn op(&self, l: usize, input: usize, images: usize) -> OpJob {
        let (size, stride, largest) = match &self.network.nodes()[l].op {
            Op::Pool(pool) => (pool.size, pool.stride, pool.kind == PoolKind::Max),
            Op::Subsample { stride } => ([1, 1], *stride, false),
            _ => ([1, 1], 1, false),
        };
        OpJob {
            input: self.values(input),
            output: self.gradients_of(l),
            rows: size[0] as i32,
            cols: size[1] as i32,
            stride: stride as i32,
            largest: i32::from(largest),
            add: 0,
            images: images as i32,
        }
    }

    pub(super) fn loss(&self, images: usize) -> LossJob {
        LossJob {
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

    pub(super) fn step(&self, images: usize) -> StepJob {
        let (method, mu, [beta1, beta2], epsilon) = match self.optimizer.method {
            Method::Sgd | Method::Cfl { .. } => (0, 0.0, [0.0; 2], 0.0),
            Method::HeavyBall { mu } => (1, mu, [0.0; 2], 0.0),
            Method::Nesterov { mu } => (2, mu, [0.0; 2], 0.0),
            Method::Adam { beta1, beta2, epsilon } => (3, 0.0, [beta1, beta2], epsilon),
            Method::NesterovPde { mu } => (4, mu, [0.0; 2], 0.0),
        };
        StepJob {
            theta: self.theta.address(),
            gradient: self.gradient.address(),
            memory: self.memory.address(),
            tally: self.tally.address(),
            steps: self.steps.address(),
            losses: self.losses.address(),
            right: self.right.address(),
            largest: self.largest.address(),
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

/// Whether the kernels of `fours.cu` take so many channels.
pub(super) fn goes_by_fours(channels: usize) -> bool {
    channels.is_power_of_two() && (4..=1024).contains(&channels)
}

/// The kernel for so many channels, and how many numbers a thread has.
pub(super) fn each_by_fours(
    channels: usize,
    [one, fours]: [&'static str; 2],
) -> (&'static str, usize) {
    if channels.is_multiple_of(4) { (fours, 4) } else { (one, 1) }
}

/// The kernel for so many channels, where threads share the pixels of an image.
pub(super) fn by_fours(channels: usize, [one, fours]: [&'static str; 2]) -> &'static str {
    if goes_by_fours(channels) { fours } else { one }
}
