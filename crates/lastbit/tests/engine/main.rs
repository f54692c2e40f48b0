//! Tests of the training engine, in one program: what all of them use is compiled once.

mod curvature;
mod derivatives;
mod edge;
mod golden_gradients;
mod golden_training;
mod random;
mod same_bits;
mod torch;
mod training;
