//! A comparison of one of our numbers with the paper's or with a closed form.
//!
//! A number that was estimated from few runs comes with its interval of confidence:
//!
//! ```text
//! holds       the whole interval lies within the band
//! fails       no part of it does
//! undecided   a part of it does; and a verdict that is itself undecided
//! ```
//!
//! The outcome follows from the other fields and is computed from them, also when a record is read.

use lastbit::statistics::quotient::Quotient;
use lastbit::verdict::VerdictKind;
use serde::{Deserialize, Serialize};

use super::VerdictRecord;
use crate::number::Number;

lastbit::named_enum! {
    /// What a comparison gave.
    pub enum CheckOutcome {
        /// Within the band.
        Holds = "holds",
        /// Outside.
        Fails = "fails",
        /// Too uncertain to tell.
        Undecided = "undecided",
    }
}

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

/// An interval that holds the true value with a stated confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// Lower end.
    pub low: Number,
    /// Upper end.
    pub high: Number,
    /// Share of such intervals that hold the true value.
    pub confidence: f64,
}

impl std::fmt::Display for Estimated {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { low, high, confidence } = self;
        let [low, high] = [low, high].map(|end| Number((1000.0 * end.0).round() / 1000.0));
        write!(f, "{low} to {high} at {} %", Number(100.0 * confidence))
    }
}

/// A check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredCheck")]
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
    /// Where the true value is, if ours is an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Estimated>,
    /// Whether they are within the band.
    pub outcome: CheckOutcome,
}

/// What of a check is read: all but the outcome.
#[derive(Deserialize)]
struct StoredCheck {
    name: String,
    origin: Origin,
    expected: Value,
    found: Value,
    band: Band,
    interval: Option<Estimated>,
}

impl From<StoredCheck> for Check {
    fn from(stored: StoredCheck) -> Self {
        let StoredCheck { name, origin, expected, found, band, interval } = stored;
        let outcome = match (&expected, &found) {
            (Value::Number(expected), Value::Number(found)) => match interval {
                Some(Estimated { low, high, .. }) => band.compare(expected.0, low.0, high.0),
                None => band.compare(expected.0, found.0, found.0),
            },
            _ if expected == found => CheckOutcome::Holds,
            (_, Value::Word(word)) if word == VerdictKind::Undecided.name() => {
                CheckOutcome::Undecided
            }
            _ => CheckOutcome::Fails,
        };
        Self { name, origin, expected, found, band, interval, outcome }
    }
}

impl Band {
    /// Whether all numbers from `low` to `high` are within it, or none. NaN never is.
    fn compare(self, expected: f64, low: f64, high: f64) -> CheckOutcome {
        let [least, most] = match self {
            Self::Same => [expected, expected],
            Self::Relative(band) => {
                [expected - band * expected.abs(), expected + band * expected.abs()]
            }
            Self::Absolute(band) => [expected - band, expected + band],
            Self::Factor(band) => [expected / band, band * expected],
            Self::AtMost => [f64::NEG_INFINITY, expected],
            Self::AtLeast => [expected, f64::INFINITY],
        };
        if least <= low && high <= most {
            CheckOutcome::Holds
        } else if low <= most && least <= high {
            CheckOutcome::Undecided
        } else {
            CheckOutcome::Fails
        }
    }
}

/// Confidence of the intervals that checks use.
pub const CONFIDENCE: f64 = 0.95;

impl Check {
    fn new(name: &str, origin: Origin, expected: Value, found: Value, band: Band) -> Self {
        let name = name.to_owned();
        StoredCheck { name, origin, expected, found, band, interval: None }.into()
    }

    /// Compares numbers. NaN never holds.
    pub fn number(name: &str, origin: Origin, expected: f64, found: f64, band: Band) -> Self {
        let [expected, found] = [expected, found].map(|number| Value::Number(Number(number)));
        Self::new(name, origin, expected, found, band)
    }

    /// Asks whether two standard deviations are within a factor of each other, by the interval of their
    /// quotient. Where there is none, for lack of spread, anything between 0 and infinity is possible.
    pub fn quotient(name: &str, origin: Origin, found: Option<Quotient>, factor: f64) -> Self {
        let value = found.map_or(f64::NAN, |found| found.value);
        let ends = found.map_or([0.0, f64::INFINITY], |q| [q.interval.low, q.interval.high]);
        let [low, high] = ends.map(Number);
        let plain = Self::number(name, origin, 1.0, value, Band::Factor(factor));
        let Self { name, origin, expected, found, band, .. } = plain;
        let interval = Some(Estimated { low, high, confidence: CONFIDENCE });
        StoredCheck { name, origin, expected, found, band, interval }.into()
    }

