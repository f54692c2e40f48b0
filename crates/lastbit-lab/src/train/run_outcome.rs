//! What the files of an ended run say, as numbers and curves of a record; their [names](super::names) tell which.
//!
//! The hash of a replica is that over the hashes of its weights at every step that was written down.
//!
//! The first replica is not compared with itself: it has neither the numbers nor the series of single
//! tensors.

use std::collections::BTreeMap;
use std::path::Path;

use lastbit::attribution::Parts;
use lastbit::growth::ExponentialFit;

use super::manifest;
use super::metrics::{Columns, Row, curves, read_attribution, read_rows, summaries};
use super::names::{
    BUTTERFLY, GRADIENT_FLUCTUATION, ReplicaNumber, ReplicaSeries, part_of_growth, share_of_growth,
};
use super::prepare::Prepared;
use super::sharpness::read_density;
use super::spikes::spikes;
use super::summary::History;
use super::variants::{Named, Variants};
use crate::error::Error;
use crate::number::Number;
use crate::record::Outcome;
use crate::series::Series;
use crate::simulate::SATURATED;
use crate::tensors::{Tensor, Values};

/// Curves of single tensors have many columns, and so fewer rows.
const MOST_ROWS_OF_TENSORS: usize = 64;

/// What the files of an ended run say.
pub fn of_folder(prepared: &Prepared, folder: &Path) -> Result<Outcome, Error> {
    let columns = Columns::of(&prepared.found.settings);
    let classes = Classes::read(folder)?;
    let mut outcome = of_rows(&prepared.variants, read_rows(folder)?, columns, &classes);
    let attributed = match prepared.found.settings.attribution {
        Some(_) => read_attribution(folder)?,
        None => Vec::new(),
    };
    for found in summaries(&attributed) {
        let Some(Number(growth)) = found.growth else { continue };
        outcome.number(&ReplicaNumber::AttributedGrowth.of(&found.replica), growth);
        for part in Parts::NAMES {
            let of = |found: &BTreeMap<String, Number>| found.get(part).map_or(0.0, |part| part.0);
            outcome.number(&part_of_growth(part, &found.replica), of(&found.parts));
            outcome.number(&share_of_growth(part, &found.replica), of(&found.shares));
        }
    }
    for Named { name, .. } in &prepared.variants.named {
        if let Some(parts) = curves(&attributed, name) {
            outcome.series.insert(ReplicaSeries::Attribution.of(name), parts);
        }
        if let Some(density) = read_density(folder, name)? {
            outcome.series.insert(ReplicaSeries::Density.of(name), density);
        }
    }
    Ok(outcome)
}

/// The rows of a run as numbers and curves.
fn of_rows(variants: &Variants, rows: Vec<Row>, columns: Columns, classes: &Classes) -> Outcome {
    let mut outcome = Outcome::default();
    let mut by_replica: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_replica.entry(row.replica.clone()).or_default().push(row);
    }
    for (i, Named { name, .. }) in variants.named.iter().enumerate() {
        let rows = by_replica.remove(name).unwrap_or_default();
        let trajectory = hash_of(rows.iter().map(|row| &row.hash));
        outcome.hashes.insert(name.clone(), trajectory);
        add_end(&mut outcome, name, &rows);
        add_curves(&mut outcome, name, &rows);
        add_sharpness(&mut outcome, name, &rows, columns);
        if i > 0 {
            add_comparison(&mut outcome, name, &rows);
            if let Some(churn) = classes.churn(&variants.named[0].name, name) {
                outcome.number(&ReplicaNumber::Churn.of(name), churn);
            }
        } else {
            let mut history = History::default();
            rows.into_iter().for_each(|row| history.add(row));
            if let Some(Number(median)) = history.median_fluctuation() {
                outcome.number(GRADIENT_FLUCTUATION, median);
            }
        }
    }
    add_butterfly(&mut outcome, variants);
    outcome.hash = Some(hash_of(outcome.hashes.values()));
    outcome
}

/// One hash of several.
fn hash_of<'a>(hashes: impl Iterator<Item = &'a String>) -> String {
    let mut all = blake3::Hasher::new();
    hashes.for_each(|hash| {
        all.update(hash.as_bytes());
    });
    all.finalize().to_hex()[..32].to_owned()
}

