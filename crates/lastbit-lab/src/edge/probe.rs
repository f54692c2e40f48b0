//! One probe: a run at one value of the parameter, judged, and the curvature where it ended (a stable
//! descent: where it settled after that).

use std::sync::Arc;

use lastbit::batches::Batches;
use lastbit::curvature::empirical_risk::EmpiricalRisk;
use lastbit::divergence::LastBitTwin;
use lastbit::krylov::EigenOptions;
use lastbit::nn::{Batch, Engine};
use lastbit::objective::TrainableModel;
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::reduce::norm;
use lastbit::training::{GradientDescent, LossCurve};
use lastbit::verdict::{Horizon, Verdict, judge};
use lastbit::{Dynamics, Real, hash_of_bits};
use lastbit_cuda::{CudaModel, MathMode};

use super::Draw;
use super::result::{ProbeCurvature, ProbeResult};
use crate::error::Error;
use crate::number::Number;
use crate::progress::Progress;
use crate::record::{Outcome, VerdictRecord};
use crate::series::Series;
use crate::simulate::{Precision, Tick, UpTo, add_twin};
use crate::train::{Device, Examples, Prepared, SourceSeeds};

/// Hessian-vector products that the search for the largest eigenvalue may take.
const MAX_HVPS: usize = 1000;

/// Steps at half the rate that a stable descent takes before its place is measured. Near the edge the
/// sharpest mode swings about the minimum by `1 - dt lambda` and hardly dies; at half the rate it is
/// gone at once, by `1 - dt lambda/2`, and one of half its curvature by `0.5^40 = 1e-12`. What creeps on
/// is left where it is.
const SETTLING: usize = 40;

lastbit::named_enum! {
    /// The parameter that is varied.
    pub enum Over {
        /// Learning rate.
        Dt = "dt",
        /// Weight decay.
        Alpha = "alpha",
    }
}

type Run<F, O> = GradientDescent<F, O, Batches<F>>;

/// Probes of one configuration from one draw of its seeds.
#[derive(Clone)]
pub struct Probes {
    /// The configuration.
    pub prepared: Arc<Prepared>,
    /// What is varied.
    pub over: Over,
    /// Seeds of the first weights and of the batches.
    pub draw: Draw,
    /// How long to look.
    pub horizon: Horizon,
    /// Whether a run kept one last bit away goes beside each probe, for its curve.
    pub twins: bool,
    engines: Engines,
    /// In words, where that is not the CPU.
    device: Option<String>,
}

/// What computes them.
#[derive(Clone)]
enum Engines {
    /// This computer's processor, in the precision of the settings.
    Cpu,
    /// A GPU in f32; curvature is not measured in TF32.
    Single { steps: CudaModel<f32>, curvature: CudaModel<f32> },
    /// A GPU in f64.
    Double(CudaModel<f64>),
}

impl Engines {
    fn new(prepared: &Prepared) -> Result<Self, Error> {
        let training = &prepared.found.settings.training;
        Ok(match (training.device, training.precision) {
            (Device::Cpu, _) => Self::Cpu,
            (Device::CudaTf32, _) => Self::Single {
                steps: prepared.on_device(MathMode::Tf32)?,
                curvature: prepared.on_device(MathMode::Fma)?,
            },
            (Device::Cuda, Precision::F32) => {
                let steps = prepared.on_device(MathMode::Fma)?;
                Self::Single { curvature: steps.clone(), steps }
            }
            (Device::Cuda, Precision::F64) => Self::Double(prepared.on_device(MathMode::Fma)?),
        })
    }
}

impl Probes {
    /// Probes where the settings of training say.
    ///
    /// # Errors
    ///
    /// If that is a GPU and it cannot be used.
    pub fn new(
        prepared: Arc<Prepared>,
        over: Over,
        seed: u64,
        horizon: Horizon,
        twins: bool,
    ) -> Result<Self, Error> {
        let engines = Engines::new(&prepared)?;
        let device = match &engines {
            Engines::Cpu => None,
            Engines::Single { steps, .. } => Some(steps.device_description()?),
            Engines::Double(engine) => Some(engine.device_description()?),
        };
        let draw = Draw { seed, batch: None };
        Ok(Self { prepared, over, draw, horizon, twins, engines, device })
    }

    /// The same from other seeds.
    pub fn with_draw(&self, draw: Draw) -> Self {
        Self { draw, ..self.clone() }
    }

    /// The same over another horizon.
    pub fn with_horizon(&self, horizon: Horizon) -> Self {
        Self { horizon, ..self.clone() }
    }

    /// Step and optimizer at a value of the parameter.
    pub fn at(&self, value: f64) -> (f64, Optimizer) {
        let (dt, optimizer) = (self.prepared.plan.dt, self.prepared.plan.optimizer);
        match self.over {
            Over::Dt => (value, optimizer),
            Over::Alpha => (dt, Optimizer { alpha: value, ..optimizer }),
        }
    }

    /// Where the search begins: the configuration's own value.
    pub fn own_value(&self) -> f64 {
        match self.over {
            Over::Dt => self.prepared.plan.dt,
            Over::Alpha => self.prepared.plan.optimizer.alpha,
        }
    }

    /// The curvature that the configuration's own step can bear.
    pub fn threshold(&self) -> f64 {
        self.prepared.plan.optimizer.method.threshold(self.prepared.plan.dt)
    }

    /// Runs, judges and measures one value; the outcome also has curves and the hash of the final state.
    ///
    /// # Errors
    ///
    /// If it was stopped, or a GPU fails.
    pub fn run(&self, value: f64, progress: &Progress) -> Result<(ProbeResult, Outcome), Error> {
        let (result, outcome) = self.run_on_device(value, progress)?;
        Ok((result, Outcome { device: self.device.clone(), ..outcome }))
    }

