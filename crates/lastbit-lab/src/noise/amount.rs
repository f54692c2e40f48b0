//! Amounts in sentences: few digits, with their unit.

use super::Question;
use crate::number::Number;

/// Three significant digits: no sigma of a handful of runs has more.
pub fn short(value: f64) -> String {
    let rounded = format!("{value:.2e}").parse().unwrap_or(value);
    Number(rounded).to_string()
}

/// A difference with its unit.
pub fn amount(value: f64, question: &Question) -> String {
    match question.unit.as_str() {
        "" => short(value),
        unit => format!("{} {unit}", short(value)),
    }
}

/// So many pairs.
pub fn pairs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "pair" } else { "pairs" })
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    // Without what the share is off 0.95 by.
    let percent = (share * 1e10).round() / 1e8;
    format!("{percent} %")
}
