//! Runs in the formats of other tools.

mod tensorboard;

pub use tensorboard::{Exported, tensorboard};
pub(crate) use tensorboard::{as_code, event_file, spectral_density};
