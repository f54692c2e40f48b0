//! Where the stability of a run ends: by running, and by theory.

use std::convert::Infallible;

use lastbit::Real;
use lastbit::krylov::{EigenOptions, eigenpairs, random_start};
use lastbit::objective::Objective;
use lastbit::optim::perturbation::Perturbation;
use lastbit::pde::one_layer::OneLayer;
use lastbit::reduce::norm;
use lastbit::search::{Bracket, EdgeSearch, Probe};
use lastbit::verdict::{Horizon, Judgement, judge};

use super::KernelRun;
use crate::error::Error;
use crate::number::{digits, significant};
use crate::progress::Progress;
use crate::simulate::{Precision, Tick};

lastbit::named_enum! {
    /// A parameter whose edge of stability is searched.
    pub enum Over {
        /// Largest stable step.
        Dt = "dt",
        /// Smallest stable weight decay.
        AlphaMin = "alpha-min",
        /// Largest stable weight decay.
        AlphaMax = "alpha-max",
    }
}

/// An edge of stability found by running, and the prediction of theory.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelEdge {
    /// The edge lies within.
    pub bracket: Bracket,
    /// All runs, in order.
    pub probes: Vec<Probe<Judgement>>,
    /// The edge that theory predicts; none where it predicts none.
    pub predicted: Option<f64>,
}

impl KernelRun {
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
    pub fn judged(&self, progress: &Progress) -> Result<Judgement, Error> {
        match self.precision {
            Precision::F32 => self.judged_in::<f32>(progress),
            Precision::F64 => self.judged_in::<f64>(progress),
        }
    }

    fn judged_in<F: Real>(&self, progress: &Progress) -> Result<Judgement, Error> {
        let horizon = Horizon::of(self.steps);
        let mut tick = Tick::new(progress, self.steps);
        let Ok(judged) = match self.quadratic() {
            Some(quadratic) => {
                judge(&mut self.gradient_descent::<F, _>(quadratic), horizon, &mut [&mut tick])
            }
            None => {
                let mut run = self.gradient_descent::<F, _>(self.one_layer());
                judge(&mut run, horizon, &mut [&mut tick])
            }
        };
        tick.finished()?;
        Ok(judged)
    }

    /// Searches the edge over a parameter by running, between half and twice the prediction of theory
    /// where no `ends` are given. The inner `Err` says in words why there is none.
    ///
    /// # Errors
    ///
    /// If it was stopped.
    pub fn search_edge(
        &self,
        over: Over,
        ends: (Option<f64>, Option<f64>),
        tolerance: f64,
        progress: &Progress,
    ) -> Result<Result<KernelEdge, String>, Error> {
        let predicted = self.predicted_edge(over);
        let (low, high) = match (ends, predicted.filter(|edge| *edge > 0.0)) {
            ((Some(low), Some(high)), _) => (low, high),
            ((low, high), Some(edge)) => {
                // Not beyond the middle of the stable decays, where the other edge begins.
                let (below, above) = match over {
                    Over::Dt => (0.5 * edge, 2.0 * edge),
                    Over::AlphaMin => (0.5 * edge, self.middle_decay(2.0 * edge).min(2.0 * edge)),
                    Over::AlphaMax => (self.middle_decay(0.5 * edge).max(0.5 * edge), 2.0 * edge),
                };
                (low.unwrap_or(below), high.unwrap_or(above))
            }
            (_, None) => return Ok(Err("theory predicts no positive edge here".to_owned())),
        };
        let mut search = EdgeSearch::new(tolerance, |at| {
            let judged = self.with(over, at).judged(progress)?;
            Ok::<_, Error>((judged.verdict.is_stable(), judged))
        });
        let bracket = search.bisect(low, high)?;
        let probes = search.into_probes();
        let kind = |probe: &Probe<Judgement>| match probe.holds {
            Some(true) => "stable",
            Some(false) => "not stable",
            None => "undecided",
        };
        let end = |at: f64| {
            let probe = probes.iter().find(|probe| probe.at == at).expect("both ends are probed");
            format!("{} at {}", kind(probe), digits(significant(at, 12)))
        };
        Ok(match bracket {
            Some(bracket) => Ok(KernelEdge { bracket, probes, predicted }),
            None => Err(format!("{} and {}", end(low), end(high))),
        })
    }

    /// Between the smallest and the largest stable weight decay of a linear equation, or `otherwise`.
    fn middle_decay(&self, otherwise: f64) -> f64 {
        let [low, high] = [Over::AlphaMin, Over::AlphaMax].map(|over| self.predicted_edge(over));
        low.zip(high).map_or(otherwise, |(low, high)| 0.5 * (low.max(0.0) + high))
    }

    /// The edge that theory predicts: of a linear equation from the ends of its spectrum, of the
    /// network from the sharpness at the minimum that gradient descent finds. None where there is
    /// no edge.
    pub fn predicted_edge(&self, over: Over) -> Option<f64> {
        let options = EigenOptions::both_ends(1e-10, 400);
        // Without its decay the spectrum only moves: α enters as α times the identity.
        let (curvatures, alpha) = match self.quadratic() {
            Some(quadratic) => {
                let mut bare = quadratic.with_alpha(0.0);
                let hessian =
                    |v: &Vec<f64>, out: &mut Vec<f64>| bare.hessian_vector(v.as_slice(), v, out);
                let Ok(found) = eigenpairs(&self.initial, vec![], options, hessian);
                (found, self.network.alpha)
            }
            // The minimum moves with the decay, so only the step has a prediction.
            None if over != Over::Dt => return None,
            None => {
                let mut network = self.one_layer();
                let theta = self.minimum(&mut network)?;
                let hessian =
                    |v: &Vec<f64>, out: &mut Vec<f64>| network.hessian_vector(&theta, v, out);
                let Ok(found) = eigenpairs(&theta, vec![], options, hessian);
                (found, 0.0)
            }
        };
        let (low, high) = (curvatures.lambda_min(), curvatures.lambda_max());
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
        let Ok::<_, Infallible>(start) = random_start(&theta);
        let mut known = vec![start];
        for _ in 0..500 {
            let hessian = |v: &Vec<f64>, out: &mut Vec<f64>| network.hessian_vector(&theta, v, out);
            let options = EigenOptions::largest(1e-2, 30);
            let Ok(found) = eigenpairs(&theta, known, options, hessian);
            let dt = 1.0 / found.lambda_max().max(self.network.alpha);
            known = found.into_vectors();
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
}
