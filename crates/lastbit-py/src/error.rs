//! Errors of the laboratory as Python exceptions, with the command's message.
//!
//! The classes are Python's own, in `lastbit._errors`. Flags in a message become keywords: `--level` is `level`, and
//! `--from` is `from_`, as words that Python reserves have it.

use lastbit_lab::Error;
use lastbit_lab::progress::StopReason;
use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::import_exception;

import_exception!(lastbit._errors, InputError);
import_exception!(lastbit._errors, LastbitError);

/// The exception for an error.
pub fn exception(error: Error) -> PyErr {
    let message = with_keywords(&error.to_string());
    match error {
        Error::Stopped(StopReason::Interrupt) => PyKeyboardInterrupt::new_err(message),
        Error::Setting { .. }
        | Error::Config { .. }
        | Error::Input { .. }
        | Error::UnknownExhibit { .. }
        | Error::UnknownDataset { .. }
        | Error::NoRecords { .. }
        | Error::Unfinished { .. }
        | Error::NotResumable { .. } => InputError::new_err(message),
        _ => LastbitError::new_err(message),
    }
}

/// Flags outside of quoted commands as the keywords of a Python function.
fn with_keywords(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    // Between backticks stands a command, which has flags.
    for (i, part) in message.split('`').enumerate() {
        if i % 2 == 1 {
            text.push('`');
            text.push_str(part);
            text.push('`');
            continue;
        }
        let mut rest = part;
        while let Some(at) = rest.find("--") {
            let (before, flag) = (&rest[..at], &rest[at + 2..]);
            let end = flag.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
            let (flag, after) = flag.split_at(end.unwrap_or(flag.len()));
            let is_flag = !flag.is_empty() && !before.ends_with(|c: char| c.is_alphanumeric());
            text.push_str(before);
            if is_flag {
                text.push_str(&flag.replace('-', "_"));
                if ["from", "lambda"].contains(&flag) {
                    text.push('_');
                }
            } else {
                text.push_str("--");
                text.push_str(flag);
            }
            rest = after;
        }
        text.push_str(rest);
    }
    text
}
