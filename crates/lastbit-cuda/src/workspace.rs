//! Device memory of the passes over a network.

use std::collections::VecDeque;

use lastbit::activation::Activation;
use lastbit::nn::{Conv, Layer, Network, Op};

use crate::conv3x3_plan::Conv3x3Plan;
use crate::device::{Device, DeviceReal, DeviceValue, Memory};
use crate::error::Error;
use crate::kernel_args::{Address, MOMENTS, View};
use crate::plane::Plane;

/// Most chunks of images that a gradient by weights is summed in.
const MAX_CHUNKS: usize = 1024;

/// Everything that is computed for a batch, for all replicas.
#[derive(Debug)]
pub struct Workspace<F> {
    /// Raw values by layer; none for the input, whose batch the engine stores.
    raw: Vec<Option<Memory<F>>>,
    /// Values of the layers with a smooth activation, each computed once.
    values: Vec<Option<Memory<F>>>,
    /// For each layer whether its gradient is multiplied by a smooth activation's slope once, in place.
    slope_applied: Vec<bool>,
    /// Gradients of values. Layers share buffers: one is free again once the backward pass of its layer is
    /// done.
    gradients: Vec<Memory<F>>,
    /// The index of each layer's buffer.
    buffer: Vec<usize>,
    /// Gradients of all layers but the input in buffers of their own, for Hessian-vector products.
    kept: Option<Vec<Memory<F>>>,
    /// Whether `kept` is in use.
    keeps: bool,
    /// For each layer whether it is a sum that shares its gradient's buffer with its inputs.
    in_place: Vec<bool>,
    /// For each layer the sum to whose gradient it adds that of its input, in another buffer.
    added: Vec<Option<usize>>,
    /// Coefficients of the batch norms.
    norm: Vec<Option<Memory<F>>>,
    moments: Vec<Option<Memory<f64>>>,
    /// Sums per part of the images of the current layer.
    pub sums: Memory<F>,
    /// Sums per chunk of images of weights, and where those of a layer begin: 3x3 convolutions have memory of their
    /// own, where the sums stay until all layers are finished; the others share the end.
    partials: Memory<F>,
    partials_at: Vec<usize>,
    /// Weights of the current layer in the order in which a matrix product reads them.
    pub packed_gemm: Memory<F>,
    /// For the current matrix product: the input's values and the gradients by its raw values.
    pub value: Memory<F>,
    pub gradient: Memory<F>,
    /// Weights in the order in which the 3x3 convolutions read them, forward and transposed, and where those
    /// of a layer begin.
    packed: [Memory<F>; 2],
    packed_at: Vec<usize>,
    capacity: usize,
}

