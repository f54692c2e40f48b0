//! Which linear scheme: one of the textbook, or the user's own stencil from a TOML file.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lastbit::pde::scheme::{Scheme, SchemeError, Term};
use lastbit::pde::textbook::{self, PARAMETERS, Parameters, TextbookScheme};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cli::settings::Called;
use lastbit_lab::Error;
use lastbit_lab::input::read_toml;
use lastbit_lab::validate::{not_negative, positive};

/// A scheme of the textbook; its name in flags, files and records.
#[derive(Debug, Clone, Copy)]
pub struct Name(&'static TextbookScheme);

impl Name {
    fn of(name: &str) -> Option<Self> {
        textbook::named(name).map(Self)
    }

    /// The flags of parameters that the scheme does not take.
    fn unused(self) -> Vec<&'static str> {
        let parameters = PARAMETERS.iter().copied();
        parameters.filter(|parameter| !self.0.parameters.contains(parameter)).collect()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.0.name)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::of(&name).ok_or_else(|| {
            let names: Vec<&str> = textbook::all().map(|scheme| scheme.name).collect();
            let expected = names.join("\", \"");
            D::Error::custom(format!("found the scheme \"{name}\", expected one of \"{expected}\""))
        })
    }
}

/// The names of the textbook, each with what it solves and its condition.
fn names() -> impl TypedValueParser<Value = Name> {
    let value = |scheme: &TextbookScheme| {
        PossibleValue::new(scheme.name)
            .help(format!("{} Stable: {}", scheme.help, scheme.condition))
    };
    PossibleValuesParser::new(textbook::all().map(value))
        .map(|name| Name::of(&name).expect("the parser knows all names"))
}

/// The choice of a scheme and its parameters.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Choice {
    /// A scheme of the textbook.
    #[arg(value_parser = names(), conflicts_with = "file")]
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
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub speed: f64,

    /// Speed of advection along y.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    #[serde(default = "one")]
    pub speed_y: f64,

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

    /// The scheme itself; `called` tells which parameters were asked for.
    pub fn build(&self, called: Called) -> Result<Scheme, Error> {
        positive("--dx", self.dx)?;
        positive("--kappa", self.kappa)?;
        not_negative("--lambda", self.lambda)?;
        positive("--z", self.z)?;
        if !self.speed.is_finite() || self.speed == 0.0 {
            return Err(Error::setting("--speed", self.speed, "a number other than 0"));
        }
        if !self.speed_y.is_finite() {
            return Err(Error::setting("--speed-y", self.speed_y, "a number"));
        }
        if !(0.0..1.0).contains(&self.mu) {
            return Err(Error::setting("--mu", self.mu, "a number from 0 to below 1"));
        }
        let Self { dx, kappa, lambda, speed, speed_y, mu, z, .. } = *self;
        let name = match (self.scheme, &self.file) {
            (Some(name), None) => name,
            (None, Some(file)) => {
                called.refuse_unused(PARAMETERS, "--file")?;
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
        called.refuse_unused(&name.unused(), &format!("the scheme {name}"))?;
        // Schemes multiply up to four rates.
        let rate = (kappa / (dx * dx)).max(speed.abs() / dx).max(speed_y.abs() / dx);
        if rate > 1e70 {
            let expected = "a mesh on which kappa/dx^2 and speed/dx are at most 1e70";
            return Err(Error::setting("--dx", dx, expected));
        }
        Ok((name.0.build)(&Parameters { dx, kappa, lambda, speed, speed_y, mu, z }))
    }
}

/// Files written before there was a second speed.
fn one() -> f64 {
    1.0
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
            "a list of numbers up to 1e300: c0, c1, ... of c0 + c1 dt + ...".to_owned(),
        ),
        SchemeError::NoPast => {
            ("terms at level 1 only".to_owned(), "a term at level 0 or below".to_owned())
        }
    };
    Error::Input { path: path.to_owned(), found, expected }
}
