//! Which convolutions go by the kernels of `conv3x3.cu` and `weights3x3.cu`, and their blocks.
//!
//! That depends on shapes alone, never on the device or the number of replicas: both ways add in another
//! order.

use lastbit::nn::{Conv, Layer, Op};

use crate::device::Grid;
use crate::error::Error;

/// What the factors of a convolution's products are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The numbers as they are.
    Plain,
    /// Rounded to 10 bits after the point, for tensor cores; of single precision only.
    Tf32,
}

/// Input channels of packed kernels are a multiple of this.
const CHUNK: usize = 16;

/// Multiprocessors that are kept busy; results do not depend on it.
const MULTIPROCESSORS: usize = 132;

/// Threads of a block, of which half work (`tiles.cu`).
const THREADS: u32 = 256;
const WORKERS: usize = 128;

/// Bytes of a pixel's channels that a block looks at together.
const PIXEL: usize = 64;

/// Bytes of shared memory for tiles, of one block in double precision or of two in single: more gains nothing.
const MOST: usize = 224 << 10;
/// Bytes that one tile of any kernel fits into.
const LEAST: usize = 90 << 10;
/// Bytes that a block has besides.
const BESIDES: usize = 1 << 10;

/// Shared memory for a block's tiles; results do not depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of a number.
    number: usize,
    /// Bytes of all tiles.
    pub bytes: usize,
    /// Blocks that a multiprocessor has at a time.
    pub blocks: usize,
}

impl Room {
    /// For numbers of so many bytes on a device whose blocks may have so much shared memory, nearly all that
    /// a multiprocessor has.
    pub fn of(number: usize, shared: usize) -> Result<Self, Error> {
        if shared < LEAST + BESIDES {
            return Err(Error::SharedMemory { found: shared, expected: LEAST + BESIDES });
        }
        let bytes = (MOST * number / size_of::<f64>()).min(shared - BESIDES);
        let blocks = if 2 * (bytes + BESIDES) <= shared { 2 } else { 1 };
        Ok(Self { number, bytes, blocks })
    }

    /// Bytes of tiles of so many numbers each: as many as there is room for, up to three.
    fn tiles(self, numbers: usize) -> usize {
        let bytes = numbers * self.number;
        bytes * (self.bytes / bytes).clamp(1, 3)
    }
}

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
    /// Rows, images and channels of a part of the results.
    rows: usize,
    images: usize,
    channels: usize,
    /// Input and output channels to a block of the weights' gradient,
    of_weights: [usize; 2],
    /// rows and images of its tiles,
    tile_of_weights: [usize; 2],
    /// and its images: such that six replicas of 128 images just fill the 264 blocks that 132
    /// multiprocessors hold at a time in single precision.
    pub images_per_chunk: usize,
}

