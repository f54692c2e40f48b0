//! `lastbit train`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::CommandOutput;
use super::table::table;
use super::values::duration;
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::number::Number;
use lastbit_lab::train::{
    ConfigSource, Device, EXAMPLE, Request, RunSummary, SessionEnd, StoppedRun,
};

/// A training run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit train --example > config.toml         write a commented configuration to start from
  lastbit train config.toml                     train; results in lastbit-out/train/config
  lastbit train config.toml --out run           train; results in run
  lastbit train config.toml --out run --resume  continue an interrupted run
  lastbit train config.toml --set optimizer.lr=0.05 --out slower
                                                train with another learning rate
  lastbit train config.toml --device cuda       train all replicas at once on a GPU
  lastbit train config.toml --time-limit 9m     save a checkpoint and stop after 9 minutes
  lastbit train --fork run/checkpoints/step-45.safetensors --set optimizer.lr=0.01 --out fork
                                                start a new run from step 45 of another run

A resumed run is bit-identical to one without interruption.

The command prints one row per replica. Some of its columns:
  RelL1        relative distance of the weights from the first replica, from 0 (equal) to 2
  ulps         largest distance of a weight from the first replica, in floating-point numbers
  growth/step  growth rate of the distance: each step multiplies it by e^rate
  hash         first 32 digits of the BLAKE3 hash of all parameters: equal for bit-identical weights.
               `lastbit diff` prints the same hash for the weights in the folder final.")]
pub struct Train {
    /// Configuration file (TOML); `--example` prints one with comments.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,

    /// Continue the run in the `--out` folder from its last checkpoint; start one if there is none.
    #[arg(long)]
    resume: bool,

    /// Start a new run from this checkpoint; without CONFIG, use the settings stored in it.
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    fork: Option<PathBuf>,

    /// Override a key of the configuration (repeatable). A file path in VALUE is relative to the
    /// current folder.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,

    /// Device to train on; short for `--set training.device=…`.
    #[arg(long, value_parser = choice::<Device>())]
    device: Option<Device>,

    /// Save a checkpoint and stop after this time (90s, 15m, 2h 30m); `--resume` continues.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,

    /// Folder of the data sets [default: $LASTBIT_DATA, else lastbit in $XDG_DATA_HOME or in
    /// ~/.local/share].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Print a commented configuration and exit.
    #[arg(long, conflicts_with_all = ["config", "resume", "fork", "set", "device", "time_limit", "data"])]
    example: bool,
}

impl Train {
    /// Trains. The run's folder is `out` where that was given, and one below it otherwise.
    pub fn answer(&self, out: &Path, out_was_given: bool) -> Result<CommandOutput, Error> {
        if self.example {
            let json = json!({ "example": EXAMPLE });
            return Ok(CommandOutput::new(EXAMPLE.to_owned(), json));
        }
        let session = self.request().prepare(out, out_was_given)?;
        let folder = session.folder.clone();
        let summary = match session.run(&Terminal::new(self.time_limit))? {
            SessionEnd::Finished(summary) => summary,
            SessionEnd::Stopped(run) => return Ok(stopped(&run)),
        };
        let text = text(&summary, &folder);
        let mut json = json!(summary);
        json["folder"] = json!(folder);
        Ok(CommandOutput::new(text, json))
    }

    fn request(&self) -> Request {
        Request {
            config: self.config.clone().map(ConfigSource::File),
            resume: self.resume,
            fork: self.fork.clone(),
            set: self.set.clone(),
            device: self.device,
            data: self.data.clone(),
        }
    }
}

/// The output for a run that was stopped at a checkpoint.
fn stopped(run: &StoppedRun) -> CommandOutput {
    let StoppedRun { reason, step, steps, folder } = run;
    let text = format!(
        "{reason} after step {step} of {steps}, saved; `lastbit train --out {} --resume` resumes from there.\n",
        folder.display()
    );
    let json = json!({ "folder": folder, "steps": step, "steps_planned": steps, "stopped": true });
    CommandOutput::new(text, json).stopped_by(Some(*reason))
}

fn text(summary: &RunSummary, folder: &Path) -> String {
    let number = |value: Option<Number>| value.map_or("-".to_owned(), |number| number.to_string());
    let replicas = || summary.replicas.iter().flatten();
    let rows = replicas().map(|replica| {
        let last = &replica.last;
        vec![
            last.replica.clone(),
            number(last.train_loss),
            number(last.test_loss),
            number(last.test_accuracy),
            last.rel_l1.to_string(),
            last.max_ulps.to_string(),
            number(last.growth_per_step),
            last.diverged.map_or("-".to_owned(), |step| format!("at step {step}")),
            last.hash.clone(),
        ]
    });
    let header = [
        "replica",
        "train loss",
        "test loss",
        "test accuracy",
        "RelL1",
        "ulps",
        "growth/step",
        "diverged",
        "hash",
    ];
    let spread = match &summary.test_accuracy {
        Some(spread) if spread.replicas > 1 => format!(
            "Test accuracy {} ± {} (standard deviation over {} replicas).\n",
            spread.mean,
            number(spread.std),
            spread.replicas,
        ),
        _ => String::new(),
    };
    let sharpness: String = replicas()
        .filter_map(|replica| {
            let most = replica.max_sharpness?;
            let last = &replica.last;
            let ratio = last.curvature.as_ref().and_then(|curvature| curvature.edge_ratio);
            Some(format!(
                "Sharpness of {}: {} at the end, {} times the stability threshold; maximum {} at step {}.\n",
                last.replica,
                number(last.sharpness()),
                number(ratio),
                most.sharpness,
                most.step,
            ))
        })
        .collect();
    let mini_batch = match &summary.mini_batch_threshold {
        Some(threshold) if !sharpness.is_empty() => threshold.in_words() + "\n",
        _ => String::new(),
    };
    let first = replicas().next().map_or("the first", |replica| &replica.last.replica);
    let attribution: String =
        summary.attribution.iter().map(|found| found.in_words(first) + "\n").collect();
    format!(
        "{}: {} of {} steps, {} parameters; run directory {}\n{}{spread}{sharpness}{mini_batch}{attribution}\
         `lastbit report --out {}` makes an HTML page of it.\n",
        summary.data,
        summary.steps,
        summary.steps_planned,
        summary.parameters,
        folder.display(),
        table(&header, rows),
        folder.display(),
    )
}
