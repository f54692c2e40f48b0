//! A comparison of one of our numbers with the paper's or with a closed form.

use lastbit::verdict::VerdictKind;
use serde::{Deserialize, Serialize};

use crate::number::Number;

/// Where the expected value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Printed in the paper.
    Paper,
    /// Derived; the name of the check says from what.
    ClosedForm,
    /// Claimed by the exhibit itself.
    Claim,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Paper => "paper",
            Self::ClosedForm => "closed form",
            Self::Claim => "claim",
        })
    }
}

/// How far from the expected value we may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// The same word.
    Same,
    /// `|found − expected| ≤ band · |expected|`.
    Relative(f64),
    /// `|found − expected| ≤ band`.
    Absolute(f64),
    /// `expected/band ≤ found ≤ band · expected`.
    Factor(f64),
    /// `found ≤ expected`.
    AtMost,
    /// `found ≥ expected`.
    AtLeast,
}

impl std::fmt::Display for Band {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Same => write!(f, "the same"),
            Self::Relative(band) => write!(f, "± {} %", Number(100.0 * band)),
            Self::Absolute(band) => write!(f, "± {}", Number(*band)),
            Self::Factor(band) => write!(f, "a factor of {}", Number(*band)),
            Self::AtMost => write!(f, "at most"),
            Self::AtLeast => write!(f, "at least"),
        }
    }
}

/// A number, or a word such as a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(Number),
    /// A word. (Tried second: "inf" is a number.)
    Word(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// A check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What is compared, in words.
    pub name: String,
    /// Where the expected value comes from.
    pub origin: Origin,
    /// The paper's value, or the closed form's.
    pub expected: Value,
    /// Ours.
    pub found: Value,
    /// How far apart they may be.
    pub band: Band,
    /// Whether they are within it.
    pub holds: bool,
}

impl Check {
    /// Compares numbers. NaN never holds.
    pub fn number(name: &str, origin: Origin, expected: f64, found: f64, band: Band) -> Self {
        let holds = match band {
            Band::Same => found == expected,
            Band::Relative(band) => (found - expected).abs() <= band * expected.abs(),
            Band::Absolute(band) => (found - expected).abs() <= band,
            Band::Factor(band) => expected / band <= found && found <= band * expected,
            Band::AtMost => found <= expected,
            Band::AtLeast => found >= expected,
        };
        let value = |number: f64| Value::Number(Number(number));
        let (expected, found) = (value(expected), value(found));
        Self { name: name.to_owned(), origin, expected, found, band, holds }
    }

    /// Compares verdicts; that of a cell that was not judged is missing.
    pub fn verdict(
        name: &str,
        origin: Origin,
        expected: VerdictKind,
        found: Option<VerdictKind>,
    ) -> Self {
        Self::word(name, origin, expected.name(), found.map_or("missing", VerdictKind::name))
    }

    /// Compares words.
    pub fn word(name: &str, origin: Origin, expected: &str, found: &str) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            expected: Value::Word(expected.to_owned()),
            found: Value::Word(found.to_owned()),
            band: Band::Same,
            holds: expected == found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_at_their_ends_and_not_beyond() {
        let holds = |expected: f64, found: f64, band| {
            Check::number("x", Origin::Paper, expected, found, band).holds
        };
        assert!(holds(100.0, 103.0, Band::Relative(0.03)));
        assert!(!holds(100.0, 103.1, Band::Relative(0.03)));
        assert!(holds(-1.0, -1.5, Band::Absolute(0.5)));
        assert!(!holds(-1.0, -1.6, Band::Absolute(0.5)));
        assert!(holds(1.0, 0.5, Band::Factor(2.0)) && holds(1.0, 2.0, Band::Factor(2.0)));
        assert!(!holds(1.0, 0.49, Band::Factor(2.0)) && !holds(1.0, f64::NAN, Band::Factor(2.0)));
        assert!(holds(2.0, 2.0, Band::AtMost) && !holds(2.0, 2.1, Band::AtMost));
        assert!(holds(2.0, 2.0, Band::AtLeast) && !holds(2.0, 1.9, Band::AtLeast));
        for band in [Band::Same, Band::Relative(1.0), Band::Absolute(1.0), Band::AtMost] {
            assert!(!holds(1.0, f64::NAN, band), "NaN within {band:?}");
        }
    }

    #[test]
    fn checks_survive_json() {
        for check in [
            Check::word("verdict", Origin::Paper, "stable", "restrained"),
            Check::number("edge", Origin::ClosedForm, 0.5, f64::INFINITY, Band::Relative(0.1)),
        ] {
            let text = serde_json::to_string(&check).unwrap();
            assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check, "{text}");
        }
    }
}
