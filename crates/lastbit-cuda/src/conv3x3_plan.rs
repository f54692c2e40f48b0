//! Which 3x3 convolutions use the kernels of `conv3x3.cu` and `weights3x3.cu`, and with which tiles.
//!
//! Shapes alone decide, never the device or the number of replicas, because these kernels sum in
//! another order than the general ones.

use lastbit::nn::{Conv, Layer, Op};

use crate::device::Grid;
use crate::error::Error;

/// How the factors of products are rounded in 3x3 convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MathMode {
    /// Not at all: fused multiply-adds in the precision of the network.
    Fma,
    /// To TF32, 10 bits after the point, for tensor cores; in single precision only.
    Tf32,
}

/// Input channels of packed weights are padded to a multiple of this.
const CHANNEL_CHUNK: usize = 16;

/// Multiprocessors that are kept busy; results do not depend on it.
const MULTIPROCESSORS: usize = 132;

/// Threads of a block, half of which are consumers (`tiles.cu`).
const THREADS: u32 = 256;
const CONSUMERS: usize = 128;

/// Bytes of a pixel's channels that a tile holds.
const PIXEL_BYTES: usize = 64;

/// Bytes of shared memory for tiles of one block in double precision, or of two in single precision: more
/// gains nothing.
const MAX_TILE_BYTES: usize = 224 << 10;
/// Bytes that one tile of any kernel fits into.
const MIN_TILE_BYTES: usize = 90 << 10;
/// Bytes of shared memory that a block needs besides its tiles.
const OTHER_BYTES: usize = 1 << 10;

/// Shared memory for a block's tiles; results do not depend on it.
#[derive(Debug, Clone, Copy)]
pub struct SharedMemory {
    /// Bytes of a number.
    number: usize,
    /// Bytes of all tiles of a block.
    pub bytes: usize,
    /// Resident blocks per multiprocessor.
    pub blocks: usize,
}

impl SharedMemory {
    /// For numbers of so many bytes, on a device whose blocks may use `available` bytes, nearly all that a
    /// multiprocessor has.
    pub fn of(number: usize, available: usize) -> Result<Self, Error> {
        let expected = MIN_TILE_BYTES + OTHER_BYTES;
        if available < expected {
            return Err(Error::SharedMemory { found: available, expected });
        }
        let bytes = (MAX_TILE_BYTES * number / size_of::<f64>()).min(available - OTHER_BYTES);
        let blocks = if 2 * (bytes + OTHER_BYTES) <= available { 2 } else { 1 };
        Ok(Self { number, bytes, blocks })
    }

    /// Bytes of as many tiles of so many numbers as fit, up to three.
    fn tiles(self, numbers: usize) -> usize {
        let bytes = numbers * self.number;
        bytes * (self.bytes / bytes).clamp(1, 3)
    }
}

/// Kernels and tiles for results of one size.
#[derive(Debug)]
pub struct Conv3x3Plan {
    /// Height and width of the results.
    size: usize,
    stride: usize,
    /// Whether the input is the network's, an image of 1 to 3 channels padded with channels of zeros.
    of_image: bool,
    /// Names of the kernels.
    pub forward: &'static str,
    data: Option<&'static str>,
    pub weights: &'static str,
    /// Rows, images and channels of the results that a block computes at a time.
    rows: usize,
    images: usize,
    channels: usize,
    /// The weights' gradient: input and output channels of a block,
    of_weights: [usize; 2],
    /// rows and images of its tiles,
    tile_of_weights: [usize; 2],
    /// and images of a block, such that six replicas of 128 images just fill the 264 blocks that 132
    /// multiprocessors hold in single precision.
    pub images_per_chunk: usize,
}

/// Images of 32x32 with 16 channels per block; the other sizes differ from it as [`PLANS`] says.
const SIZE_32: Conv3x3Plan = Conv3x3Plan {
    size: 32,
    stride: 1,
    of_image: false,
    forward: "conv3x3_forward_32",
    data: Some("conv3x3_data_32"),
    weights: "weights3x3_32",
    rows: 16,
    images: 1,
    channels: 16,
    of_weights: [16, 16],
    tile_of_weights: [8, 1],
    images_per_chunk: 3,
};

const SIZE_16: Conv3x3Plan = Conv3x3Plan {
    size: 16,
    forward: "conv3x3_forward_16",
    data: Some("conv3x3_data_16"),
    weights: "weights3x3_16",
    channels: 32,
    of_weights: [32, 32],
    ..SIZE_32
};

const SIZE_8: Conv3x3Plan = Conv3x3Plan {
    size: 8,
    forward: "conv3x3_forward_8",
    data: Some("conv3x3_data_8"),
    weights: "weights3x3_8",
    rows: 8,
    images: 2,
    tile_of_weights: [8, 2],
    images_per_chunk: 12,
    ..SIZE_16
};

static PLANS: [Conv3x3Plan; 6] = [
    Conv3x3Plan {
        of_image: true,
        forward: "conv3x3_image_32",
        data: None,
        weights: "weights3x3_image_32",
        ..SIZE_32
    },
    SIZE_32,
    SIZE_16,
    SIZE_8,
    Conv3x3Plan {
        stride: 2,
        forward: "conv3x3_halve_16",
        data: Some("conv3x3_double_32"),
        weights: "weights3x3_halve_16",
        of_weights: [16, 32],
        tile_of_weights: [4, 1],
        ..SIZE_16
    },
    Conv3x3Plan {
        stride: 2,
        forward: "conv3x3_halve_8",
        data: Some("conv3x3_double_16"),
        weights: "weights3x3_halve_8",
        tile_of_weights: [8, 1],
        images_per_chunk: 6,
        ..SIZE_8
    },
];

