//! A judged run of the one-layer network's kernel, or of one of its linear equations.

use std::ops::ControlFlow;

use clap::ValueEnum;
use lastbit::activation::Activation;
use lastbit::correlate::{Correlator, Edges};
use lastbit::curve::Curve;
use lastbit::divergence::rel_l1;
use lastbit::objective::Objective;
use lastbit::optim::descent::Descent;
use lastbit::optim::nesterov::Nesterov;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::pde::one_layer::{OneLayer, Settings};
use lastbit::pde::quadratic::{Coefficients, Quadratic, Regime};
use lastbit::reduce::norm;
use lastbit::regimes::{Census, Phase, Regimes};
use lastbit::search::{Bracket, NoEdge, bisect};
use lastbit::spectrum::lanczos::{self, Ends, Stop};
use lastbit::spectrum::window::{euler_limit, nesterov_limit};
use lastbit::verdict::{Horizon, Judgement, judge};
use lastbit::{Dynamics, Real, Watcher};
use serde::{Deserialize, Serialize};

use super::{Precision, Twins, rounded, run_judged};
use crate::figure::{Figure, Panel, Pictures};
use crate::progress::Progress;
use crate::record::{Field, Outcome, Series};

/// Which equation, as flags and records name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Equation {
    /// The gradient flow of the network itself.
    NonLinear,
    /// Linearized around K*I = 0 with the residual a held constant.
    Linear,
    /// Linearized around K*I = 0 with a residual linear in the kernel.
    LinearResidual,
    /// Linearized where every position is activated.
    Activated,
    /// Weight decay alone.
    NotActivated,
}

/// A parameter whose edge of stability is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Largest stable step.
    Dt,
    /// Smallest stable weight decay.
    AlphaMin,
    /// Largest stable weight decay.
    AlphaMax,
}

/// An edge found by running, and what theory said.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundEdge {
    /// Where it lies.
    pub bracket: Bracket<Judgement>,
    /// Where theory has it.
    pub predicted: Option<f64>,
}

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRun {
    /// Image.
    pub image: Field,
    /// Edges of the image: a window, or a torus.
    pub edges: Edges,
    /// Rows and columns of the kernel.
    pub window: (usize, usize),
    /// Equation.
    pub equation: Equation,
    /// Residual `a` of the linear equation.
    pub a: f64,
    /// The network.
    pub network: Settings,
    /// Step size.
    pub dt: f64,
    /// Momentum, for Nesterov's scheme.
    pub mu: Option<f64>,
    /// Factor of the perturbed twin.
    pub k: f64,
    /// Where that factor stands.
    pub form: Form,
    /// Precision.
    pub precision: Precision,
    /// Steps.
    pub steps: usize,
    /// Steps between two measurements of the sharpness; none if 0.
    pub sharpness_every: usize,
    /// Steps at which to keep the kernel.
    pub snapshots: Vec<usize>,
    /// Initial kernel.
    pub initial: Vec<f64>,
}

impl KernelRun {
    /// Name of the field that holds the regime of each position at the end: -1, 0 or 1.
    pub const REGIMES: &'static str = "regimes";

    /// Name of the field that holds the kernel at a step.
    pub fn snapshot_name(step: usize) -> String {
        format!("step-{step}")
    }

    /// Curvature beyond which a step is unstable.
    pub fn limit(&self) -> f64 {
        match self.mu {
            None => euler_limit(self.dt),
            Some(mu) => nesterov_limit(self.dt, mu),
        }
    }

    /// The operator of this image and window.
    pub fn correlator(&self) -> Correlator {
        let Field { height, width, values } = &self.image;
        Correlator::new(values, (*height, *width), self.window, self.edges)
    }

    /// The linear equation, if it is one.
    pub fn quadratic(&self) -> Option<Quadratic> {
        let regime = match self.equation {
            Equation::NonLinear => return None,
            Equation::Linear => Regime::Transitioning { a: self.a },
            Equation::LinearResidual => Regime::TransitioningLinearResidual,
            Equation::Activated => Regime::Activated,
            Equation::NotActivated => Regime::NotActivated,
        };
        let correlator = self.correlator();
        let positions = correlator.positions().0 * correlator.positions().1;
        let coefficients = Coefficients::of(regime, &self.network, positions);
        Some(Quadratic::new(coefficients, correlator))
    }

    /// The network, with work space.
    pub fn one_layer(&self) -> OneLayer {
        OneLayer::new(self.network, self.correlator())
    }

