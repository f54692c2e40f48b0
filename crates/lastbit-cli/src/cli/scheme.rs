//! Which linear scheme: one of the textbook, or the user's own stencil from a TOML file.

use std::path::{Path, PathBuf};

use clap::Args;
use lastbit::pde::scheme::{Scheme, SchemeError, Term};
use lastbit::pde::textbook;
use serde::{Deserialize, Serialize};

use crate::cli::settings::Called;
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::input::read_toml;
use lastbit_lab::validate::{not_negative, positive};

lastbit::named_enum! {
    /// A scheme of the textbook.
    pub enum Name {
        /// u_t = kappa u_xx, forward Euler.
        Heat = "heat",
        /// u_t = kappa (u_xx + u_yy), forward Euler.
        Heat2d = "heat-2d",
        /// u_t = kappa u_xx, implicit.
        HeatCrankNicolson = "heat-crank-nicolson",
        /// u_t = kappa u_xx - lambda u, forward Euler.
        ReactionDiffusion = "reaction-diffusion",
        /// The same in the plane.
        ReactionDiffusion2d = "reaction-diffusion-2d",
        /// u_t + speed u_x = 0, forward in time, centred in space.
        AdvectionFtcs = "advection-ftcs",
        /// u_t + speed u_x = 0, difference against the flow.
        AdvectionUpwind = "advection-upwind",
        /// u_t + speed u_x = 0, second order.
        AdvectionLaxWendroff = "advection-lax-wendroff",
        /// u_tt = speed^2 u_xx.
        WaveLeapFrog = "wave-leap-frog",
        /// Nesterov's recursion at curvature z.
        Nesterov = "nesterov",
        /// Nesterov's recursion on the heat equation.
        NesterovHeat = "nesterov-heat",
    }
}

/// The choice of a scheme and its parameters.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Choice {
    /// A scheme of the textbook.
    #[arg(value_parser = choice::<Name>(), conflicts_with = "file")]
    pub scheme: Option<Name>,

    /// A scheme of your own: TOML with `dimensions` and a list of `[[term]]`, each with `level`
    /// (1 new, 0 present, -1 before), `offset` and `coefficient` (a polynomial in dt).
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Mesh width.
    #[arg(long, default_value_t = 1.0)]
    pub dx: f64,

    /// Diffusivity.
    #[arg(long, default_value_t = 1.0)]
    pub kappa: f64,

    /// Decay.
    #[arg(long, default_value_t = 1.0)]
    pub lambda: f64,

    /// Speed of advection or of waves.
    #[arg(long, default_value_t = 1.0)]
    pub speed: f64,

    /// Momentum.
    #[arg(long, default_value_t = 0.9)]
    pub mu: f64,

    /// Curvature.
    #[arg(long, default_value_t = 1.0)]
    pub z: f64,
}

impl Choice {
    /// Name for people.
    pub fn name(&self) -> String {
        match (&self.scheme, &self.file) {
            (Some(name), _) => name.to_string(),
            (None, Some(file)) => file.display().to_string(),
            (None, None) => "none".to_owned(),
        }
    }

