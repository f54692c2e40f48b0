//! Which memory the passes over a network need.

use lastbit::activation::Activation;
use lastbit::nn::{Layer, Network, Op};

use crate::device::{Device, DeviceReal, Memory};
use crate::error::Error;
use crate::jobs::{Address, View};

/// Everything that is computed for a batch, for all replicas.
#[derive(Debug)]
pub struct Places<F> {
    /// Raw values by layer; none for the input, which has a place of its own.
    raw: Vec<Option<Memory<F>>>,
    /// Gradients of values. A place is given up once the layer's own backward pass is done.
    gradients: Vec<Memory<F>>,
    place: Vec<usize>,
    /// Coefficients of the batch norms.
    norm: Vec<Option<Memory<F>>>,
    moments: Vec<Option<Memory<f64>>>,
    /// Sums per image of the layer in work.
    pub sums: Memory<F>,
    /// Sums per chunk of images of the weights in work.
    pub partials: Memory<F>,
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
        let layers = network.layers();
        let (place, sizes) = recycled(network);
        let each = replicas * capacity;
        let mut raw = Vec::new();
        let mut norm = Vec::new();
        let mut moments = Vec::new();
        for (l, layer) in layers.iter().enumerate() {
            let (len, channels) = (layer.len(), layer.shape[2]);
            raw.push(if l > 0 { Some(device.zeros(each * len)?) } else { None });
            let has_norm = layer.norm.is_some();
            norm.push(if has_norm { Some(device.zeros(replicas * 5 * channels)?) } else { None });
            moments.push(if has_norm { Some(device.zeros(replicas * 2 * channels)?) } else { None });
        }
        let gradients =
            sizes.iter().map(|size| device.zeros(each * size)).collect::<Result<_, _>>()?;
        let channels = layers.iter().map(|layer| layer.shape[2]).max().unwrap_or(0);
        let partials = layers
            .iter()
            .filter_map(|layer| match &layer.op {
                Op::Conv(conv) => {
                    let weights = conv.weight.len();
                    Some(most_chunks(weights, capacity) * weights)
                }
                _ => None,
            })
            .max()
            .unwrap_or(0);
        Ok(Self {
            raw,
            gradients,
            place,
            norm,
            moments,
            sums: device.zeros(each * 2 * channels)?,
            partials: device.zeros(replicas * partials)?,
            capacity,
        })
    }

    /// How a layer is read; that of the input lacks its values.
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
            u: if l > 0 { self.gradients[self.place[l]].address() } else { 0 },
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

    /// Where the coefficients of a layer's batch norm lie.
    pub fn norm_of(&self, l: usize) -> Address {
        self.norm[l].as_ref().map_or(0, Memory::address)
    }

    /// Where its moments lie.
    pub fn moments_of(&self, l: usize) -> Address {
        self.moments[l].as_ref().map_or(0, Memory::address)
    }
}

/// Into how many chunks the images are cut for the gradient of so many weights, and how many images
/// a chunk has: many chunks of few weights, to keep a device busy; few of many, to save memory.
pub fn chunks_of_images(weights: usize, images: usize) -> (usize, usize) {
    let each = images.div_ceil(most_chunks(weights, images));
    (images.div_ceil(each), each)
}

/// At most so many chunks, for so many images or fewer.
fn most_chunks(weights: usize, images: usize) -> usize {
    const PARTIALS: usize = 1 << 20;
    const SMALLEST_CHUNK: usize = 4;
    (PARTIALS / weights).clamp(1, images.div_ceil(SMALLEST_CHUNK))
}

/// For each layer but the input a place for its gradient, and how many numbers of an image each
/// place must hold.
fn recycled(network: &Network) -> (Vec<usize>, Vec<usize>) {
    let layers = network.layers();
    let mut places = vec![usize::MAX; layers.len()];
    let mut sizes: Vec<usize> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    for layer in (1..layers.len()).rev() {
        let inputs = layers[layer].inputs.iter().copied();
        for node in std::iter::once(layer).chain(inputs).filter(|node| *node > 0) {
            if places[node] == usize::MAX {
                places[node] = free.pop().unwrap_or_else(|| {
                    sizes.push(0);
                    sizes.len() - 1
                });
            }
            let size = &mut sizes[places[node]];
            *size = layers[node].len().max(*size);
        }
        free.push(places[layer]);
    }
    (places, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_images_and_respect_the_room() {
        for images in [1, 3, 80, 128, 500] {
            for weights in [1, 432, 2304, 36_864, 1 << 20, 1 << 22] {
                let (chunks, each) = chunks_of_images(weights, images);
                assert!(chunks * each >= images && (chunks - 1) * each < images);
                assert!(chunks == 1 || chunks * weights <= 1 << 20);
                // Room made for a full batch is enough for a smaller one.
                let room = most_chunks(weights, images);
                assert!((1..=images).all(|fewer| chunks_of_images(weights, fewer).0 <= room));
            }
        }
    }
}
