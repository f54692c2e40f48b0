//! The laboratory as a library: settings -> run -> typed result -> record -> figure -> report.
//!
//! It knows files; it knows no flags, no terminal and no process exit. What a command does, a function here does.

pub mod bounds;
pub mod damage;
pub mod data;
pub mod diff;
pub mod edge;
pub mod envelope;
pub mod error;
pub mod experiments;
pub mod export;
pub mod figure;
pub mod files;
pub mod input;
pub mod lock;
pub mod logged;
pub mod memory;
pub mod nearest;
pub mod noise;
pub mod number;
pub mod origin;
pub mod pde;
pub mod perturbed_runs;
pub mod plan;
pub mod plot;
pub mod probe;
pub mod progress;
pub mod record;
pub mod relative_path;
pub mod report;
pub mod runner;
#[cfg(test)]
mod sample;
pub mod sealed;
pub mod series;
pub mod settings;
pub mod simulate;
pub mod tensors;
pub mod train;
pub mod validate;
pub mod verify;
pub mod words;

pub use error::Error;

/// Property tests draw the same cases at every run.
#[cfg(test)]
fn fixed_seed() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..Default::default()
    }
}
