//! Convolutions from one channel to one channel, which have kernels of their own (`plane.cu`).
//!
//! Which go that way depends on shapes alone: both ways add in another order.

use lastbit::nn::{Conv, Layer};

use crate::device::Grid;

/// Numbers of an image with the zeros around it that fit a block's memory, as in `plane.cu`.
const TILE: usize = 2048;

/// Kernels for one size of a convolution's own kernel; of derivatives those with `dot`.
#[derive(Debug)]
pub struct Plane {
    size: usize,
    pub forward: &'static str,
    pub data: &'static str,
    pub weights: &'static str,
    pub forward_dot: &'static str,
    pub data_dot: &'static str,
    pub weights_dot: &'static str,
}

static SIZES: [Plane; 3] = [
    Plane {
        size: 3,
        forward: "plane_forward_3",
        data: "plane_data_3",
        weights: "plane_weights_3",
        forward_dot: "plane_forward_dot_3",
        data_dot: "plane_data_dot_3",
        weights_dot: "plane_weights_dot_3",
    },
    Plane {
        size: 5,
        forward: "plane_forward_5",
        data: "plane_data_5",
        weights: "plane_weights_5",
        forward_dot: "plane_forward_dot_5",
        data_dot: "plane_data_dot_5",
        weights_dot: "plane_weights_dot_5",
    },
    Plane {
        size: 7,
        forward: "plane_forward_7",
        data: "plane_data_7",
        weights: "plane_weights_7",
        forward_dot: "plane_forward_dot_7",
        data_dot: "plane_data_dot_7",
        weights_dot: "plane_weights_dot_7",
    },
];

impl Plane {
    /// The way of a convolution, if it has one channel on both sides, stride 1 and a square kernel,
    /// and its images are small enough.
    pub fn of(conv: &Conv, from: &Layer, to: &Layer) -> Option<&'static Self> {
        let around = |layer: &Layer, size: usize| {
            let [height, width, _] = layer.shape;
            (height + size - 1) * (width + size - 1)
        };
        let fits = |plane: &&Self| {
            let small = around(from, plane.size).max(around(to, plane.size)) <= TILE;
            conv.kernel == [plane.size; 2] && small
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

    fn goes(shape: [usize; 3], outputs: usize, kernel: [usize; 2], stride: usize) -> bool {
        let mut net = Builder::new(shape);
        let x = net.input();
        net.conv(x, "a", outputs, kernel, stride, Padding::Same, true);
        let network = net.build();
        let [from, to] = network.nodes() else { panic!("an input and a convolution") };
        let Op::Conv(conv) = &to.op else { panic!("a convolution") };
        Plane::of(conv, from, to).is_some()
    }

    #[test]
    fn only_one_channel_on_both_sides_and_small_images_go_this_way() {
        assert!(goes([28, 28, 1], 1, [3, 3], 1));
        assert!(goes([39, 39, 1], 1, [7, 7], 1));
        assert!(!goes([28, 28, 2], 1, [3, 3], 1));
        assert!(!goes([28, 28, 1], 2, [3, 3], 1));
        assert!(!goes([28, 28, 1], 1, [3, 3], 2));
        assert!(!goes([28, 28, 1], 1, [3, 5], 1));
        assert!(!goes([64, 64, 1], 1, [3, 3], 1));
    }
}