fn add_end(outcome: &mut Outcome, name: &str, rows: &[Row]) {
    let Some(last) = rows.last() else { return };
    let mut note = |what: ReplicaNumber, value: Option<Number>| {
        if let Some(Number(value)) = value {
            outcome.number(&what.of(name), value);
        }
    };
    note(ReplicaNumber::FirstTestAccuracy, rows[0].test_accuracy);
    note(ReplicaNumber::TestAccuracy, last.test_accuracy);
    note(ReplicaNumber::TestLoss, last.test_loss);
    note(ReplicaNumber::TrainLoss, last.train_loss);
    note(ReplicaNumber::DivergedAt, last.diverged.map(|step| Number(step as f64)));
}

fn add_curves(outcome: &mut Outcome, name: &str, rows: &[Row]) {
    let all: Vec<&Row> = rows.iter().collect();
    let tests: Vec<&Row> = rows.iter().filter(|row| row.test_loss.is_some()).collect();
    let maybe = |value: Option<Number>| value.map_or(f64::NAN, |number| number.0);
    let losses = column(&all, |row| maybe(row.loss));
    // Losses of single batches go up and down for reasons of their own.
    let sees_all = rows.iter().all(|row| row.epoch == row.step as f64);
    let spikes = sees_all.then(|| spikes(&losses));
    let mut curves = Series::new([
        ("step", column(&all, |row| row.step as f64)),
        ("epoch", column(&all, |row| row.epoch)),
        ("time", times(&all)),
        ("loss", losses),
        ("train_loss", column(&all, |row| maybe(row.train_loss))),
        ("rel_l1", column(&all, |row| row.rel_l1.0)),
        ("distance", column(&all, |row| row.distance.0)),
        ("max_ulps", column(&all, |row| row.max_ulps as f64)),
    ]);
    if let Some(spikes) = spikes {
        let count = spikes.iter().filter(|loss| !loss.is_nan()).count();
        outcome.number(&ReplicaNumber::Spikes.of(name), count as f64);
        curves.columns.push(("spike".to_owned(), spikes));
    }
    outcome.series.insert(ReplicaSeries::Curves.of(name), curves);
    let curves = Series::new([
        ("step", column(&tests, |row| row.step as f64)),
        ("epoch", column(&tests, |row| row.epoch)),
        ("test_loss", column(&tests, |row| maybe(row.test_loss))),
        ("test_accuracy", column(&tests, |row| maybe(row.test_accuracy))),
        ("train_accuracy", column(&tests, |row| maybe(row.train_accuracy))),
    ]);
    outcome.series.insert(ReplicaSeries::Tests.of(name), curves);
}

fn add_sharpness(outcome: &mut Outcome, name: &str, rows: &[Row], columns: Columns) {
    let measured: Vec<&Row> = rows.iter().filter(|row| row.curvature.is_some()).collect();
    let Some(curvature) = measured.last().and_then(|row| row.curvature.as_ref()) else { return };
    let mut series = vec![
        ("step".to_owned(), column(&measured, |row| row.step as f64)),
        ("epoch".to_owned(), column(&measured, |row| row.epoch)),
        ("time".to_owned(), times(&measured)),
    ];
    let maybe = |value: Option<Number>| value.map_or(f64::NAN, |number| number.0);
    for (i, (column_name, _)) in columns.named(None).into_iter().enumerate() {
        let value = |row: &Row| maybe(columns.named(row.curvature.as_ref())[i].1);
        series.push((column_name, column(&measured, value)));
    }
    for tensor in curvature.sharpness_of.keys() {
        let of = |row: &Row| row.curvature.as_ref()?.sharpness_of.get(tensor).copied();
        series.push((tensor.clone(), column(&measured, |row| maybe(of(row)))));
    }
    let sharpness = column(&measured, |row| maybe(row.sharpness()));
    let most = sharpness.iter().copied().fold(f64::NAN, f64::max);
    outcome.number(&ReplicaNumber::MaxSharpness.of(name), most);
    let last = sharpness.last().copied().unwrap_or(f64::NAN);
    outcome.number(&ReplicaNumber::LastSharpness.of(name), last);
    let ratio =
        |row: &Row| maybe(row.curvature.as_ref().and_then(|curvature| curvature.edge_ratio));
    let largest = column(&measured, ratio).into_iter().fold(f64::NAN, f64::max);
    outcome.number(&ReplicaNumber::MaxEdgeRatio.of(name), largest);
    outcome.series.insert(ReplicaSeries::Sharpness.of(name), Series { columns: series });
}

