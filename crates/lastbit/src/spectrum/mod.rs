//! Eigenvalues and amplification factors: what a linear step does to each mode.
//!
//! ```text
//! polynomial, von_neumann     roots; amplification of a frequency by a scheme given by its stencil
//! certified                   whether such a scheme is stable, and at which steps, for certain
//! window                      bounds of the one-layer network, without and with a window
//! ```

pub mod certified;
pub mod polynomial;
pub mod von_neumann;
pub mod window;
