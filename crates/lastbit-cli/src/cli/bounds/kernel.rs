//! `lastbit bounds kernel`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::CommandOutput;
use crate::cli::kernel::Network;
use crate::cli::settings::{Called, resolve};
use crate::cli::table::table;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::bounds::{DecayInterval, KernelBounds, KernelBoundsSettings, SchemeDecays};
use lastbit_lab::number::Number;

/// Settings of an analysis.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit bounds kernel --kernel 16x16
  lastbit bounds kernel --image photo.png --kernel 5x5 --dt 0.1 --label 0
  lastbit bounds kernel --pooling sum --dt 1e-8 --mu 0.9 --json")]
pub struct Kernel {
    /// Settings from a TOML file with the names of the flags; flags win over it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    network: Network,

    /// Residual a = yhat - y [default: that of an untrained network, s(-bias) - label].
    #[arg(long)]
    a: Option<f64>,

    /// Step size for which to bound the weight decay.
    #[arg(long, alias = "lr", default_value_t = defaults().dt)]
    dt: f64,

    /// Momentum of Nesterov's scheme.
    #[arg(long, default_value_t = defaults().mu)]
    mu: f64,

    /// Weight decay for which to bound the step.
    #[arg(long)]
    alpha: Option<f64>,

    /// Also write a record with a picture of the amplification factor over frequencies.
    #[arg(long)]
    #[serde(skip)]
    map: bool,

    /// Most products with the patch operator.
    #[arg(long, default_value_t = defaults().products)]
    products: usize,
}

fn defaults() -> KernelBoundsSettings {
    KernelBoundsSettings::default()
}

impl Kernel {
    /// The bounds.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        let settings: KernelBoundsSettings = resolve(self, called, self.config.as_deref())?;
        let bounds = called.with(|given| settings.bounds(given))?;
        let (mut text, mut json) = (text(&bounds), json!(bounds));
        if self.map {
            let folder = bounds.write_map(out, &Terminal::showing())?;
            text.push_str(&format!("Picture of the amplifier: {}\n", folder.display()));
            json["folder"] = json!(folder);
        }
        Ok(CommandOutput::new(text, json))
    }
}

fn text(bounds: &KernelBounds) -> String {
    let KernelBounds { settings, windowed, .. } = bounds;
    let mut text = format!(
        "One-layer network, {} pooling, residual a = {}, dt = {}\n\n",
        settings.network.pooling,
        Number(bounds.a),
        settings.dt,
    );
    let row = |decays: &SchemeDecays| {
        vec![decays.scheme.to_owned(), words(decays.image_sized), words(decays.windowed)]
    };
    text += &table(
        &["stable weight decays", "image-sized kernel", "actual kernel size"],
        bounds.schemes.iter().map(row),
    );
    text += &format!(
        "\nEigenvalues of the patch operator: {} to {} (residual {}, {} products).\n",
        Number(windowed.eig_min),
        Number(windowed.eig_max),
        Number(windowed.residual),
        windowed.products,
    );
    if let (Some(whole), Some(windowed)) = (bounds.dt_max, windowed.dt_max) {
        let step = |dt: Option<f64>| dt.map_or("none".to_owned(), |dt| Number(dt).to_string());
        text += &format!(
            "Largest stable step at this weight decay: {} for an image-sized kernel, {} for this one.\n",
            step(whole),
            step(windowed)
        );
    }
    text
}

fn words(interval: DecayInterval) -> String {
    let DecayInterval { alpha_min, alpha_max, empty } = interval;
    let bounds = format!("{} to {}", Number(alpha_min), Number(alpha_max));
    if empty { format!("none ({bounds}): no weight decay stabilizes this step") } else { bounds }
}
