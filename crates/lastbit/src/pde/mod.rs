//! PDE schemes. Each that can be run is a [`Dynamics`].
//!
//! ```text
//! heat          one dimension; Dirichlet, Neumann or periodic ends
//! beltrami      parameters and bounds;  beltrami_1d, beltrami_2d  the schemes
//! scheme        any linear scheme with constant coefficients, as data
//! textbook      well-known instances of it
//! linear        runs such a scheme on a periodic mesh
//! one_layer     the one-layer network on one image;  quadratic  its linear approximations
//! ```

//!
//! A scheme that also implements [`Pde`] says of itself what a laboratory needs to run it: where its
//! values lie, what to measure along a run, and what is known in closed form.

use std::convert::Infallible;

use crate::Dynamics;
use crate::reduce::max_abs;

pub mod beltrami;
pub mod beltrami_1d;
pub mod beltrami_2d;
pub mod heat;
pub mod linear;
pub mod one_layer;
pub mod quadratic;
pub mod scheme;
pub mod textbook;

/// How the values of a state lie in space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mesh {
    /// Points on a line.
    Line {
        /// How many.
        points: usize,
        /// Distance between neighbours.
        dx: f64,
    },
    /// An image, row by row.
    Plane {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
}

impl Mesh {
    /// Number of points. A state may be longer: older time levels follow the newest.
    pub fn points(self) -> usize {
        match self {
            Self::Line { points, .. } => points,
            Self::Plane { height, width } => height * width,
        }
    }
}

/// A PDE scheme that a laboratory can run, judge and measure.
pub trait Pde: Dynamics<Error = Infallible> {
    /// Where the values of the state lie.
    fn mesh(&self) -> Mesh;

    /// Numbers that follow from the parameters: step-size bounds and the like.
    fn closed_forms(&self) -> Vec<(&'static str, f64)> {
        vec![]
    }

    /// What is measured along a run, each time under the same names.
    fn measures(&self) -> Vec<(&'static str, f64)> {
        energy_and_size(self)
    }
}

/// The energy, where the scheme descends one, and the largest absolute value.
pub fn energy_and_size<D: Dynamics<Error = Infallible>>(run: &D) -> Vec<(&'static str, f64)> {
    let Ok(energy) = run.energy();
    let energy = energy.map(|energy| ("energy", energy));
    energy.into_iter().chain([("max_abs", max_abs(run.state()))]).collect()
}