    fn run_on_device(
        &self,
        value: f64,
        progress: &Progress,
    ) -> Result<(ProbeResult, Outcome), Error> {
        let Prepared { network, loss, .. } = &*self.prepared;
        match (&self.engines, self.prepared.found.settings.training.precision) {
            (Engines::Cpu, Precision::F32) => {
                let engine = Engine::<f32>::new(network, *loss);
                self.run_on([engine.clone(), engine], value, progress)
            }
            (Engines::Cpu, Precision::F64) => {
                let engine = Engine::<f64>::new(network, *loss);
                self.run_on([engine.clone(), engine], value, progress)
            }
            (Engines::Single { steps, curvature }, _) => {
                self.run_on([steps.clone(), curvature.clone()], value, progress)
            }
            (Engines::Double(engine), _) => {
                self.run_on([engine.clone(), engine.clone()], value, progress)
            }
        }
    }

    /// The same with an engine for the steps and one for the curvature.
    fn run_on<F: Real, O: TrainableModel<F, Batch = Batch<F>>>(
        &self,
        [steps, curvature]: [O; 2],
        value: f64,
        progress: &Progress,
    ) -> Result<(ProbeResult, Outcome), Error>
    where
        Error: From<O::Error>,
    {
        let Self { prepared, horizon, .. } = self;
        let (dt, optimizer) = self.at(value);
        let own = prepared.variants.sources[0];
        let seeds = SourceSeeds { batch: self.draw.batch.unwrap_or(own.batch), ..own };
        let batches = prepared.source::<F>(seeds);
        let (theta, buffers) = prepared.initial::<F>(self.draw.seed);
        let is_descent = optimizer.method == Method::Sgd && batches.is_full_batch();
        let run_from = |theta: Vec<F>, buffers: Vec<F>, dt: f64| {
            let mut model = steps.clone();
            model.load_buffers(&buffers);
            GradientDescent::new(model, batches.clone(), optimizer, dt, theta)
        };
        let mut run = run_from(theta, buffers, dt);
        let mut losses = LossCurve::default();
        let mut tick = Tick::new(progress, horizon.steps);
        let (judged, twin) = if self.twins {
            let mut twin = UpTo { step: horizon.steps, watcher: LastBitTwin::new(&run) };
            let judged = judge(&mut run, *horizon, &mut [&mut losses, &mut twin, &mut tick])?;
            (judged, Some(twin.watcher))
        } else {
            (judge(&mut run, *horizon, &mut [&mut losses, &mut tick])?, None)
        };
        tick.finished()?;
        let mut outcome = Outcome { hash: Some(hash_of_bits(run.state())), ..Outcome::default() };
        let mut result = ProbeResult {
            at: value,
            verdict: VerdictRecord::from(&judged),
            loss: Number(run.loss()?),
            curvature: None,
        };
        let points = losses.points();
        let steps = points.iter().map(|(step, _)| *step as f64).collect();
        let values = points.iter().map(|(_, loss)| *loss).collect();
        outcome
            .series
            .insert("curves".to_owned(), Series::new([("step", steps), ("loss", values)]));
        if let Some(twin) = twin {
            add_twin(&mut outcome, &twin);
        }
        if is_descent && judged.verdict == Verdict::Stable {
            let place = run.replica().clone();
            run = run_from(place.theta, place.buffers, dt / 2.0);
            for _ in 0..SETTLING {
                progress.check()?;
                run.step()?;
            }
        }
        progress.check()?;
        if !matches!(judged.verdict, Verdict::Diverged { .. }) {
            result.curvature = Some(self.curvature(curvature, &run, dt, optimizer)?);
        }
        result.write(self.over, &mut outcome);
        Ok((result, outcome))
    }

    /// Sharpness where a run ended or settled, how near it is to rest, and where the edge of that place is.
    fn curvature<F: Real, O: TrainableModel<F, Batch = Batch<F>>>(
        &self,
        mut engine: O,
        run: &Run<F, O>,
        dt: f64,
        optimizer: Optimizer,
    ) -> Result<ProbeCurvature, O::Error> {
        let replica = run.replica();
        let theta = &replica.theta;
        let set = self.prepared.measured(Examples::All);
        let mut loss = EmpiricalRisk::new(&mut engine, &set, optimizer.alpha);
        let mut gradient = vec![0.0; theta.len()];
        loss.gradient(theta, &mut gradient)?;
        // The root of the roundoff: the eigenvalue is then good to the roundoff itself.
        let tolerance = F::UNIT_ROUNDOFF.sqrt();
        let options = EigenOptions { probe: Some(0), ..EigenOptions::largest(tolerance, MAX_HVPS) };
        let preconditioner = optimizer.preconditioner(&replica.memory, dt);
        let found = loss.eigenpairs(theta, preconditioner.as_deref(), vec![], options)?;
        let (sharpness, residual) = (found.largest[0].value, found.largest[0].residual);
        let predicted = match self.over {
            Over::Dt => optimizer.method.stable_step(sharpness),
            // The decay adds itself to every curvature of the loss.
            Over::Alpha => Some(optimizer.method.threshold(dt) - (sharpness - optimizer.alpha)),
        };
        Ok(ProbeCurvature {
            gradient_norm: Number(norm(&gradient)),
            sharpness: Number(sharpness),
            sharpness_residual: Number(residual),
            edge_ratio: Number(sharpness / optimizer.method.threshold(dt)),
            predicted: Number(predicted.unwrap_or(f64::NAN)),
        })
    }
}
