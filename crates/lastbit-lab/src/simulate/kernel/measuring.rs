//! What is measured along a run of the kernel: loss, perturbed twin, regimes, sharpness.

use std::convert::Infallible;
use std::ops::ControlFlow;

use lastbit::activation::Activation;
use lastbit::curve::Curve;
use lastbit::divergence::rel_l1;
use lastbit::krylov::{EigenOptions, eigenpairs, random_start};
use lastbit::objective::TrainableModel;
use lastbit::pde::one_layer::OneLayer;
use lastbit::reduce::norm;
use lastbit::regimes::{Census, Phase, Regimes};
use lastbit::{Dynamics, Real, Watcher};

use super::{KernelRun, Run};
use crate::record::Outcome;
use crate::series::{Field, Series};
use crate::simulate::rounded;

/// What is measured at a step.
struct Row {
    loss: f64,
    norm: f64,
    rel_l1: f64,
    census: Census,
}

/// Watches loss, perturbed twin, regimes and sharpness.
pub struct Measuring<F, O> {
    steps: usize,
    sharpness_every: usize,
    beta: f64,
    twin: Run<F, O>,
    network: OneLayer,
    regimes: Regimes,
    /// The eigenvector found last, to start the next search from.
    direction: Vec<f64>,
    rows: Curve<Row>,
    /// Step, `lambda_max`, residual, Hessian-vector products.
    sharpness: Vec<[f64; 4]>,
    /// The regime of each position at the end of the run.
    regime_map: Option<Vec<f64>>,
}

impl<F, O> Measuring<F, O>
where
    F: Real,
    O: TrainableModel<F, Batch = (), Error = Infallible>,
{
    /// Measures `settings` beside a run of it, with `twin` its perturbed twin.
    pub fn new(settings: &KernelRun, twin: Run<F, O>) -> Self {
        let Ok::<_, Infallible>(direction) = random_start(&settings.initial);
        Self {
            steps: settings.steps,
            sharpness_every: settings.sharpness_every,
            beta: match settings.network.activation {
                Activation::Swish { beta } => beta,
                Activation::Relu | Activation::Tanh | Activation::Sigmoid => 1.0,
            },
            twin,
            network: settings.one_layer(),
            regimes: Regimes::default(),
            direction,
            rows: Curve::default(),
            sharpness: Vec::new(),
            regime_map: None,
        }
    }

    fn measure_sharpness(&mut self, step: usize, run: &Run<F, O>) {
        let (options, known) = (EigenOptions::largest(1e-6, 60), vec![self.direction.clone()]);
        let Ok::<_, Infallible>(mut found) = run.with_model(|model, theta| {
            let mut product = vec![F::default(); theta.len()];
            let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| {
                model.hessian_vector(theta, &rounded::<F>(v), &mut product)?;
                out.iter_mut().zip(&product).for_each(|(o, p)| *o = p.to_f64());
                Ok(())
            };
            eigenpairs(&self.direction, known, options, multiply)
        });
        let largest = found.largest.swap_remove(0);
        let matvecs = found.matvecs as f64;
        self.sharpness.push([step as f64, largest.value, largest.residual, matvecs]);
        if largest.value.is_finite() {
            self.direction = largest.vector;
        }
    }

    /// Hands over what was measured; `limit` is the curvature beyond which a step is unstable.
    pub fn into_outcome(self, limit: f64, outcome: &mut Outcome) {
        if let Some(values) = self.regime_map {
            let (height, width) = self.network.positions();
            outcome.field(KernelRun::REGIMES.to_owned(), Field { height, width, values });
        }
        let rows = self.rows.points();
        let column = |of: fn(&Row) -> f64| rows.iter().map(|(_, row)| of(row)).collect();
        let steps = rows.iter().map(|(step, _)| *step as f64).collect();
        let curves = Series::new([
            ("step", steps),
            ("loss", column(|row| row.loss)),
            ("norm", column(|row| row.norm)),
            ("rel_l1", column(|row| row.rel_l1)),
            ("activated", column(|row| row.census.activated)),
            ("transitioning", column(|row| row.census.transitioning)),
            ("not_activated", column(|row| row.census.not_activated)),
            ("changed", column(|row| row.census.changed)),
        ]);
        outcome.series.insert("curves".to_owned(), curves);
        if let Some((_, last)) = rows.last() {
            outcome.number(KernelRun::LOSS, last.loss);
            outcome.number(KernelRun::REL_L1, last.rel_l1);
        }
        let second_half = &rows[rows.len() / 2..];
        let share = |of: fn(&Census) -> f64| {
            let sum: f64 = second_half.iter().map(|(_, row)| of(&row.census)).sum();
            sum / second_half.len().max(1) as f64
        };
        outcome.number("mean_activated", share(|census| census.activated));
        outcome.number("mean_transitioning", share(|census| census.transitioning));
        outcome.number("mean_not_activated", share(|census| census.not_activated));
        outcome.number(KernelRun::MEAN_CHANGED, share(|census| census.changed));
        if let Some([_, last, residual, _]) = self.sharpness.last() {
            outcome.number(KernelRun::LAMBDA_MAX, *last);
            outcome.number("lambda_max_residual", *residual);
            outcome.number("normalized_sharpness", 2.0 * last / limit);
            let late = self.sharpness[self.sharpness.len() / 2..].iter();
            let normalized = late.map(|[_, value, ..]| 2.0 * value / limit);
            outcome
                .number(KernelRun::LATE_NORMALIZED_SHARPNESS, normalized.fold(f64::MIN, f64::max));
            let column = |j: usize| self.sharpness.iter().map(|row| row[j]).collect::<Vec<f64>>();
            let normalized = column(1).iter().map(|value| 2.0 * value / limit).collect();
            let series = Series::new([
                ("step", column(0)),
                ("lambda_max", column(1)),
                ("normalized", normalized),
                ("residual", column(2)),
                ("products", column(3)),
            ]);
            outcome.series.insert("sharpness".to_owned(), series);
        }
    }
}

impl<F, O> Watcher<Run<F, O>> for Measuring<F, O>
where
    F: Real,
    O: TrainableModel<F, Batch = (), Error = Infallible>,
{
    fn watch(&mut self, step: usize, run: &Run<F, O>) -> Result<ControlFlow<()>, Infallible> {
        if step > self.steps {
            return Ok(ControlFlow::Continue(()));
        }
        if step > 0 {
            self.twin.step()?;
        }
        let (network, regimes, twin) = (&mut self.network, &mut self.regimes, &self.twin);
        let beta = self.beta;
        let theta = &run.replica().theta;
        self.rows.try_push_with(step, || {
            Ok::<_, Infallible>(Row {
                loss: run.with_model(O::loss)?,
                norm: norm(theta),
                rel_l1: rel_l1(theta, &twin.replica().theta),
                census: regimes.census(network.map(theta), beta),
            })
        })?;
        if step == self.steps {
            let map = self.network.map(theta);
            self.regime_map = Some(map.iter().map(|x| Phase::of(*x, beta).shade()).collect());
        }
        if self.sharpness_every > 0 && step.is_multiple_of(self.sharpness_every) {
            self.measure_sharpness(step, run);
        }
        Ok(ControlFlow::Continue(()))
    }
}
