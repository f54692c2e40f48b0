//! The command `lastbit`; the library of this crate does what it says.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(lastbit_cli::main(&arguments))
}
