//! `lastbit edge kernel`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::CommandOutput;
use crate::cli::kernel::{Flow, Network};
use crate::cli::settings::{Called, resolve};
use crate::cli::table::table;
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::edge::{KernelEdgeResult, KernelEdgeSettings, KernelProbe};
use lastbit_lab::number::Number;
use lastbit_lab::simulate::kernel::Over;

/// Settings of a search.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit edge kernel
  lastbit edge kernel --tolerance 1e-3 --alpha 10
  lastbit edge kernel --equation linear --pooling sum --dt 1e-8 --over alpha-min --kernel 16x16
  lastbit edge kernel --equation linear --pooling sum --dt 1e-4 --mu 0.9 --over alpha-max")]
pub struct Kernel {
    /// Settings from a TOML file with the names of the flags; flags win over it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    network: Network,

    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,

    /// The parameter to vary.
    #[arg(long, value_parser = choice::<Over>(), default_value_t = defaults().over)]
    over: Over,

    /// One end of the search [default: half of what theory predicts].
    #[arg(long)]
    low: Option<f64>,

    /// The other end [default: twice what theory predicts].
    #[arg(long)]
    high: Option<f64>,

    /// Width of the bracket over its middle.
    #[arg(long, default_value_t = defaults().tolerance)]
    tolerance: f64,

    /// Steps of a probe; growing ones are extended up to 20 times.
    #[arg(long, default_value_t = defaults().steps)]
    steps: usize,
}

fn defaults() -> KernelEdgeSettings {
    KernelEdgeSettings::default()
}

impl Kernel {
    /// The edge.
    pub fn answer(&self, called: Called) -> Result<CommandOutput, Error> {
        let settings: KernelEdgeSettings = resolve(self, called, self.config.as_deref())?;
        match called.with(|given| settings.search(given, &Terminal::new(None))) {
            Err(Error::Stopped(reason)) => {
                let again = "no probe is saved. The same command starts again.";
                Ok(CommandOutput::stopped(reason, again))
            }
            found => found.map(|found| CommandOutput::new(text(&found), json!(found))),
        }
    }
}

fn text(found: &KernelEdgeResult) -> String {
    let KernelEdgeResult { settings, over, stable, unstable, predicted, off_by, .. } = found;
    let row = |probe: &KernelProbe| {
        vec![
            Number(probe.at).to_string(),
            probe.verdict.kind.to_string(),
            probe.verdict.growth_per_step.to_string(),
            probe.verdict.steps.to_string(),
        ]
    };
    let prediction = match (predicted, off_by) {
        (Some(edge), Some(off)) => format!(
            "Theory: {}; the middle of the bracket is off by {} %.\n",
            Number(*edge),
            Number(100.0 * off)
        ),
        _ => String::new(),
    };
    format!(
        "One-layer network, {} pooling\n\n{}\n{over}: stable at {}, not at {}.\n{prediction}",
        settings.network.pooling,
        table(&["probe", "verdict", "growth per step", "steps"], found.probes.iter().map(row)),
        Number(*stable),
        Number(*unstable),
    )
}
