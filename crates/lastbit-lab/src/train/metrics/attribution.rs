//! Rows of `attribution.csv`: one for each replica and each step that was attributed.
//!
//! ```text
//! step                 the step, counted from 1: the growth is from `step − 1` to `step` steps done
//! cause                what amplifies most; below-rounding: all that amplifies is less than `rounding`; identical: the
//!                      parameters are; not-finite
//! dt                   learning rate of the step
//! distance             of the replica from the first before the step, over the norm of the first
//! probe                the same of the copy whose growth was measured
//! growth               ln(|d'|/|d|), in the norm of `lastbit::attribution`
//! overshoot … kinks    its parts, which add up to it
//! rounding             what the rounding of the step, in the precision of the training, can add to the growth of the
//!                      replicas at their own distance
//! split_change         the most by which a part changed when the number of nodes doubled
//! products             Hessian-vector products
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lastbit::attribution::{Attribution, Parts};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::number::Number;
use crate::series::Series;

/// The file, in the folder of its run.
pub const ATTRIBUTION: &str = "attribution.csv";
/// Causes that are no part of a growth.
pub const BELOW_ROUNDING: &str = "below-rounding";
pub const IDENTICAL: &str = "identical";
pub const NOT_FINITE: &str = "not-finite";

/// One step of one replica.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributionRow {
    /// The step, counted from 1.
    pub step: usize,
    /// Name of the replica.
    pub replica: String,
    /// What amplifies most, or why nothing is said.
    pub cause: String,
    /// Numbers in the order of [`AttributionRow::columns`]; none where there is nothing to measure.
    pub numbers: Vec<Option<f64>>,
}

impl AttributionRow {
    /// Names of the numbers.
    fn columns() -> Vec<&'static str> {
        let before = ["dt", "distance", "probe", "growth"];
        let after = ["rounding", "split_change", "products"];
        before.into_iter().chain(Parts::NAMES).chain(after).collect()
    }

    /// The first line of the file.
    pub fn header() -> String {
        format!("step,replica,cause,{}\n", Self::columns().join(","))
    }

    /// A row of a growth that was measured by a copy at the distance `probe`, in `f64`; the steps of the training round
    /// `coarser` times as much.
    pub fn new(
        (step, replica): (usize, &str),
        (dt, distance, probe): (f64, f64, f64),
        coarser: f64,
        found: Option<&Attribution>,
    ) -> Self {
        let mut numbers = vec![Some(dt), Some(distance)];
        let cause = match found {
            None if distance == 0.0 => IDENTICAL,
            None => NOT_FINITE,
            Some(found) => {
                let parts = found.e_folds();
                // Of squares to e-folds, as the parts.
                let (total, folds) = (found.parts.total(), parts.total());
                let factor = if total == 0.0 { 0.5 } else { folds / total };
                // In proportion to the unit roundoff, and against the distance.
                let rounding = factor * found.rounding * coarser * probe / distance;
                let kinks = if found.kinks_are_resolved() { parts.kinks } else { 0.0 };
                let amplifying = Parts { kinks, ..parts }.values().map(|part| part.max(0.0));
                numbers.extend([Some(probe), Some(found.growth)]);
                numbers.extend(parts.values().map(Some));
                numbers.push(Some(rounding));
                numbers.push(Some(factor * found.split_change));
                numbers.push(Some(found.products as f64));
                match amplifying.iter().sum::<f64>() > rounding {
                    true => largest(amplifying),
                    false => BELOW_ROUNDING,
                }
            }
        };
        numbers.resize(Self::columns().len(), None);
        let (replica, cause) = (replica.to_owned(), cause.to_owned());
        Self { step, replica, cause, numbers }
    }

    /// The line of the file.
    pub fn to_csv(&self) -> String {
        let Self { step, replica, cause, .. } = self;
        let field = |number: &Option<f64>| number.map(|x| super::digits(Number(x)));
        let fields: Vec<String> =
            self.numbers.iter().map(|number| field(number).unwrap_or_default()).collect();
        format!("{step},{replica},{cause},{}\n", fields.join(","))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(',');
        let step = fields.next()?.parse().ok()?;
        let (replica, cause) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let number = |field: &str| match field {
            "" => Some(None),
            digits => digits.parse().ok().map(Some),
        };
        let numbers: Vec<Option<f64>> = fields.map(number).collect::<Option<_>>()?;
        let is_whole = numbers.len() == Self::columns().len();
        is_whole.then_some(Self { step, replica, cause, numbers })
    }

    /// A number by its name.
    pub fn number(&self, name: &str) -> Option<f64> {
        let place = Self::columns().iter().position(|column| *column == name)?;
        self.numbers[place]
    }
}

