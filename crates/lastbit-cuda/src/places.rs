//! Which memory the passes over a network need.

use lastbit::activation::Activation;
use lastbit::nn::{Conv, Layer, Network, Op};

use crate::device::{Device, DeviceReal, Memory};
use crate::error::Error;
use crate::fast::Fast;
use crate::jobs::{Address, MOMENTS, View};
use crate::plane::Plane;

/// Chunks of images that a gradient by weights is summed in, at most.
const MOST_CHUNKS: usize = 1024;

/// Everything that is computed for a batch, for all replicas.
#[derive(Debug)]
pub struct Places<F> {
    /// Raw values by layer; none for the input, which has a place of its own.
    raw: Vec<Option<Memory<F>>>,
    /// Values of the layers with a curved activation, each computed once.
    values: Vec<Option<Memory<F>>>,
    /// For each layer whether its gradient is multiplied by a curved activation's slope once, in place.
    sloped: Vec<bool>,
    /// Gradients of values. A place is given up once the layer's own backward pass is done.
    gradients: Vec<Memory<F>>,
    place: Vec<usize>,
    /// The gradients of all layers but the input, where they are to stay.
    kept: Option<Vec<Memory<F>>>,
    /// Whether they are.
    keeps: bool,
    /// For each layer whether it is a sum whose gradient lies where those of its inputs lie.
    in_place: Vec<bool>,
    /// Coefficients of the batch norms.
    norm: Vec<Option<Memory<F>>>,
    moments: Vec<Option<Memory<f64>>>,
    /// Sums per part of the images of the layer in work.
    pub sums: Memory<F>,
    /// Sums per chunk of images of the weights in work.
    pub partials: Memory<F>,
    /// Weights of the layer in work in the order in which a product reads them.
    pub ordered: Memory<F>,
    /// Of the product in work: the input's values and the gradients by its raw values, computed once.
    pub value: Memory<F>,
    pub gradient: Memory<F>,
    /// Kernels in the order in which the fast convolutions read them, forward and transposed.
    packed: [Memory<F>; 2],
    packed_at: Vec<usize>,
    capacity: usize,
}

impl<F: DeviceReal> Places<F> {
    /// For so many replicas with batches of up to `capacity` examples.
    pub fn new(
        device: &Device,
        network: &Network,
        replicas: usize,
        capacity: usize,
    ) -> Result<Self, Error> {
        let layers = network.nodes();
        let in_place = in_place(layers);
        let sloped = (0..layers.len()).map(|l| is_sloped(layers, &in_place, l)).collect();
        let (place, sizes) = recycled(layers, &in_place);
        let each = replicas * capacity;
        let mut raw = Vec::new();
        let mut values = Vec::new();
        let mut norm = Vec::new();
        let mut moments = Vec::new();
        for (l, layer) in layers.iter().enumerate() {
            let (len, channels) = (layer.len(), layer.shape[2]);
            raw.push(if l > 0 { Some(device.zeros(each * len)?) } else { None });
            values.push(if is_curved(layer) { Some(device.zeros(each * len)?) } else { None });
            let has_norm = layer.norm.is_some();
            norm.push(if has_norm { Some(device.zeros(replicas * 5 * channels)?) } else { None });
            moments.push(if has_norm {
                Some(device.zeros(replicas * MOMENTS * channels)?)
            } else {
                None
            });
        }
        let gradients =
            sizes.iter().map(|size| device.zeros(each * size)).collect::<Result<_, _>>()?;
        let channels = layers.iter().map(|layer| layer.shape[2]).max().unwrap_or(0);
        let (mut partials, mut packed, mut packed_at) = (0, 0, Vec::new());
        let (mut ordered, mut value, mut gradient) = (0, 0, 0);
        for layer in layers {
            packed_at.push(packed);
            let Op::Conv(conv) = &layer.op else { continue };
            let from = &layers[layer.inputs[0]];
            let fast = Fast::of(conv, from, layer);
            let weights = partial_weights(conv, from, layer, fast);
            partials = partials.max(most_chunks(weights, capacity, fast) * weights);
            if fast.is_some() {
                packed += replicas * weights;
                gradient = gradient.max(if is_curved(layer) { layer.len() } else { 0 });
            } else if Plane::of(conv, from, layer).is_none() {
                ordered = ordered.max(weights);
                let is_there = is_read_as_is(from) || is_curved(from);
                value = value.max(if is_there { 0 } else { from.len() });
                gradient = gradient.max(if is_read_as_is(layer) { 0 } else { layer.len() });
            }
        }
        Ok(Self {
            raw,
            values,
            sloped,
            gradients,
            place,
            kept: None,
            keeps: false,
            in_place,
            norm,
            moments,
            // A block has at least half an image.
            sums: device.zeros(2 * each * 2 * channels)?,
            partials: device.zeros(replicas * partials)?,
            ordered: device.zeros(replicas * ordered)?,
            value: device.zeros(each * value)?,
            gradient: device.zeros(each * gradient)?,
            packed: [device.zeros(packed)?, device.zeros(packed)?],
            packed_at,
            capacity,
        })
    }

    /// From now on the gradient of each layer stays where it is, in a place of its own.
    pub fn keep(
        &mut self,
        device: &Device,
        network: &Network,
        replicas: usize,
    ) -> Result<(), Error> {
        if self.kept.is_none() {
            let room = |layer: &Layer| device.zeros::<F>(replicas * self.capacity * layer.len());
            let all = network.nodes().iter().skip(1).map(room).collect::<Result<_, _>>()?;
            self.kept = Some(all);
        }
        self.keeps = true;
        Ok(())
    }

    /// From now on places of gradients are used again.
    pub fn recycle(&mut self) {
        self.keeps = false;
    }

