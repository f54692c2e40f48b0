//! A judged run of the one-layer network's kernel, or of one of its linear equations.

mod edge;
mod measuring;

pub use edge::{KernelEdge, Over};

use std::convert::Infallible;

use lastbit::Real;
use lastbit::batches::FullBatch;
use lastbit::correlate::{Correlator, Edges};
use lastbit::objective::TrainableModel;
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::pde::one_layer::{OneLayer, Settings};
use lastbit::pde::quadratic::{Coefficients, Quadratic, Regime};
use lastbit::reduce::max_abs;
use lastbit::training::GradientDescent;

use self::measuring::Measuring;
use super::pde::snapshot_name;
use super::{Precision, Twins, rounded, run_judged};
use crate::error::Error;
use crate::figure::{Figure, Panel, Pictures};
use crate::progress::Progress;
use crate::record::Outcome;
use crate::series::Field;

lastbit::named_enum! {
    /// Which equation, as flags and records name it.
    pub enum Equation {
        /// The gradient flow of the network itself.
        NonLinear = "non-linear",
        /// Linearized around K*I = 0 with the residual a held constant.
        Linear = "linear",
        /// Linearized around K*I = 0 with a residual linear in the kernel.
        LinearResidual = "linear-residual",
        /// Linearized where every position is activated.
        Activated = "activated",
        /// Weight decay alone.
        NotActivated = "not-activated",
    }
}

type Run<F, O> = GradientDescent<F, O, FullBatch<()>>;

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
    /// Loss at the end: a number.
    pub const LOSS: &'static str = "loss";

    /// RelL1 of the perturbed twin at the end: a number.
    pub const REL_L1: &'static str = "rel_l1";

    /// Share of the positions that change regime in a step, mean over the second half: a number.
    pub const MEAN_CHANGED: &'static str = "mean_changed";

    /// Sharpness at the end: a number.
    pub const LAMBDA_MAX: &'static str = "lambda_max";

    /// Largest normalized sharpness of the second half: a number.
    pub const LATE_NORMALIZED_SHARPNESS: &'static str = "late_normalized_sharpness";

    /// Name of the field that holds the regime of each position at the end: -1, 0 or 1.
    pub const REGIMES: &'static str = "regimes";

    fn method(&self) -> Method {
        self.mu.map_or(Method::Sgd, |mu| Method::NesterovPde { mu })
    }

    /// The run itself, unperturbed.
    fn gradient_descent<F, O>(&self, network: O) -> Run<F, O>
    where
        F: Real,
        O: TrainableModel<F, Batch = (), Error = Infallible>,
    {
        let theta = rounded::<F>(&self.initial);
        let optimizer = Optimizer { method: self.method(), alpha: 0.0 };
        // Kernels may start far below 1 and stay there.
        let scale = max_abs(&theta);
        GradientDescent::full_batch(network, optimizer, self.dt, theta).with_scale(scale)
    }

    /// Curvature beyond which a step is unstable.
    pub fn limit(&self) -> f64 {
        self.method().threshold(self.dt)
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

    /// Runs it.
    pub fn run(&self, progress: &Progress) -> Result<Outcome, Error> {
        match self.precision {
            Precision::F32 => self.run_in::<f32>(progress),
            Precision::F64 => self.run_in::<f64>(progress),
        }
    }

    fn run_in<F: Real>(&self, progress: &Progress) -> Result<Outcome, Error> {
        match self.quadratic() {
            Some(quadratic) => self.descend::<F, _>(&quadratic, progress),
            None => self.descend::<F, _>(&self.one_layer(), progress),
        }
    }

    fn descend<F, O>(&self, network: &O, progress: &Progress) -> Result<Outcome, Error>
    where
        F: Real,
        O: TrainableModel<F, Batch = (), Error = Infallible>,
    {
        let run = self.gradient_descent(network.clone());
        let twin = run.clone().with_perturbation(Perturbation { k: self.k, form: self.form });
        let mut measuring = Measuring::new(self, twin);
        let (mut outcome, kept) = run_judged(
            run,
            self.steps,
            &self.snapshots,
            (&[], &|_| vec![]),
            Twins::Own,
            &mut measuring,
            progress,
        )?;
        let (height, width) = self.window;
        for snapshot in kept {
            let values = snapshot.state[..height * width].to_vec();
            let field = Field { height, width, values };
            outcome.field(snapshot_name(snapshot.step), field);
        }
        measuring.into_outcome(self.limit(), &mut outcome);
        Ok(outcome)
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
