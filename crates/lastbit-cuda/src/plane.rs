//! Convolutions from one channel to one channel, which have kernels of their own (`plane.cu`).
//!
//! Shapes alone decide which convolutions use them, because these kernels sum in another order than
//! the general ones.

use lastbit::nn::{Conv, Layer};

use crate::device::Grid;

/// Numbers of an image with its zero padding that fit a block's shared memory, as in `plane.cu`.
const TILE: usize = 2048;

/// Names of the kernels for one filter size.
#[derive(Debug)]
pub struct Plane {
    size: usize,
    pub forward: &'static str,
    pub data: &'static str,
    pub weights: &'static str,
    pub forward_tangent: &'static str,
    pub data_tangent: &'static str,
    pub weights_tangent: &'static str,
}

macro_rules! plane {
    ($size:literal) => {
        Plane {
            size: $size,
            forward: concat!("plane_forward_", $size),
            data: concat!("plane_data_", $size),
            weights: concat!("plane_weights_", $size),
            forward_tangent: concat!("plane_forward_tangent_", $size),
            data_tangent: concat!("plane_data_tangent_", $size),
            weights_tangent: concat!("plane_weights_tangent_", $size),
        }
    };
}
static SIZES: [Plane; 3] = [plane!(3), plane!(5), plane!(7)];

impl Plane {
    /// The kernels of a convolution with one channel on both sides, stride 1 and a square filter, if
    /// its images are small enough.
    pub fn of(conv: &Conv, from: &Layer, to: &Layer) -> Option<&'static Self> {
        let padded = |layer: &Layer, size: usize| {
            let [height, width, _] = layer.shape;
            (height + size - 1) * (width + size - 1)
        };
        let fits = |plane: &&Self| {
            let is_small = padded(from, plane.size).max(padded(to, plane.size)) <= TILE;
            conv.kernel == [plane.size; 2] && is_small
        };
        let is_plane = from.shape[2] == 1 && to.shape[2] == 1 && conv.stride == 1;
        SIZES.iter().find(fits).filter(|_| is_plane)
    }

    /// So many blocks for each replica.
    pub fn grid(blocks: usize, replicas: usize) -> Grid {
        Grid::blocks([blocks, replicas, 1], 256)
    }
}

#[cfg(test)]
mod tests {
    use lastbit::nn::{Builder, Op, Padding};

    use super::*;

    fn has_plane(shape: [usize; 3], outputs: usize, kernel: [usize; 2], stride: usize) -> bool {
        let mut net = Builder::new(shape);
        let x = net.input();
        net.conv(x, "a", outputs, kernel, stride, Padding::Same, true);
        let network = net.build();
        let [from, to] = network.nodes() else { panic!("an input and a convolution") };
        let Op::Conv(conv) = &to.op else { panic!("a convolution") };
        Plane::of(conv, from, to).is_some()
    }

    #[test]
    fn only_small_images_with_one_channel_on_both_sides_use_these_kernels() {
        assert!(has_plane([28, 28, 1], 1, [3, 3], 1));
        assert!(has_plane([39, 39, 1], 1, [7, 7], 1));
        assert!(!has_plane([28, 28, 2], 1, [3, 3], 1));
        assert!(!has_plane([28, 28, 1], 2, [3, 3], 1));
        assert!(!has_plane([28, 28, 1], 1, [3, 3], 2));
        assert!(!has_plane([28, 28, 1], 1, [3, 5], 1));
        assert!(!has_plane([64, 64, 1], 1, [3, 3], 1));
    }
}