fn column(rows: &[&Row], of: impl Fn(&Row) -> f64) -> Vec<f64> {
    rows.iter().map(|row| of(row)).collect()
}

/// Training time: the sum of the learning rates, each taken to be that of the steps since the row
/// before.
fn times(rows: &[&Row]) -> Vec<f64> {
    let (mut time, mut step) = (0.0, rows.first().map_or(0, |row| row.step));
    let passed = |row: &&Row| {
        time += row.dt.map_or(0.0, |dt| dt.0) * (row.step - step) as f64;
        step = row.step;
        time
    };
    rows.iter().map(passed).collect()
}

fn add_comparison(outcome: &mut Outcome, name: &str, rows: &[Row]) {
    let Some(last) = rows.last() else { return };
    outcome.number(&ReplicaNumber::RelL1.of(name), last.rel_l1.0);
    outcome.number(&ReplicaNumber::Distance.of(name), last.distance.0);
    outcome.number(&ReplicaNumber::AgreeingBits.of(name), last.agreeing_bits.0);
    let points: Vec<(usize, f64)> = rows.iter().map(|row| (row.step, row.rel_l1.0)).collect();
    if let Some(fit) = ExponentialFit::of_plain_twin(&points, SATURATED) {
        for (what, value) in [
            (ReplicaNumber::GrowthPerStep, fit.growth.per_step),
            (ReplicaNumber::GrowthStandardError, fit.growth.standard_error),
            (ReplicaNumber::FitFromStep, fit.from.0),
            (ReplicaNumber::FitFrom, fit.from.1),
            (ReplicaNumber::FitToStep, fit.to.0),
            (ReplicaNumber::FitTo, fit.to.1),
        ] {
            outcome.number(&what.of(name), value);
        }
    }
    type Tensors = fn(&Row) -> &BTreeMap<String, Number>;
    let parts: [(ReplicaSeries, Tensors); 2] = [
        (ReplicaSeries::Bits, |row| &row.agreeing_bits_of),
        (ReplicaSeries::RelL1, |row| &row.rel_l1_of),
    ];
    // Of long runs rows at equal distances, and the last.
    let stride = rows.len().div_ceil(MOST_ROWS_OF_TENSORS);
    let is_kept = |i: usize| i.is_multiple_of(stride) || i + 1 == rows.len();
    let kept: Vec<&Row> = (0..rows.len()).filter(|i| is_kept(*i)).map(|i| &rows[i]).collect();
    for (what, tensors) in parts {
        let mut columns = vec![
            ("step".to_owned(), column(&kept, |row| row.step as f64)),
            ("epoch".to_owned(), column(&kept, |row| row.epoch)),
            ("time".to_owned(), times(&kept)),
        ];
        for tensor in tensors(last).keys() {
            let value = |row: &Row| tensors(row).get(tensor).map_or(f64::NAN, |number| number.0);
            columns.push((tensor.clone(), column(&kept, value)));
        }
        outcome.series.insert(what.of(name), Series { columns });
    }
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
    /// Reads those of a run; none where targets are no classes.
    fn read(folder: &Path) -> Result<Self, Error> {
        let class = |tensor: Tensor| match (tensor.name.strip_suffix(".class"), tensor.values) {
            (Some(name), Values::I32(classes)) => Some((name.to_owned(), classes)),
            _ => None,
        };
        let answers = manifest::answers(folder)?.unwrap_or_default();
        Ok(Self(answers.tensors.into_iter().filter_map(class).collect()))
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
    use super::*;
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
        of_rows(&variants, rows.collect(), Columns::default(), &Classes(classes))
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
            Columns::default(),
            &Classes::default(),
        );
        let same_end = of_rows(
            &Variants { sources: vec![], named: vec![named("k1", None)] },
            vec![row(1, "k1", 0.0), row(2, "k1", 0.0)],
            Columns::default(),
            &Classes::default(),
        );
        assert_ne!(changed.hashes, same_end.hashes);
    }
}
