//! What the files of an ended run say, as numbers and curves of a record; their [names](super::names) tell which.
//!
//! The hash of a replica is that over the hashes of its weights at every step that was written down.
//!
//! The first replica is not compared with itself: it has neither the numbers nor the series of single
//! tensors.

mod of_replica;

use std::collections::BTreeMap;
use std::path::Path;

use lastbit::attribution::Parts;

use super::file_list::FileList;
use super::measure::ANSWERS;
use super::metrics::{ATTRIBUTION, Columns, METRICS, Row, count_rows, read_attribution, read_rows};
use super::names::{BUTTERFLY, ReplicaNumber, ReplicaSeries, part_of_growth, share_of_growth};
use super::prepare::Prepared;
use super::sharpness::{density_files, read_density};
use super::variants::{Named, Variants};
use crate::error::Error;
use crate::number::Number;
use crate::record::Outcome;
use crate::series::Series;
use crate::tensors::{self, Tensor, Values};
use of_replica::OfReplica;

/// What the files of an ended run say.
pub fn of_folder(prepared: &Prepared, folder: &Path) -> Result<Outcome, Error> {
    let files = FileList::of_ended(folder)?;
    let variants = &prepared.variants;
    let metrics = files.require(folder, METRICS)?;
    let counts = count_rows(folder, metrics, variants)?;
    let mut rows = OfRows::new(variants, Columns::of(&prepared.found.settings), &counts);
    read_rows(folder, metrics, |row| rows.add(row))?;
    let has_classes = files.check(folder, ANSWERS)?;
    let classes = if has_classes { Classes::read(folder)? } else { Classes::default() };
    let mut outcome = rows.finish(&classes);
    let attributed = match files.get(ATTRIBUTION) {
        Some(noted) => read_attribution(folder, noted)?,
        None => Vec::new(),
    };
    for found in attributed {
        let (replica, summary) = (&found.summary.replica, &found.summary);
        outcome.series.insert(ReplicaSeries::Attribution.of(replica), found.curves);
        let Some(Number(growth)) = summary.growth else { continue };
        outcome.number(&ReplicaNumber::AttributedGrowth.of(replica), growth);
        for part in Parts::NAMES {
            let of = |found: &BTreeMap<String, Number>| found.get(part).map_or(0.0, |part| part.0);
            outcome.number(&part_of_growth(part, replica), of(&summary.parts));
            outcome.number(&share_of_growth(part, replica), of(&summary.shares));
        }
    }
    for Named { name, .. } in &variants.named {
        let [density, _] = density_files(name);
        if files.check(folder, &density)? {
            let density = read_density(folder, name)?;
            outcome.series.insert(ReplicaSeries::Density.of(name), density);
        }
    }
    Ok(outcome)
}

/// The rows of a run, taken note of one by one.
struct OfRows<'a> {
    variants: &'a Variants,
    each: Vec<OfReplica>,
}

impl<'a> OfRows<'a> {
    /// Of replicas that will have so many rows.
    fn new(variants: &'a Variants, columns: Columns, counts: &[usize]) -> Self {
        let each = counts.iter().map(|count| OfReplica::new(columns, *count)).collect();
        Self { variants, each }
    }

    fn add(&mut self, row: Row) -> Result<(), String> {
        self.each[self.variants.position(&row.replica)?].add(row);
        Ok(())
    }

    fn finish(self, classes: &Classes) -> Outcome {
        let mut outcome = Outcome::default();
        let named = &self.variants.named;
        for (i, (Named { name, .. }, own)) in named.iter().zip(self.each).enumerate() {
            own.finish(&mut outcome, name, i == 0);
            if i > 0
                && let Some(churn) = classes.churn(&named[0].name, name)
            {
                outcome.number(&ReplicaNumber::Churn.of(name), churn);
            }
        }
        add_butterfly(&mut outcome, self.variants);
        outcome.hash = Some(hash_of(outcome.hashes.values()));
        outcome
    }
}

/// One hash of several.
fn hash_of<'a>(hashes: impl Iterator<Item = &'a String>) -> String {
    let mut all = blake3::Hasher::new();
    hashes.for_each(|hash| {
        all.update(hash.as_bytes());
    });
    all.finalize().to_hex()[..32].to_owned()
}