    /// The same run with another value of one parameter.
    pub fn with(&self, over: Over, value: f64) -> Self {
        let mut changed = self.clone();
        match over {
            Over::Dt => changed.dt = value,
            Over::AlphaMin | Over::AlphaMax => changed.network.alpha = value,
        }
        changed
    }

    /// The verdict alone, with nothing measured beside it.
    pub fn judged(&self) -> Judgement {
        match self.precision {
            Precision::F32 => self.judged_in::<f32>(),
            Precision::F64 => self.judged_in::<f64>(),
        }
    }

    fn judged_in<F: Real>(&self) -> Judgement {
        match self.quadratic() {
            Some(quadratic) => self.judged_on::<F, _>(quadratic),
            None => self.judged_on::<F, _>(self.one_layer()),
        }
    }

    fn judged_on<F: Real, O: Objective<F>>(&self, objective: O) -> Judgement {
        let theta = rounded::<F>(&self.initial);
        let (horizon, plain) = (Horizon::of(self.steps), Perturbation::NONE);
        match self.mu {
            None => judge(&mut Descent::new(objective, theta, self.dt, plain), horizon, &mut []),
            Some(mu) => {
                let mut run = Nesterov::new(objective, &theta, self.dt, mu, plain);
                judge(&mut run, horizon, &mut [])
            }
        }
    }

    /// Searches the edge over a parameter by running, between half and twice what theory predicts
    /// unless told otherwise. `Err` says in words why there is none.
    pub fn search_edge(
        &self,
        over: Over,
        ends: (Option<f64>, Option<f64>),
        tolerance: f64,
        progress: &Progress,
    ) -> Result<FoundEdge, String> {
        let predicted = self.predicted_edge(over);
        let (low, high) = match (ends, predicted.filter(|edge| *edge > 0.0)) {
            ((Some(low), Some(high)), _) => (low, high),
            ((low, high), Some(edge)) => {
                // Not beyond the middle of the stable interval, where the other edge begins.
                let middle = self.middle_of_stable_decays();
                let (below, above) = match over {
                    Over::Dt => (0.5 * edge, 2.0 * edge),
                    Over::AlphaMin => (0.5 * edge, middle.unwrap_or(2.0 * edge).min(2.0 * edge)),
                    Over::AlphaMax => (middle.unwrap_or(0.5 * edge).max(0.5 * edge), 2.0 * edge),
                };
                (low.unwrap_or(below), high.unwrap_or(above))
            }
            (_, None) => return Err("theory predicts no positive edge here".to_owned()),
        };
        let trial = |at: f64| {
            let judged = self.with(over, at).judged();
            progress.advance(self.steps as u64);
            (judged.verdict.kind() == "stable", judged)
        };
        bisect(low, high, tolerance, trial).map(|bracket| FoundEdge { bracket, predicted }).map_err(
            |NoEdge::SameAtBothEnds { holds, probes }| {
                let kind = if holds { "stable" } else { "not stable" };
                format!("{kind} at {} and at {}", probes[0].at, probes[1].at)
            },
        )
    }

    /// Between the smallest and the largest stable weight decay of a linear equation.
    fn middle_of_stable_decays(&self) -> Option<f64> {
        let [low, high] = [Over::AlphaMin, Over::AlphaMax].map(|over| self.predicted_edge(over));
        low.zip(high).map(|(low, high)| 0.5 * (low.max(0.0) + high))
    }

    /// What theory says: of a linear equation from the ends of its spectrum, of the network from
    /// the sharpness at the minimum that gradient descent finds. None where there is no edge.
    pub fn predicted_edge(&self, over: Over) -> Option<f64> {
        let stop = Stop { tolerance: 1e-10, most: 400, ends: Ends::Both };
        let start = lanczos::random_start(self.initial.len());
        // Without its decay the spectrum only moves: α enters as α times the identity.
        let (curvatures, alpha) = match self.quadratic() {
            Some(quadratic) => {
                let mut bare = quadratic.with_alpha(0.0);
                let found = lanczos::extremes(&start, stop, |v, out| {
                    bare.hessian_vector(v, v, out);
                });
                (found, self.network.alpha)
            }
            None => {
                let mut network = self.one_layer();
                let theta = self.minimum(&mut network)?;
                let found = lanczos::extremes(&start, stop, |v, out| {
                    network.hessian_vector(&theta, v, out);
                });
                // The minimum moves with the decay, so only the step has a prediction.
                if over != Over::Dt {
                    return None;
                }
                (found, 0.0)
            }
        };
        let (low, high) = (curvatures.smallest.value, curvatures.largest.value);
        match over {
            Over::Dt if alpha + low <= 0.0 => None,
            // limit(dt) = z_max; both limits are powers of dt.
            Over::Dt => Some(match self.mu {
                None => 2.0 / (alpha + high),
                Some(mu) => (4.0 / ((1.0 + 2.0 * mu) * (alpha + high))).sqrt(),
            }),
            Over::AlphaMin => Some(-low),
            Over::AlphaMax => Some(self.limit() - high),
        }
    }

