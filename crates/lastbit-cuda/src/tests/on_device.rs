//! Skips tests where there is no device; tests of the command use it as well.

use super::Error;

/// A device's result; `None`, and a message, where there is no device.
pub fn on_device<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(found) => Some(found),
        Err(error) if error.means_no_device() => {
            println!("skipped: no CUDA device here");
            None
        }
        Err(other) => panic!("{other}"),
    }
}
