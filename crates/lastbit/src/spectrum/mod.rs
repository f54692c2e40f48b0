//! Eigenvalues and amplification factors: what a linear step does to each mode.

pub mod polynomial;
pub mod von_neumann;
