//! Networks with exact first and second derivatives, the same bits on any number of threads.
//!
//! ```text
//! network     layers as data, parameters by PyTorch's names      zoo, init    ready-made ones
//! kernel      the two loops of all convolutions                  geometry     which pixel meets which
//! norm, read  batch norm and activation, applied while reading   op, loss     everything else
//! engine      the passes: forward, backward, and the derivative of both along a direction
//! ```
//!
//! # Order of sums
//!
//! Every output of a convolution is one chain of fused multiply-adds over (row, column, channel) of
//! its patch. A batch is cut into at most 16 chunks of at least 4 examples; a weight's gradient is
//! one chain over the pixels of a chunk, and the chunks are added in order. Sums over pixels (batch
//! norm, biases) go down each column of an image, then along the row, and then over the images in
//! double precision. Nothing of this depends on the number of threads, which only take chunks.

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
mod parallel;
mod plane;
mod read;
mod winograd;
pub mod zoo;

pub use engine::{Engine, Evaluation, Mode};
pub use init::Init;
pub use loss::{Batch, Loss, Targets};
pub use network::{Builder, Network, Node, Padding, Parameter, Role};