    /// Compares verdicts; that of a cell that was not judged is missing.
    pub fn verdict(
        name: &str,
        origin: Origin,
        expected: VerdictKind,
        found: Option<&VerdictRecord>,
    ) -> Self {
        // Only restrained or diverging may be open: stable it is not.
        let is_refuted = |found: &VerdictRecord| {
            expected == VerdictKind::Stable && found.is_stable() == Some(false)
        };
        let found = match found {
            None => "missing",
            Some(found) if found.kind == VerdictKind::Undecided && is_refuted(found) => {
                "not stable"
            }
            Some(found) => found.kind.name(),
        };
        Self::word(name, origin, expected.name(), found)
    }

    /// What was found, with its interval.
    pub fn found_in_words(&self) -> String {
        match &self.interval {
            Some(interval) => format!("{} ({interval})", self.found),
            None => self.found.to_string(),
        }
    }

    /// Compares words.
    pub fn word(name: &str, origin: Origin, expected: &str, found: &str) -> Self {
        let [expected, found] = [expected, found].map(|word| Value::Word(word.to_owned()));
        Self::new(name, origin, expected, found, Band::Same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::statistics::Interval;
    use lastbit::verdict::Doubt;

    #[test]
    fn bands_hold_at_their_ends_and_not_beyond() {
        let holds = |expected: f64, found: f64, band| {
            Check::number("x", Origin::Paper, expected, found, band).outcome == CheckOutcome::Holds
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

    fn quotient(low: f64, high: f64) -> Check {
        let found = Quotient { value: low, interval: Interval { low, high } };
        Check::quotient("x", Origin::Claim, Some(found), 2.0)
    }

    #[test]
    fn an_interval_holds_within_the_band_fails_outside_and_is_undecided_across_its_ends() {
        for (low, high, outcome) in [
            (0.5, 2.0, CheckOutcome::Holds),
            (0.7, 1.1, CheckOutcome::Holds),
            (0.49, 1.0, CheckOutcome::Undecided),
            (1.0, 2.01, CheckOutcome::Undecided),
            (0.1, 9.0, CheckOutcome::Undecided),
            (0.1, 0.49, CheckOutcome::Fails),
            (2.01, 9.0, CheckOutcome::Fails),
        ] {
            assert_eq!(quotient(low, high).outcome, outcome, "{low} to {high}");
        }
        let nothing = Check::quotient("x", Origin::Claim, None, 2.0);
        assert_eq!(nothing.outcome, CheckOutcome::Undecided);
        assert_eq!(quotient(0.415, 0.7542).interval.unwrap().to_string(), "0.415 to 0.754 at 95 %");
    }

    #[test]
    fn a_verdict_that_is_undecided_neither_holds_nor_fails() {
        let judged = |kind, doubt| VerdictRecord {
            kind,
            doubt,
            diverged_at: None,
            growth_per_step: Number(0.0),
            growth_standard_error: Number(0.0),
            resolution: Number(0.0),
            unstable_share: Number(0.0),
            steps: 64,
        };
        let outcome = |expected, found: &VerdictRecord| {
            Check::verdict("x", Origin::Paper, expected, Some(found)).outcome
        };
        let slow = judged(VerdictKind::Undecided, Some(Doubt::SlowGrowth));
        assert_eq!(outcome(VerdictKind::Stable, &slow), CheckOutcome::Undecided);
        let open = judged(VerdictKind::Undecided, Some(Doubt::BoundedSoFar));
        assert_eq!(outcome(VerdictKind::Restrained, &open), CheckOutcome::Undecided);
        assert_eq!(outcome(VerdictKind::Stable, &open), CheckOutcome::Fails);
        let stable = judged(VerdictKind::Stable, None);
        assert_eq!(outcome(VerdictKind::Stable, &stable), CheckOutcome::Holds);
        assert_eq!(outcome(VerdictKind::Diverged, &stable), CheckOutcome::Fails);
        let missing = Check::verdict("x", Origin::Paper, VerdictKind::Stable, None);
        assert_eq!(missing.outcome, CheckOutcome::Fails);
    }

    #[test]
    fn what_earlier_versions_wrote_is_compared_again() {
        let check = |expected: &str, found: &str| -> Check {
            let text = format!(
                r#"{{"name": "verdict", "origin": "paper", "expected": {expected}, "found": {found},
                    "band": "same", "holds": false}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(check("\"stable\"", "\"undecided\"").outcome, CheckOutcome::Undecided);
        assert_eq!(check("\"stable\"", "\"diverged\"").outcome, CheckOutcome::Fails);
        assert_eq!(check("0.5", "0.5").outcome, CheckOutcome::Holds);
    }

    #[test]
    fn checks_survive_json() {
        for check in [
            quotient(0.25, 0.75),
            Check::word("verdict", Origin::Paper, "stable", "restrained"),
            Check::number("edge", Origin::ClosedForm, 0.5, f64::INFINITY, Band::Relative(0.1)),
        ] {
            let text = serde_json::to_string(&check).unwrap();
            assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check, "{text}");
        }
    }
}