fn largest(amplifying: [f64; 6]) -> &'static str {
    let named = Parts::NAMES.into_iter().zip(amplifying);
    named.fold(("", 0.0), |most, own| if own.1 > most.1 { own } else { most }).0
}

/// All rows of a run; none of one that measures nothing of this.
pub fn read_attribution(folder: &Path) -> Result<Vec<AttributionRow>, Error> {
    let path = folder.join(ATTRIBUTION);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text =
        fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let row = |(i, line): (usize, &str)| {
        AttributionRow::parse(line).ok_or_else(|| Error::Input {
            path: path.clone(),
            found: format!("in line {} what is no row", i + 1),
            expected: "the rows this program wrote; put the file back".to_owned(),
        })
    };
    text.lines().enumerate().skip(1).map(row).collect()
}

/// The rows of a replica as curves over the steps; none where there are none.
pub fn curves(rows: &[AttributionRow], replica: &str) -> Option<Series> {
    let own: Vec<&AttributionRow> = rows.iter().filter(|row| row.replica == replica).collect();
    let column = |name: &str| {
        let value = |row: &&AttributionRow| row.number(name).unwrap_or(f64::NAN);
        (name.to_owned(), own.iter().map(value).collect())
    };
    let mut columns = vec![("step".to_owned(), own.iter().map(|row| row.step as f64).collect())];
    columns.extend(AttributionRow::columns().into_iter().map(column));
    (!own.is_empty()).then_some(Series { columns })
}

/// The growth of a replica's difference by cause, over all steps that were attributed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributionSummary {
    /// Its name.
    pub replica: String,
    /// Steps attributed.
    pub steps: usize,
    /// For each cause how many of them it was the largest of.
    pub causes: BTreeMap<String, usize>,
    /// Mean growth in e-folds per step, over the steps with a finite one; none without such a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Number>,
    /// Its parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Number>,
    /// The share of a part in all that amplified, over these steps; none where nothing did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, Number>,
}

/// One for each replica with rows, in their order.
pub fn summaries(rows: &[AttributionRow]) -> Vec<AttributionSummary> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.replica.as_str()) {
            names.push(&row.replica);
        }
    }
    names.into_iter().map(|name| summary(rows, name)).collect()
}

fn summary(rows: &[AttributionRow], replica: &str) -> AttributionSummary {
    let own: Vec<&AttributionRow> = rows.iter().filter(|row| row.replica == replica).collect();
    let mut causes = BTreeMap::new();
    for row in &own {
        *causes.entry(row.cause.clone()).or_default() += 1;
    }
    let is_finite = |row: &&&AttributionRow| row.number("growth").is_some_and(f64::is_finite);
    let finite: Vec<&&AttributionRow> = own.iter().filter(is_finite).collect();
    let mean = |name: &str| {
        let sum: f64 = finite.iter().filter_map(|row| row.number(name)).sum();
        Number(sum / finite.len() as f64)
    };
    let mut found = AttributionSummary {
        replica: replica.to_owned(),
        steps: own.len(),
        causes,
        growth: None,
        parts: BTreeMap::new(),
        shares: BTreeMap::new(),
    };
    if !finite.is_empty() {
        found.growth = Some(mean("growth"));
        found.parts = Parts::NAMES.map(|name| (name.to_owned(), mean(name))).into();
    }
    let amplified = Parts::NAMES.map(|name| {
        finite.iter().filter_map(|row| row.number(name)).map(|part| part.max(0.0)).sum::<f64>()
    });
    let all: f64 = amplified.iter().sum();
    if all > 0.0 {
        let amplifying = Parts::NAMES.into_iter().zip(amplified).filter(|(_, part)| *part > 0.0);
        found.shares =
            amplifying.map(|(name, part)| (name.to_owned(), Number(part / all))).collect();
    }
    found
}

