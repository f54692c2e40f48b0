//! `lastbit edge`: of a training configuration, or of a one-layer kernel.

mod format;
mod kernel;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::settings::Called;
use super::{CommandOutput, resumes_with};
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::edge::{Over, Property, Request};
use lastbit_lab::train::{ConfigSource, Device};

/// What the verdicts in the table mean.
const RULE: &str = "\
stable: a slightly perturbed copy does not move away (growth + 3 standard errors < resolution)
restrained: bounded, but the copy moves away or the loss keeps failing to fall; diverged: unbounded
";

/// A search for the edge of stability.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  lastbit edge config.toml                        all three edges of the learning rate, to 1 %
  lastbit edge config.toml --tolerance 1e-3 --steps 2000 --seeds 0,1,2
  lastbit edge config.toml --from 90 --to 100     search between these two
  lastbit edge config.toml --over alpha           stable interval of the weight decay
  lastbit edge config.toml --property stable      the growth and CFL edges alone
  lastbit edge config.toml --repeats 6            with mini-batches: an interval for the median edge
  lastbit edge config.toml --set network.weights=run/final/k1.safetensors
                                                  edge at the weights a run ended with
  lastbit edge config.toml --device cuda          run the probes on a GPU
  lastbit edge kernel --help                      edge of a one-layer network

CONFIG is that of `lastbit train`. Every probe is a run of --steps steps (up to --at-most while it is
undecided) from the same initial weights with its own learning rate, and gets a verdict: stable, restrained, diverged or undecided. A learning
rate has three edges, which coincide on a quadratic and may lie far apart elsewhere:
  growth edge      between the last stable probe and the first that is not stable
  CFL edge         2/lambda_max for gradient descent, with lambda_max measured at the end of the last
                   stable probe, after 40 more steps at half its learning rate: the limit at that
                   minimum, if one was reached
  divergence edge  between the last bounded and the first diverged probe: below it, the run may be
                   sensitive to rounding, and still learn
Probes that leave open on which side they lie are ignored. Sharpness may still be rising: more --steps may find lower
edges.

With mini-batches the edge depends on the order of the batches, so one search is one draw. --repeats N
searches with N orders, from the same initial weights, and prints an interval for the median edge with its
confidence: 1 - 2/2^N up to N = 8 (N = 6: 96.87 %), at least 95 % beyond. It holds for any distribution
of the edges; undecided probes widen it. For each learning rate tried, the record says in how many orders the
training is stable, not stable or undecided.

Every probe is saved; the same command resumes after an interruption.

Exit codes: 0 an edge was found, 2 none was found, or wrong input or environment, 130 interrupted."
)]
pub struct Edge {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    training: Training,
}

/// Other searches.
#[derive(Debug, Subcommand)]
enum Other {
    /// Edge of a one-layer network, or of one of its linear equations.
    Kernel(kernel::Kernel),
}

impl Edge {
    /// The edge.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        match &self.other {
            Some(Other::Kernel(kernel)) => kernel.answer(called),
            None => self.training.answer(out),
        }
    }
}

/// Settings of a search over trainings.
#[derive(Debug, Args)]
struct Training {
    /// Settings of `lastbit train`, as TOML.
    #[arg(value_name = "CONFIG", required = true)]
    config: Option<PathBuf>,

    /// The parameter to vary.
    #[arg(long, value_parser = choice::<Over>(), default_value = "dt")]
    over: Over,

    /// Search only for the edge where runs stop being stable, or bounded [default: both for a learning
    /// rate; stable for a weight decay or with --from and --to].
    #[arg(long, value_parser = choice::<Property>())]
    property: Option<Property>,

    /// One end of the search [default: by doubling and halving, from the configuration's value].
    #[arg(long, value_name = "A", requires = "to")]
    from: Option<f64>,

    /// The other end.
    #[arg(long, value_name = "B", requires = "from")]
    to: Option<f64>,

    /// Relative width of the final interval.
    #[arg(long, default_value_t = 0.01)]
    tolerance: f64,

    /// Steps of a probe [default: those of the configuration].
    #[arg(long)]
    steps: Option<usize>,

    /// Most steps of a probe whose verdict is undecided [default: four times --steps].
    #[arg(long)]
    at_most: Option<usize>,

    /// Seeds of the initial weights [default: those of the configuration].
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,

    /// Orders of the mini-batches to search with, for an interval of the median edge: seeds of the batches
    /// from that of the configuration on.
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: usize,

    /// Also run a copy perturbed by one ulp beside each probe, for its curve; takes 1.5 times as long.
    #[arg(long)]
    twins: bool,

    /// Change a setting of the configuration. A path is relative to the current folder.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,

    /// Device to run the probes on; short for `--set training.device=…`.
    #[arg(long, value_parser = choice::<Device>())]
    device: Option<Device>,

    /// Folder of the data sets.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Compute again, even if finished probes are there.
    #[arg(long)]
    fresh: bool,
}

impl Training {
    fn answer(&self, out: &Path) -> Result<CommandOutput, Error> {
        let answers = match self.request().run(out, &Terminal::new(None)) {
            Err(Error::Stopped(reason)) => {
                let resume = resumes_with("finished probes are saved", self.fresh);
                return Ok(CommandOutput::stopped(reason, &resume));
            }
            ended => ended?,
        };
        let mut text = String::new();
        for (i, edge) in answers.edges.iter().enumerate() {
            let notes = if i == 0 { &answers.notes[..] } else { &[] };
            text += &format::text(&edge.search, &edge.found, notes);
            text += &format!("Record and figures: {}\n\n", edge.folder.display());
        }
        text += RULE;
        Ok(CommandOutput::new(text, answers.to_json()))
    }

    fn request(&self) -> Request {
        let config = self.config.clone().expect("clap requires it");
        Request {
            config: ConfigSource::File(config),
            over: self.over,
            property: self.property,
            from: self.from,
            to: self.to,
            tolerance: self.tolerance,
            steps: self.steps,
            at_most: self.at_most,
            seeds: self.seeds.clone(),
            repeats: self.repeats,
            twins: self.twins,
            set: self.set.clone(),
            device: self.device,
            data: self.data.clone(),
            fresh: self.fresh,
        }
    }
}