    /// Parameters that the scheme does not have.
    fn unused(&self) -> &'static [&'static str] {
        match self.scheme {
            None => &["dx", "kappa", "lambda", "speed", "mu", "z"],
            Some(Name::Heat | Name::Heat2d | Name::HeatCrankNicolson) => {
                &["lambda", "speed", "mu", "z"]
            }
            Some(Name::ReactionDiffusion | Name::ReactionDiffusion2d) => &["speed", "mu", "z"],
            Some(
                Name::AdvectionFtcs
                | Name::AdvectionUpwind
                | Name::AdvectionLaxWendroff
                | Name::WaveLeapFrog,
            ) => &["kappa", "lambda", "mu", "z"],
            Some(Name::Nesterov) => &["dx", "kappa", "lambda", "speed"],
            Some(Name::NesterovHeat) => &["lambda", "speed", "z"],
        }
    }

    /// The scheme itself; `called` tells which parameters were asked for.
    pub fn build(&self, called: Called) -> Result<Scheme, Error> {
        positive("--dx", self.dx)?;
        positive("--kappa", self.kappa)?;
        not_negative("--lambda", self.lambda)?;
        positive("--z", self.z)?;
        if !self.speed.is_finite() || self.speed == 0.0 {
            return Err(Error::setting("--speed", self.speed, "a number other than 0"));
        }
        if !(0.0..1.0).contains(&self.mu) {
            return Err(Error::setting("--mu", self.mu, "a number from 0 to below 1"));
        }
        let Self { dx, kappa, lambda, speed, mu, z, .. } = *self;
        let name = match (self.scheme, &self.file) {
            (Some(name), None) => name,
            (None, Some(file)) => {
                called.refuse_unused(self.unused(), "--file")?;
                return from_file(file);
            }
            (Some(_), Some(_)) => {
                let expected = "either a scheme by name or a file, not both";
                return Err(Error::setting("scheme and file", self.name(), expected));
            }
            (None, None) => {
                let expected = "the name of a scheme, such as heat (--help shows all), or --file \
                                with one of your own";
                return Err(Error::setting("SCHEME", "none", expected));
            }
        };
        called.refuse_unused(self.unused(), &format!("the scheme {name}"))?;
        Ok(match name {
            Name::Heat => textbook::heat(kappa, dx),
            Name::Heat2d => textbook::heat_2d(kappa, dx),
            Name::HeatCrankNicolson => textbook::heat_crank_nicolson(kappa, dx),
            Name::ReactionDiffusion => textbook::reaction_diffusion(kappa, lambda, dx),
            Name::ReactionDiffusion2d => textbook::reaction_diffusion_2d(kappa, lambda, dx),
            Name::AdvectionFtcs => textbook::advection_ftcs(speed, dx),
            Name::AdvectionUpwind => textbook::advection_upwind(speed, dx),
            Name::AdvectionLaxWendroff => textbook::advection_lax_wendroff(speed, dx),
            Name::WaveLeapFrog => textbook::wave_leap_frog(speed, dx),
            Name::Nesterov => textbook::nesterov(z, mu),
            Name::NesterovHeat => textbook::nesterov_heat(kappa, mu, dx),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemeFile {
    dimensions: usize,
    term: Vec<TermFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermFile {
    level: i32,
    offset: Vec<i32>,
    coefficient: Vec<f64>,
}

fn from_file(path: &Path) -> Result<Scheme, Error> {
    let file: SchemeFile = toml::from_str(&read_toml(path)?).map_err(|error| Error::Config {
        path: path.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    let term = |t: TermFile| Term { level: t.level, offset: t.offset, coefficient: t.coefficient };
    let dimensions = file.dimensions;
    Scheme::new(dimensions, file.term.into_iter().map(term).collect())
        .map_err(|error| refused(path, dimensions, &error))
}

fn refused(path: &Path, dimensions: usize, error: &SchemeError) -> Error {
    let (found, expected) = match error {
        SchemeError::Empty => ("no term".to_owned(), "at least one [[term]]".to_owned()),
        SchemeError::Dimensions(found) => (format!("dimensions = {found}"), "1 or 2".to_owned()),
        SchemeError::Offset { term, found } => (
            format!("{found} entries in the offset of term {}", term + 1),
            format!("{dimensions}, one per dimension"),
        ),
        SchemeError::Level { term, found } => (
            format!("level = {found} in term {}", term + 1),
            "1 (the new time), 0 (the present) or -1 to -64 (the past)".to_owned(),
        ),
        SchemeError::Coefficient { term } => (
            format!("no usable coefficient in term {}", term + 1),
            "a list of numbers up to 1e60: c0, c1, ... of c0 + c1 dt + ...".to_owned(),
        ),
        SchemeError::NoPast => {
            ("terms at level 1 only".to_owned(), "a term at level 0 or below".to_owned())
        }
    };
    Error::Input { path: path.to_owned(), found, expected }
}