impl<F: DeviceReal> Workspace<F> {
    /// For so many replicas with batches of up to `capacity` examples.
    pub fn new(
        device: &Device,
        network: &Network,
        replicas: usize,
        capacity: usize,
    ) -> Result<Self, Error> {
        let layers = network.nodes();
        let in_place = in_place(layers);
        let added = added(layers, &in_place);
        let slope_applied =
            (0..layers.len()).map(|l| has_slope_applied(layers, &in_place, l)).collect();
        let (buffer, sizes) = shared_buffers(layers, &in_place, &added, RESTING);
        let each = replicas * capacity;
        let mut raw = Vec::new();
        let mut values = Vec::new();
        let mut norm = Vec::new();
        let mut moments = Vec::new();
        for (l, layer) in layers.iter().enumerate() {
            let (len, channels) = (layer.len(), layer.shape[2]);
            raw.push(zeros_if(device, l > 0, each * len)?);
            values.push(zeros_if(device, is_smooth(layer), each * len)?);
            let has_norm = layer.norm.is_some();
            norm.push(zeros_if(device, has_norm, replicas * 5 * channels)?);
            moments.push(zeros_if(device, has_norm, replicas * MOMENTS * channels)?);
        }
        let gradients =
            sizes.iter().map(|size| device.zeros(each * size)).collect::<Result<_, _>>()?;
        let channels = layers.iter().map(|layer| layer.shape[2]).max().unwrap_or(0);
        let (mut packed, mut packed_at, mut packed_gemm) = (0, Vec::new(), 0);
        let (mut shared_partials, mut partials, mut partials_at) = (0, 0, Vec::new());
        let (mut value, mut gradient) = (0, 0);
        for layer in layers {
            packed_at.push(packed);
            partials_at.push(partials);
            let Op::Conv(conv) = &layer.op else { continue };
            let from = &layers[layer.inputs[0]];
            let plan = Conv3x3Plan::of(conv, from, layer);
            let weights = partial_weights(conv, from, layer, plan);
            let sums = max_chunks(weights, capacity, plan) * weights;
            if plan.is_some() {
                partials += replicas * sums;
                packed += replicas * weights;
                gradient = gradient.max(if is_smooth(layer) { layer.len() } else { 0 });
                continue;
            }
            shared_partials = shared_partials.max(sums);
            if Plane::of(conv, from, layer).is_none() {
                packed_gemm = packed_gemm.max(weights);
                let is_formed = is_linear(from) || is_smooth(from);
                value = value.max(if is_formed { 0 } else { from.len() });
                gradient = gradient.max(if is_linear(layer) { 0 } else { layer.len() });
            }
        }
        partials_at.push(partials);
        Ok(Self {
            raw,
            values,
            slope_applied,
            gradients,
            buffer,
            kept: None,
            keeps: false,
            in_place,
            added,
            norm,
            moments,
            // A block sums over at least half an image.
            sums: device.zeros(2 * each * 2 * channels)?,
            partials: device.zeros(partials + replicas * shared_partials)?,
            partials_at,
            packed_gemm: device.zeros(replicas * packed_gemm)?,
            value: device.zeros(each * value)?,
            gradient: device.zeros(each * gradient)?,
            packed: [device.zeros(packed)?, device.zeros(packed)?],
            packed_at,
            capacity,
        })
    }

    /// From now on each layer's gradient has a buffer of its own, and stays there.
    pub fn keep(
        &mut self,
        device: &Device,
        network: &Network,
        replicas: usize,
    ) -> Result<(), Error> {
        if self.kept.is_none() {
            let zeros = |layer: &Layer| device.zeros::<F>(replicas * self.capacity * layer.len());
            let all = network.nodes().iter().skip(1).map(zeros).collect::<Result<_, _>>()?;
            self.kept = Some(all);
        }
        self.keeps = true;
        Ok(())
    }

    /// From now on layers share buffers of gradients again.
    pub fn recycle(&mut self) {
        self.keeps = false;
    }

    fn gradient_of(&self, l: usize) -> Address {
        match &self.kept {
            _ if l == 0 => 0,
            Some(kept) if self.keeps => kept[l - 1].address(),
            _ => self.gradients[self.buffer[l]].address(),
        }
    }

    /// A layer's raw values and its gradient by values; of the input without the values.
    pub fn view(&self, l: usize, layer: &Layer) -> View {
        let [height, width, channels] = layer.shape.map(|n| n as i32);
        let (activation, beta) = match layer.activation {
            None => (0, 0.0),
            Some(Activation::Relu) => (1, 0.0),
            Some(Activation::Tanh) => (2, 0.0),
            Some(Activation::Sigmoid) => (3, 0.0),
            Some(Activation::Swish { beta }) => (4, beta),
        };
        View {
            z: self.raw[l].as_ref().map_or(0, Memory::address),
            u: self.gradient_of(l),
            norm: self.norm_of(l),
            slot: 0,
            stride: (self.capacity * layer.len()) as u64,
            height,
            width,
            channels,
            activation,
            beta,
        }
    }

    /// Address of the values of a layer with a smooth activation.
    pub fn values_of(&self, l: usize) -> Option<Address> {
        self.values[l].as_ref().map(Memory::address)
    }

    /// Whether a layer's gradient is multiplied by a smooth activation's slope once it is complete.
    pub fn has_slope_applied(&self, l: usize) -> bool {
        self.slope_applied[l] && !self.keeps
    }

    /// Address of the coefficients of a layer's batch norm.
    pub fn norm_of(&self, l: usize) -> Address {
        self.norm[l].as_ref().map_or(0, Memory::address)
    }

    /// Whether the gradients by a sum and by its inputs share one buffer.
    pub fn is_in_place(&self, l: usize) -> bool {
        self.in_place[l] && !self.keeps
    }