    fn gradient_of(&self, l: usize) -> Address {
        match &self.kept {
            _ if l == 0 => 0,
            Some(kept) if self.keeps => kept[l - 1].address(),
            _ => self.gradients[self.place[l]].address(),
        }
    }

    /// How a layer's raw values, and gradients as they were handed to it, are read; that of the input
    /// lacks its values.
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

    /// Where the values of a layer with a curved activation lie.
    pub fn values_of(&self, l: usize) -> Option<Address> {
        self.values[l].as_ref().map(Memory::address)
    }

    /// Whether a layer's gradient is multiplied by a curved activation's slope once it is complete.
    pub fn is_sloped(&self, l: usize) -> bool {
        self.sloped[l] && !self.keeps
    }

    /// Where the coefficients of a layer's batch norm lie.
    pub fn norm_of(&self, l: usize) -> Address {
        self.norm[l].as_ref().map_or(0, Memory::address)
    }

    /// Whether the gradient by a sum lies where those by its inputs lie.
    pub fn is_in_place(&self, l: usize) -> bool {
        self.in_place[l] && !self.keeps
    }

    /// Where the packed kernels of a layer lie, forward and transposed.
    pub fn packed(&self, l: usize) -> [Address; 2] {
        let offset = (self.packed_at[l] * size_of::<F>()) as u64;
        self.packed.each_ref().map(|packed| packed.address() + offset)
    }

    /// Where its moments lie.
    pub fn moments_of(&self, l: usize) -> Address {
        self.moments[l].as_ref().map_or(0, Memory::address)
    }
}

/// Whether values and gradients of a layer are what is stored.
pub fn is_read_as_is(layer: &Layer) -> bool {
    layer.norm.is_none() && layer.activation.is_none()
}

/// Whether a layer's activation is a formula of many operations, which are done once.
pub fn is_curved(layer: &Layer) -> bool {
    !matches!(layer.activation, None | Some(Activation::Relu))
}

/// Whether a layer's complete gradient can be multiplied by its activation's slope in place. A sum
/// in place does that itself; and while such a sum has just handed a gradient on, others have theirs there.
fn is_sloped(layers: &[Layer], in_place: &[bool], l: usize) -> bool {
    // Who hands its gradient on last.
    let last = layers.iter().position(|layer| layer.inputs.contains(&l));
    is_curved(&layers[l]) && !in_place[l] && !last.is_some_and(|last| in_place[last])
}

/// Partial sums of a convolution's weights, with those of channels of zeros; of a plane's also that of
/// the bias.
pub fn partial_weights(conv: &Conv, from: &Layer, to: &Layer, fast: Option<&Fast>) -> usize {
    let inputs = from.shape[2];
    match fast {
        Some(_) => conv.weight.len() / inputs * Fast::rows(inputs),
        None => conv.weight.len() + usize::from(Plane::of(conv, from, to).is_some()),
    }
}

/// Into how many chunks the images are cut for the gradient of so many weights, and how many images
/// a chunk has: many chunks of few weights, to keep a device busy; few of many, to save memory.
pub fn chunks_of_images(weights: usize, images: usize, fast: Option<&Fast>) -> (usize, usize) {
    let each = images.div_ceil(most_chunks(weights, images, fast));
    (images.div_ceil(each), each)
}

/// At most so many chunks, for so many images or fewer.
pub fn most_chunks(weights: usize, images: usize, fast: Option<&Fast>) -> usize {
    const PARTIALS: usize = 1 << 21;
    let smallest = fast.map_or(1, |fast| fast.images_per_chunk);
    (PARTIALS / weights).clamp(1, images.div_ceil(smallest).min(MOST_CHUNKS))
}

/// For each layer whether it is a sum of two others whose gradients may share one place with its own.
/// Both are equal when the sum has handed them on, and whatever is added to one of them later comes from
/// a layer before the other, which by then has used its own. The one that is used first leaves it as it is,
/// unless it is such a sum itself.
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

/// For each layer but the input a place for its gradient, and how many numbers of an image each
/// place must hold. A place is free again when no layer that is still to come has its gradient
/// there.
pub fn recycled(layers: &[Layer], in_place: &[bool]) -> (Vec<usize>, Vec<usize>) {
    let mut places = vec![usize::MAX; layers.len()];
    let mut sizes: Vec<usize> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    for l in (1..layers.len()).rev() {
        let inputs = layers[l].inputs.iter().copied();
        for node in std::iter::once(l).chain(inputs).filter(|node| *node > 0) {
            if places[node] == usize::MAX && node < l && in_place[l] {
                places[node] = places[l];
            } else if places[node] == usize::MAX {
                places[node] = free.pop().unwrap_or_else(|| {
                    sizes.push(0);
                    sizes.len() - 1
                });
            }
            let size = &mut sizes[places[node]];
            *size = layers[node].len().max(*size);
        }
        if !places[..l].contains(&places[l]) {
            free.push(places[l]);
        }
    }
    (places, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_images_and_respect_the_room() {
        for images in [1, 3, 80, 128, 500, 12_665] {
            for weights in [1, 432, 2304, 36_864, 1 << 20, 1 << 22] {
                let (chunks, each) = chunks_of_images(weights, images, None);
                assert!(chunks * each >= images && (chunks - 1) * each < images);
                assert!(chunks == 1 || chunks * weights <= 1 << 21);
                // Room made for a full batch is enough for a smaller one.
                let room = most_chunks(weights, images, None);
                let fewer = (1..=images).step_by(1 + images / 100);
                assert!(fewer.map(|n| chunks_of_images(weights, n, None).0).all(|n| n <= room));
            }
        }
    }
}
