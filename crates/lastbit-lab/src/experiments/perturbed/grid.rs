//! A table of accuracies: seeds of the batches against factors `k` of the last-bit perturbation.
//!
//! ```text
//! sigma over k       mean over seeds of the standard deviation over k:     what the last bit moves
//! sigma over seeds   mean over k of the standard deviation over seeds:     what batches move
//! ```
//!
//! Both in points of accuracy (percent). Runs with other batches round differently, too: sigma over seeds
//! contains sigma over k, and their quotient is below 1 by what batches add. A factor of two is asked for
//! as "the same order", not as equality.
//!
//! The check uses the interval of the quotient, from deviations pooled as variances. Factors `k` of one
//! seed are independent runs of that seed (where rounding is chaotic, the same `k` means nothing to two
//! seeds), so their degrees of freedom add up: `S (K − 1)`. Deviations over seeds at different `k` are
//! not independent, for all of them contain the same effects of the same batches: they count `S − 1`
//! only. [`lastbit::statistics::quotient`] has the mathematics.

use std::ops::Range;

use lastbit::statistics::quotient::{Pooled, within_over_total};
use lastbit::statistics::sample::{deviation, mean};

use super::super::smallest;
use super::paper::{Printed, Summary};
use super::{factors, settings, task};
use crate::plan::Task;
use crate::record::{Band, CONFIDENCE, Check, Origin, Record, Scale};
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
        let factors = factors(scale);
        let distance =
            |seed: u64, k: &String| record.number(&self.key(seed), &ReplicaNumber::RelL1.of(k));
        let of_seed = |seed: u64| factors[1..].iter().map(move |k| distance(seed, k));
        smallest(self.seeds(scale).flat_map(of_seed))
    }

    /// Accuracies in percent: a row for each seed.
    pub fn by_seed(&self, record: &Record) -> Vec<Vec<f64>> {
        let rows = self.accuracies(record);
        let seeds = rows.first().map_or(0, Vec::len);
        (0..seeds).map(|seed| rows.iter().map(|row| row[seed]).collect()).collect()
    }

    /// The standard deviation over `k`, pooled over the seeds.
    pub fn over_k(&self, record: &Record) -> Option<Pooled> {
        Pooled::within(&self.by_seed(record))
    }

    /// The name of a check of this table.
    fn named(&self, text: &str) -> String {
        if self.prefix.is_empty() { text.to_owned() } else { format!("{}: {text}", self.title) }
    }

    /// What a table that compares rounding with batches must show.
    pub fn checks(&self, record: &Record) -> Vec<Check> {
        let name = self.named("standard deviation over k / over seeds (same order)");
        let quotient = within_over_total(&self.by_seed(record), CONFIDENCE);
        let mut checks = vec![Check::quotient(&name, Origin::Claim, quotient, 2.0)];
        checks.extend(self.rounding_checks(record));
        checks
    }

    /// What rounding does.
    pub fn rounding_checks(&self, record: &Record) -> Vec<Check> {
        // A last bit is 1e-7 of a weight; networks with nothing in common are about 1 apart.
        let name = self.named("smallest final RelL1 to k = 1");
        let distance = self.least_rel_l1(record);
        let mut checks = vec![Check::number(&name, Origin::Claim, 0.1, distance, Band::AtLeast)];
        if record.exhibit_scale() == Scale::Paper {
            let (paper, found) = (self.paper.summary(), summary(&self.accuracies(record)));
            // Implementations differ in conventions the paper is silent on; a point of accuracy is
            // what three times fewer layers cost.
            let name = self.named("mean test accuracy, percent");
            let band = Band::Absolute(1.0);
            checks.push(Check::number(&name, Origin::Paper, paper.mean, found.mean, band));
            let name = self.named("standard deviation over k / the paper's (same order)");
            let quotient = self.over_k(record);
            let quotient = quotient.and_then(|own| own.over(self.paper.over_k(), CONFIDENCE));
            checks.push(Check::quotient(&name, Origin::Paper, quotient, 2.0));
        }
        checks
    }
}

/// Why no table is tested at smoke scale.
pub const TOO_SHORT: &str = "nine steps on 96 images leave the accuracies as they were, and two seeds are \
                             too few for a standard deviation";

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
