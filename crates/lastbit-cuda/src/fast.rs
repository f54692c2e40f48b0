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

/// Blocks for results of one size.
#[derive(Debug)]
pub struct Fast {
    /// Height and width of the results.
    size: usize,
    stride: usize,
    /// Whether the input is that of the network, an image of 1 to 3 channels, beside which there are
    /// channels of zeros.
    of_image: bool,
    /// Kernels' names.
    pub forward: &'static str,
    data: Option<&'static str>,
    pub weights: &'static str,
    /// Rows (plain and on tensor cores), images and channels of a result to a block.
    rows: [usize; 2],
    images: usize,
    channels: usize,
    /// Input and output channels to a block of the weights' gradient,
    of_weights: [usize; 2],
    /// and its images: such that six replicas of 128 images just fill the 264 blocks that 132
    /// multiprocessors hold at a time.
    pub images_per_chunk: usize,
    /// Bytes of shared memory to a block, in both ways.
    shared: [u32; 2],
    shared_of_weights: [u32; 2],
}

static SHAPES: [Fast; 6] = [
    Fast {
        size: 32,
        stride: 1,
        of_image: true,
        forward: "conv3x3_image_32",
        data: None,
        weights: "weights3x3_image_32",
        rows: [16, 8],
        images: 1,
        channels: 16,
        of_weights: [16, 16],
        images_per_chunk: 3,
        shared: [58_176, 36_416],
        shared_of_weights: [73_728, 107_904],
    },
    Fast {
        size: 32,
        stride: 1,
        of_image: false,
        forward: "conv3x3_forward_32",
        data: Some("conv3x3_data_32"),
        weights: "weights3x3_32",
        rows: [16, 8],
        images: 1,
        channels: 16,
        of_weights: [16, 16],
        images_per_chunk: 3,
        shared: [58_176, 36_416],
        shared_of_weights: [73_728, 107_904],
    },
    Fast {
        size: 16,
        stride: 1,
        of_image: false,
        forward: "conv3x3_forward_16",
        data: Some("conv3x3_data_16"),
        weights: "weights3x3_16",
        rows: [16, 16],
        images: 1,
        channels: 32,
        of_weights: [32, 32],
        images_per_chunk: 3,
        shared: [44_352, 44_352],
        shared_of_weights: [74_240, 92_800],
    },
    Fast {
        size: 8,
        stride: 1,
        of_image: false,
        forward: "conv3x3_forward_8",
        data: Some("conv3x3_data_8"),
        weights: "weights3x3_8",
        rows: [8, 8],
        images: 2,
        channels: 64,
        of_weights: [64, 32],
        images_per_chunk: 6,
        shared: [52_864, 52_864],
        shared_of_weights: [73_728, 78_080],
    },
    Fast {
        size: 16,
        stride: 2,
        of_image: false,
        forward: "conv3x3_halve_16",
        data: Some("conv3x3_double_32"),
        weights: "weights3x3_halve_16",
        rows: [16, 16],
        images: 1,
        channels: 32,
        of_weights: [16, 32],
        images_per_chunk: 3,
        shared: [105_552, 105_552],
        shared_of_weights: [73_728, 74_336],
    },
    Fast {
        size: 8,
        stride: 2,
        of_image: false,
        forward: "conv3x3_halve_8",
        data: Some("conv3x3_double_16"),
        weights: "weights3x3_halve_8",
        rows: [8, 8],
        images: 2,
        channels: 64,
        of_weights: [32, 32],
        images_per_chunk: 6,
        shared: [83_104, 83_104],
        shared_of_weights: [73_728, 73_728],
    },
];

impl Fast {
    /// The way of a convolution, if there is one.
    pub fn of(conv: &Conv, from: &Layer, to: &Layer) -> Option<&'static Self> {
        let [_, _, inputs] = from.shape;
        let [height, width, outputs] = to.shape;
        let is_image = matches!(from.op, Op::Input) && inputs < 4;
        let fits = |fast: &&Self| {
            let [a, b] = fast.of_weights;
            let goes_in = fast.of_image && is_image || !fast.of_image && inputs.is_multiple_of(a);
            let comes_out = outputs.is_multiple_of(fast.channels) && outputs.is_multiple_of(b);
            let back = fast.data();
            let goes_back = back.is_none_or(|(_, to)| inputs.is_multiple_of(to.channels));
            let whole = [fast.size * fast.stride; 2] == from.shape[..2];
            let is_such = [height, width] == [fast.size; 2] && conv.stride == fast.stride;
            is_such && whole && goes_in && comes_out && goes_back
        };
        let is_plain = conv.kernel == [3, 3] && conv.before == [1, 1];
        SHAPES.iter().find(fits).filter(|_| is_plain)
    }

    /// The kernel of the transposed convolution, and whose blocks it has: those of a convolution to
    /// results of the input's size. That to the network's input is never needed.
    pub fn data(&self) -> Option<(&'static str, &'static Self)> {
        let size = self.size * self.stride;
        let of_input = |fast: &&Self| fast.size == size && fast.stride == 1 && !fast.of_image;
        Some((self.data?, SHAPES.iter().find(of_input)?))
    }

    /// Input channels with those of zeros.
    pub fn rows(inputs: usize) -> usize {
        inputs.next_multiple_of(CHUNK)
    }

    /// Parts of the results that blocks have, and pixels to a part.
    pub fn parts(&self, images: usize, how: Precision) -> [usize; 2] {
        let rows = self.rows[how as usize];
        let parts = images.div_ceil(self.images) * (self.size / rows);
        [parts, self.images * rows * self.size]
    }

    /// Blocks for so many result channels.
    pub fn grid(&self, images: usize, channels: usize, replicas: usize, how: Precision) -> Grid {
        let [parts, pixels] = self.parts(images, how);
        let threads = match how {
            Precision::Plain => pixels * self.channels / 64,
            // A warp has 64 pixels, or 32 where it has many channels.
            Precision::Tf32 => pixels * 32 / if self.channels == 64 { 32 } else { 64 },
        };
        let grid = Grid::blocks([parts, channels / self.channels, replicas], threads as u32);
        Grid { shared: self.shared[how as usize], ..grid }
    }

    /// Blocks for the gradient by weights between so many channels.
    pub fn grid_of_weights(
        &self,
        [inputs, outputs]: [usize; 2],
        chunks: usize,
        replicas: usize,
        how: Precision,
    ) -> Grid {
        let tiles = inputs / self.of_weights[0] * (outputs / self.of_weights[1]);
        let threads = match how {
            Precision::Plain => 192,
            Precision::Tf32 => 256,
        };
        let shared = self.shared_of_weights[how as usize];
        Grid { shared, ..Grid::blocks([tiles, chunks, replicas], threads) }
    }
}
