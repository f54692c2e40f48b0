//! The multi-layer theory: each layer of a stack as a one-layer network, and what that leaves out.
//!
//! ```text
//! layer, stack     the network N times conv + activation, pooling, sigmoid; the gradient theorem
//! split            the second derivative by one layer, in its three parts
//! observed         γ and ahat on a batch; the stable step that each approximation predicts
//! restricted       one layer trained, the others held
//! measured         its block of the Hessian, and its edge by running
//! ```
//!
//! Written from the theorem, image by image and sum by sum; the engine ([`nn`](crate::nn)) computes the
//! same numbers another way and faster, and the two are held against each other.
//!
//! Reference: the paper, Section 5.5 and Appendix F.

mod layer;
mod measured;
pub mod observed;
mod restricted;
mod split;
mod stack;
#[cfg(test)]
mod tests;

pub use layer::Layer;
pub use measured::Edge;
pub use restricted::Restricted;
pub use split::Parts;
pub use stack::{Example, Pass, Stack};
