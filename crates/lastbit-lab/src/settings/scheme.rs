//! Which linear scheme: one of the textbook, or the user's own stencil.

use std::fmt;
use std::path::Path;

use lastbit::pde::scheme::{Scheme, SchemeError, Term};
use lastbit::pde::textbook::{self, KnownSteps, PARAMETERS, Parameters, TextbookScheme};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Given;
use crate::error::Error;
use crate::input::{Source, read_toml};
use crate::validate::{not_negative, positive};

/// A scheme of the textbook; its name in flags, files and records.
#[derive(Debug, Clone, Copy)]
pub struct SchemeName(&'static TextbookScheme);

impl SchemeName {
    /// The scheme of this name.
    pub fn of(name: &str) -> Option<Self> {
        textbook::named(name).map(Self)
    }

    /// The names of parameters that the scheme does not take.
    fn unused(self) -> Vec<&'static str> {
        let parameters = PARAMETERS.iter().copied();
        parameters.filter(|parameter| !self.0.parameters.contains(parameter)).collect()
    }
}

impl PartialEq for SchemeName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.0.name)
    }
}

impl Serialize for SchemeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for SchemeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::of(&name).ok_or_else(|| {
            let names: Vec<&str> = textbook::all().map(|scheme| scheme.name).collect();
            let expected = names.join("\", \"");
            D::Error::custom(format!("found the scheme \"{name}\", expected one of \"{expected}\""))
        })
    }
}

/// The choice of a scheme and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct SchemeChoice {
    /// A scheme of the textbook.
    pub scheme: Option<SchemeName>,
    /// A scheme of the user's own.
    pub file: Option<Source<SchemeFile>>,
    /// Mesh width.
    pub dx: f64,
    /// Diffusivity.
    pub kappa: f64,
    /// Decay.
    pub lambda: f64,
    /// Speed of advection or of waves.
    pub speed: f64,
    /// Speed of advection along y. Files written before there was a second speed lack it.
    pub speed_y: f64,
    /// Momentum.
    pub mu: f64,
    /// Curvature.
    pub z: f64,
}

impl Default for SchemeChoice {
    fn default() -> Self {
        Self {
            scheme: None,
            file: None,
            dx: 1.0,
            kappa: 1.0,
            lambda: 1.0,
            speed: 1.0,
            speed_y: 1.0,
            mu: 0.9,
            z: 1.0,
        }
    }
}

impl SchemeChoice {
    /// Name for people.
    pub fn name(&self) -> String {
        match (&self.scheme, &self.file) {
            (Some(name), _) => name.to_string(),
            (None, Some(file)) => file.name("scheme").display().to_string(),
            (None, None) => "none".to_owned(),
        }
    }

    fn parameters(&self) -> Parameters {
        let Self { dx, kappa, lambda, speed, speed_y, mu, z, .. } = *self;
        Parameters { dx, kappa, lambda, speed, speed_y, mu, z }
    }

    /// The largest stable step of a scheme of the textbook in closed form: 0 where none is stable, infinite where all
    /// are.
    pub fn dt_max(&self) -> Option<f64> {
        Some(match (self.scheme?.0.known)(&self.parameters()) {
            KnownSteps::Never => 0.0,
            KnownSteps::UpTo(dt) => dt,
            KnownSteps::Always => f64::INFINITY,
        })
    }

    /// The scheme itself.
    pub fn build(&self, given: Given) -> Result<Scheme, Error> {
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
        let Self { dx, kappa, speed, speed_y, .. } = *self;
        let name = match (self.scheme, &self.file) {
            (Some(name), None) => name,
            (None, Some(file)) => {
                let cause = match file {
                    Source::File(_) => "--file",
                    Source::Memory(_) => "a scheme of your own",
                };
                given.refuse_unused(PARAMETERS, cause)?;
                return file.get(SchemeFile::read)?.build(file.name("scheme"));
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
        given.refuse_unused(&name.unused(), &format!("the scheme {name}"))?;
        // Schemes multiply up to four rates.
        let rate = (kappa / (dx * dx)).max(speed.abs() / dx).max(speed_y.abs() / dx);
        if rate > 1e70 {
            let expected = "a mesh on which kappa/dx^2 and speed/dx are at most 1e70";
            return Err(Error::setting("--dx", dx, expected));
        }
        Ok((name.0.build)(&self.parameters()))
    }
}

/// A scheme of the user's own: `dimensions` and a list of `[[term]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeFile {
    dimensions: usize,
    term: Vec<TermFile>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TermFile {
    level: i32,
    offset: Vec<i32>,
    coefficient: Vec<f64>,
}

impl SchemeFile {
    /// A scheme in JSON, named `name` in messages.
    pub fn from_json(text: &str, name: &str) -> Result<Self, Error> {
        serde_json::from_str(text)
            .map_err(|error| Error::Config { path: name.into(), message: error.to_string() })
    }

    /// Reads a TOML file.
    fn read(path: &Path) -> Result<Self, Error> {
        toml::from_str(&read_toml(path)?).map_err(|error| Error::Config {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })
    }

    fn build(self, path: &Path) -> Result<Scheme, Error> {
        let dimensions = self.dimensions;
        let term =
            |t: TermFile| Term { level: t.level, offset: t.offset, coefficient: t.coefficient };
        Scheme::new(dimensions, self.term.into_iter().map(term).collect())
            .map_err(|error| refused(path, dimensions, &error))
    }
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
