//! Stability bounds from theory: what `lastbit bounds` does.
//!
//! ```text
//! scheme     von Neumann analysis of a linear scheme
//! stable_dt  its certified stable steps, in words and as a result
//! kernel     stable weight decays of a one-layer network on an image
//! ```

mod kernel;
mod scheme;
mod stable_dt;

pub use kernel::{
    DecayInterval, KernelBounds, KernelBoundsSettings, NesterovBounds, SchemeDecays, WindowedBounds,
};
pub use scheme::{SchemeBounds, SchemeBoundsSettings};
pub use stable_dt::{
    Beyond, EdgeOfSteps, ModeResult, StableDt, StableDtKind, StepInterval, UndecidedSteps,
};
