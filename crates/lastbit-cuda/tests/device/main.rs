//! The device against the CPU, in one program: what all of these tests use is compiled once.

mod against_cpu;
mod common;
mod compared;
mod curvature;
