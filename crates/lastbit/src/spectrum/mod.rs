//! Eigenvalues and amplification factors: what a linear step does to each mode.
//!
//! ```text
//! polynomial, von_neumann     roots; largest stable step of a scheme given by its stencil
//! window                      bounds of the one-layer network, without and with a window
//! ```

pub mod certified;
pub mod polynomial;
pub mod von_neumann;
pub mod window;
