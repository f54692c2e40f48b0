//! Settings of analyses and simulations: what `bounds`, `pde` and `edge kernel` take.
//!
//! ```text
//! given    which settings were asked for: one that has no effect is refused
//! json     settings from JSON, each under its name
//! size     rows by columns
//! scheme   a linear scheme: one of the textbook, or the user's own stencil
//! network  a one-layer network on an image, and the equation of its kernel
//! ```
//!
//! A setting's value, its default and the order of the fields stand here: records are found by a hash of the
//! settings. Their ranges are checked where they are used.

mod given;
mod json;
mod network;
mod scheme;
mod size;

pub use given::{Given, not_default};
pub use json::from_json;
pub use network::{Flow, Network};
pub use scheme::{SchemeChoice, SchemeFile, SchemeName};
pub use size::Size;
