//! What tests say where there is no device: those of this crate inside and outside, and of the command.

use super::Error;

/// What a device answered; `None`, and a word about it, where there is none.
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
