//! A table of accuracies: seeds of the batches against factors `k` of the last-bit perturbation.
//!
//! ```text
//! sigma over k       mean over seeds of the standard deviation over k:     what the last bit moves
//! sigma over seeds   mean over k of the standard deviation over seeds:     what batches move
//! ```
//!
//! Both in points of accuracy (percent). With 6 x 6 networks each is a mean of six deviations of
//! five degrees of freedom: a relative standard error of about 1/√(2·30) = 13 %, or 18 % between two
//! tables; within a table the two move together, and the quotient is as sharp. Where batches have an
//! effect of their own beside rounding, the quotient is below 1 by what they add: a factor of two is
//! asked for as "the same order", not as equality.

use std::ops::Range;

use lastbit::statistics::sample::{deviation, mean};

use super::paper::{Printed, Summary};
use super::{factors, settings, task};
use crate::plan::Task;
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ReplicaNumber, Training};

/// One table of an exhibit.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Name of the exhibit.
    pub id: &'static str,
    /// What the keys of its cells begin with.
    pub prefix: &'static str,
    /// In words.
    pub title: &'static str,
    /// Keys that differ from the settings of the scale.
    pub changes: fn(Scale) -> Vec<&'static str>,
    /// Seeds of the batches at desk scale; six at the paper's.
    pub desk_seeds: u64,
    /// The paper's numbers.
    pub paper: Printed,
}

impl Grid {
    /// Seeds of the batches.
    pub fn seeds(&self, scale: Scale) -> Range<u64> {
        match scale {
            Scale::Smoke => 0..2,
            Scale::Desk => 0..self.desk_seeds,
            Scale::Paper => 0..6,
        }
    }

    /// Seeds whose cells a record has.
    pub fn seeds_in(&self, record: &Record) -> Vec<u64> {
        let has = |seed: &u64| record.cell(&self.key(*seed)).is_some();
        self.seeds(record.exhibit_scale()).filter(has).collect()
    }

    /// Key of the cell of a seed.
    pub fn key(&self, seed: u64) -> String {
        format!("{}seed{seed}", self.prefix)
    }

    /// The run of a seed: networks that differ in `k`.
    pub fn training(&self, scale: Scale, seed: u64) -> Training {
        let batch = format!("replicas.seeds.batch=[{seed}]");
        let augment = format!("replicas.seeds.augment=[{seed}]");
        let mut changes = (self.changes)(scale);
        changes.extend([batch.as_str(), augment.as_str()]);
        Training::new(settings(self.id, scale, &changes))
    }

    /// One cell for each seed.
    pub fn cells(&self, scale: Scale) -> Vec<Task> {
        self.seeds(scale).map(|seed| task(&self.key(seed), self.training(scale, seed))).collect()
    }

    /// Accuracies in percent: a row for each `k`, a column for each seed.
    pub fn accuracies(&self, record: &Record) -> Vec<Vec<f64>> {
        let scale = record.exhibit_scale();
        let accuracy = |seed: u64, k: &String| {
            100.0 * record.number(&self.key(seed), &ReplicaNumber::TestAccuracy.of(k))
        };
        let seeds = self.seeds_in(record);
        let row = |k: &String| seeds.iter().map(|seed| accuracy(*seed, k)).collect();
        factors(scale).iter().map(row).collect()
    }

    /// The smallest final distance of a replica to that with `k = 1`.
    fn least_rel_l1(&self, record: &Record) -> f64 {
        let scale = record.exhibit_scale();
        let distances = |seed: u64| {
            let of = move |k: &String| record.number(&self.key(seed), &ReplicaNumber::RelL1.of(k));
            factors(scale)[1..].iter().map(of).collect::<Vec<_>>()
        };
        // A number that is not there is NaN, and no check holds for NaN.
        let smaller = |a: f64, b: f64| if a.is_nan() || b >= a { a } else { b };
        self.seeds(scale).flat_map(distances).fold(f64::INFINITY, smaller)
    }

    /// What a table must show.
    pub fn checks(&self, record: &Record) -> Vec<Check> {
        let scale = record.exhibit_scale();
        let number = |text: &str, origin, expected, found, band| {
            let title = if self.prefix.is_empty() { "" } else { self.title };
            let separator = if title.is_empty() { "" } else { ": " };
            Check::number(&format!("{title}{separator}{text}"), origin, expected, found, band)
        };
        let distance = self.least_rel_l1(record);
        if scale == Scale::Smoke {
            let name = format!("{}: replicas that differ from k = 1", self.title);
            let found = if distance > 0.0 { "all" } else { "not all" };
            return vec![Check::word(&name, Origin::Claim, "all", found)];
        }
        let mut checks = Vec::new();
        let found = summary(&self.accuracies(record));
        let quotient = found.std_over_k / found.std_over_seeds;
        // The same order, not equality: see the module doc.
        let text = "standard deviation over k / over seeds (same order)";
        checks.push(number(text, Origin::Claim, 1.0, quotient, Band::Factor(2.0)));
        // A last bit is 1e-7 of a weight; networks with nothing in common are about 1 apart.
        let text = "smallest final RelL1 to k = 1";
        checks.push(number(text, Origin::Claim, 0.1, distance, Band::AtLeast));
        if scale == Scale::Paper {
            let paper = self.paper.summary();
            // Implementations differ in conventions the paper is silent on; a point of accuracy is
            // what three times fewer layers cost.
            let text = "mean test accuracy, percent";
            checks.push(number(text, Origin::Paper, paper.mean, found.mean, Band::Absolute(1.0)));
            // Ours and the paper's have a standard error of 13 % each: three times 18 %.
            let band = Band::Relative(0.55);
            for (text, paper, found) in [
                ("standard deviation over k, points", paper.std_over_k, found.std_over_k),
                (
                    "standard deviation over seeds, points",
                    paper.std_over_seeds,
                    found.std_over_seeds,
                ),
            ] {
                checks.push(number(text, Origin::Paper, paper, found, band));
            }
        }
        checks
    }
}

/// Mean and deviations of a table with a row for each `k`.
pub fn summary(rows: &[Vec<f64>]) -> Summary {
    let column = |i: usize| rows.iter().map(|row| row[i]).collect::<Vec<_>>();
    let over_k: Vec<f64> = (0..rows[0].len()).map(|i| deviation(&column(i))).collect();
    let over_seeds: Vec<f64> = rows.iter().map(|row| deviation(row)).collect();
    Summary {
        mean: mean(&rows.concat()),
        std_over_k: mean(&over_k),
        std_over_seeds: mean(&over_seeds),
    }
}
