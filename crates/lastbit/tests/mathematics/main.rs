//! Schemes, kernels and statistics beside numpy, scipy and simulation, in one program that is linked once.

mod envelope;
mod golden;
mod golden_attribution;
mod golden_envelope;
mod golden_kernel;
mod golden_statistics;
mod json;
mod random_verdicts;
mod statistics;
mod verdicts;