    /// A minimum of the network's loss, by gradient descent at half its momentary stable step.
    fn minimum(&self, network: &mut OneLayer) -> Option<Vec<f64>> {
        let mut theta = self.initial.clone();
        let mut gradient = vec![0.0; theta.len()];
        let mut direction = lanczos::random_start(theta.len());
        for _ in 0..500 {
            let stop = Stop { tolerance: 1e-2, most: 30, ends: Ends::Largest };
            let found = lanczos::extremes(&direction, stop, |v, out| {
                network.hessian_vector(&theta, v, out);
            });
            direction = found.largest.vector;
            let dt = 1.0 / found.largest.value.max(self.network.alpha);
            for _ in 0..20 {
                network.gradient(&theta, &mut gradient);
                Perturbation::NONE.step(&mut theta, &gradient, dt);
            }
            if norm(&gradient) <= 1e-12 * norm(&self.initial) {
                return Some(theta);
            }
        }
        None
    }

    /// Runs it.
    pub fn run(&self, progress: &Progress) -> Outcome {
        match self.precision {
            Precision::F32 => self.run_in::<f32>(progress),
            Precision::F64 => self.run_in::<f64>(progress),
        }
    }

    fn run_in<F: Real>(&self, progress: &Progress) -> Outcome {
        match self.quadratic() {
            Some(quadratic) => self.descend::<F, _>(&quadratic, progress),
            None => self.descend::<F, _>(&self.one_layer(), progress),
        }
    }

    fn descend<F: Real, O: Objective<F>>(&self, objective: &O, progress: &Progress) -> Outcome {
        let theta = rounded::<F>(&self.initial);
        let perturbed = Perturbation { k: self.k, form: self.form };
        match self.mu {
            None => {
                let start = |p| Descent::new(objective.clone(), theta.clone(), self.dt, p);
                self.watch(start(Perturbation::NONE), start(perturbed), progress)
            }
            Some(mu) => {
                let start = |p| Nesterov::new(objective.clone(), &theta, self.dt, mu, p);
                self.watch(start(Perturbation::NONE), start(perturbed), progress)
            }
        }
    }

    fn watch<D: Descending>(&self, run: D, twin: D, progress: &Progress) -> Outcome {
        let mut measuring = Measuring {
            steps: self.steps,
            sharpness_every: self.sharpness_every,
            beta: match self.network.activation {
                Activation::Swish { beta } => beta,
                Activation::Relu | Activation::Tanh => 1.0,
            },
            twin,
            network: self.one_layer(),
            regimes: Regimes::default(),
            direction: lanczos::random_start(self.initial.len()),
            rows: Curve::default(),
            sharpness: Vec::new(),
            regime_map: None,
        };
        let (mut outcome, kept) =
            run_judged(run, self.steps, &self.snapshots, &[], Twins::Own, &mut measuring, progress);
        let (height, width) = self.window;
        for snapshot in kept {
            let values = snapshot.state[..height * width].to_vec();
            let field = Field { height, width, values };
            outcome.field(Self::snapshot_name(snapshot.step), field);
        }
        if let Some(values) = measuring.regime_map.take() {
            let (height, width) = measuring.network.positions();
            outcome.field(Self::REGIMES.to_owned(), Field { height, width, values });
        }
        measuring.into_outcome(self.limit(), &mut outcome);
        outcome
    }
}

/// Pictures of the regimes at the end of some cells, each with its label.
pub fn regime_pictures(id: &str, cells: &[(&str, String)]) -> Figure {
    let panel = |(cell, label): &(&str, String)| Panel {
        label: label.clone(),
        cell: (*cell).to_owned(),
        field: KernelRun::REGIMES.to_owned(),
    };
    let panels = cells.iter().map(panel).collect();
    let caption = "Of each position: white activated, grey transitioning, black not activated.";
    Figure::pictures(id, "Regimes", caption, Pictures { range: [-1.0, 1.0], panels })
}

/// A descent whose objective can be looked at.
trait Descending: Dynamics {
    type Of: Objective<Self::Scalar>;
    fn look<T>(&self, at: impl FnOnce(&mut Self::Of, &[Self::Scalar]) -> T) -> T;
}

