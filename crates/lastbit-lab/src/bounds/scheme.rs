//! Von Neumann analysis of a linear scheme.

use lastbit::pde::scheme::Scheme;
use lastbit::spectrum::certified::{Analysis, Stability};
use lastbit::spectrum::von_neumann::{amplification, frequencies, most_unstable, natural_dt};
use serde::{Deserialize, Serialize};

use super::stable_dt::{
    ModeResult, StableDt, eleven_digits, frequency, in_words as steps_in_words, last_stable,
};
use crate::error::Error;
use crate::series::Series;
use crate::settings::{Given, SchemeChoice};
use crate::validate::positive;

/// Intervals of the frequencies shown, per axis.
const SHOWN: usize = 64;

/// Settings of an analysis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct SchemeBoundsSettings {
    /// The scheme.
    #[serde(flatten)]
    pub choice: SchemeChoice,
    /// Step size at which to show the amplification; the largest stable one otherwise.
    pub dt: Option<f64>,
}

/// At which steps a scheme is stable, and how it amplifies frequencies at one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchemeBounds {
    /// Name of the scheme.
    pub scheme: String,
    /// Settings, complete.
    pub settings: SchemeBoundsSettings,
    /// The stable steps.
    pub stable_dt: StableDt,
    /// The step at which the amplification is shown.
    pub dt: f64,
    /// Whether the scheme is stable there; none where that could not be shown.
    pub stable: Option<bool>,
    /// The most amplified frequency there.
    pub most_unstable: ModeResult,
    /// The amplification over the frequencies there.
    pub amplification: Series,
    /// All this in sentences.
    #[serde(skip)]
    pub in_words: String,
}

impl SchemeBoundsSettings {
    /// Analyses the scheme.
    pub fn bounds(self, given: Given) -> Result<SchemeBounds, Error> {
        if let Some(dt) = self.dt {
            positive("--dt", dt)?;
        }
        let scheme = self.choice.build(given)?;
        let analysis = Analysis::new(&scheme);
        let steps = analysis.stable_steps();
        let dt = self
            .dt
            .or_else(|| last_stable(&steps))
            .unwrap_or_else(|| natural_dt(&scheme).unwrap_or(1.0));
        let stability = analysis.at(dt);
        let worst = match (&stability, most_unstable(&scheme, dt)) {
            // Where the excess is below the last digit, the frequency that was shown to be amplified.
            (Stability::CertainlyUnstable(mode), most) if most.amplification <= 1.0 + 1e-12 => {
                mode.clone()
            }
            (_, most) => most,
        };
        let (word, stable) = match &stability {
            Stability::CertainlyStable => ("stable".to_owned(), Some(true)),
            Stability::CertainlyUnstable(_) => ("unstable".to_owned(), Some(false)),
            Stability::Undecided(why) => (format!("undecided ({why})"), None),
        };
        let most_unstable = ModeResult::from(&worst);
        let in_words = format!(
            "{}: {}\nAt dt = {} it is {word}: the most amplified frequency is omega = {} (radians per \
             point), by a factor of {} per step.",
            self.choice.name(),
            steps_in_words(&scheme, &steps),
            eleven_digits(dt),
            frequency(&worst.omega),
            most_unstable.amplification,
        );
        Ok(SchemeBounds {
            scheme: self.choice.name(),
            stable_dt: StableDt::new(&scheme, &steps),
            dt,
            stable,
            most_unstable,
            amplification: curve(&scheme, dt),
            in_words,
            settings: self,
        })
    }
}

/// The amplification over the frequencies.
fn curve(scheme: &Scheme, dt: f64) -> Series {
    let omegas = frequencies(scheme.dimensions(), SHOWN);
    let names = ["omega", "omega_2"];
    let mut columns: Vec<(String, Vec<f64>)> = (0..scheme.dimensions())
        .map(|axis| (names[axis].to_owned(), omegas.iter().map(|omega| omega[axis]).collect()))
        .collect();
    let values = omegas.iter().map(|omega| amplification(scheme, dt, omega)).collect();
    columns.push(("amplification".to_owned(), values));
    Series { columns }
}
