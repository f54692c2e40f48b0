//! Whole networks on a device against the CPU. Without a device, a test says that it was skipped.

mod against_cpu;
pub mod common;
mod compare;
mod curvature;
pub mod on_device;

use crate::Error;
