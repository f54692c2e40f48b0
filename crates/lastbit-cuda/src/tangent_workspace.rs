//! Device memory of Hessian-vector products, beside that of the values and gradients.

use lastbit::nn::{Network, Op};

use crate::conv3x3_plan::Conv3x3Plan;
use crate::device::{Device, DeviceReal, Memory};
use crate::error::Error;
use crate::kernel_args::{Address, Tangents};
use crate::workspace::{RESTING, max_chunks, partial_weights, shared_buffers, zeros_if};

/// Everything that has a tangent, for all replicas.
#[derive(Debug)]
pub struct TangentWorkspace<F> {
    /// Tangents of raw values by layer; none for the input.
    raw: Vec<Option<Memory<F>>>,
    /// Tangents of gradients, in buffers that layers share, and the index of each layer's buffer.
    gradients: Vec<Memory<F>>,
    buffer: Vec<usize>,
    /// Tangents of the batch norms' coefficients.
    norm: Vec<Option<Memory<F>>>,
    /// Tangents of the values that 3x3 convolutions with kernels of their own read, by layer: forward and, later, for
    /// the gradient by weights.
    values: Vec<Option<Memory<F>>>,
    /// For the current convolution of another kind: the input's values and their tangents, and the gradients by its
    /// raw values.
    pub value: Memory<F>,
    pub value_dot: Memory<F>,
    pub gradient: Memory<F>,
    /// Its weights, and the direction's, in the order in which a matrix product reads them.
    pub packed_gemm: [Memory<F>; 2],
    /// The direction's weights in the order in which the 3x3 convolutions read them, forward and transposed.
    pub packed: [Memory<F>; 2],
    /// Sums per chunk of images of weights, and where those of a layer begin, as in [`Workspace`].
    ///
    /// [`Workspace`]: crate::workspace::Workspace
    partials: Memory<F>,
    partials_at: Vec<usize>,
    /// The direction, and the tangent of the gradient: the product.
    pub direction: Memory<F>,
    pub product: Memory<F>,
}

impl<F: DeviceReal> TangentWorkspace<F> {
    /// For so many replicas with batches of up to `capacity` examples, so many packed weights, and layers of which
    /// `is_3x3` says whether they are convolutions with kernels of their own.
    pub fn new(
        device: &Device,
        network: &Network,
        replicas: usize,
        capacity: usize,
        packed: usize,
        is_3x3: impl Fn(usize) -> bool,
    ) -> Result<Self, Error> {
        let layers = network.nodes();
        let (buffer, sizes) =
            shared_buffers(layers, &vec![false; layers.len()], &vec![None; layers.len()], RESTING);
        let each = replicas * capacity;
        let (mut raw, mut norm) = (Vec::new(), Vec::new());
        let (mut packed_gemm, mut most) = (0, 0);
        let (mut shared_partials, mut partials, mut partials_at) = (0, 0, Vec::new());
        let mut values: Vec<Option<Memory<F>>> = layers.iter().map(|_| None).collect();
        for (l, layer) in layers.iter().enumerate() {
            raw.push(zeros_if(device, l > 0, each * layer.len())?);
            norm.push(zeros_if(device, layer.norm.is_some(), replicas * 5 * layer.shape[2])?);
            most = most.max(layer.len());
            partials_at.push(partials);
            let Op::Conv(conv) = &layer.op else { continue };
            let (input, from) = (layer.inputs[0], &layers[layer.inputs[0]]);
            let plan = Conv3x3Plan::of(conv, from, layer).filter(|_| is_3x3(l));
            let weights = partial_weights(conv, from, layer, plan);
            let sums = max_chunks(weights, capacity, plan) * weights;
            if plan.is_none() {
                packed_gemm = packed_gemm.max(weights);
                shared_partials = shared_partials.max(sums);
                continue;
            }
            // The 3x3 kernels compute two sums.
            partials += 2 * replicas * sums;
            if input > 0 && values[input].is_none() {
                values[input] = Some(device.zeros(each * from.len())?);
            }
        }
        partials_at.push(partials);
        let gradients =
            sizes.iter().map(|size| device.zeros(each * size)).collect::<Result<_, _>>()?;
        Ok(Self {
            raw,
            gradients,
            buffer,
            norm,
            values,
            value: device.zeros(each * most)?,
            value_dot: device.zeros(each * most)?,
            gradient: device.zeros(each * most)?,
            packed_gemm: [
                device.zeros(replicas * packed_gemm)?,
                device.zeros(replicas * packed_gemm)?,
            ],
            packed: [device.zeros(packed)?, device.zeros(packed)?],
            partials: device.zeros(partials + replicas * shared_partials)?,
            partials_at,
            direction: device.zeros(replicas * network.len())?,
            product: device.zeros(replicas * network.len())?,
        })
    }

    /// Addresses of a layer's tangents; the input has none.
    pub fn of(&self, l: usize) -> Tangents {
        let address = |memory: &Option<Memory<F>>| memory.as_ref().map_or(0, Memory::address);
        Tangents {
            z: address(&self.raw[l]),
            u: if l > 0 { self.gradients[self.buffer[l]].address() } else { 0 },
            norm: self.norm_of(l),
        }
    }

    /// Address of the tangents of a layer's values that 3x3 convolutions read; 0 of the network's input.
    pub fn values_of(&self, l: usize) -> Address {
        self.values[l].as_ref().map_or(0, Memory::address)
    }

    /// Address of the sums per chunk of images of a layer's weights; of all but the 3x3 convolutions with kernels of
    /// their own, one after the other.
    pub fn partials_of(&self, l: usize, is_3x3: bool) -> Address {
        let first = self.partials_at[if is_3x3 { l } else { self.partials_at.len() - 1 }];
        self.partials.address() + (first * size_of::<F>()) as u64
    }

    /// Address of the tangents of a batch norm's coefficients.
    pub fn norm_of(&self, l: usize) -> Address {
        self.norm[l].as_ref().map_or(0, Memory::address)
    }
}