    /// The sum to whose gradient a layer adds that of its input, if it is in another buffer.
    pub fn added_by(&self, l: usize) -> Option<usize> {
        self.added[l].filter(|_| !self.keeps)
    }

    /// Memory of packed weights, forward and transposed.
    pub fn packed(&self) -> &[Memory<F>; 2] {
        &self.packed
    }

    /// Bytes of packed weights before those of a layer.
    pub fn packed_offset(&self, l: usize) -> u64 {
        (self.packed_at[l] * size_of::<F>()) as u64
    }

    /// Address of the sums per chunk of images of a layer's weights.
    pub fn partials_of(&self, l: usize, plan: Option<&Conv3x3Plan>) -> Address {
        let shared = self.partials_at[self.partials_at.len() - 1];
        let first = if plan.is_some() { self.partials_at[l] } else { shared };
        self.partials.address() + (first * size_of::<F>()) as u64
    }

    /// Address of the moments of a layer's batch norm.
    pub fn moments_of(&self, l: usize) -> Address {
        self.moments[l].as_ref().map_or(0, Memory::address)
    }
}

/// Memory of zeros, where it is needed.
pub fn zeros_if<T: DeviceValue>(
    device: &Device,
    is_needed: bool,
    len: usize,
) -> Result<Option<Memory<T>>, Error> {
    is_needed.then(|| device.zeros(len)).transpose()
}

/// Whether a layer has neither batch norm nor activation.
pub fn is_linear(layer: &Layer) -> bool {
    layer.norm.is_none() && layer.activation.is_none()
}

/// Whether a layer's activation takes many operations (tanh, sigmoid, Swish), so that it is computed once.
pub fn is_smooth(layer: &Layer) -> bool {
    !matches!(layer.activation, None | Some(Activation::Relu))
}

/// Whether a layer's complete gradient can be multiplied by its activation's slope in place. A sum in
/// place does that itself; and a gradient that such a sum wrote last is in a buffer that others read.
fn has_slope_applied(layers: &[Layer], in_place: &[bool], l: usize) -> bool {
    // The last layer that adds to the gradient.
    let last = layers.iter().position(|layer| layer.inputs.contains(&l));
    is_smooth(&layers[l]) && !in_place[l] && !last.is_some_and(|last| in_place[last])
}

/// Partial sums of a convolution's gradient by weights, including padded channels; with one channel on
/// both sides also that of the bias.
pub fn partial_weights(conv: &Conv, from: &Layer, to: &Layer, plan: Option<&Conv3x3Plan>) -> usize {
    let inputs = from.shape[2];
    match plan {
        Some(_) => conv.weight.len() / inputs * Conv3x3Plan::rows(inputs),
        None => conv.weight.len() + usize::from(Plane::of(conv, from, to).is_some()),
    }
}

/// Number of chunks that images are divided into for the gradient by so many weights, and images per
/// chunk: many chunks for few weights, to keep the device busy; few for many, to save memory.
pub fn chunks_of_images(
    weights: usize,
    images: usize,
    plan: Option<&Conv3x3Plan>,
) -> (usize, usize) {
    let each = images.div_ceil(max_chunks(weights, images, plan));
    (images.div_ceil(each), each)
}

/// Upper bound of the number of chunks, for so many images or fewer.
pub fn max_chunks(weights: usize, images: usize, plan: Option<&Conv3x3Plan>) -> usize {
    const PARTIALS: usize = 1 << 21;
    let smallest = plan.map_or(1, |plan| plan.images_per_chunk);
    (PARTIALS / weights).clamp(1, images.div_ceil(smallest).min(MAX_CHUNKS))
}

/// For each layer whether it is a sum of two others whose gradients may share one buffer with its own.
/// Both gradients are equal when the sum has written them, and whatever is added to one of them later
/// comes from a layer before the other, which by then has read its own. The first to read the buffer
/// leaves it unchanged, unless it is such a sum itself.
fn in_place(layers: &[Layer]) -> Vec<bool> {
    let mut all: Vec<bool> = Vec::new();
    for (l, layer) in layers.iter().enumerate() {
        let later = |input: usize, other: usize| {
            let uses = |user: &usize| layers[*user].inputs.contains(&input);
            (0..layers.len()).filter(uses).all(|user| user == l || user < other)
        };
        all.push(match layer.inputs[..] {
            [a, b] if matches!(layer.op, Op::Add) && a != b && a * b > 0 => {
                later(a, b) && later(b, a) && !all[a.max(b)]
            }
            _ => false,
        });
    }
    all
}

