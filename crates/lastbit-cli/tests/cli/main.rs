//! The program as a user meets it. One test program, so that it is linked once and its tests share all
//! cores and one catalogue of exhibits.

mod attribution;
mod bad_input;
mod catalogue;
mod check;
mod chromium;
mod commands;
mod damage;
mod data;
mod defects;
mod diff;
mod diff_runs;
mod edge;
#[cfg(unix)]
mod envelope;
mod gpu;
mod grid;
mod hostile;
#[cfg(unix)]
mod interrupted;
mod licences;
#[cfg(target_os = "linux")]
mod locks;
mod noise;
#[cfg(target_os = "linux")]
mod power_cut;
mod readme;
mod report_in_chromium;
mod same_bits;
mod sharpness;
mod support;
mod train;
