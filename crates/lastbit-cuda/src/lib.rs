//! The engine on a CUDA GPU: all replicas advance together.
//!
//! ```text
//! error              why a device cannot be used
//! kernel_args        arguments of the kernels
//! compile            compiles the kernels for a device
//! cache              compiled kernels on disk, from one start to the next
//! device             memory, launches, CUDA graphs: the one file with unsafe code
//! conv3x3_plan       which 3x3 convolutions have kernels of their own, and their tiles
//! plane              the same for convolutions from one channel to one channel
//! workspace          device memory of the passes, and where a layer's gradient is stored
//! tangent_workspace  the same for derivatives along a direction
//! device_dataset     data sets in device memory, and batches formed from them there
//! engine             passes over a network for all replicas: forward, backward, their tangents, the
//!                    optimizer's step
//! graph_cache        CUDA graphs of repeated work
//! trainer            replicas in training, as `lastbit::training::Trainer` has them
//! compare            distance of each replica from the first, and its hash
//! model              one network with gradient and Hessian, as a `lastbit::objective::TrainableModel`
//! kernels/           CUDA C++
//! reference          tests only: a naive implementation of each kernel, and a device made of them
//! ```
//!
//! One launch computes one layer of all replicas. Raw layer values are stored; batch norm and ReLU are
//! applied while reading, as on the CPU. A matrix product reads each number many times, so for it they
//! are applied once before. Values of smooth activations are also computed once and stored.
//!
//! # Order of sums
//!
//! No sum uses atomic operations; each has an order that the network and the number of examples fix. A
//! replica's arithmetic depends neither on its index nor on the number of replicas. Given the same
//! gradient, a step is bit-identical to the CPU's; gradients agree with the CPU's up to rounding,
//! because their sums have another order.

mod cache;
mod compare;
mod compile;
mod conv3x3_plan;
#[cfg(test)]
#[path = "device.rs"]
mod cuda;
#[cfg(not(test))]
mod device;
mod device_dataset;
mod engine;
mod error;
mod graph_cache;
mod kernel_args;
mod model;
mod plane;
#[cfg(test)]
mod reference;
mod tangent_workspace;
#[cfg(test)]
mod tests;
mod trainer;
mod workspace;

pub use conv3x3_plan::MathMode;
pub use device::{Device, DeviceReal, Event, KernelTime};
pub use engine::{Engine, Predictions};
pub use error::Error;
pub use model::CudaModel;
#[cfg(test)]
use reference::device;
pub use trainer::CudaTrainer;
