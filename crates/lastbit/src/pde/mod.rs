//! PDE schemes. Each that can be run is a [`Dynamics`](crate::Dynamics).
//!
//! ```text
//! heat          one dimension; Dirichlet, Neumann or periodic ends
//! beltrami      parameters and bounds;  beltrami_1d, beltrami_2d  the schemes
//! scheme        any linear scheme with constant coefficients, as data
//! textbook      well-known instances of it
//! linear        runs such a scheme on a periodic mesh
//! one_layer     the one-layer network on one image;  quadratic  its linear approximations
//! ```

pub mod beltrami;
pub mod beltrami_1d;
pub mod beltrami_2d;
pub mod heat;
pub mod linear;
pub mod one_layer;
pub mod quadratic;
pub mod scheme;
pub mod textbook;
