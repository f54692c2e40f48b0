//! What a run writes down along the way.

use lastbit::growth::Growth;
use lastbit::objective::Evaluation;
use lastbit::training::{Compared, Replica};
use rayon::prelude::*;

use super::metrics::Row;
use super::run::Run;
use super::sharpness::Sharpness;
use super::tensors_of::Stored;
use crate::error::Error;
use crate::number::Number;
use crate::progress::TrainingStatus;
use crate::simulate::SATURATED;
use crate::tensors::{self, Tensor, TensorFile, Values};

/// Who answered what on the test set the last time it was looked at.
pub const ANSWERS: &str = "answers.safetensors";

impl<F: Stored> Run<'_, F> {
    /// Measures and writes down what is due, and says how the training is doing where something was. A replica that
    /// ended with this step has a row in any case, and none after it.
    pub(super) fn record(&mut self, rate: Option<f64>) -> Result<Option<TrainingStatus>, Error> {
        let (step, per_epoch) = (self.trainer.step(), self.prepared.steps_per_epoch());
        let training = &self.prepared.found.settings.training;
        let at_an_end = rate.is_none() || self.has_ended();
        let evaluate = training.evaluate_every.is_due(step, per_epoch) || self.has_ended();
        let is_due = |sharpness: &Sharpness<F>| sharpness.is_due(step, per_epoch) || at_an_end;
        let look_at_hessian = self.sharpness.as_ref().is_some_and(is_due);
        let measure = evaluate
            || at_an_end
            || look_at_hessian
            || training.metrics_every.is_due(step, per_epoch);
        let ended_now = |replica: &Replica<F>| replica.ended == Some(step);
        let due = |replica: &Replica<F>| ended_now(replica) || measure && replica.ended.is_none();
        if !self.trainer.replicas().iter().any(due) {
            return Ok(None);
        }
        let count = self.trainer.replicas().len();
        let (mut evaluations, mut fluctuations) = (vec![None; count], vec![None; count]);
        if evaluate {
            if let Some(mut test) = self.prepared.examination() {
                evaluations = self.trainer.evaluate(&mut test)?;
                self.lock.check()?;
                self.save_answers(&evaluations)?;
            }
            if training.fluctuation_batches > 0 {
                fluctuations = self.trainer.fluctuations(training.fluctuation_batches)?;
            }
        }
        let mut curvatures = vec![None; count];
        let folder = self.has_ended().then_some(self.folder);
        if let Some(sharpness) = self.sharpness.as_mut().filter(|_| look_at_hessian) {
            let rate = rate.unwrap_or(self.trainer.rate());
            curvatures = sharpness.measure(self.prepared, &mut self.trainer, rate, folder)?;
        }
        let owners: Vec<usize> = (0..count).filter(|i| due(&self.trainer.replicas()[*i])).collect();
        let compared = self.trainer.compared(&self.prepared.network, &owners)?;
        let has_classes = self.prepared.has_classes();
        let row = |i: usize, compared: Compared| {
            let replica = &self.trainer.replicas()[i];
            let stats = replica.epoch_stats;
            let known = |value: f64| (stats.examples > 0).then_some(Number(value));
            let evaluation = evaluations[i].as_ref();
            let mut row = Row {
                dt: rate.map(Number),
                loss: rate.and(known(stats.last_loss)),
                train_loss: known(stats.mean_loss()),
                train_accuracy: known(stats.accuracy()).filter(|_| has_classes),
                test_loss: evaluation.map(|evaluation| Number(evaluation.loss)),
                test_accuracy: evaluation.and_then(Evaluation::accuracy).map(Number),
                gradient_fluctuation: fluctuations[i].map(Number),
                curvature: curvatures[i].clone(),
                ..self.beside_first(i, compared)
            };
            if evaluate {
                let points = self.histories[i].distances_and(&row);
                let growth = Growth::of_plain_twin(&points, SATURATED);
                row.growth_per_step = growth.map(|growth| Number(growth.per_step));
                row.growth_standard_error = growth.map(|growth| Number(growth.standard_error));
            }
            row
        };
        let rows: Vec<Row> =
            owners.par_iter().zip(compared).map(|(i, compared)| row(*i, compared)).collect();
        self.lock.check()?;
        self.metrics.append(&rows)?;
        if let Some(board) = &mut self.board {
            board.append(&rows)?;
        }
        let status = status(&owners, &rows);
        owners.into_iter().zip(rows).for_each(|(i, row)| self.histories[i].add(row));
        Ok(status)
    }

    /// A replica beside the first; nothing else measured yet.
    fn beside_first(&self, i: usize, Compared { distance, hash }: Compared) -> Row {
        let parameters = self.prepared.network.parameters();
        let by_name = |values: Vec<f64>| {
            let names = parameters.iter().map(|parameter| parameter.name.clone());
            names.zip(values.into_iter().map(Number)).collect()
        };
        let step = self.trainer.step();
        Row {
            step,
            epoch: step as f64 / self.prepared.steps_per_epoch() as f64,
            replica: self.prepared.variants.named[i].name.clone(),
            dt: None,
            loss: None,
            train_loss: None,
            train_accuracy: None,
            test_loss: None,
            test_accuracy: None,
            rel_l1: Number(distance.rel_l1),
            max_ulps: distance.max_ulps,
            agreeing_bits: Number(distance.agreeing_bits),
            distance: Number(distance.distance),
            growth_per_step: None,
            growth_standard_error: None,
            gradient_fluctuation: None,
            curvature: None,
            diverged: self.trainer.replicas()[i].ended,
            hash,
            rel_l1_of: by_name(distance.rel_l1_of),
            agreeing_bits_of: by_name(distance.agreeing_bits_of),
        }
    }

    /// For each replica which examples of the test set it answers right, and with which classes.
    fn save_answers(&self, evaluations: &[Option<Evaluation>]) -> Result<(), Error> {
        let named = self.prepared.variants.named.iter().zip(evaluations);
        let answered = named.filter_map(|(named, evaluation)| Some((named, evaluation.as_ref()?)));
        let tensors = answered.flat_map(|(named, evaluation)| {
            let classes = evaluation.classes.iter().map(|class| *class as i32).collect();
            let tensor = |name: String, values: Values| {
                let shape = vec![values.len()];
                Tensor { name, shape, values }
            };
            [
                tensor(named.name.clone(), Values::Bool(evaluation.right.clone())),
                tensor(format!("{}.class", named.name), Values::I32(classes)),
            ]
        });
        let metadata = [("step".to_owned(), self.trainer.step().to_string())].into();
        let file = TensorFile { metadata, tensors: tensors.collect() };
        tensors::write(&self.folder.join(ANSWERS), &file)
    }
}

/// What the rows of these replicas say of a training that has seen examples.
fn status(owners: &[usize], rows: &[Row]) -> Option<TrainingStatus> {
    let (first, others) = match owners {
        [0, ..] => (&rows[0], &rows[1..]),
        _ => return None,
    };
    let rel_l1 = others.iter().map(|row| row.rel_l1.0).reduce(f64::max);
    Some(TrainingStatus {
        step: first.step,
        train_loss: first.train_loss?.0,
        test_accuracy: first.test_accuracy.map(|accuracy| 100.0 * accuracy.0),
        rel_l1,
    })
}
