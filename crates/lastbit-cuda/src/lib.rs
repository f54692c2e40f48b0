//! The engine on a CUDA GPU: all replicas advance together.
//!
//! ```text
//! error     why a device cannot be used
//! jobs      arguments of the kernels
//! compile   the kernels, compiled for a device
//! cache     compiled kernels, kept from one start to the next
//! device    memory, launches, recorded work: the one file with unsafe code
//! fast      which convolutions have kernels of their own
//! plane     those from one channel to one
//! places    which memory the passes need, and where a layer's gradient lies
//! dot_places  the same for derivatives along a direction
//! resident  data sets in device memory, and batches formed from them there
//! engine    the passes over a network for all replicas: forward, backward, their derivatives, the
//!           optimizer's step
//! recordings  work that is done again and again
//! trainer   replicas in training, as `lastbit::training::Trainer` has them
//! fluctuation  how much gradients fluctuate
//! compare   how far each replica is from the first, and its hash
//! learner   one network with gradient and Hessian, for whatever takes a `lastbit::training::Learner`
//! kernels/  the kernels
//! twin      in tests: a naive twin for each kernel, and a device that knows them
//! ```
//!
//! A launch works on all replicas of one layer. Raw layer values are stored, and batch norm and ReLU are
//! applied while reading, as on the CPU; for a matrix product, whose tiles read a number many times, once
//! before. Values of curved activations are computed once and stored as well.
//!
//! # Order of sums
//!
//! No sum is made with atomic operations; each has an order that the network and the number of
//! examples fix. A replica's arithmetic depends neither on its index nor on how many others there
//! are. Given the same gradient, a step has the bits of the CPU's; gradients agree with the CPU's up
//! to rounding, because their sums have another order.

mod cache;
mod compare;
mod compile;
#[cfg(test)]
#[path = "device.rs"]
mod cuda;
#[cfg(not(test))]
mod device;
mod dot_places;
mod engine;
mod error;
mod fast;
mod fluctuation;
mod jobs;
mod learner;
mod places;
mod plane;
mod recordings;
mod resident;
mod trainer;
#[cfg(test)]
mod twin;

pub use device::{Device, DeviceReal, KernelTime, Mark};
pub use engine::{Answers, Engine};
pub use error::Error;
pub use fast::Precision;
pub use learner::OnDevice;
pub use trainer::CudaTrainer;
#[cfg(test)]
use twin::device;
