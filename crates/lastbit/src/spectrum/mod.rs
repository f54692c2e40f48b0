//! Eigenvalues and amplification factors: what a linear step does to each mode.
//!
//! ```text
//! polynomial, von_neumann     roots; largest stable step of a scheme given by its stencil
//! tridiagonal, symmetric      eigenvalues of small matrices
//! basis                       sums over many long vectors
//! lanczos                     ends of the spectrum of an operator one can only multiply with
//! window                      bounds of the one-layer network, without and with a window
//! ```

pub(crate) mod basis;
pub mod lanczos;
pub mod polynomial;
pub mod symmetric;
pub mod tridiagonal;
pub mod von_neumann;
pub mod window;
