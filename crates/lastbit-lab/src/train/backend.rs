//! What trains the replicas: the CPU or a CUDA GPU. The loop around them is the same.

use std::sync::Arc;

use lastbit::batches::Batches;
use lastbit::nn::{Batch, Engine, Network};
use lastbit::objective::Evaluation;
use lastbit::training::{Compared, Replica, Trainer};
use lastbit_cuda::{CudaModel, CudaTrainer, MathMode};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::prepare::Prepared;
use super::settings::{ConfigFile, Device};
use super::tensors_of::Stored;
use crate::error::Error;

/// Replicas in training.
pub(super) enum TrainingBackend<F: Stored> {
    Cpu(Box<Trainer<F, Engine<F>, Batches<F>>>),
    Cuda(Box<CudaTrainer<F>>),
    /// For steps that need Hessian-vector products.
    SequentialCuda(Box<SequentialCuda<F>>),
}

/// Replicas that share an engine on a device, one after the other: what one has computed there would
/// otherwise be gone when it is needed again.
pub(super) struct SequentialCuda<F: Stored> {
    trainer: OnCuda<F>,
    alone: ThreadPool,
}

type OnCuda<F> = Trainer<F, CudaModel<F>, Batches<F>>;

impl<F: Stored> SequentialCuda<F> {
    fn new(trainer: OnCuda<F>) -> Self {
        let alone = ThreadPoolBuilder::new().num_threads(1).build().expect("one more thread");
        Self { trainer, alone }
    }

    fn run<A: Send>(&mut self, work: impl FnOnce(&mut OnCuda<F>) -> A + Send) -> A {
        let Self { trainer, alone } = self;
        alone.install(|| work(trainer))
    }
}

/// How a GPU is to compute; none for the CPU.
fn math_mode_on(device: Device) -> Option<MathMode> {
    match device {
        Device::Cpu => None,
        Device::Cuda => Some(MathMode::Fma),
        Device::CudaTf32 => Some(MathMode::Tf32),
    }
}

impl<F: Stored> TrainingBackend<F> {
    /// Fails where there is no device that could make the steps: better before a file is written.
    pub fn require_device(found: &ConfigFile) -> Result<(), Error> {
        match math_mode_on(found.settings.training.device) {
            Some(math) => Ok(lastbit_cuda::Device::new::<F>(math).map(drop)?),
            None => Ok(()),
        }
    }

    /// Goes on after `step` steps with these replicas.
    pub fn new(prepared: &Prepared, step: usize, replicas: Vec<Replica<F>>) -> Result<Self, Error> {
        let Prepared { network, loss, plan, .. } = prepared;
        let variants = prepared.variants.named.iter().map(|named| named.variant).collect();
        let (sources, plan) = (prepared.sources(), plan.clone());
        let Some(math) = math_mode_on(prepared.found.settings.training.device) else {
            let engine = Engine::new(network, *loss);
            let trainer = Trainer::new(engine, sources, plan, variants, step, replicas);
            return Ok(Self::Cpu(Box::new(trainer)));
        };
        if plan.optimizer.method.needs_hessian() {
            let model = prepared.on_device(math)?;
            let trainer = Trainer::new(model, sources, plan, variants, step, replicas);
            return Ok(Self::SequentialCuda(Box::new(SequentialCuda::new(trainer))));
        }
        let trainer =
            CudaTrainer::new(network, *loss, math, sources, plan, variants, step, replicas)?;
        Ok(Self::Cuda(Box::new(trainer)))
    }

    /// The device in words, with its driver; none for the CPU.
    pub fn machine(&self) -> Result<Option<String>, Error> {
        Ok(match self {
            Self::Cpu(_) => None,
            Self::Cuda(trainer) => Some(trainer.engine().device().description()?),
            Self::SequentialCuda(one) => Some(one.trainer.model().device_description()?),
        })
    }

    /// Steps done.
    pub fn step(&self) -> usize {
        match self {
            Self::Cpu(trainer) => trainer.step(),
            Self::Cuda(trainer) => trainer.step(),
            Self::SequentialCuda(one) => one.trainer.step(),
        }
    }

    /// Learning rate of the step that comes next.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Cpu(trainer) => trainer.rate(),
            Self::Cuda(trainer) => trainer.rate(),
            Self::SequentialCuda(one) => one.trainer.rate(),
        }
    }

    /// The replicas: tallies and ends as they are, all else as [`read_back`](Self::read_back) found
    /// it.
    pub fn replicas(&self) -> &[Replica<F>] {
        match self {
            Self::Cpu(trainer) => trainer.replicas(),
            Self::Cuda(trainer) => trainer.replicas(),
            Self::SequentialCuda(one) => one.trainer.replicas(),
        }
    }

    /// Makes the replicas those of now.
    pub fn read_back(&mut self) -> Result<(), Error> {
        match self {
            Self::Cpu(_) | Self::SequentialCuda(_) => Ok(()),
            Self::Cuda(trainer) => Ok(trainer.read_back()?),
        }
    }

    /// Advances all replicas by one step.
    pub fn advance(&mut self) -> Result<(), Error> {
        match self {
            Self::Cpu(trainer) => Ok(trainer.advance()?),
            Self::Cuda(trainer) => Ok(trainer.advance()?),
            Self::SequentialCuda(one) => Ok(one.run(Trainer::advance)?),
        }
    }

    /// How each replica does on all examples of `batches`.
    pub fn evaluate(&mut self, batches: &mut Batches<F>) -> Result<Vec<Option<Evaluation>>, Error> {
        match self {
            Self::Cpu(trainer) => Ok(trainer.evaluate(batches)?),
            Self::Cuda(trainer) => Ok(trainer.evaluate(batches)?),
            Self::SequentialCuda(one) => Ok(one.run(|trainer| trainer.evaluate(batches))?),
        }
    }

    /// The relative gradient fluctuation of each replica.
    pub fn fluctuations(&mut self, count: usize) -> Result<Vec<Option<f64>>, Error> {
        match self {
            Self::Cpu(trainer) => Ok(trainer.fluctuations(count)?),
            Self::Cuda(trainer) => Ok(trainer.fluctuations(count)?),
            Self::SequentialCuda(one) => Ok(one.run(|trainer| trainer.fluctuations(count))?),
        }
    }

    /// The batches of the coming `count` steps, for each replica; none for those that have ended.
    pub fn coming_batches(&mut self, count: usize) -> Vec<Option<Vec<Arc<Batch<F>>>>> {
        match self {
            Self::Cpu(trainer) => trainer.coming_batches(count),
            Self::Cuda(trainer) => trainer.coming_batches(count),
            Self::SequentialCuda(one) => one.trainer.coming_batches(count),
        }
    }

    /// Some replicas of a network beside the first, measured where their parameters are.
    pub fn compared(&mut self, network: &Network, which: &[usize]) -> Result<Vec<Compared>, Error> {
        if let Self::Cuda(trainer) = self {
            let all = trainer.compared()?;
            return Ok(which.iter().map(|i| all[*i].clone()).collect());
        }
        let tensors = network.tensors();
        let replicas = self.replicas();
        let beside_first =
            |i: &usize| Compared::of(&replicas[0].theta, &replicas[*i].theta, &tensors);
        Ok(which.par_iter().map(beside_first).collect())
    }
}
