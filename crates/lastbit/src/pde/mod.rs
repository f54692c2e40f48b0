//! PDE schemes, each a [`Dynamics`](crate::Dynamics).

pub mod beltrami;
pub mod beltrami_1d;
pub mod beltrami_2d;
pub mod heat;
