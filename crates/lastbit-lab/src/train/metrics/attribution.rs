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
use std::path::Path;

use lastbit::attribution::{Attribution, Parts};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::number::Number;
use crate::series::Series;
use crate::train::prefix_hash::PrefixHash;
use crate::train::thinned::Thinned;

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

/// What the rows of a replica come to.
#[derive(Debug, Clone)]
pub struct Attributed {
    /// In numbers.
    pub summary: AttributionSummary,
    /// As curves over the steps; of very many rows [some](crate::train::thinned).
    pub curves: Series,
}

/// Of each replica with rows, in their order. Fails unless the file has this hash up to this length.
pub fn read_attribution(folder: &Path, noted: &PrefixHash) -> Result<Vec<Attributed>, Error> {
    let mut each: Vec<(String, Totals)> = Vec::new();
    noted.check_lines(&folder.join(ATTRIBUTION), |number, line| {
        if number == 1 {
            return Ok(());
        }
        let row = AttributionRow::parse(line).ok_or("not as many fields as the first line")?;
        let place = each.iter().position(|(name, _)| *name == row.replica).unwrap_or_else(|| {
            each.push((row.replica.clone(), Totals::default()));
            each.len() - 1
        });
        each[place].1.add(row);
        Ok(())
    })?;
    Ok(each.into_iter().map(|(replica, totals)| totals.finish(replica)).collect())
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

/// Sums over the rows of a replica, in their order.
#[derive(Default)]
struct Totals {
    steps: usize,
    causes: BTreeMap<String, usize>,
    /// Steps with a finite growth, over which the sums are.
    finite: usize,
    growth: Sum,
    parts: [Sum; Parts::NAMES.len()],
    amplified: [Sum; Parts::NAMES.len()],
    rows: Thinned<Vec<f64>>,
}

impl Totals {
    fn add(&mut self, row: AttributionRow) {
        self.steps += 1;
        let growth = row.number("growth").filter(|growth| growth.is_finite());
        if let Some(growth) = growth {
            self.finite += 1;
            self.growth.add(growth);
            for (i, part) in Parts::NAMES.into_iter().enumerate() {
                if let Some(part) = row.number(part) {
                    self.parts[i].add(part);
                    self.amplified[i].add(part.max(0.0));
                }
            }
        }
        let numbers = row.numbers.iter().map(|number| number.unwrap_or(f64::NAN));
        let values = std::iter::once(row.step as f64).chain(numbers).collect();
        self.rows.push(growth.unwrap_or(f64::NAN), values);
        *self.causes.entry(row.cause).or_default() += 1;
    }

    fn finish(self, replica: String) -> Attributed {
        let Self { steps, causes, finite, growth, parts, amplified, rows } = self;
        let rows = rows.rows();
        let names = std::iter::once("step").chain(AttributionRow::columns()).enumerate();
        let column =
            |(i, name): (usize, &str)| (name.to_owned(), rows.iter().map(|row| row[i]).collect());
        let curves = Series { columns: names.map(column).collect() };
        let named = |sums: [Sum; Parts::NAMES.len()], over: f64| {
            let sums = Parts::NAMES.into_iter().zip(sums);
            sums.map(move |(name, Sum(sum))| (name.to_owned(), Number(sum / over)))
        };
        let all: f64 = amplified.iter().map(|Sum(sum)| sum).sum();
        let is_part = |(_, share): &(String, Number)| share.0 > 0.0;
        let mut summary = AttributionSummary {
            replica,
            steps,
            causes,
            growth: None,
            parts: BTreeMap::new(),
            shares: BTreeMap::new(),
        };
        if finite > 0 {
            summary.growth = Some(Number(growth.0 / finite as f64));
            summary.parts = named(parts, finite as f64).collect();
        }
        if all > 0.0 {
            summary.shares = named(amplified, all).filter(is_part).collect();
        }
        Attributed { summary, curves }
    }
}

/// A sum in the order in which its terms come.
#[derive(Clone, Copy)]
struct Sum(f64);

impl Default for Sum {
    /// As the sum of an iterator begins: all terms may be negative zeros.
    fn default() -> Self {
        Self(-0.0)
    }
}

impl Sum {
    fn add(&mut self, term: f64) {
        self.0 += term;
    }
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
    use std::fs;

    fn written(folder: &Path, lines: &str) -> Result<Vec<Attributed>, Error> {
        let path = folder.join(ATTRIBUTION);
        fs::write(&path, AttributionRow::header() + lines).unwrap();
        read_attribution(folder, &PrefixHash::of(&path).unwrap())
    }

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
        let back: Vec<AttributionRow> =
            lines.lines().map(|line| AttributionRow::parse(line).unwrap()).collect();
        assert_eq!(back[1..5], rows[1..5]);
        let causes: Vec<&str> = back.iter().map(|row| row.cause.as_str()).collect();
        assert_eq!(
            causes,
            [IDENTICAL, "overshoot", BELOW_ROUNDING, "overshoot", BELOW_ROUNDING, NOT_FINITE]
        );
        // ln 2, all of it overshoot; then growth of nothing from +1 and −1, half an e-fold each.
        let read = written(folder.path(), &lines).unwrap();
        let overshoot = read[0].curves.column("overshoot").unwrap();
        assert!((overshoot[1] - std::f64::consts::LN_2).abs() < 1e-15 && overshoot[2] == 0.5);
        assert!(overshoot[0].is_nan() && overshoot[3].is_nan());
        let both: Vec<&AttributionSummary> = read.iter().map(|found| &found.summary).collect();
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
        let message = written(folder.path(), "1,k3\n").unwrap_err().to_string();
        assert!(message.contains(ATTRIBUTION) && message.contains("line 2"), "{message}");
    }
}
