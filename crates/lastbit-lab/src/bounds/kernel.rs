//! Stable weight decays of a one-layer network on an image, by the linear equation of Swish at 0.

use std::path::{Path, PathBuf};

use lastbit::activation::ActivationKind;
use lastbit::correlate::{Correlator, Edges};
use lastbit::optim::method::Method;
use lastbit::spectrum::window::{
    AlphaInterval, Range, alpha_interval, largest_dt, nesterov_limit_of_the_paper, patch_extremes,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Error;
use crate::figure::{Figure, Panel, Pictures};
use crate::plan::{Plan, Task};
use crate::progress::Monitor;
use crate::record::{Outcome, Page};
use crate::runner::{Existing, Job, run};
use crate::series::Field;
use crate::settings::{Given, Network};
use crate::validate::positive;

/// Settings of an analysis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct KernelBoundsSettings {
    /// The network and its image.
    #[serde(flatten)]
    pub network: Network,
    /// Residual a = yhat - y; that of an untrained network, s(-bias) - label, otherwise.
    pub a: Option<f64>,
    /// Step size for which to bound the weight decay.
    pub dt: f64,
    /// Momentum of Nesterov's scheme.
    pub mu: f64,
    /// Weight decay for which to bound the step.
    pub alpha: Option<f64>,
    /// Most products with the patch operator.
    pub products: usize,
}

impl Default for KernelBoundsSettings {
    fn default() -> Self {
        let network = Network::default();
        Self { network, a: None, dt: 0.001, mu: 0.9, alpha: None, products: 400 }
    }
}

/// An open interval of stable weight decays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DecayInterval {
    /// Decay must be larger.
    pub alpha_min: f64,
    /// Decay must be smaller.
    pub alpha_max: f64,
    /// No weight decay stabilizes the step.
    pub empty: bool,
}

impl From<AlphaInterval> for DecayInterval {
    fn from(interval: AlphaInterval) -> Self {
        let AlphaInterval { min, max } = interval;
        Self { alpha_min: min, alpha_max: max, empty: interval.is_empty() }
    }
}

/// The stable weight decays of one scheme.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SchemeDecays {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// For a kernel as large as the image.
    pub image_sized: DecayInterval,
    /// For the actual kernel size.
    pub windowed: DecayInterval,
}

/// Bounds of the weight decay and of the step; those of a kernel as large as the image at the top.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelBounds {
    /// The stable weight decays under forward Euler.
    #[serde(flatten)]
    pub interval: DecayInterval,
    /// Settings, complete.
    pub settings: KernelBoundsSettings,
    /// Residual.
    pub a: f64,
    /// For the actual kernel size.
    pub windowed: WindowedBounds,
    /// Of Nesterov's scheme.
    pub nesterov: NesterovBounds,
    /// Largest stable step at the weight decay that was asked for; the inner `None` where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dt_max: Option<Option<f64>>,
    /// Hash of the image.
    pub image_hash: String,
    /// The intervals, scheme by scheme.
    #[serde(skip)]
    pub schemes: [SchemeDecays; 3],
    /// `1 - dt (alpha + q e)` over the frequencies of the image: 0 to pi downwards, -pi to pi across.
    #[serde(skip)]
    pub amplification: Field,
}

/// Bounds for the actual kernel size, by the eigenvalues of the patch operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowedBounds {
    /// The stable weight decays under forward Euler.
    #[serde(flatten)]
    pub interval: DecayInterval,
    /// Largest eigenvalue.
    pub eig_max: f64,
    /// Smallest eigenvalue.
    pub eig_min: f64,
    /// Largest residual of the two.
    pub residual: f64,
    /// Products with the patch operator.
    pub products: usize,
    /// As in [`KernelBounds`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dt_max: Option<Option<f64>>,
}

/// Bounds of Nesterov's scheme.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NesterovBounds {
    /// Smallest stable weight decay.
    pub alpha_min: f64,
    /// Largest, by the limit of the paper.
    pub alpha_max: f64,
    /// Largest, by the exact limit.
    pub alpha_max_exact: f64,
    /// Smallest, for the actual kernel size.
    pub windowed_alpha_min: f64,
    /// Largest, for the actual kernel size, by the exact limit.
    pub windowed_alpha_max: f64,
}