impl<F: Real, O: Objective<F>> Descending for Descent<F, O> {
    type Of = O;
    fn look<T>(&self, at: impl FnOnce(&mut O, &[F]) -> T) -> T {
        self.with_objective(at)
    }
}

impl<F: Real, O: Objective<F>> Descending for Nesterov<F, O> {
    type Of = O;
    fn look<T>(&self, at: impl FnOnce(&mut O, &[F]) -> T) -> T {
        self.with_objective(at)
    }
}

/// What is measured at a step.
struct Row {
    loss: f64,
    norm: f64,
    rel_l1: f64,
    census: Census,
}

/// Watches loss, perturbed twin, regimes and sharpness.
struct Measuring<D> {
    steps: usize,
    sharpness_every: usize,
    beta: f64,
    twin: D,
    network: OneLayer,
    regimes: Regimes,
    /// The eigenvector found last, to start the next search from.
    direction: Vec<f64>,
    rows: Curve<Row>,
    /// Step, `lambda_max`, residual, products.
    sharpness: Vec<[f64; 4]>,
    /// The regime of each position at the end of the run.
    regime_map: Option<Vec<f64>>,
}

impl<D: Descending> Measuring<D> {
    fn measure_sharpness(&mut self, step: usize, run: &D) {
        let stop = Stop { tolerance: 1e-6, most: 60, ends: Ends::Largest };
        // A tenth of another direction: from an exact eigenvector alone no other would be found,
        // although another eigenvalue may have become the largest.
        let mut start = lanczos::random_start(self.direction.len());
        let tenth = 0.1 / (start.len() as f64).sqrt();
        start.iter_mut().zip(&self.direction).for_each(|(s, d)| *s = d + tenth * *s);
        let found = run.look(|objective, theta| {
            let mut product = vec![D::Scalar::default(); theta.len()];
            lanczos::extremes(&start, stop, |v, out| {
                objective.hessian_vector(theta, &rounded::<D::Scalar>(v), &mut product);
                out.iter_mut().zip(&product).for_each(|(o, p)| *o = p.to_f64());
            })
        });
        let (largest, products) = (found.largest, found.products as f64);
        self.sharpness.push([step as f64, largest.value, largest.residual, products]);
        if largest.value.is_finite() {
            self.direction = largest.vector;
        }
    }

    fn into_outcome(self, limit: f64, outcome: &mut Outcome) {
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
            outcome.number("loss", last.loss);
            outcome.number("rel_l1", last.rel_l1);
        }
        let second_half = &rows[rows.len() / 2..];
        let share = |of: fn(&Census) -> f64| {
            let sum: f64 = second_half.iter().map(|(_, row)| of(&row.census)).sum();
            sum / second_half.len().max(1) as f64
        };
        outcome.number("mean_activated", share(|census| census.activated));
        outcome.number("mean_transitioning", share(|census| census.transitioning));
        outcome.number("mean_not_activated", share(|census| census.not_activated));
        outcome.number("mean_changed", share(|census| census.changed));
        if let Some([_, last, residual, _]) = self.sharpness.last() {
            outcome.number("lambda_max", *last);
            outcome.number("lambda_max_residual", *residual);
            outcome.number("normalized_sharpness", 2.0 * last / limit);
            let late = self.sharpness[self.sharpness.len() / 2..].iter();
            let normalized = late.map(|[_, value, ..]| 2.0 * value / limit);
            outcome.number("late_normalized_sharpness", normalized.fold(f64::MIN, f64::max));
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

impl<D: Descending> Watcher<D> for Measuring<D> {
    fn watch(&mut self, step: usize, run: &D) -> ControlFlow<()> {
        if step > self.steps {
            return ControlFlow::Continue(());
        }
        if step > 0 {
            self.twin.step();
        }
        let (network, regimes, twin) = (&mut self.network, &mut self.regimes, &self.twin);
        let beta = self.beta;
        self.rows.push_with(step, || {
            run.look(|objective, theta| Row {
                loss: objective.loss(theta),
                norm: norm(theta),
                rel_l1: rel_l1(theta, &twin.state()[..theta.len()]),
                census: regimes.census(network.map(theta), beta),
            })
        });
        if step == self.steps {
            let phases = run.look(|_, theta| {
                let map = self.network.map(theta);
                map.iter().map(|x| Phase::of(*x, beta).shade()).collect()
            });
            self.regime_map = Some(phases);
        }
        if self.sharpness_every > 0 && step.is_multiple_of(self.sharpness_every) {
            self.measure_sharpness(step, run);
        }
        ControlFlow::Continue(())
    }
}
