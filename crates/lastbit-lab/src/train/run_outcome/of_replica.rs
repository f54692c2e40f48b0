//! Numbers and curves of one replica, from its rows one by one. Memory does not depend on how many there are: of long runs
//! curves hold [some rows](crate::train::thinned), numbers are those of all.

use std::collections::BTreeMap;

use lastbit::growth::ExponentialFit;

use crate::number::Number;
use crate::record::Outcome;
use crate::series::Series;
use crate::simulate::SATURATED;
use crate::train::metrics::{Columns, Row};
use crate::train::names::{GRADIENT_FLUCTUATION, ReplicaNumber, ReplicaSeries};
use crate::train::spikes::Spikes;
use crate::train::summary::{Fluctuations, Rising};
use crate::train::thinned::Thinned;

/// Curves of single tensors have many columns, and so fewer rows.
pub const MOST_ROWS_OF_TENSORS: usize = 64;

const STEPS: [&str; 9] =
    ["step", "epoch", "time", "loss", "train_loss", "rel_l1", "distance", "max_ulps", "spike"];
const TESTS: [&str; 5] = ["step", "epoch", "test_loss", "test_accuracy", "train_accuracy"];

/// What the rows of a replica said so far.
pub struct OfReplica {
    columns: Columns,
    trajectory: blake3::Hasher,
    fluctuations: Fluctuations,
    first_accuracy: Option<Number>,
    last: Option<Row>,
    /// Whether every step sees all examples: losses of single batches go up and down for reasons of their own.
    sees_all: bool,
    spikes: Spikes,
    spike_count: usize,
    time: Clock,
    steps: Thinned<[f64; STEPS.len()]>,
    tests: Thinned<[f64; TESTS.len()]>,
    sharpness: Sharpness,
    rising: Rising,
    /// Rows between two of which the single tensors are kept, and these rows.
    stride: usize,
    of_tensors: Vec<Row>,
}

impl OfReplica {
    /// Of a replica that will have so many rows.
    pub fn new(columns: Columns, rows: usize) -> Self {
        Self {
            columns,
            trajectory: blake3::Hasher::new(),
            fluctuations: Fluctuations::default(),
            first_accuracy: None,
            last: None,
            sees_all: true,
            spikes: Spikes::default(),
            spike_count: 0,
            time: Clock::default(),
            steps: Thinned::default(),
            tests: Thinned::default(),
            sharpness: Sharpness::default(),
            rising: Rising::default(),
            stride: rows.div_ceil(MOST_ROWS_OF_TENSORS).max(1),
            of_tensors: Vec::new(),
        }
    }

    /// Takes note of a row.
    pub fn add(&mut self, row: Row) {
        self.trajectory.update(row.hash.as_bytes());
        self.sees_all &= row.epoch == row.step as f64;
        let (step, loss) = (row.step as f64, maybe(row.loss));
        if self.steps.seen().is_multiple_of(self.stride) {
            self.of_tensors.push(row.clone());
        }
        let of_step = [
            step,
            row.epoch,
            self.time.at(&row),
            loss,
            maybe(row.train_loss),
            row.rel_l1.0,
            row.distance.0,
            row.max_ulps as f64,
            f64::NAN,
        ];
        self.steps.push(loss, of_step);
        let spike = self.spikes.push(loss);
        self.mark(spike);
        if row.test_loss.is_some() {
            let [loss, accuracy, train] =
                [row.test_loss, row.test_accuracy, row.train_accuracy].map(maybe);
            self.tests.push(loss, [step, row.epoch, loss, accuracy, train]);
        }
        self.sharpness.add(&row, self.columns);
        self.rising.push(row.step, row.rel_l1.0);
        self.fluctuations.add(&row);
        if self.last.is_none() {
            self.first_accuracy = row.test_accuracy;
        }
        self.last = Some(row);
    }

    /// Notes a spike in its row, if that is kept.
    fn mark(&mut self, spike: Option<(usize, f64)>) {
        let Some((place, loss)) = spike else { return };
        self.spike_count += 1;
        if let Some([.., mark]) = self.steps.get_mut(place) {
            *mark = loss;
        }
    }

    /// Adds all of it to an outcome. The first replica is not compared with itself.
    pub fn finish(mut self, outcome: &mut Outcome, name: &str, is_first: bool) {
        let trajectory = self.trajectory.finalize().to_hex()[..32].to_owned();
        outcome.hashes.insert(name.to_owned(), trajectory);
        let spike = self.spikes.end();
        self.mark(spike);
        let mut curves = table(&STEPS.map(str::to_owned), self.steps.rows());
        if self.sees_all {
            outcome.number(&ReplicaNumber::Spikes.of(name), self.spike_count as f64);
        } else {
            curves.columns.pop();
        }
        outcome.series.insert(ReplicaSeries::Curves.of(name), curves);
        let tests = table(&TESTS.map(str::to_owned), self.tests.rows());
        outcome.series.insert(ReplicaSeries::Tests.of(name), tests);
        let Some(last) = self.last else { return };
        add_ends(outcome, name, self.first_accuracy, &last);
        self.sharpness.finish(outcome, name, self.columns);
        if is_first {
            if let Some(Number(median)) = self.fluctuations.median() {
                outcome.number(GRADIENT_FLUCTUATION, median);
            }
            return;
        }
        if self.of_tensors.last().is_none_or(|kept| kept.step != last.step) {
            self.of_tensors.push(last.clone());
        }
        add_comparison(outcome, name, &last, &self.rising);
        add_tensors(outcome, name, &last, &self.of_tensors);
    }
}

