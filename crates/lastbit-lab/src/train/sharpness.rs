//! Curvature along a run: what is measured of each replica, and what the next measurement starts from.
//!
//! The eigenvectors found last belong to the state of a run and are in its checkpoints. A search that
//! starts from them takes few Hessian-vector products, and its digits beyond the tolerance depend on
//! them: without them a resumed run would write other digits. They are rounded to the precision of
//! the run, so that a run continues with what its checkpoint holds. A fork starts without.

mod density;

pub use density::{files_of as density_files, read as read_density};

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lastbit::curvature::critical::along_next_update;
use lastbit::curvature::empirical_risk::{EmpiricalRisk, WeightedBatches, scaled};
use lastbit::curvature::stochastic::{self, batch_sharpness};
use lastbit::krylov::{EigenOptions, EigenResult, block, eigenpairs};
use lastbit::nn::{Batch, Engine, Role};
use lastbit::objective::TrainableModel;
use lastbit::training::Replica;
use lastbit_cuda::{CudaModel, MathMode};
use rayon::prelude::*;

use super::backend::TrainingBackend;
use super::checkpoint::SHARPNESS;
use super::metrics::Curvature;
use super::prepare::Prepared;
use super::settings::{self, Device, Measured};
use super::tensors_of::Stored;
use crate::error::Error;
use crate::number::Number;
use crate::tensors::Tensor;

/// Hessian-vector products that one search may take.
const MAX_HVPS: usize = 1000;
/// Names of the two operators that are no blocks.
const HESSIAN: &str = "hessian";
const PRECONDITIONED: &str = "preconditioned";

/// Eigenvectors by operator: what the next search starts from.
type Known<F> = BTreeMap<String, Vec<Vec<F>>>;

/// What is measured, and the state of it.
pub struct Sharpness<F> {
    settings: settings::Sharpness,
    set: WeightedBatches<Batch<F>>,
    /// For each replica that is measured, the first ones.
    known: Vec<Known<F>>,
    /// Where the steps are made on a GPU, the network there.
    on_device: Option<CudaModel<F>>,
}

impl<F: Stored> Sharpness<F> {
    /// Before the first measurement; none where nothing is asked for.
    pub fn new(prepared: &Prepared) -> Result<Option<Self>, Error> {
        let Some(settings) = prepared.found.settings.sharpness else { return Ok(None) };
        let count = match settings.replicas {
            Measured::First => 1,
            Measured::All => prepared.variants.named.len(),
        };
        let set = prepared.measured(settings.examples);
        let on_device = match prepared.found.settings.training.device {
            Device::Cpu => None,
            // TF32 rounds values so coarsely that a product would not be that of a symmetric matrix.
            Device::Cuda | Device::CudaTf32 => Some(prepared.on_device(MathMode::Fma)?),
        };
        Ok(Some(Self { settings, set, known: vec![BTreeMap::new(); count], on_device }))
    }

    /// Whether a measurement is due after `step` steps.
    pub fn is_due(&self, step: usize, steps_per_epoch: usize) -> bool {
        self.settings.every.is_due(step, steps_per_epoch)
    }

    /// Measures the replicas; `rate` is the learning rate their rows state. At the end also the
    /// density, into files of the folder.
    pub fn measure(
        &mut self,
        prepared: &Prepared,
        trainer: &mut TrainingBackend<F>,
        rate: f64,
        folder: Option<&Path>,
    ) -> Result<Vec<Option<Curvature>>, Error> {
        trainer.read_back()?;
        let batches = trainer.coming_batches(self.settings.batch);
        let (step, replicas) = (trainer.step(), trainer.replicas());
        let Self { settings, set, known, on_device } = self;
        let of = Of { settings, set, prepared, step, rate, folder };
        let each = known.iter_mut().zip(replicas).zip(batches).enumerate();
        let mut rows = match on_device {
            // Replicas share the device, so that side by side they would only be in each other's way.
            Some(learner) => each
                .map(|(i, ((known, replica), batches))| {
                    of.measure(learner.clone(), i, replica, batches, known)
                })
                .collect::<Result<Vec<_>, Error>>()?,
            None => each
                .collect::<Vec<_>>()
                .into_par_iter()
                .map(|(i, ((known, replica), batches))| {
                    let engine = Engine::new(&prepared.network, prepared.loss);
                    of.measure(engine, i, replica, batches, known)
                })
                .collect::<Result<Vec<_>, Error>>()?,
        };
        rows.resize(replicas.len(), None);
        Ok(rows)
    }

