//! Why replicas diverge: at chosen steps, the growth of the difference between a replica and the first one, by cause
//! ([`lastbit::attribution`]).
//!
//! Of each replica that began with the weights of the first and sees its batches, and differs in rounding alone:
//!
//! ```text
//! d = replica − first before the step      parameters and memory of the optimizer, exactly
//! first and first + s d make the step      in f64, on the batch of the step, without perturbation;
//!                                          s = 1, or more where d is below the geometric mean of f64's roundoff and
//!                                          the linear range
//! growth by cause                          to attribution.csv
//! ```
//!
//! **Why the replicas' own difference.** It is what the user asks about, and the run itself has carried it along: it has
//! turned towards what grows most, as a twin would have. A twin of its own would cost a further replica and a state in
//! every checkpoint; so a measurement depends on the replicas alone, and a resumed run needs nothing to repeat it.
//!
//! **Why in `f64`.** In the precision of the training the step of replicas a few ulps apart is mostly rounding. In `f64` the
//! difference is the same and its growth is told from rounding, at the distance at which the replicas really are: the
//! part of kinks depends on it. What rounding of the training's own step can add is a column of its own, and
//! where it exceeds all that amplifies the row says "below-rounding": the difference grows by new rounding errors,
//! not by an instability. A training in `f64` has nothing finer, so its early differences are enlarged; the
//! linear parts are the same at every distance.
//!
//! A difference is never made smaller: one that has left the linear range grows or not by what no linearization sees,
//! and the part `kinks` says so.

use std::path::Path;
use std::sync::Arc;

use lastbit::Real;
use lastbit::attribution::{Linearization, Pair, State};
use lastbit::nn::{Batch, Engine, Targets};
use lastbit::objective::TrainableModel;
use lastbit::optim::direction::Memory;
use lastbit::reduce::norm;
use lastbit::training::Replica;
use lastbit_cuda::{CudaModel, MathMode};
use rayon::prelude::*;

use super::backend::TrainingBackend;
use super::metrics::{ATTRIBUTION, Appended, AttributionRow};
use super::prefix_hash::{PrefixHash, RunningHash};
use super::prepare::Prepared;
use super::settings::{self, Device};
use super::tensors_of::Stored;
use super::variants::Variants;
use crate::error::Error;

/// Replicas that are compared with the first: same first weights, same batches.
pub fn pairs(variants: &Variants) -> Vec<usize> {
    let first = &variants.named[0];
    let is_pair = |i: &usize| {
        let own = &variants.named[*i];
        own.init == first.init && own.variant.source == first.variant.source
    };
    (1..variants.named.len()).filter(is_pair).collect()
}

/// What is measured, and the file of it.
pub struct Attributor {
    settings: settings::Attribution,
    linearization: Linearization,
    pairs: Vec<usize>,
    file: Appended,
    /// Where the steps are made on a GPU, the network there.
    on_device: Option<CudaModel<f64>>,
}

impl Attributor {
    /// With an empty file, or with the one of a checkpoint; none where nothing is asked for.
    pub fn new(
        prepared: &Prepared,
        folder: &Path,
        resumed: Option<RunningHash>,
    ) -> Result<Option<Self>, Error> {
        let Some(settings) = prepared.found.settings.attribution.clone() else { return Ok(None) };
        let Ok(linearization) = Linearization::of(prepared.plan.optimizer) else {
            return Ok(None);
        };
        let begins = resumed.is_none();
        let mut file = Appended::open(folder.join(ATTRIBUTION), resumed.unwrap_or_default())?;
        if begins {
            file.append(&AttributionRow::header())?;
        }
        let on_device = match prepared.found.settings.training.device {
            Device::Cpu => None,
            // As for the sharpness: products of values rounded to 10 bits are not those of a symmetric matrix.
            Device::Cuda | Device::CudaTf32 => Some(prepared.on_device(MathMode::Fma)?),
        };
        let pairs = pairs(&prepared.variants);
        Ok(Some(Self { settings, linearization, pairs, file, on_device }))
    }

