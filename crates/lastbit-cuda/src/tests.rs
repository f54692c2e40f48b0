//! Whole networks on a device against the CPU. They are ignored unless asked for, and fail without a device:
//! `cargo test -p lastbit-cuda -- --include-ignored`.

mod against_cpu;
pub mod common;
mod compare;
mod curvature;
