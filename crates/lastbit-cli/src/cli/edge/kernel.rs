//! `lastbit edge kernel`.

use std::path::PathBuf;

use clap::Args;
use lastbit::search::Probe;
use lastbit::verdict::Judgement;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::CommandOutput;
use crate::cli::kernel::{Flow, Network};
use crate::cli::settings::{Called, resolve};
use crate::cli::table::table;
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::number::Number;
use lastbit_lab::progress::Progress;
use lastbit_lab::record::VerdictRecord;
use lastbit_lab::simulate::kernel::{KernelEdge, Over};
use lastbit_lab::validate::positive;

/// Settings of a search.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
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
    #[arg(long, value_parser = choice::<Over>(), default_value = "dt")]
    over: Over,

    /// One end of the search [default: half of what theory predicts].
    #[arg(long)]
    low: Option<f64>,

    /// The other end [default: twice what theory predicts].
    #[arg(long)]
    high: Option<f64>,

    /// Width of the bracket over its middle.
    #[arg(long, default_value_t = 0.01)]
    tolerance: f64,

    /// Steps of a probe; growing ones are extended up to 20 times.
    #[arg(long, default_value_t = 500)]
    steps: usize,
}

impl Kernel {
    /// The edge.
    pub fn answer(&self, called: Called) -> Result<CommandOutput, Error> {
        let settings = resolve(self, called, self.config.as_deref())?;
        positive("--tolerance", settings.tolerance)?;
        let varied = if settings.over == Over::Dt { "dt" } else { "alpha" };
        called.refuse_unused(&[varied], &format!("--over {}", settings.over))?;
        let run = settings.flow.run(called, &settings.network, settings.steps)?;
        for (flag, end) in [("--low", settings.low), ("--high", settings.high)] {
            end.map_or(Ok(()), |end| positive(flag, end))?;
        }
        let monitor = Terminal::new(None);
        let progress = Progress::new(&monitor, "edge kernel", 10 * settings.steps as u64);
        let ends = (settings.low, settings.high);
        let found = run.search_edge(settings.over, ends, settings.tolerance, &progress);
        drop(progress);
        if let Err(Error::Stopped(reason)) = found {
            let again = "no probe is saved. The same command starts again.";
            return Ok(CommandOutput::stopped(reason, again));
        }
        match found? {
            Ok(edge) => Ok(settings.found(&edge)),
            Err(found) => {
                let expected = "two positive ends with different verdicts";
                Err(Error::setting("--low and --high", found, expected))
            }
        }
    }

    fn found(&self, edge: &KernelEdge) -> CommandOutput {
        let KernelEdge { bracket, probes, predicted } = edge;
        let middle = bracket.middle();
        let off = predicted.map(|edge| middle / edge - 1.0);
        let row = |probe: &Probe<Judgement>| {
            vec![
                Number(probe.at).to_string(),
                probe.seen.verdict.kind().to_string(),
                Number(probe.seen.growth.per_step).to_string(),
                probe.seen.steps.to_string(),
            ]
        };
        let name = json!(self.over);
        let name = name.as_str().unwrap_or("edge");
        let prediction = match (predicted, off) {
            (Some(edge), Some(off)) => format!(
                "Theory: {}; the middle of the bracket is off by {} %.\n",
                Number(*edge),
                Number(100.0 * off)
            ),
            _ => String::new(),
        };
        let text = format!(
            "One-layer network, {} pooling\n\n{}\n{name}: stable at {}, not at {}.\n{prediction}",
            self.network.pooling,
            table(&["probe", "verdict", "growth per step", "steps"], probes.iter().map(row)),
            Number(bracket.holds),
            Number(bracket.fails),
        );
        let probe = |probe: &Probe<Judgement>| json!({"at": probe.at, "verdict": VerdictRecord::from(&probe.seen)});
        let probes: Vec<Value> = probes.iter().map(probe).collect();
        let json = json!({
            "settings": self,
            "over": name,
            "stable": bracket.holds,
            "unstable": bracket.fails,
            "edge": middle,
            "relative_width": bracket.relative_width(),
            "predicted": predicted,
            "off_by": off,
            "probes": probes,
        });
        CommandOutput::new(text, json)
    }
}
