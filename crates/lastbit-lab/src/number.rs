//! Numbers that may be infinite or NaN, in a format that has neither.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// An `f64` that survives JSON: `inf`, `-inf` and `NaN` are written as strings.
#[derive(Debug, Clone, Copy)]
pub struct Number(pub f64);

impl PartialEq for Number {
    /// Equal bits, or both NaN: a record equals itself.
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits() || self.0.is_nan() && other.0.is_nan()
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Finite(f64),
            Word(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Finite(value) => Ok(Self(value)),
            Either::Word(word) => match word.as_str() {
                "inf" => Ok(Self(f64::INFINITY)),
                "-inf" => Ok(Self(f64::NEG_INFINITY)),
                "NaN" => Ok(Self(f64::NAN)),
                _ => Err(D::Error::custom(format!(
                    "found \"{word}\", expected a number or one of \"inf\", \"-inf\", \"NaN\""
                ))),
            },
        }
    }
}

/// Rounded to so many significant digits, to be printed: a sum of 0.1 and 0.2 reads 0.3.
pub fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// The fewest characters that read back to the same bits.
pub fn shortest(value: f64) -> String {
    let (plain, powers) = (format!("{value}"), format!("{value:e}"));
    if powers.len() < plain.len() { powers } else { plain }
}

/// All digits of a number, in powers of ten where there would be many zeros.
pub fn digits(value: f64) -> String {
    let plain = value.to_string();
    if plain.len() > 12 { shortest(value) } else { plain }
}

impl fmt::Display for Number {
    /// Five significant digits, plain where that is short.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let size = self.0.abs();
        if self.0 == 0.0 || !self.0.is_finite() {
            write!(f, "{}", self.0)
        } else if (1e-3..1e6).contains(&size) {
            let decimals = (4 - libm::log10(size).floor() as i32).clamp(0, 8) as usize;
            let text = format!("{:.decimals$}", self.0);
            let short = if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.')
            } else {
                &text
            };
            f.write_str(short)
        } else {
            let text = format!("{:.4e}", self.0);
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            write!(f, "{mantissa}e{exponent}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_json() {
        for value in [0.1, -0.0, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let text = serde_json::to_string(&Number(value)).unwrap();
            let back: Number = serde_json::from_str(&text).unwrap();
            assert_eq!(back, Number(value), "{text}");
        }
        assert!(serde_json::from_str::<Number>("\"many\"").is_err());
    }

    #[test]
    fn a_computed_number_is_printed_without_its_rounding_error() {
        for (value, expected) in
            [(0.1 + 0.2, "0.3"), (3.0 * 0.1, "0.3"), (1.0 / 3.0, "0.333333333333")]
        {
            assert_eq!(significant(value, 12).to_string(), expected);
        }
        assert_eq!(significant(f64::INFINITY, 12), f64::INFINITY);
        assert!(significant(f64::NAN, 12).is_nan());
    }

    #[test]
    fn numbers_read_well() {
        let shown = |value: f64| Number(value).to_string();
        assert_eq!(shown(0.5), "0.5");
        assert_eq!(shown(2.0 / 401.0), "0.0049875");
        assert_eq!(shown(123_456.7), "123457");
        assert_eq!(shown(1.25e-16), "1.25e-16");
        assert_eq!(shown(3.8e6), "3.8e6");
        assert_eq!(shown(f64::INFINITY), "inf");
    }
}