    /// The state as tensors of a checkpoint: `sharpness/REPLICA/OPERATOR/INDEX`.
    pub fn tensors(&self, prepared: &Prepared) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        for (named, known) in prepared.variants.named.iter().zip(&self.known) {
            for (operator, vectors) in known {
                tensors.extend(vectors.iter().enumerate().map(|(i, vector)| Tensor {
                    name: format!("{SHARPNESS}{}/{operator}/{i:03}", named.name),
                    shape: vec![vector.len()],
                    values: F::wrap(vector.clone()),
                }));
            }
        }
        tensors
    }

    /// Takes the state out of the tensors of a checkpoint.
    pub fn load<'t>(&mut self, prepared: &Prepared, tensors: impl Iterator<Item = &'t Tensor>) {
        let tensors: BTreeMap<&str, &Tensor> =
            tensors.map(|tensor| (tensor.name.as_str(), tensor)).collect();
        for (named, known) in prepared.variants.named.iter().zip(&mut self.known) {
            let prefix = format!("{SHARPNESS}{}/", named.name);
            // Indices have three digits: the order of names is that of indices.
            for (name, tensor) in &tensors {
                let Some((operator, _)) =
                    name.strip_prefix(&prefix).and_then(|rest| rest.rsplit_once('/'))
                else {
                    continue;
                };
                if let Some(vector) = F::unwrap(tensor.values.clone()) {
                    known.entry(operator.to_owned()).or_default().push(vector);
                }
            }
        }
    }
}

/// What measurements of all replicas have in common.
struct Of<'a, F> {
    settings: &'a settings::Sharpness,
    set: &'a WeightedBatches<Batch<F>>,
    prepared: &'a Prepared,
    step: usize,
    rate: f64,
    folder: Option<&'a Path>,
}

impl<F: Stored> Of<'_, F> {
    /// Measures one replica; `batches` are its coming ones, none if it has ended.
    fn measure<O: TrainableModel<F, Batch = Batch<F>>>(
        &self,
        mut engine: O,
        index: usize,
        replica: &Replica<F>,
        batches: Option<Vec<Arc<Batch<F>>>>,
        known: &mut Known<F>,
    ) -> Result<Option<Curvature>, Error>
    where
        Error: From<O::Error>,
    {
        let Self { settings, set, prepared, step, rate, folder } = *self;
        let Some(batches) = batches else { return Ok(None) };
        let alpha = prepared.plan.optimizer.alpha;
        let mut loss = EmpiricalRisk::new(&mut engine, set, alpha);
        let (theta, memory) = (&replica.theta, &replica.memory);
        let one = Measurement { settings, prepared, replica, step };
        let mut hessian = |v: &Vec<f64>, out: &mut Vec<f64>| loss.hessian_vector(theta, v, out);
        let mut row = one.eigenvalues(&mut hessian, known, rate)?;
        // A schedule may end at a rate of zero, from which no step can be searched.
        if settings.critical && rate > 0.0 {
            let method = prepared.plan.optimizer.method;
            let found = along_next_update(&mut loss, method, theta, memory, rate)?;
            row.critical_sharpness = Some(Number(found.sharpness));
            row.critical_passes = Some(found.passes);
        }
        if let Some(folder) = folder.filter(|_| settings.density) {
            let (zeros, draw) = (vec![0.0; theta.len()], step as u64);
            let hessian = |v: &Vec<f64>, out: &mut Vec<f64>| loss.hessian_vector(theta, v, out);
            let found =
                stochastic::density(&zeros, density::PROBES, density::STEPS, draw, hessian)?;
            let trace = found
                .map(|found| density::write(&found, folder, &prepared.variants.named[index].name));
            let trace = trace.transpose()?;
            row.trace = trace.map(|trace| Number(trace.mean));
            row.trace_error = trace.map(|trace| Number(trace.standard_error));
        }
        if !batches.is_empty() {
            let found = batch_sharpness(&mut engine, &replica.theta, &batches, alpha)?;
            row.products += batches.len();
            row.batch_sharpness = Some(Number(found.mean));
            row.batch_sharpness_error = Some(Number(found.standard_error));
        }
        Ok(Some(row))
    }
}