impl AttributionSummary {
    /// In a sentence, beside the replica `first`.
    pub fn in_words(&self, first: &str) -> String {
        let Self { replica, steps, causes, growth, parts, shares } = self;
        let Some(growth) = growth else {
            return format!(
                "Growth of {replica} beside {first}: nothing to attribute in {steps} steps."
            );
        };
        let shown = |number: &Number| {
            if number.0 < 0.0 { number.to_string() } else { format!("+{number}") }
        };
        let named = Parts::NAMES
            .iter()
            .filter_map(|name| Some((name.replace('_', " "), parts.get(*name)?)));
        let named: Vec<String> = named
            .filter(|(_, number)| number.0 != 0.0)
            .map(|(name, number)| format!("{name} {}", shown(number)))
            .collect();
        let below = match causes.get(BELOW_ROUNDING) {
            Some(count) => format!(
                " In {count} of {steps} steps rounding can do more than all that amplifies."
            ),
            None => String::new(),
        };
        let overshoot = match shares.get("overshoot") {
            Some(share) => format!("{:.0} %", 100.0 * share.0),
            None => "nothing".to_owned(),
        };
        format!(
            "Growth of {replica} beside {first}: {} e-folds a step (mean of {steps} steps) = {}. Of all that amplifies, \
             {overshoot} is overshoot: a step beyond the stability limit.{below}",
            shown(growth),
            named.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(overshoot: f64, contraction: f64) -> Attribution {
        let parts = Parts { overshoot, contraction, ..Parts::default() };
        let growth = 0.5 * libm::log1p(parts.total());
        let (rounding, split_change) = (1e-9, 0.25);
        Attribution { distance: 1.0, growth, parts, split_change, rounding, products: 8 }
    }

    #[test]
    fn rows_read_back_and_are_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let here = (0.1, 1e-3, 1e-2);
        let rows = [
            AttributionRow::new((1, "k3"), (0.1, 0.0, 0.0), 1.0, None),
            AttributionRow::new((2, "k3"), here, 1.0, Some(&found(3.0, 0.0))),
            AttributionRow::new((2, "k5"), here, 1.0, Some(&found(0.0, -0.5))),
            AttributionRow::new((3, "k3"), here, 1.0, Some(&found(1.0, -1.0))),
            // The same in a precision that rounds by 1e-9 · 10 · 1e9 = 10, half of it in e-folds.
            AttributionRow::new((3, "k5"), here, 1e9, Some(&found(1.0, -1.0))),
            AttributionRow::new((4, "k3"), (0.1, f64::NAN, 0.0), 1.0, None),
        ];
        assert!((rows[4].number("rounding").unwrap() - 5.0).abs() < 1e-14);
        let lines: String = rows.iter().map(AttributionRow::to_csv).collect();
        fs::write(folder.path().join(ATTRIBUTION), AttributionRow::header() + &lines).unwrap();
        let read = read_attribution(folder.path()).unwrap();
        assert_eq!(read[1..5], rows[1..5]);
        let causes: Vec<&str> = read.iter().map(|row| row.cause.as_str()).collect();
        assert_eq!(
            causes,
            [IDENTICAL, "overshoot", BELOW_ROUNDING, "overshoot", BELOW_ROUNDING, NOT_FINITE]
        );
        // ln 2, all of it overshoot; then growth of nothing from +1 and −1, half an e-fold each.
        let series = curves(&read, "k3").unwrap();
        let overshoot = series.column("overshoot").unwrap();
        assert!((overshoot[1] - std::f64::consts::LN_2).abs() < 1e-15 && overshoot[2] == 0.5);
        assert!(overshoot[0].is_nan() && overshoot[3].is_nan());
        let both = summaries(&read);
        assert_eq!((both.len(), both[0].steps, both[1].replica.as_str()), (2, 4, "k5"));
        let mean = (std::f64::consts::LN_2 + 0.5) / 2.0;
        assert!((both[0].parts["overshoot"].0 - mean).abs() < 1e-15, "{:?}", both[0]);
        assert_eq!(both[0].shares, BTreeMap::from([("overshoot".to_owned(), Number(1.0))]));
        let words = both[0].in_words("k1");
        assert!(
            words.contains("100 % is overshoot") && words.contains("contraction -0.25"),
            "{words}"
        );
        assert!(
            !words.contains("rounding")
                && both[1].in_words("k1").contains("In 2 of 2 steps rounding")
        );
    }

    #[test]
    fn a_damaged_file_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(ATTRIBUTION), AttributionRow::header() + "1,k3\n").unwrap();
        let message = read_attribution(folder.path()).unwrap_err().to_string();
        assert!(message.contains(ATTRIBUTION) && message.contains("line 2"), "{message}");
    }
}