/// How the replicas with a flipped bit ended, by the step of the flip.
fn add_butterfly(outcome: &mut Outcome, variants: &Variants) {
    let flip = |named: &Named| Some((named.variant.flip?.step, named.name.clone()));
    let mut flips: Vec<(usize, String)> = variants.named.iter().filter_map(flip).collect();
    flips.sort();
    if flips.is_empty() {
        return;
    }
    let column = |what: ReplicaNumber| {
        let value = |(_, name): &(usize, String)| {
            outcome.numbers.get(&what.of(name)).map_or(f64::NAN, |number| number.0)
        };
        (what.name(), flips.iter().map(value).collect::<Vec<f64>>())
    };
    let series = Series::new([
        ("flipped_at", flips.iter().map(|(step, _)| *step as f64).collect()),
        column(ReplicaNumber::RelL1),
        column(ReplicaNumber::Distance),
        column(ReplicaNumber::AgreeingBits),
        column(ReplicaNumber::Churn),
        column(ReplicaNumber::TestAccuracy),
    ]);
    outcome.series.insert(BUTTERFLY.to_owned(), series);
}

/// What each replica answered on the test set in the end.
#[derive(Debug, Default)]
struct Classes(BTreeMap<String, Vec<i32>>);

impl Classes {
    fn read(folder: &Path) -> Result<Self, Error> {
        let class = |tensor: Tensor| match (tensor.name.strip_suffix(".class"), tensor.values) {
            (Some(name), Values::I32(classes)) => Some((name.to_owned(), classes)),
            _ => None,
        };
        let file = tensors::read(&folder.join(ANSWERS))?;
        Ok(Self(file.tensors.into_iter().filter_map(class).collect()))
    }

