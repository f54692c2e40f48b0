//! Trainings that differ in one source of noise, made from a configuration of `lastbit train`.
//!
//! ```text
//! last-bit   k = 1, 3, 5, …           rounding alone
//! order      the plain run, and others with another order of the examples within its batches:
//!            sums of other order, rounding alone
//! batch, init, augment                one seed after the other, and with it the rounding
//! ```
//!
//! The section `replicas` of the configuration is replaced; its form of the perturbation and the first
//! of each of its seeds stay.

use std::path::{Path, PathBuf};

use lastbit::statistics::answers::{coin_toss_sigma, mean_difference};

use super::spread::{Answers, Group, Run};
use crate::error::Error;
use crate::input::read_toml;
use crate::record::{Cell, Record};
use crate::tensors::Values;
use crate::train::{self, ConfigFile, Prepared, ReplicaNumber, Replicas, Training};

lastbit::named_enum! {
    /// What runs differ in.
    pub enum Source {
        /// The factor k of the last-bit perturbation: rounding alone.
        LastBit = "last-bit",
        /// The seed of the batches.
        Batch = "batch",
        /// The seed of the first weights.
        Init = "init",
        /// The seed of crops and mirror images.
        Augment = "augment",
        /// The order of the examples within the batches: rounding alone.
        Order = "order",
    }
}

impl Source {
    /// Whether exact arithmetic would not see it.
    pub fn is_rounding(self) -> bool {
        matches!(self, Self::LastBit | Self::Order)
    }

    /// The training of a configuration with `n` replicas that differ in it.
    pub(crate) fn training(
        self,
        found: &ConfigFile,
        n: usize,
        data: Option<&Path>,
    ) -> Result<Training, Error> {
        let mut own = found.clone();
        own.settings.replicas = self.replicas(&found.settings.replicas, n);
        let own = ConfigFile::parse(&own.to_toml(), &found.path, &[])?;
        Ok(Training { data: data.map(PathBuf::from), ..Training::new(own) })
    }

    /// `n` replicas that differ in it.
    fn replicas(self, base: &Replicas, n: usize) -> Replicas {
        let mut own = Replicas { form: base.form, ..Replicas::default() };
        for (list, first) in [
            (&mut own.seeds.init, base.seeds.init[0]),
            (&mut own.seeds.batch, base.seeds.batch[0]),
            (&mut own.seeds.augment, base.seeds.augment[0]),
        ] {
            *list = vec![first];
        }
        let more = |seeds: &[u64]| (0..n as u64).map(|i| seeds[0].wrapping_add(i)).collect();
        match self {
            Self::LastBit => own.k = (0..n).map(|i| (2 * i + 1) as f64).collect(),
            Self::Order => own.permute_order = (1..n as u64).collect(),
            Self::Batch => own.seeds.batch = more(&own.seeds.batch),
            Self::Init => own.seeds.init = more(&own.seeds.init),
            Self::Augment => own.seeds.augment = more(&own.seeds.augment),
        }
        own
    }
}

/// A training for each source.
pub struct Trainings {
    /// The configuration, with its own replicas.
    pub found: ConfigFile,
    /// The trainings.
    pub each: Vec<(Source, Training)>,
    /// Whether the test has classes, so that there is an accuracy.
    pub has_classes: bool,
    /// Hash of the contents of the data set: a name means another one in another folder.
    pub data_hash: String,
}

impl Trainings {
    /// Reads the configuration and checks all that will be trained.
    pub fn prepare(
        path: &Path,
        changes: &[String],
        data: Option<&Path>,
        sources: &[Source],
        n: usize,
    ) -> Result<Self, Error> {
        let found = ConfigFile::parse(&read_toml(path)?, path, changes)?;
        let mut each = Vec::new();
        for source in sources {
            let training = source.training(&found, n, data).map_err(|error| match error {
                Error::Setting { expected, .. } => {
                    let expected = format!("another source ({expected})");
                    Error::setting("--sources", source.name(), expected)
                }
                other => other,
            })?;
            each.push((*source, training));
        }
        let prepared = Prepared::new(found.clone(), data, true)?;
        if prepared.test.is_empty() {
            let shown = format!("{}, which has no test set", found.settings.data.name);
            return Err(found.refuse("data.name", shown, "a data set with one"));
        }
        let (has_classes, data_hash) = (prepared.has_classes(), prepared.data_hash.clone());
        Ok(Self { found, each, has_classes, data_hash })
    }

    /// Whether the configuration has replicas of its own, of which only first seeds and form are used.
    pub fn replaces_replicas(&self) -> bool {
        self.found.settings.replicas != Replicas::default()
    }

    /// The result of each run: accuracies in percent, or losses. A source of which all runs diverged
    /// has none.
    pub fn groups(&self, record: &Record, out: &Path) -> Result<Vec<Group>, Error> {
        let (number, factor) = if self.has_classes {
            (ReplicaNumber::TestAccuracy, 100.0)
        } else {
            (ReplicaNumber::TestLoss, 1.0)
        };
        let mut groups = Vec::new();
        for (source, _) in &self.each {
            let Some(cell) = record.cell(source.name()) else { continue };
            let value = |name: &String| {
                let value = cell.numbers.get(&number.of(name))?.0 * factor;
                let diverged = cell.numbers.contains_key(&ReplicaNumber::DivergedAt.of(name));
                (value.is_finite() && !diverged).then_some((name.clone(), value))
            };
            let names = cell.hashes.keys();
            let runs: Vec<Run> = names
                .filter_map(value)
                .map(|(name, value)| Run { seed: Some(name), value })
                .collect();
            if runs.is_empty() {
                continue;
            }
            groups.push(Group {
                name: source.name().to_owned(),
                diverged: cell.hashes.len() - runs.len(),
                runs,
                answers: if self.has_classes { answers(cell, out)? } else { None },
            });
        }
        Ok(groups)
    }
}

/// Churn and disagreement of the replicas of a run.
fn answers(cell: &Cell, out: &Path) -> Result<Option<Answers>, Error> {
    let Some(run) = &cell.run else { return Ok(None) };
    let Some(file) = train::answers(&run.below(out)?)? else { return Ok(None) };
    let (mut right, mut classes): (Vec<&[bool]>, Vec<&[i32]>) = (vec![], vec![]);
    for tensor in &file.tensors {
        match &tensor.values {
            Values::Bool(values) => right.push(values),
            Values::I32(values) => classes.push(values),
            _ => {}
        }
    }
    let examples = right.first().map_or(0, |run| run.len());
    let found = mean_difference(&classes).zip(mean_difference(&right));
    Ok(found.map(|(churn, disagreement)| Answers {
        examples,
        churn,
        disagreement,
        sigma_of_coin_tosses: 100.0 * coin_toss_sigma(disagreement, examples),
    }))
}
