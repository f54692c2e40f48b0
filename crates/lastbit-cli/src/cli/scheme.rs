//! Flags that choose a linear scheme: one of the textbook, or the user's own stencil from a TOML file.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lastbit::pde::textbook::{self, TextbookScheme};
use serde::Serialize;

use lastbit_lab::settings::{SchemeChoice, SchemeName};

/// The names of the textbook, each with what it solves and its condition.
fn names() -> impl TypedValueParser<Value = SchemeName> {
    let value = |scheme: &TextbookScheme| {
        PossibleValue::new(scheme.name)
            .help(format!("{} Stable: {}", scheme.help, scheme.condition))
    };
    PossibleValuesParser::new(textbook::all().map(value))
        .map(|name| SchemeName::of(&name).expect("the parser knows all names"))
}

fn defaults() -> SchemeChoice {
    SchemeChoice::default()
}

/// The choice of a scheme and its parameters.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Choice {
    /// A scheme of the textbook.
    #[arg(value_parser = names(), conflicts_with = "file")]
    scheme: Option<SchemeName>,

    /// A scheme of your own: TOML with `dimensions` and a list of `[[term]]`, each with `level`
    /// (1 new, 0 present, -1 before), `offset` and `coefficient` (a polynomial in dt).
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Mesh width.
    #[arg(long, default_value_t = defaults().dx)]
    dx: f64,

    /// Diffusivity.
    #[arg(long, default_value_t = defaults().kappa)]
    kappa: f64,

    /// Decay.
    #[arg(long, default_value_t = defaults().lambda)]
    lambda: f64,

    /// Speed of advection or of waves.
    #[arg(long, default_value_t = defaults().speed, allow_negative_numbers = true)]
    speed: f64,

    /// Speed of advection along y.
    #[arg(long, default_value_t = defaults().speed_y, allow_negative_numbers = true)]
    speed_y: f64,

    /// Momentum.
    #[arg(long, default_value_t = defaults().mu)]
    mu: f64,

    /// Curvature.
    #[arg(long, default_value_t = defaults().z)]
    z: f64,
}