    /// Share of the test set that two replicas answer differently.
    fn churn(&self, a: &str, b: &str) -> Option<f64> {
        let (a, b) = (self.0.get(a)?, self.0.get(b)?);
        let differ = a.iter().zip(b).filter(|(a, b)| a != b).count();
        (!a.is_empty()).then(|| differ as f64 / a.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::of_replica::MOST_ROWS_OF_TENSORS;
    use super::*;
    use crate::simulate::SATURATED;
    use lastbit::training::{Flip, Variant};

    fn row(step: usize, replica: &str, rel_l1: f64) -> Row {
        let json = serde_json::json!({
            "step": step, "epoch": 0.0, "replica": replica, "dt": if step < 100 { 0.5 } else { 0.25 },
            "test_loss": 1.0, "test_accuracy": 0.1 + step as f64 / 1000.0, "rel_l1": rel_l1,
            "max_ulps": 1, "agreeing_bits": 20.0, "distance": rel_l1, "hash": format!("{replica}{step}"),
            "rel_l1_of": {"w": rel_l1}, "agreeing_bits_of": {"w": 20.0},
        });
        serde_json::from_value(json).unwrap()
    }

    fn named(name: &str, flip: Option<usize>) -> Named {
        let flip = flip.map(|step| Flip { parameter: 0, step });
        Named { name: name.to_owned(), init: 0, variant: Variant { flip, ..Variant::PLAIN } }
    }

    fn of_rows(variants: &Variants, rows: Vec<Row>, classes: &Classes) -> Outcome {
        let mut counts = vec![0; variants.named.len()];
        rows.iter().for_each(|row| counts[variants.position(&row.replica).unwrap()] += 1);
        let mut all = OfRows::new(variants, Columns::default(), &counts);
        rows.into_iter().for_each(|row| all.add(row).unwrap());
        all.finish(classes)
    }

    /// Distances that double at every step; one flip late, one early.
    fn outcome() -> Outcome {
        let variants = Variants {
            sources: vec![],
            named: vec![named("k1", None), named("late", Some(9)), named("early", Some(2))],
        };
        let growing = |step: usize| (1e-9 * libm::exp2(step as f64)).min(0.5);
        let rows = (0..200).flat_map(|step| {
            ["k1", "late", "early"].map(|name| {
                let distance = if name == "k1" { 0.0 } else { growing(step) };
                row(step, name, distance)
            })
        });
        let answers =
            [("k1", vec![0, 1, 2, 3]), ("late", vec![0, 1, 2, 3]), ("early", vec![0, 1, 0, 0])];
        let classes = answers.map(|(name, classes)| (name.to_owned(), classes)).into();
        of_rows(&variants, rows.collect(), &Classes(classes))
    }

    #[test]
    fn numbers_say_how_a_run_began_and_ended() {
        let found = outcome();
        let number = |name: &str| found.numbers[name].0;
        assert_eq!(number("first_test_accuracy-k1"), 0.1);
        assert_eq!(number("test_accuracy-late"), 0.1 + 0.199);
        assert_eq!((number("rel_l1-late"), number("churn-late")), (0.5, 0.0));
        assert_eq!(number("churn-early"), 0.5);
        // Doubling: ln 2, up to the rounding of logarithms of numbers about 20 in size.
        assert!((number("growth_per_step-late") - std::f64::consts::LN_2).abs() < 1e-13);
        assert!(number("fit_to-late") <= SATURATED && !found.numbers.contains_key("rel_l1-k1"));
    }

    #[test]
    fn training_time_is_the_sum_of_the_rates() {
        let found = outcome();
        let times = found.series["k1"].column("time").unwrap();
        assert_eq!((times[0], times[99], times[199]), (0.0, 49.5, 49.5 + 25.0));
    }

    #[test]
    fn the_butterfly_curve_is_ordered_by_the_time_of_the_flip() {
        let found = outcome();
        let curve = &found.series["butterfly"];
        assert_eq!(curve.column("flipped_at").unwrap(), [2.0, 9.0]);
        assert_eq!(curve.column("churn").unwrap(), [0.5, 0.0]);
    }

    #[test]
    fn curves_of_tensors_are_thinned_and_end_with_the_end() {
        let found = outcome();
        let steps = found.series["late-bits"].column("step").unwrap();
        assert!(steps.len() <= MOST_ROWS_OF_TENSORS + 1 && steps.last() == Some(&199.0));
        assert_eq!(found.series["late-rel-l1"].column("w").unwrap().len(), steps.len());
        assert!(!found.series.contains_key("k1-bits"));
    }

    #[test]
    fn hashes_cover_every_step_that_was_written_down() {
        let found = outcome();
        assert_eq!(found.hashes.len(), 3);
        let changed = of_rows(
            &Variants { sources: vec![], named: vec![named("k1", None)] },
            vec![row(0, "k1", 0.0), row(2, "k1", 0.0)],
            &Classes::default(),
        );
        let same_end = of_rows(
            &Variants { sources: vec![], named: vec![named("k1", None)] },
            vec![row(1, "k1", 0.0), row(2, "k1", 0.0)],
            &Classes::default(),
        );
        assert_ne!(changed.hashes, same_end.hashes);
    }

    #[test]
    fn a_long_run_has_curves_of_bounded_length_and_the_numbers_of_all_rows() {
        let variants = Variants { sources: vec![], named: vec![named("k1", None)] };
        // Full batches: two excursions, and a row where the loss is least, by less than an excursion.
        let loss = |step: usize| match step {
            30_000 => 0.995,
            50_000 => 2.0,
            70_001 => 9.0,
            _ => 1.0,
        };
        let rows = (0..100_000).map(|step| Row {
            epoch: step as f64,
            loss: Some(Number(loss(step))),
            ..row(step, "k1", 0.0)
        });
        let mut all = OfRows::new(&variants, Columns::default(), &[100_000]);
        rows.for_each(|row| all.add(row).unwrap());
        let found = all.finish(&Classes::default());
        let curves = &found.series["k1"];
        let column = |name: &str| curves.column(name).unwrap();
        let [steps, losses] = ["step", "loss"].map(column);
        assert!(steps.len() < 8192 && steps.last() == Some(&99_999.0), "{}", steps.len());
        assert!(losses.contains(&9.0) && losses.contains(&0.995));
        let marked = column("spike").iter().filter(|loss| !loss.is_nan());
        assert_eq!((marked.count(), found.numbers["spikes-k1"].0), (2, 2.0));
        // 0.5 up to step 99, 0.25 after it.
        assert_eq!(column("time").last(), Some(&(0.5 * 99.0 + 0.25 * 99_900.0)));
        assert!(found.series["k1-tests"].column("step").unwrap().len() < 8192);
    }

    #[test]
    fn rows_of_a_replica_that_the_run_does_not_have_are_refused_by_its_name() {
        let variants = Variants { sources: vec![], named: vec![named("k1", None)] };
        let mut all = OfRows::new(&variants, Columns::default(), &[1]);
        let message = all.add(row(0, "k7", 0.0)).unwrap_err();
        assert_eq!(message, "no replica is called k7");
    }
}