/// For each layer the sum to whose gradient it adds that of its input. The gradients by a sum in place and by its inputs
/// are equal. Where such an input is read by another layer, too, and this is a 3x3 convolution, that layer does not
/// add to the buffer of the sum, which kernels beside the main stream may still read, but writes into another.
fn added(layers: &[Layer], in_place: &[bool]) -> Vec<Option<usize>> {
    let mut all = vec![None; layers.len()];
    for (sum, layer) in layers.iter().enumerate().filter(|(sum, _)| in_place[*sum]) {
        for input in &layer.inputs {
            let Some(next) = layers[..sum].iter().rposition(|other| other.inputs.contains(input))
            else {
                continue;
            };
            let Op::Conv(conv) = &layers[next].op else { continue };
            let plan = Conv3x3Plan::of(conv, &layers[*input], &layers[next]);
            if plan.and_then(Conv3x3Plan::data).is_some() {
                all[next] = Some(sum);
            }
        }
    }
    all
}

/// Buffers of gradients that are free and wait before they are used again, so that a gradient by weights may still
/// read them.
pub const RESTING: usize = 2;

/// The buffer of each layer's gradient (none for the input), and how many numbers of an image each
/// buffer must hold. A buffer is free again when no layer that is still to come uses it; it is used again when
/// `resting` others have become free after it.
pub fn shared_buffers(
    layers: &[Layer],
    in_place: &[bool],
    added: &[Option<usize>],
    resting: usize,
) -> (Vec<usize>, Vec<usize>) {
    // Whether an input of a sum gets another buffer later.
    let moves = |input: usize, sum: usize| {
        let is_it =
            |(l, of): (usize, &Option<usize>)| *of == Some(sum) && layers[l].inputs[0] == input;
        added.iter().enumerate().any(is_it)
    };
    let mut buffers = vec![usize::MAX; layers.len()];
    let mut sizes: Vec<usize> = Vec::new();
    let mut free: VecDeque<usize> = VecDeque::new();
    for l in (1..layers.len()).rev() {
        let inputs = layers[l].inputs.iter().copied();
        for node in std::iter::once(l).chain(inputs).filter(|node| *node > 0) {
            if buffers[node] == usize::MAX && node < l && in_place[l] {
                if !moves(node, l) {
                    buffers[node] = buffers[l];
                }
            } else if buffers[node] == usize::MAX {
                let rested = if free.len() > resting { free.pop_front() } else { None };
                buffers[node] = rested.unwrap_or_else(|| {
                    sizes.push(0);
                    sizes.len() - 1
                });
            }
            if let Some(size) = sizes.get_mut(buffers[node]) {
                *size = layers[node].len().max(*size);
            }
        }
        // Of its own buffer, and of that which it adds to: whether no layer before it uses the buffer.
        let own = [Some(l), added[l]].into_iter().flatten().map(|layer| buffers[layer]);
        for buffer in own {
            let adds = |sum: &Option<usize>| sum.is_some_and(|sum| buffers[sum] == buffer);
            let is_used = buffers[..l].contains(&buffer) || added[..l].iter().any(adds);
            if !is_used && !free.contains(&buffer) {
                free.push_back(buffer);
            }
        }
    }
    (buffers, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_images_and_fit_into_memory() {
        for images in [1, 3, 80, 128, 500, 12_665] {
            for weights in [1, 432, 2304, 36_864, 1 << 20, 1 << 22] {
                let (chunks, each) = chunks_of_images(weights, images, None);
                assert!(chunks * each >= images && (chunks - 1) * each < images);
                assert!(chunks == 1 || chunks * weights <= 1 << 21);
                // Memory for a full batch is enough for a smaller one.
                let most = max_chunks(weights, images, None);
                let fewer = (1..=images).step_by(1 + images / 100);
                assert!(fewer.map(|n| chunks_of_images(weights, n, None).0).all(|n| n <= most));
            }
        }
    }
}
