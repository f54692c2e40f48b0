//! Ranges of settings, with messages that name the flag or key.

use std::path::Path;

use crate::error::Error;
use crate::number::digits;
use crate::simulate::Precision;

/// Parameters outside of these overflow or vanish when a few of them are multiplied.
const SMALLEST: f64 = 1e-30;
const LARGEST: f64 = 1e30;

/// Requires a positive number that can be computed with.
pub fn positive(flag: &str, value: f64) -> Result<(), Error> {
    if (SMALLEST..=LARGEST).contains(&value) {
        Ok(())
    } else {
        let expected = "a number greater than 0 (from 1e-30 to 1e30)";
        Err(Error::setting(flag, digits(value), expected))
    }
}

/// Requires 0 or a positive number that can be computed with.
pub fn not_negative(flag: &str, value: f64) -> Result<(), Error> {
    if value == 0.0 {
        return Ok(());
    }
    if (SMALLEST..=LARGEST).contains(&value) {
        Ok(())
    } else {
        Err(Error::setting(
            flag,
            digits(value),
            "0 or a number greater than 0 (from 1e-30 to 1e30)",
        ))
    }
}

/// In single precision the range is narrower: squares must neither overflow nor vanish.
pub fn fits_precision(flag: &str, value: f64, precision: Precision) -> Result<(), Error> {
    let fits = precision == Precision::F64 || value == 0.0 || (1e-18..=1e18).contains(&value);
    if fits {
        Ok(())
    } else {
        Err(Error::setting(
            flag,
            digits(value),
            "a number from 1e-18 to 1e18 in f32; or precision f64",
        ))
    }
}

/// Data must fit the precision as well: a value beyond its range would begin as an infinity.
pub fn data_fit_precision(
    path: Option<&Path>,
    values: &[f64],
    precision: Precision,
) -> Result<(), Error> {
    let too_large = |value: &&f64| precision == Precision::F32 && value.abs() > 1e18;
    match (path, values.iter().find(too_large)) {
        (Some(path), Some(value)) => Err(Error::Input {
            path: path.to_owned(),
            found: format!("the value {}", digits(*value)),
            expected: "values up to 1e18 in f32; or precision f64".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Requires a whole number within `low ..= high`.
pub fn within(flag: &str, value: usize, low: usize, high: usize) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::setting(flag, value, format!("a whole number from {low} to {high}")))
    }
}
