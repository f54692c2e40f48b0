//! The comparison, step by step.

use std::collections::BTreeMap;
use std::path::Path;

use super::differences::{difference, distance, unknown_values};
use super::refusals::{check_names, none_matches, nothing_in_common, other_model};
use super::same_bytes::same_bytes;
use super::source::Source;
use super::thinning::{listed, take_evenly};
use super::{
    Distance, Evidence, RunDiff, RunSide, StepRow, StepStatus, TensorDifference, TensorsAt, answer,
    flat, growth, metrics, own,
};
use crate::diff::{Diff, Only, Row, Status, is_statistic};
use crate::error::Error;
use crate::input::refuse;
use crate::number::Number;
use crate::simulate::SATURATED;
use crate::tensors::TensorFile;
use crate::train::is_optimizer_memory;

/// Checkpoints of which tensors are compared after the first that differ: at even distances, and where the distance is small.
const MOST: usize = 25;

/// Compares two runs.
pub fn of(a: &Path, b: &Path, only: &Only) -> Result<RunDiff, Error> {
    let (a, b) = (Source::open(a)?, Source::open(b)?);
    if a.unit != b.unit {
        let found = format!("checkpoints of {}s", b.unit.name());
        return Err(refuse(&b.folder, found, format!("of {}s, as in {}", a.unit.name(), a.name())));
    }
    let mut pair = Pair { a, b, only, rows: BTreeMap::new(), first_tensors: None };
    pair.by_hashes();
    pair.by_values()?;
    pair.by_metrics_of_replicas()?;
    pair.finish()
}

struct Pair<'a> {
    a: Source,
    b: Source,
    only: &'a Only,
    /// All common steps.
    rows: BTreeMap<u64, StepRow>,
    /// The tensors that differ at the first step at which they are known.
    first_tensors: Option<TensorsAt>,
}

