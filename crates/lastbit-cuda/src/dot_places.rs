//! Which memory derivatives along a direction need, beside that of the values and gradients.

use lastbit::nn::{Network, Op};

use crate::device::{Device, DeviceReal, Memory};
use crate::error::Error;
use crate::fast::Fast;
use crate::jobs::{Address, Dots};
use crate::places::{most_chunks, partial_weights, recycled};

/// Everything that moves along a direction, for all replicas.
#[derive(Debug)]
pub struct DotPlaces<F> {
    /// Derivatives of raw values by layer; none for the input.
    raw: Vec<Option<Memory<F>>>,
    /// Derivatives of gradients. A place is given up once the layer's own backward pass is done.
    gradients: Vec<Memory<F>>,
    place: Vec<usize>,
    /// Derivatives of the batch norms' coefficients.
    norm: Vec<Option<Memory<F>>>,
    /// Of the convolution in work: the input's values and their derivatives, and the gradients by its
    /// raw values, each computed once.
    pub value: Memory<F>,
    pub value_dot: Memory<F>,
    pub gradient: Memory<F>,
    /// Its weights, and the direction's, in the order in which a product reads them.
    pub ordered: [Memory<F>; 2],
    /// Sums per chunk of images of the weights in work.
    pub partials: Memory<F>,
    /// The direction, and the derivative of the gradient.
    pub direction: Memory<F>,
    pub product: Memory<F>,
}

impl<F: DeviceReal> DotPlaces<F> {
    /// For so many replicas with batches of up to `capacity` examples.
    pub fn new(
        device: &Device,
        network: &Network,
        replicas: usize,
        capacity: usize,
    ) -> Result<Self, Error> {
        let layers = network.nodes();
        let (place, sizes) = recycled(layers, &vec![false; layers.len()]);
        let each = replicas * capacity;
        let (mut raw, mut norm) = (Vec::new(), Vec::new());
        let (mut partials, mut ordered, mut most) = (0, 0, 0);
        for (l, layer) in layers.iter().enumerate() {
            raw.push(if l > 0 { Some(device.zeros(each * layer.len())?) } else { None });
            norm.push(match layer.norm {
                Some(_) => Some(device.zeros(replicas * 5 * layer.shape[2])?),
                None => None,
            });
            most = most.max(layer.len());
            if let Op::Conv(conv) = &layer.op {
                let from = &layers[layer.inputs[0]];
                // The fast kernels make two sums, one after the other.
                for (fast, sums) in [(None, 1), (Fast::of(conv, from, layer), 2)] {
                    let weights = partial_weights(conv, from, layer, fast);
                    ordered = ordered.max(weights);
                    partials = partials.max(sums * most_chunks(weights, capacity, fast) * weights);
                }
            }
        }
        let gradients =
            sizes.iter().map(|size| device.zeros(each * size)).collect::<Result<_, _>>()?;
        Ok(Self {
            raw,
            gradients,
            place,
            norm,
            value: device.zeros(each * most)?,
            value_dot: device.zeros(each * most)?,
            gradient: device.zeros(each * most)?,
            ordered: [device.zeros(replicas * ordered)?, device.zeros(replicas * ordered)?],
            partials: device.zeros(replicas * partials)?,
            direction: device.zeros(replicas * network.len())?,
            product: device.zeros(replicas * network.len())?,
        })
    }

    /// Where the derivatives of a layer lie; the input has none.
    pub fn of(&self, l: usize) -> Dots {
        let address = |memory: &Option<Memory<F>>| memory.as_ref().map_or(0, Memory::address);
        Dots {
            z: address(&self.raw[l]),
            u: if l > 0 { self.gradients[self.place[l]].address() } else { 0 },
            norm: self.norm_of(l),
        }
    }

    /// Where the derivatives of a batch norm's coefficients lie.
    pub fn norm_of(&self, l: usize) -> Address {
        self.norm[l].as_ref().map_or(0, Memory::address)
    }
}