impl KernelBoundsSettings {
    /// Computes the bounds.
    pub fn bounds(self, given: Given) -> Result<KernelBounds, Error> {
        positive("--dt", self.dt)?;
        if !(0.0..1.0).contains(&self.mu) {
            return Err(Error::setting("--mu", self.mu, "a number from 0 to below 1"));
        }
        if self.network.activation != ActivationKind::Swish {
            let expected = "swish: the bounds are those of the linear equation of Swish at 0";
            return Err(Error::setting("--activation", self.network.activation, expected));
        }
        if self.a.is_some() {
            given.refuse_unused(&["label", "bias"], "--a")?;
        }
        let image = self.network.image(given)?;
        let network = self.network.settings(self.alpha.unwrap_or(0.0))?;
        let size = (image.height, image.width);
        let mut correlator =
            Correlator::new(&image.values, size, self.network.window(), Edges::Valid);
        let positions = correlator.positions().0 * correlator.positions().1;
        let a = self.a.unwrap_or(lastbit::exp::sigmoid(-network.bias) - network.label);
        if !a.is_finite() {
            return Err(Error::setting("--a", a, "a finite number"));
        }
        let q = a * network.pooling.weight(positions) * self.network.beta / 2.0;
        let (height, width, power) = correlator.power_map();
        let (min, max) =
            power.iter().fold((f64::INFINITY, 0.0), |(low, high), p| (p.min(low), p.max(high)));
        let whole = Range { min, max };
        let found = patch_extremes(&mut correlator, self.products.max(2));
        let windowed = Range { min: found.lambda_min().max(0.0), max: found.lambda_max() };
        let residuals = found.largest.iter().chain(&found.smallest).map(|pair| pair.residual);
        let limits = [
            ("forward Euler", Method::Sgd.threshold(self.dt)),
            ("Nesterov, the paper's", nesterov_limit_of_the_paper(self.dt)),
            ("Nesterov, exact", Method::NesterovPde { mu: self.mu }.threshold(self.dt)),
        ];
        let schemes = limits.map(|(scheme, limit)| SchemeDecays {
            scheme,
            image_sized: alpha_interval(q, whole, limit).into(),
            windowed: alpha_interval(q, windowed, limit).into(),
        });
        let [euler, of_paper, exact] = schemes;
        let dt_max = |range| self.alpha.map(|alpha| largest_dt(alpha, q, range));
        let alpha = self.alpha.unwrap_or(0.0);
        let factor = |e: f64| 1.0 - self.dt * (alpha + q * e);
        let amplification = power.into_iter().map(factor).collect();
        Ok(KernelBounds {
            interval: euler.image_sized,
            a,
            windowed: WindowedBounds {
                interval: euler.windowed,
                eig_max: windowed.max,
                eig_min: windowed.min,
                residual: residuals.fold(f64::NAN, f64::max),
                products: found.matvecs,
                dt_max: dt_max(windowed),
            },
            nesterov: NesterovBounds {
                alpha_min: of_paper.image_sized.alpha_min,
                alpha_max: of_paper.image_sized.alpha_max,
                alpha_max_exact: exact.image_sized.alpha_max,
                windowed_alpha_min: exact.windowed.alpha_min,
                windowed_alpha_max: exact.windowed.alpha_max,
            },
            dt_max: dt_max(whole),
            image_hash: Network::image_hash(&image),
            schemes,
            amplification: Field { height, width, values: amplification },
            settings: self,
        })
    }
}

impl KernelBounds {
    /// Writes a record of the bounds with the amplification as a picture; returns its folder.
    pub fn write_map(&self, out: &Path, monitor: &dyn Monitor) -> Result<PathBuf, Error> {
        let mut settings = json!(self.settings);
        settings["image-hash"] = json!(self.image_hash);
        let (whole, windowed) = (self.interval, self.windowed.interval);
        let amplification = self.amplification.clone();
        let task = Task::simulation("bounds", settings.clone(), 1, move |_| {
            let mut outcome = Outcome::default();
            outcome.number("alpha_min", whole.alpha_min);
            outcome.number("alpha_max", whole.alpha_max);
            outcome.number("windowed_alpha_min", windowed.alpha_min);
            outcome.number("windowed_alpha_max", windowed.alpha_max);
            outcome.field("amplifier".to_owned(), amplification.clone());
            Ok(outcome)
        });
        let page = Page {
            title: "Amplifier of the linearized one-layer network".to_owned(),
            claim: "An analysis of one's own.".to_owned(),
            method: "A(omega) = 1 - dt (alpha + a p beta |I^(omega)|²/2), for a kernel as large as the image."
                .to_owned(),
            reference: String::new(),
            differences: vec![],
        };
        let job = Job {
            id: "bounds-kernel",
            scale: None,
            device: None,
            page,
            plan: Plan { settings, cells: vec![task] },
            not_tested: None,
            checks: &|_| vec![],
            figures: &|_| {
                let caption = "Frequencies 0 to pi downwards, -pi to pi across. Grey: attenuated; blue: \
                               below -1, red: above 1, both amplified.";
                let panel = Panel {
                    label: "A(omega)".to_owned(),
                    cell: "bounds".to_owned(),
                    field: "amplifier".to_owned(),
                };
                let pictures = Pictures { range: [-1.0, 1.0], panels: vec![panel] };
                vec![Figure::pictures("amplifier", "Amplifier", caption, pictures)]
            },
            shows_parts: false,
        };
        let (store, _) = run(job, out, Existing::Reuse, monitor)?;
        Ok(store.folder().to_owned())
    }
}