impl Pair<'_> {
    fn note(&mut self, step: u64, status: StepStatus, by: Evidence) -> &mut StepRow {
        let row = self.rows.entry(step).or_insert_with(|| StepRow {
            step,
            status,
            by,
            tensors: None,
            tensors_different: None,
            distance: None,
            edge_ratio: [&self.a, &self.b].map(|side| {
                let place = side.edge.binary_search_by_key(&step, |edge| edge.step).ok()?;
                Some(side.edge[place].edge_ratio)
            }),
        });
        (row.status, row.by) = (status, by);
        row
    }

    /// Keeps the tensors of the earliest step at which some differ.
    fn note_tensors(&mut self, found: TensorsAt) {
        let is_first = self.first_tensors.as_ref().is_none_or(|known| found.step < known.step);
        if is_first && !found.different.is_empty() {
            self.first_tensors = Some(found);
        }
    }

    /// What both have a hash of. A hash of all parameters says nothing of some of them.
    fn by_hashes(&mut self) {
        if self.a.kind != self.b.kind {
            return;
        }
        if self.only.is_all() {
            let hashes = self.a.hashes.iter();
            let same: Vec<(u64, bool)> = hashes
                .filter_map(|(step, hash)| Some((*step, self.b.hashes.get(step)? == hash)))
                .collect();
            for (step, is_same) in same {
                self.note(step, status_of(is_same), Evidence::Hash);
            }
        }
        let (Some(of_a), Some(of_b)) = (self.a.fingerprints.take(), self.b.fingerprints.take())
        else {
            return;
        };
        // Where each tensor of A stands in B; tensors of one side alone are refused in `finish`.
        let places: BTreeMap<&String, usize> = of_b.names.iter().zip(0..).collect();
        let wanted: Vec<(usize, usize)> = (0..of_a.names.len())
            .filter(|i| self.only.matches(&of_a.names[*i]))
            .filter_map(|i| Some((i, *places.get(&of_a.names[i])?)))
            .collect();
        for (step, hashes) in &of_a.at {
            let Some(others) = of_b.at.get(step) else { continue };
            let different: Vec<TensorDifference> = wanted
                .iter()
                .filter(|(i, j)| hashes[*i] != others[*j])
                .map(|(i, _)| unknown_values(&of_a.names[*i], None))
                .collect();
            let status = status_of(different.is_empty());
            let row = self.note(*step, status, Evidence::TensorHashes);
            (row.tensors, row.tensors_different) = (Some(wanted.len()), Some(different.len()));
            self.note_tensors(TensorsAt { step: *step, compared: wanted.len(), different });
        }
        (self.a.fingerprints, self.b.fingerprints) = (Some(of_a), Some(of_b));
    }

    /// What both have saved.
    fn by_values(&mut self) -> Result<(), Error> {
        let common: Vec<u64> =
            self.a.saved.keys().filter(|step| self.b.saved.contains_key(step)).copied().collect();
        let mut others = Vec::new();
        for step in common {
            let files = [self.a.files_at(step)?, self.b.files_at(step)?];
            match files {
                [Some(a), Some(b)] if same_bytes(&a, &b)? => {
                    self.note(step, StepStatus::Identical, Evidence::Bytes);
                }
                _ => others.push(step),
            }
        }
        let mut left = others.into_iter();
        for step in left.by_ref() {
            if self.compare(step)? {
                break;
            }
        }
        let mut left: Vec<u64> = left.collect();
        for step in &left {
            // A hash says more than that files differ.
            if !self.rows.contains_key(step) {
                self.note(*step, StepStatus::FilesDiffer, Evidence::Bytes);
            }
        }
        for step in take_evenly(&mut left, MOST) {
            self.compare(step)?;
        }
        let mut known = self.rows.values().filter_map(|row| Some((row.step, row.distance?)));
        if let Some((large, _)) = known.find(|(_, at)| {
            // Neither is one that cannot be compared.
            at.relative.0.is_nan() || at.relative.0 > SATURATED
        }) {
            left.retain(|step| *step < large);
        }
        for step in take_evenly(&mut left, MOST) {
            self.compare(step)?;
        }
        Ok(())
    }

    /// Compares all tensors at a step; whether some differ.
    fn compare(&mut self, step: u64) -> Result<bool, Error> {
        let (of_a, of_b) = rayon::join(|| self.a.tensors_at(step), || self.b.tensors_at(step));
        let (of_a, of_b) = (of_a?, of_b?);
        let is_parameter = |name: &str| !is_statistic(name) && !is_optimizer_memory(name);
        // What one optimizer remembers is not there in another; settings say that they differ.
        let in_both = |name: &str| {
            let has = |file: &TensorFile| file.tensors.iter().any(|tensor| tensor.name == name);
            !is_optimizer_memory(name) || has(&of_a) && has(&of_b)
        };
        let wanted = |name: &str| self.only.matches(name) && in_both(name);
        let parameters = Diff::of(&of_a, &of_b, |name| wanted(name) && is_parameter(name));
        let others = Diff::of(&of_a, &of_b, |name| wanted(name) && !is_parameter(name));
        let order: BTreeMap<&str, usize> =
            of_a.tensors.iter().map(|tensor| tensor.name.as_str()).zip(0..).collect();
        let mut rows: Vec<&Row> = parameters.rows.iter().chain(&others.rows).collect();
        rows.sort_by_key(|row| order.get(row.name.as_str()).copied().unwrap_or(usize::MAX));
        self.check_tensors(step, &rows)?;
        let different: Vec<TensorDifference> = rows
            .iter()
            .filter(|row| row.status != Status::Identical)
            .map(|row| difference(row))
            .collect();
        let (compared, count) = (rows.len(), different.len());
        let distance = (!parameters.rows.is_empty()).then(|| distance(&parameters));
        let row = self.note(step, status_of(count == 0), Evidence::Values);
        (row.tensors, row.tensors_different, row.distance) =
            (Some(compared), Some(count), distance);
        self.note_tensors(TensorsAt { step, compared, different });
        Ok(count > 0)
    }

    /// Refuses runs of different models.
    fn check_tensors(&self, step: u64, rows: &[&Row]) -> Result<(), Error> {
        let fault = |row: &&&Row| {
            matches!(row.status, Status::OnlyInA | Status::OnlyInB | Status::OtherShape)
        };
        let shown = |row: &&Row| match row.status {
            Status::OnlyInA => format!("no {}", row.name),
            Status::OnlyInB => format!("{}, which A lacks", row.name),
            _ => {
                let [a, b] = [0, 1].map(|i| row.sides[i].as_ref().map(|side| &side.shape[..]));
                format!(
                    "{} of shape {:?}, in A {:?}",
                    row.name,
                    b.unwrap_or_default(),
                    a.unwrap_or_default()
                )
            }
        };
        let faults: Vec<String> = rows.iter().filter(fault).map(shown).collect();
        if rows.is_empty() {
            let all = self.a.tensors_at(step)?.tensors;
            if all.is_empty() {
                return Err(refuse(&self.a.saved[&step], "no tensors", "a checkpoint"));
            }
            return Err(none_matches(self.only, all.iter().map(|tensor| tensor.name.as_str())));
        }
        if faults.is_empty() { Ok(()) } else { Err(other_model(&self.b.saved[&step], &faults)) }
    }

    /// Replicas of one run: the rows of its metrics say how far each is from the first, also where there is no checkpoint. One
    /// curve is of one origin: norms of a checkpoint are summed in another order.
    fn by_metrics_of_replicas(&mut self) -> Result<(), Error> {
        let is_one_run = match (self.a.folder.canonicalize(), self.b.folder.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        let other = match (self.a.is_first_replica, self.b.is_first_replica) {
            (true, false) if is_one_run => &self.b,
            (false, true) if is_one_run => &self.a,
            _ => return Ok(()),
        };
        if !self.only.is_all() {
            return Ok(());
        }
        for (step, from_first) in &other.from_first {
            if let Some(row) = self.rows.get_mut(step) {
                row.distance = Some(Distance {
                    rel_l1: Number(from_first.rel_l1),
                    relative: Number(from_first.distance),
                    max_ulps: Some(from_first.max_ulps),
                });
            }
        }
        let first = self.rows.values().find(|row| row.status == StepStatus::Different);
        let Some(step) = first.map(|row| row.step) else { return Ok(()) };
        let of_tensors = own::rel_l1_of(other, step)?;
        if of_tensors.is_empty() {
            return Ok(());
        }
        // The model's order is that of a checkpoint.
        let last = other.saved.keys().next_back().copied();
        let order: BTreeMap<String, usize> = match last {
            Some(saved) => other
                .tensors_at(saved)?
                .tensors
                .into_iter()
                .map(|tensor| tensor.name)
                .zip(0..)
                .collect(),
            None => BTreeMap::new(),
        };
        let compared = of_tensors.len();
        let mut different: Vec<TensorDifference> = of_tensors
            .iter()
            // NaN, too.
            .filter(|(_, rel_l1)| *rel_l1 != 0.0)
            .map(|(name, rel_l1)| unknown_values(name, Some(*rel_l1)))
            .collect();
        different.sort_by_key(|one| order.get(&one.name).copied().unwrap_or(usize::MAX));
        self.note_tensors(TensorsAt { step, compared, different });
        Ok(())
    }

    fn finish(self) -> Result<RunDiff, Error> {
        let Self { a, b, only, rows, first_tensors } = self;
        check_names(&a, &b, only)?;
        let (Some((first, _)), Some((last, _))) = (rows.first_key_value(), rows.last_key_value())
        else {
            return Err(nothing_in_common(&a, &b, only));
        };
        let (first, last) = (*first, *last);
        let is_identical = |row: &&StepRow| row.status == StepStatus::Identical;
        let first_different = rows.values().find(|row| !is_identical(row)).map(|row| row.step);
        let until = first_different.unwrap_or(u64::MAX);
        let last_identical = rows.range(..until).next_back().map(|(step, _)| *step);
        let again = rows.range(until..).map(|(_, row)| row).find(is_identical).map(|row| row.step);
        let all: Vec<StepRow> = rows.values().cloned().collect();
        let (metrics, first_metric) = metrics::first(&a.metrics, &b.metrics);
        let near = first_different.or(first_metric.as_ref().map(|metric| metric.step));
        let side = |source: &Source| RunSide {
            folder: source.folder.clone(),
            kind: source.kind.name(),
            replica: source.replica.clone(),
            steps: source.steps().len(),
        };
        let mut notes = a.notes.clone();
        notes.extend(b.notes.iter().filter(|note| !a.notes.contains(note)).cloned());
        let mut found = RunDiff {
            a: side(&a),
            b: side(&b),
            unit: a.unit,
            verdict: String::new(),
            identical: first_different.is_none() && first_metric.is_none(),
            common_steps: rows.len(),
            first_common_step: first,
            last_common_step: last,
            different_steps: rows.values().filter(|row| !is_identical(row)).count(),
            last_identical_step: last_identical,
            first_different_step: first_different,
            identical_again_at: again,
            tensors: first_tensors,
            growth: growth::of(&all, a.unit),
            steps: listed(all, until),
            metrics,
            first_metric,
            edge: [&a, &b].map(|side| near.and_then(|step| side.edge_near(step))),
            settings: flat::differing(&a.settings, &b.settings),
            notes,
        };
        found.verdict = answer::of(&found);
        Ok(found)
    }
}

fn status_of(is_same: bool) -> StepStatus {
    if is_same { StepStatus::Identical } else { StepStatus::Different }
}