/// One replica, measured once.
struct Measurement<'a, F> {
    settings: &'a settings::Sharpness,
    prepared: &'a Prepared,
    replica: &'a Replica<F>,
    step: usize,
}

impl<F: Stored> Measurement<'_, F> {
    fn eigenvalues<E>(
        &self,
        hessian: &mut Multiply<E>,
        known: &mut Known<F>,
        rate: f64,
    ) -> Result<Curvature, E> {
        let Self { settings, prepared, replica, step } = *self;
        let n = replica.theta.len();
        let method = prepared.plan.optimizer.method;
        let mut products = 0;
        // Eigenvalues and residuals of an operator, the largest first.
        let mut search = |operator: &str, n: usize, top: usize, multiply: &mut Multiply<E>| {
            let options = EigenOptions {
                top,
                probe: Some(step as u64),
                ..EigenOptions::largest(settings.tolerance, MAX_HVPS)
            };
            let start = known.get(operator).map(|known| widened(known)).unwrap_or_default();
            let found = eigenpairs(&vec![0.0; n], start, options, multiply)?;
            products += found.matvecs;
            let pairs: Vec<(Number, Number)> =
                found.largest.iter().map(|p| (Number(p.value), Number(p.residual))).collect();
            known.insert(operator.to_owned(), rounded(found));
            Ok(pairs)
        };
        let (sharpness, residual) = search(HESSIAN, n, settings.top, hessian)?.into_iter().unzip();
        let mut row = Curvature { sharpness, residual, ..Curvature::default() };
        // Some steps see the Hessian through a preconditioner, which they have from the first on.
        let seen = match prepared.plan.optimizer.preconditioner(&replica.memory, rate) {
            Some(diagonal) => {
                let mut scaled = scaled(&diagonal, &mut *hessian);
                let found = search(PRECONDITIONED, n, 1, &mut scaled)?;
                row.preconditioned_sharpness = Some(found[0].0);
                row.preconditioned_sharpness
            }
            None => row.sharpness.first().copied().filter(|_| !method.is_preconditioned()),
        };
        if let Some(Number(sharpness)) = seen {
            let ratio = sharpness / method.threshold(rate);
            row.edge_ratio = Some(Number(ratio));
            row.normalized_sharpness = Some(Number(2.0 * ratio));
        }
        let is_weight = |role: Role| matches!(role, Role::Weight { .. });
        let weights = prepared.network.parameters().iter().filter(|p| is_weight(p.role));
        for parameter in weights.filter(|_| settings.layers) {
            let range = parameter.range.clone();
            let mut part = block(n, range.clone(), &mut *hessian);
            let found = search(&parameter.name, range.len(), 1, &mut part)?;
            row.sharpness_of.insert(parameter.name.clone(), found[0].0);
        }
        row.products = products;
        Ok(row)
    }
}

type Multiply<'a, E> = dyn FnMut(&Vec<f64>, &mut Vec<f64>) -> Result<(), E> + 'a;

fn rounded<F: Stored>(found: EigenResult) -> Vec<Vec<F>> {
    let round = |vector: Vec<f64>| vector.into_iter().map(F::of).collect();
    found.into_vectors().into_iter().map(round).collect()
}

fn widened<F: Stored>(vectors: &[Vec<F>]) -> Vec<Vec<f64>> {
    vectors.iter().map(|vector| vector.iter().map(|x| x.to_f64()).collect()).collect()
}