    /// Length and hash of the file, which is on the disk then.
    pub fn settle(&mut self) -> Result<PrefixHash, Error> {
        self.file.settle()
    }

    /// Attributes the growth over the step that comes next, if it is due.
    pub fn before_step<F: Stored>(
        &mut self,
        prepared: &Prepared,
        trainer: &mut TrainingBackend<F>,
    ) -> Result<(), Error> {
        let step = trainer.step() + 1;
        if !self.settings.is_due(step, prepared.steps_per_epoch()) {
            return Ok(());
        }
        trainer.read_back()?;
        let rate = trainer.rate();
        let batches = trainer.coming_batches(1);
        let replicas = trainer.replicas();
        let Some(batch) = batches[0].as_ref().map(|own| &own[0]) else { return Ok(()) };
        let alive = self.pairs.iter().filter(|i| replicas[**i].ended.is_none());
        let others: Vec<(&str, &Replica<F>)> =
            alive.map(|i| (prepared.variants.named[*i].name.as_str(), &replicas[*i])).collect();
        let batch = Arc::new(widened(batch));
        let of = Of { attributor: self, first: &replicas[0], batch: &batch, step, rate };
        let rows: Vec<AttributionRow> = match &self.on_device {
            // Replicas share the device.
            Some(model) => {
                let row =
                    |(name, replica): &(&str, &Replica<F>)| of.row(model.clone(), name, replica);
                others.iter().map(row).collect::<Result<_, Error>>()?
            }
            None => {
                let row = |(name, replica): &(&str, &Replica<F>)| {
                    of.row(Engine::new(&prepared.network, prepared.loss), name, replica)
                };
                others.par_iter().map(row).collect::<Result<_, Error>>()?
            }
        };
        self.file.append(&rows.iter().map(AttributionRow::to_csv).collect::<String>())
    }
}

/// What measurements of one step have in common.
struct Of<'a, F> {
    attributor: &'a Attributor,
    first: &'a Replica<F>,
    batch: &'a Arc<Batch<f64>>,
    step: usize,
    rate: f64,
}

impl<F: Stored> Of<'_, F> {
    fn row<O: TrainableModel<f64, Batch = Batch<f64>>>(
        &self,
        mut model: O,
        name: &str,
        replica: &Replica<F>,
    ) -> Result<AttributionRow, Error>
    where
        Error: From<O::Error>,
    {
        let Self { attributor, first, batch, step, rate } = *self;
        let Attributor { linearization, settings, .. } = attributor;
        let optimizer = linearization.optimizer();
        let state = |Replica { theta, memory, .. }: &Replica<F>| State {
            theta: wide(theta),
            memory: Memory { steps: memory.steps, values: wide(&memory.values) },
        };
        let pair = Pair { run: state(first), copy: state(replica) };
        let (size, apart) = (norm(&first.theta), pair.distance());
        let coarser = F::UNIT_ROUNDOFF / f64::UNIT_ROUNDOFF;
        if apart == 0.0 || !apart.is_finite() {
            return Ok(AttributionRow::new((step, name), (rate, apart / size, 0.0), coarser, None));
        }
        let least = pair.reference(optimizer.method);
        let pair = if apart < least { pair.at_distance(least, optimizer.method) } else { pair };
        model.load_buffers(&wide(&first.buffers));
        model.set_batch(batch);
        let after = pair.stepped(&mut model, optimizer, rate)?;
        let found = linearization.attribute(&mut model, rate, &pair, &after, settings.nodes)?;
        let distances = (rate, apart / size, pair.distance() / size);
        Ok(AttributionRow::new((step, name), distances, coarser, found.as_ref()))
    }
}

/// The same numbers in `f64`.
fn wide<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

fn widened<F: Real>(batch: &Batch<F>) -> Batch<f64> {
    let targets = match &batch.targets {
        Targets::Classes(classes) => Targets::Classes(classes.clone()),
        Targets::Reals(values) => Targets::Reals(wide(values)),
    };
    Batch { inputs: wide(&batch.inputs), targets }
}
