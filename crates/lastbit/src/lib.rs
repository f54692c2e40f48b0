//! The mathematics of lastbit.
pub mod divergence;
mod dynamics;
pub mod growth;
pub mod pde;
mod real;
pub mod reduce;
pub mod rng;
pub mod signal;
mod simd;
pub mod spectrum;
pub mod verdict;
pub use dynamics::{Dynamics, Watcher, evolve};
pub use real::{Real, hash_of_bits};
