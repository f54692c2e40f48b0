//! Runs in the formats of other tools.

mod tensorboard;

pub use tensorboard::{Exported, tensorboard};