fn add_ends(outcome: &mut Outcome, name: &str, first_accuracy: Option<Number>, last: &Row) {
    let mut note = |what: ReplicaNumber, value: Option<Number>| {
        if let Some(Number(value)) = value {
            outcome.number(&what.of(name), value);
        }
    };
    note(ReplicaNumber::FirstTestAccuracy, first_accuracy);
    note(ReplicaNumber::TestAccuracy, last.test_accuracy);
    note(ReplicaNumber::TestLoss, last.test_loss);
    note(ReplicaNumber::TrainLoss, last.train_loss);
    note(ReplicaNumber::DivergedAt, last.diverged.map(|step| Number(step as f64)));
}

fn add_comparison(outcome: &mut Outcome, name: &str, last: &Row, rising: &Rising) {
    outcome.number(&ReplicaNumber::RelL1.of(name), last.rel_l1.0);
    outcome.number(&ReplicaNumber::Distance.of(name), last.distance.0);
    outcome.number(&ReplicaNumber::AgreeingBits.of(name), last.agreeing_bits.0);
    let Some(fit) = ExponentialFit::of_plain_twin(&rising.points(), SATURATED) else { return };
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

/// Curves of single tensors: of long runs rows at equal distances, and the last.
fn add_tensors(outcome: &mut Outcome, name: &str, last: &Row, rows: &[Row]) {
    type Tensors = fn(&Row) -> &BTreeMap<String, Number>;
    let parts: [(ReplicaSeries, Tensors); 2] = [
        (ReplicaSeries::Bits, |row| &row.agreeing_bits_of),
        (ReplicaSeries::RelL1, |row| &row.rel_l1_of),
    ];
    for (what, tensors) in parts {
        let mut time = Clock::default();
        let values = |row: &Row| {
            let of = |tensor: &String| tensors(row).get(tensor).map_or(f64::NAN, |x| x.0);
            let mut values = vec![row.step as f64, row.epoch, time.at(row)];
            values.extend(tensors(last).keys().map(of));
            values
        };
        let values = rows.iter().map(values).collect();
        let names: Vec<String> = ["step", "epoch", "time"].map(str::to_owned).into();
        let names: Vec<String> = names.into_iter().chain(tensors(last).keys().cloned()).collect();
        outcome.series.insert(what.of(name), table(&names, values));
    }
}

/// What was measured of the Hessian.
#[derive(Default)]
struct Sharpness {
    time: Clock,
    /// Weight tensors that are measured on their own: the same in every row.
    tensors: Vec<String>,
    rows: Thinned<Vec<f64>>,
    most: Option<f64>,
    last: f64,
    largest_ratio: Option<f64>,
}

impl Sharpness {
    fn add(&mut self, row: &Row, columns: Columns) {
        let Some(curvature) = &row.curvature else { return };
        if self.rows.seen() == 0 {
            self.tensors = curvature.sharpness_of.keys().cloned().collect();
        }
        let mut values = vec![row.step as f64, row.epoch, self.time.at(row)];
        values.extend(columns.named(Some(curvature)).into_iter().map(|(_, value)| maybe(value)));
        let of = |tensor: &String| maybe(curvature.sharpness_of.get(tensor).copied());
        values.extend(self.tensors.iter().map(of));
        self.last = maybe(row.sharpness());
        self.rows.push(self.last, values);
        let largest = |most: Option<f64>, value: f64| Some(most.unwrap_or(f64::NAN).max(value));
        self.most = largest(self.most, self.last);
        self.largest_ratio = largest(self.largest_ratio, maybe(curvature.edge_ratio));
    }

    fn finish(self, outcome: &mut Outcome, name: &str, columns: Columns) {
        let (Some(most), Some(ratio)) = (self.most, self.largest_ratio) else { return };
        outcome.number(&ReplicaNumber::MaxSharpness.of(name), most);
        outcome.number(&ReplicaNumber::LastSharpness.of(name), self.last);
        outcome.number(&ReplicaNumber::MaxEdgeRatio.of(name), ratio);
        let mut names: Vec<String> = ["step", "epoch", "time"].map(str::to_owned).into();
        names.extend(columns.named(None).into_iter().map(|(name, _)| name));
        names.extend(self.tensors);
        outcome.series.insert(ReplicaSeries::Sharpness.of(name), table(&names, self.rows.rows()));
    }
}

/// Training time: the sum of the learning rates, each taken to be that of the steps since the row
/// before.
#[derive(Default)]
struct Clock {
    time: f64,
    step: Option<usize>,
}

impl Clock {
    fn at(&mut self, row: &Row) -> f64 {
        let before = self.step.replace(row.step).unwrap_or(row.step);
        self.time += row.dt.map_or(0.0, |dt| dt.0) * (row.step - before) as f64;
        self.time
    }
}

fn maybe(value: Option<Number>) -> f64 {
    value.map_or(f64::NAN, |number| number.0)
}

fn table<R: AsRef<[f64]>>(names: &[String], rows: Vec<R>) -> Series {
    let column = |(i, name): (usize, &String)| {
        (name.clone(), rows.iter().map(|row| row.as_ref()[i]).collect())
    };
    Series { columns: names.iter().enumerate().map(column).collect() }
}