impl Conv3x3Plan {
    /// The plan of a convolution, if it has one.
    pub fn of(conv: &Conv, from: &Layer, to: &Layer) -> Option<&'static Self> {
        let [_, _, inputs] = from.shape;
        let [height, width, outputs] = to.shape;
        let is_image = matches!(from.op, Op::Input) && inputs < 4;
        let fits = |plan: &&Self| {
            let [a, b] = plan.of_weights;
            let goes_in = plan.of_image && is_image || !plan.of_image && inputs.is_multiple_of(a);
            let comes_out = outputs.is_multiple_of(plan.channels) && outputs.is_multiple_of(b);
            let back = plan.data();
            let goes_back = back.is_none_or(|(_, to)| inputs.is_multiple_of(to.channels));
            let whole = [plan.size * plan.stride; 2] == from.shape[..2];
            let is_such = [height, width] == [plan.size; 2] && conv.stride == plan.stride;
            is_such && whole && goes_in && comes_out && goes_back
        };
        let is_plain = conv.kernel == [3, 3] && conv.before == [1, 1];
        PLANS.iter().find(fits).filter(|_| is_plain)
    }

    /// The kernel of the transposed convolution, and the plan whose tiles it has: that of a convolution to
    /// results of the input's size. None for the network's input, whose gradient is never needed.
    pub fn data(&self) -> Option<(&'static str, &'static Self)> {
        let size = self.size * self.stride;
        let of_input = |plan: &&Self| plan.size == size && plan.stride == 1 && !plan.of_image;
        Some((self.data?, PLANS.iter().find(of_input)?))
    }

    /// Input channels including padding.
    pub fn rows(inputs: usize) -> usize {
        inputs.next_multiple_of(CHANNEL_CHUNK)
    }

    /// Number of parts that the results are computed in, and pixels of a part.
    pub fn parts(&self, images: usize) -> [usize; 2] {
        let parts = images.div_ceil(self.images) * (self.size / self.rows);
        [parts, self.images * self.rows * self.size]
    }

    /// Pixels that are read for so many rows of an image.
    fn pixels_read(&self, rows: usize) -> usize {
        ((rows - 1) * self.stride + 3) * ((self.size - 1) * self.stride + 3)
    }

    /// Blocks for so many result channels; each computes several parts, one after the other.
    pub fn grid(
        &self,
        images: usize,
        channels: usize,
        replicas: usize,
        memory: SharedMemory,
    ) -> Grid {
        let [parts, _] = self.parts(images);
        let all = parts * (channels / self.channels) * replicas;
        let shared = memory.tiles(self.tile(memory)) as u32;
        let most = MULTIPROCESSORS * memory.blocks;
        Grid { shared, ..Grid::blocks([all.min(most), 1, 1], THREADS) }
    }

    /// Numbers of a tile: pixels, and the weights of their channels.
    fn tile(&self, memory: SharedMemory) -> usize {
        let chunk = PIXEL_BYTES / memory.number;
        self.images * self.pixels_read(self.rows) * chunk + 9 * chunk * self.channels
    }

    /// Blocks for the gradient by weights between so many channels.
    pub fn grid_of_weights(
        &self,
        [inputs, outputs]: [usize; 2],
        chunks: usize,
        replicas: usize,
        math: MathMode,
        memory: SharedMemory,
    ) -> Grid {
        let [a, b] = self.of_weights;
        let blocks = [inputs / a * (outputs / b), chunks, replicas];
        let sums = self.sums_of_weights(math) * memory.number;
        let shared = memory.tiles(self.numbers_of_weights_tile(math)).max(sums) as u32;
        Grid { shared, ..Grid::blocks(blocks, THREADS) }
    }

    /// Numbers of a tile of input and output pixels, which are padded for tensor cores.
    fn numbers_of_weights_tile(&self, math: MathMode) -> usize {
        let ([a, b], [rows, images]) = (self.of_weights, self.tile_of_weights);
        let padding = if math == MathMode::Tf32 { 8 } else { 0 };
        images * (self.pixels_read(rows) * (a + padding) + rows * self.size * (b + padding))
    }

    /// Numbers of the sums that groups of consumers, each with some rows of all tiles, add up at the end.
    fn sums_of_weights(&self, math: MathMode) -> usize {
        let [a, b] = self.of_weights;
        let group = match math {
            MathMode::Fma => a / 2 * (b / 4),
            MathMode::Tf32 => a / 16 * (b / 16) * 32,
        };
        CONSUMERS / group * 9 * a * b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_fits_into_the_least_shared_memory_that_is_accepted() {
        let ways = [
            (size_of::<f32>(), MathMode::Fma),
            (size_of::<f32>(), MathMode::Tf32),
            (size_of::<f64>(), MathMode::Fma),
        ];
        for (number, math) in ways {
            let memory = SharedMemory::of(number, MIN_TILE_BYTES + OTHER_BYTES).expect("the least");
            for plan in &PLANS {
                let forward = plan.grid(128, 64, 6, memory).shared;
                let weights = plan.grid_of_weights([64, 64], 3, 6, math, memory).shared;
                let most = forward.max(weights) as usize;
                assert!(most <= MIN_TILE_BYTES, "{}, {math:?}", plan.forward);
            }
        }
        // Multiprocessors of an H200, of a consumer card, and of an old card.
        let blocks =
            |number, shared: usize| SharedMemory::of(number, shared << 10).expect("enough").blocks;
        assert_eq!([blocks(4, 227), blocks(8, 227), blocks(4, 99), blocks(8, 99)], [2, 1, 1, 1]);
        let error = SharedMemory::of(4, 48 << 10).expect_err("too little");
        assert!(error.to_string().contains("49152 bytes"), "{error}");
    }
}
