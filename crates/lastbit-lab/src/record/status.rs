//! What a record says about the claim of its exhibit: the badge.
//!
//! ```text
//! unfinished   cells are missing
//! not tested   the claim cannot be tested at this scale
//! fails        a check fails
//! undecided    no check fails, and one is undecided
//! holds        every check holds
//! no claim     a run of one's own: nothing is claimed
//! ```

use super::{CheckOutcome, Record};

/// What a record says about its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<'a> {
    /// Cells are missing.
    Unfinished,
    /// The claim cannot be tested at this scale.
    NotTested {
        /// Why.
        why: &'a str,
    },
    /// A check fails.
    Fails,
    /// No check fails, and one is undecided.
    Undecided,
    /// Every check holds.
    Holds,
    /// There is nothing to check.
    NoClaim,
}

impl Status<'_> {
    /// Its name in `--json` output and in style sheets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::NotTested { .. } => "not-tested",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
            Self::Holds => "holds",
            Self::NoClaim => "no-claim",
        }
    }

    /// The same for reading.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NotTested { .. } => "not tested at this scale",
            Self::NoClaim => "no claim",
            Self::Unfinished | Self::Fails | Self::Undecided | Self::Holds => self.name(),
        }
    }
}

impl Record {
    /// What it says about its claim.
    pub fn status(&self) -> Status<'_> {
        let is_any = |outcome| self.checks.iter().any(|check| check.outcome == outcome);
        match &self.not_tested {
            _ if !self.is_complete() => Status::Unfinished,
            Some(why) => Status::NotTested { why },
            None if self.checks.is_empty() => Status::NoClaim,
            None if is_any(CheckOutcome::Fails) => Status::Fails,
            None if is_any(CheckOutcome::Undecided) => Status::Undecided,
            None => Status::Holds,
        }
    }

    /// Checks of each outcome in words, such as `2 of 3 checks hold, 1 undecided`; nothing without checks.
    pub fn count_of_checks(&self) -> Option<String> {
        let count = |outcome| self.checks.iter().filter(|check| check.outcome == outcome).count();
        let held = count(CheckOutcome::Holds);
        let mut text = match self.checks.len() {
            0 => return None,
            all => format!("{held} of {all} checks hold"),
        };
        for (outcome, word) in
            [(CheckOutcome::Fails, "failed"), (CheckOutcome::Undecided, "undecided")]
        {
            if count(outcome) > 0 {
                text.push_str(&format!(", {} {word}", count(outcome)));
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Band, Check, Origin};

    #[test]
    fn the_worst_check_decides_and_what_is_not_tested_never_holds() {
        let out = tempfile::tempdir().unwrap();
        let sample = crate::sample::restrained(out.path()).1;
        let with = |found: &[&str]| Record {
            checks: found.iter().map(|f| Check::word("x", Origin::Paper, "stable", f)).collect(),
            ..sample.clone()
        };
        assert_eq!(with(&["stable", "stable"]).status(), Status::Holds);
        assert_eq!(with(&["stable", "undecided"]).status(), Status::Undecided);
        let fails = with(&["undecided", "diverged", "stable"]);
        assert_eq!(fails.status(), Status::Fails);
        assert_eq!(fails.count_of_checks().unwrap(), "1 of 3 checks hold, 1 failed, 1 undecided");
        assert_eq!((with(&[]).status(), with(&[]).count_of_checks()), (Status::NoClaim, None));
        let holding = Check::number("x", Origin::Claim, 1.0, 1.0, Band::Same);
        let not_tested = Some("too short".to_owned());
        let record = Record { checks: vec![holding], not_tested, ..sample };
        assert_eq!(record.status(), Status::NotTested { why: "too short" });
        assert_eq!(Record { planned: 9, ..record }.status(), Status::Unfinished);
    }
}
