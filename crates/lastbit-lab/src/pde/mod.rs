//! Judged runs of PDEs with the user's own parameters and data: what `lastbit pde` does.
//!
//! ```text
//! heat, beltrami, scheme, kernel   settings -> a run that can start
//! run                              the run: in memory, or into a record
//! result                           its verdict, numbers, curves and snapshots
//! sentence                         the verdict in words
//! figures                          charts and pictures of its record
//! ```

mod beltrami;
mod figures;
mod heat;
mod kernel;
mod result;
mod run;
mod scheme;
mod sentence;

pub use beltrami::BeltramiSettings;
pub use heat::HeatSettings;
pub use kernel::KernelSettings;
pub use result::{PdeResult, Snapshot};
pub use run::PdeRun;
pub use scheme::SchemeSettings;
pub use sentence::in_words;
