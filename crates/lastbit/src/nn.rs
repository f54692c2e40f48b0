//! Networks with exact first and second derivatives, the same bits on any number of threads.
//!
//! ```text
//! network, zoo, init    layers as data, parameters by PyTorch's names; ready-made networks
//! kernel                the two loops of all convolutions; winograd, plane: two shapes done better
//! geometry, conv        which pixel meets which; weights in the order of the loops
//! norm, read            batch norm and activation, applied while a layer is read
//! op, loss              everything else
//! engine                the passes: forward, backward, and the derivative of both along a direction
//! ```
//!
//! # Order of sums
//!
//! An output of a convolution is one chain of fused multiply-adds over (row, column, channel) of its
//! patch; 3×3 kernels of stride one between multiples of 16 channels, on images of even size, go by
//! 2×2 patches instead, with the order that `winograd` states. A batch is cut into at most 16 chunks
//! of at least 4 examples (the last may have fewer); a weight's gradient is one chain over the pixels
//! (or patches) of a chunk, and the chunks are added in order. Sums over pixels (batch norm, biases) go
//! down each column of an image, then along the row, and then over the images in double precision.
//! Nothing of this depends on the number of threads, which only take chunks, or on the machine.

mod conv;
mod engine;
mod geometry;
mod init;
mod kernel;
mod loss;
#[cfg(test)]
mod naive;
mod network;
mod norm;
mod op;
mod pack;
mod parallel;
mod plane;
mod products;
mod read;
mod winograd;
pub mod zoo;

pub use engine::{BatchNormMode, Engine};
pub use init::Init;
pub use loss::{Batch, Loss, Targets};
pub use network::{
    Builder, Conv, Layer, Network, Node, Norm, Op, Padding, Parameter, Pool, PoolKind, Role,
};