static SHAPES: [Fast; 6] = [
    Fast {
        size: 32,
        stride: 1,
        of_image: true,
        forward: "conv3x3_image_32",
        data: None,
        weights: "weights3x3_image_32",
        rows: 16,
        images: 1,
        channels: 16,
        of_weights: [16, 16],
        tile_of_weights: [8, 1],
        images_per_chunk: 3,
    },
    Fast {
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
    },
    Fast {
        size: 16,
        stride: 1,
        of_image: false,
        forward: "conv3x3_forward_16",
        data: Some("conv3x3_data_16"),
        weights: "weights3x3_16",
        rows: 16,
        images: 1,
        channels: 32,
        of_weights: [32, 32],
        tile_of_weights: [8, 1],
        images_per_chunk: 3,
    },
    Fast {
        size: 8,
        stride: 1,
        of_image: false,
        forward: "conv3x3_forward_8",
        data: Some("conv3x3_data_8"),
        weights: "weights3x3_8",
        rows: 8,
        images: 2,
        channels: 32,
        of_weights: [32, 32],
        tile_of_weights: [8, 2],
        images_per_chunk: 12,
    },
    Fast {
        size: 16,
        stride: 2,
        of_image: false,
        forward: "conv3x3_halve_16",
        data: Some("conv3x3_double_32"),
        weights: "weights3x3_halve_16",
        rows: 16,
        images: 1,
        channels: 32,
        of_weights: [16, 32],
        tile_of_weights: [4, 1],
        images_per_chunk: 3,
    },
    Fast {
        size: 8,
        stride: 2,
        of_image: false,
        forward: "conv3x3_halve_8",
        data: Some("conv3x3_double_16"),
        weights: "weights3x3_halve_8",
        rows: 8,
        images: 2,
        channels: 32,
        of_weights: [32, 32],
        tile_of_weights: [8, 1],
        images_per_chunk: 6,
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

    /// Parts of the results, and pixels to a part.
    pub fn parts(&self, images: usize) -> [usize; 2] {
        let parts = images.div_ceil(self.images) * (self.size / self.rows);
        [parts, self.images * self.rows * self.size]
    }

    /// Pixels that are read for so many rows of an image.
    fn pixels_read(&self, rows: usize) -> usize {
        ((rows - 1) * self.stride + 3) * ((self.size - 1) * self.stride + 3)
    }

    /// Blocks for so many result channels; each has one part after the other.
    pub fn grid(&self, images: usize, channels: usize, replicas: usize, room: Room) -> Grid {
        let [parts, _] = self.parts(images);
        let all = parts * (channels / self.channels) * replicas;
        let shared = room.tiles(self.tile(room)) as u32;
        let most = MULTIPROCESSORS * room.blocks;
        Grid { shared, ..Grid::blocks([all.min(most), 1, 1], THREADS) }
    }

    /// Numbers of a tile: pixels, and the kernels of their channels.
    fn tile(&self, room: Room) -> usize {
        let chunk = PIXEL / room.number;
        self.images * self.pixels_read(self.rows) * chunk + 9 * chunk * self.channels
    }

    /// Blocks for the gradient by weights between so many channels.
    pub fn grid_of_weights(
        &self,
        [inputs, outputs]: [usize; 2],
        chunks: usize,
        replicas: usize,
        how: Precision,
        room: Room,
    ) -> Grid {
        let [a, b] = self.of_weights;
        let blocks = [inputs / a * (outputs / b), chunks, replicas];
        let sums = self.sums_of_weights(how) * room.number;
        let shared = room.tiles(self.numbers_of_weights_tile(how)).max(sums) as u32;
        Grid { shared, ..Grid::blocks(blocks, THREADS) }
    }

    /// Numbers of a tile of both sides' pixels, which lie further apart on tensor cores.
    fn numbers_of_weights_tile(&self, how: Precision) -> usize {
        let ([a, b], [rows, images]) = (self.of_weights, self.tile_of_weights);
        let apart = if how == Precision::Tf32 { 8 } else { 0 };
        images * (self.pixels_read(rows) * (a + apart) + rows * self.size * (b + apart))
    }

    /// Numbers of the sums that groups of workers, each with some rows of all tiles, add up in the end.
    fn sums_of_weights(&self, how: Precision) -> usize {
        let [a, b] = self.of_weights;
        let group = match how {
            Precision::Plain => a / 2 * (b / 4),
            Precision::Tf32 => a / 16 * (b / 16) * 32,
        };
        WORKERS / group * 9 * a * b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_fits_into_the_least_room_that_is_accepted() {
        let ways = [
            (size_of::<f32>(), Precision::Plain),
            (size_of::<f32>(), Precision::Tf32),
            (size_of::<f64>(), Precision::Plain),
        ];
        for (number, how) in ways {
            let room = Room::of(number, LEAST + BESIDES).expect("the least");
            for fast in &SHAPES {
                let forward = fast.grid(128, 64, 6, room).shared;
                let weights = fast.grid_of_weights([64, 64], 3, 6, how, room).shared;
                assert!(forward.max(weights) as usize <= LEAST, "{}, {how:?}", fast.forward);
            }
        }
        // One multiprocessor of an H200, a gaming card, and one of long ago.
        let blocks = |number, shared: usize| Room::of(number, shared << 10).expect("enough").blocks;
        assert_eq!([blocks(4, 227), blocks(8, 227), blocks(4, 99), blocks(8, 99)], [2, 1, 1, 1]);
        let error = Room::of(4, 48 << 10).expect_err("too little");
        assert!(error.to_string().contains("49152 bytes"), "{error}");
    }
}
