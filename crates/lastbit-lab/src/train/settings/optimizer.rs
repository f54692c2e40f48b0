//! Section `optimizer`: the keys of all optimizers, their defaults and ranges, and the one they make.
//!
//! Formulas, memory and thresholds are in [`lastbit::optim::method`].

use lastbit::named::Named;
use lastbit::optim::method::{Method, Name};
use serde::{Deserialize, Serialize};

use super::{ConfigFile, Schedule};
use crate::error::Error;
use crate::validate::{fits_precision, not_negative, positive, within};

/// Section `optimizer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Optimizer {
    /// Which optimizer.
    pub name: Name,
    /// Learning rate.
    #[serde(alias = "lr")]
    pub dt: f64,
    /// Momentum.
    #[serde(default = "usual_momentum", alias = "momentum")]
    pub mu: f64,
    /// Adam's decay of the mean.
    #[serde(default = "usual_beta1")]
    pub beta1: f64,
    /// Adam's decay of the mean square.
    #[serde(default = "usual_beta2")]
    pub beta2: f64,
    /// Added to Adam's root.
    #[serde(default = "usual_epsilon")]
    pub epsilon: f64,
    /// Steps of the CFL step from one Hessian-vector product to the next.
    // This and the next two are left out where they are the usual: they concern one optimizer only.
    #[serde(default = "usual_curvature_every", skip_serializing_if = "is_usual_curvature_every")]
    pub curvature_every: u64,
    /// Share of the limit that the CFL step uses.
    #[serde(default = "usual_safety", skip_serializing_if = "is_usual_safety")]
    pub safety: f64,
    /// What has a limit of its own in the CFL step.
    #[serde(default, skip_serializing_if = "is_usual_limit")]
    pub limit: Limit,
    /// Weight decay.
    #[serde(default, alias = "weight-decay")]
    pub alpha: f64,
    /// How the learning rate changes.
    #[serde(default)]
    pub schedule: Schedule,
}

impl Optimizer {
    /// What the keys of its name make.
    pub fn method(&self) -> Method {
        let Self { mu, beta1, beta2, epsilon, safety, .. } = *self;
        match self.name {
            Name::Sgd => Method::Sgd,
            Name::HeavyBall => Method::HeavyBall { mu },
            Name::Nesterov => Method::Nesterov { mu },
            Name::NesterovPde => Method::NesterovPde { mu },
            Name::Adam => Method::Adam { beta1, beta2, epsilon },
            Name::Cfl => Method::Cfl {
                every: self.curvature_every,
                safety,
                by_layer: self.limit == Limit::Layer,
            },
        }
    }
}

/// The keys that an optimizer reads besides `lr`, `weight-decay` and `schedule`, by all their names.
fn keys_of(name: Name) -> &'static [&'static str] {
    match name {
        Name::Sgd => &[],
        Name::HeavyBall | Name::Nesterov | Name::NesterovPde => &["mu", "momentum"],
        Name::Adam => &["beta1", "beta2", "epsilon"],
        Name::Cfl => &["curvature-every", "safety", "limit"],
    }
}

/// The optimizers that read a key; none where it is a key of all, or unknown.
pub(super) fn users_of(key: &str) -> Vec<Name> {
    Name::ALL.iter().copied().filter(|name| keys_of(*name).contains(&key)).collect()
}

impl ConfigFile {
    pub(super) fn check_optimizer(&self) -> Result<(), Error> {
        let optimizer = &self.settings.optimizer;
        positive(&self.key("optimizer.lr"), optimizer.dt)?;
        not_negative(&self.key("optimizer.weight-decay"), optimizer.alpha)?;
        positive(&self.key("optimizer.epsilon"), optimizer.epsilon)?;
        for (key, value) in
            [("momentum", optimizer.mu), ("beta1", optimizer.beta1), ("beta2", optimizer.beta2)]
        {
            if !(0.0..1.0).contains(&value) {
                let expected = "a number from 0 to below 1";
                return Err(self.refuse(&format!("optimizer.{key}"), value, expected));
            }
        }
        within(
            &self.key("optimizer.curvature-every"),
            optimizer.curvature_every as usize,
            1,
            1 << 30,
        )?;
        if !(optimizer.safety > 0.0 && optimizer.safety <= 1.0) {
            let expected = "a number above 0 and at most 1";
            return Err(self.refuse("optimizer.safety", optimizer.safety, expected));
        }
        let precision = self.settings.training.precision;
        fits_precision(&self.key("optimizer.lr"), optimizer.dt, precision)?;
        fits_precision(&self.key("optimizer.epsilon"), optimizer.epsilon, precision)?;
        fits_precision(&self.key("optimizer.weight-decay"), optimizer.alpha, precision)
    }
}

fn usual_momentum() -> f64 {
    0.9
}

fn usual_beta1() -> f64 {
    0.9
}

fn usual_beta2() -> f64 {
    0.999
}

fn usual_epsilon() -> f64 {
    1e-8
}

fn usual_curvature_every() -> u64 {
    16
}

fn is_usual_curvature_every(steps: &u64) -> bool {
    *steps == usual_curvature_every()
}

fn usual_safety() -> f64 {
    0.9
}

fn is_usual_safety(share: &f64) -> bool {
    *share == usual_safety()
}

fn is_usual_limit(limit: &Limit) -> bool {
    *limit == Limit::default()
}

/// What has a limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Each layer.
    #[default]
    Layer,
    /// The network.
    Network,
}
