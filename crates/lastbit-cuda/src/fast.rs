//! Which convolutions go by the kernels of `conv3x3.cu` and `weights3x3.cu`, and their blocks.
//!
//! That depends on shapes and precision alone, never on the device or the number of replicas: both
//! ways add in another order.

use lastbit::nn::{Conv, Layer, Op};

use crate::device::Grid;

/// What the factors of a convolution's products are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The numbers as they are.
    Plain,
    /// Rounded to 10 bits after the point, for tensor cores; of single precision only.
    Tf32,
}

/// Input channels that a block looks at together.
const CHUNK: usize = 16;

/// Blocks for images of one size.
#[derive(Debug)]
pub struct Fast {
    /// Height and width of the images.
    pub size: usize,
    /// Kernels' names.
    pub forward: &'static str,
    pub data: &'static str,
    pub weights: &'static str,
    /// Rows and images to a block.
    rows: usize,
    images: usize,
    /// Channels of a result to a block, and of the inputs of a weight.
    channels: usize,
    inputs_of_weights: usize,
    outputs_of_weights: usize,
    /// Images to a chunk of the weights' gradient: such that six replicas of 128 images just fill
    /// the 264 blocks that 132 multiprocessors hold at a time.
    pub images_per_chunk: usize,
    shared: u32,
    shared_of_weights: [u32; 2],
}

const SIZES: [Fast; 3] = [
    Fast {
        size: 32,
        forward: "conv3x3_forward_32",
        data: "conv3x3_data_32",
        weights: "weights3x3_32",
        rows: 16,
        images: 1,
        channels: 16,
        inputs_of_weights: 16,
        outputs_of_weights: 16,
        images_per_chunk: 3,
        shared: 58_176,
        shared_of_weights: [73_728, 107_904],
    },
    Fast {
        size: 16,
        forward: "conv3x3_forward_16",
        data: "conv3x3_data_16",
        weights: "weights3x3_16",
        rows: 16,
        images: 1,
        channels: 32,
        inputs_of_weights: 32,
        outputs_of_weights: 32,
        images_per_chunk: 3,
        shared: 44_352,
        shared_of_weights: [74_240, 92_800],
    },
    Fast {
        size: 8,
        forward: "conv3x3_forward_8",
        data: "conv3x3_data_8",
        weights: "weights3x3_8",
        rows: 8,
        images: 2,
        channels: 64,
        inputs_of_weights: 64,
        outputs_of_weights: 32,
        images_per_chunk: 6,
        shared: 52_864,
        shared_of_weights: [73_728, 78_080],
    },
];

impl Fast {
    /// The way of a convolution, if there is one.
    pub fn of(conv: &Conv, from: &Layer, to: &Layer) -> Option<&'static Self> {
        let [height, width, inputs] = from.shape;
        // The network's own input, which is an image, may have channels of zeros beside its own.
        let is_image = matches!(from.op, Op::Input) && inputs < 4;
        let fits = |fast: &&Self| {
            let [a, b] = [inputs, to.shape[2]].map(|channels| channels % fast.channels == 0);
            fast.size == width && (a || is_image && fast.inputs_of_weights == CHUNK) && b
        };
        let is_plain = conv.kernel == [3, 3] && conv.stride == 1 && conv.before == [1, 1];
        let keeps_size = height == width && to.shape[..2] == from.shape[..2];
        SIZES.iter().find(fits).filter(|_| is_plain && keeps_size)
    }

    /// Input channels with those of zeros.
    pub fn rows(inputs: usize) -> usize {
        inputs.next_multiple_of(CHUNK)
    }

    /// Blocks for so many result channels.
    pub fn grid(&self, images: usize, channels: usize, replicas: usize, how: Precision) -> Grid {
        let tiles = images.div_ceil(self.images) * (self.size / self.rows);
        let pixels = self.images * self.rows * self.size;
        let threads = match how {
            Precision::Plain => pixels * self.channels / 64,
            // A warp has 64 pixels, or 32 where it has many channels.
            Precision::Tf32 => pixels * 32 / if self.channels == 64 { 32 } else { 64 },
        };
        let grid = Grid::blocks([tiles, channels / self.channels, replicas], threads as u32);
        Grid { shared: self.shared, ..grid }
    }

    /// Blocks for the gradient by weights between so many channels.
    pub fn grid_of_weights(
        &self,
        [inputs, outputs]: [usize; 2],
        chunks: usize,
        replicas: usize,
        how: Precision,
    ) -> Grid {
        let tiles = inputs / self.inputs_of_weights * (outputs / self.outputs_of_weights);
        let (threads, shared) = match how {
            Precision::Plain => (192, self.shared_of_weights[0]),
            Precision::Tf32 => (256, self.shared_of_weights[1]),
        };
        Grid { shared, ..Grid::blocks([tiles, chunks, replicas], threads) }
    }
}
