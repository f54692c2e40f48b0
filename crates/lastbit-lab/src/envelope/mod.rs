//! What rounding alone can do to a training: the metrics of several runs of one program that differ by
//! rounding-level perturbations and nothing else.

mod file;

pub use file::{Band, Envelope, FORMAT, Reproducibility};
