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
use lastbit_lab::input::read_toml;
use lastbit_lab::lock::Lock;
use lastbit_lab::number::Number;
use lastbit_lab::progress::{Progress, StopReason};
use lastbit_lab::train::{
    Begin, ConfigFile, Device, EXAMPLE, Ending, Opened, Prepared, RunSummary, is_run, page,
    require_device, settings_in_checkpoints, train,
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
        let folder = if out_was_given { out.to_owned() } else { self.folder_below(out)? };
        let has_run = is_run(&folder)?;
        let resumes = self.resume && has_run;
        let fork = self.fork.as_deref().map(Opened::read).transpose()?;
        let found = self.settings(&folder, fork.as_ref())?;
        if !self.resume && has_run {
            // Without a device, another folder would not help.
            require_device(&found)?;
            let expected = "a folder without one; --resume continues this run, --out DIR starts \
                            another";
            let found = "a run".to_owned();
            return Err(Error::Input { path: folder, found, expected: expected.to_owned() });
        }
        let begins = fork.is_none() && !resumes;
        let prepared = Prepared::new(found, self.data.as_deref(), begins)?;
        let begin = match fork {
            Some(opened) => {
                check_goes_on(&prepared, &opened)?;
                Begin::Fork(Box::new(opened))
            }
            None if resumes => Begin::Resume,
            None => Begin::New,
        };
        let steps = prepared.steps as u64;
        let monitor = Terminal::new(self.time_limit);
        let progress = Progress::new(&monitor, "train", steps);
        require_device(&prepared.found)?;
        let lock = Lock::try_now(&folder, &monitor)?;
        if is_run(&folder)? != resumes {
            let found = "a run that another process changed while this one started".to_owned();
            let expected = "the same run as before; give the command again".to_owned();
            return Err(Error::Input { path: folder, found, expected });
        }
        let ending = train(&prepared, &lock, begin, &progress, steps)?;
        drop(progress);
        let summary = match ending {
            Ending::Finished(summary) => summary,
            Ending::Stopped { reason, step } => return Ok(stopped(reason, step, steps, &folder)),
        };
        page::write(&prepared, &lock, &summary)?;
        let text = text(&summary, &folder);
        let mut json = json!(summary);
        json["folder"] = json!(folder);
        Ok(CommandOutput::new(text, json))
    }

    /// The folder of a run that was given none: named after its file.
    fn folder_below(&self, out: &Path) -> Result<PathBuf, Error> {
        let Some(config) = &self.config else {
            return Err(if self.resume || self.fork.is_some() {
                Error::setting("--out", "none", "the folder of the run, or a CONFIG")
            } else {
                no_config()
            });
        };
        match config.file_stem() {
            Some(stem) => Ok(out.join("train").join(stem)),
            // Such as "..": no name of a file.
            None => Err(read_toml(config).err().unwrap_or_else(no_config)),
        }
    }

    fn settings(&self, folder: &Path, fork: Option<&Opened>) -> Result<ConfigFile, Error> {
        let (path, text) = match (&self.config, fork) {
            (None, Some(opened)) => {
                let path = self.fork.clone().unwrap_or_default();
                (path, opened.state.settings.clone())
            }
            (given, _) => {
                let of_run = folder.join("config.toml");
                let path = match given {
                    Some(path) => path.clone(),
                    None if of_run.exists() => of_run,
                    // What a checkpoint says is what the file said.
                    None => match settings_in_checkpoints(folder)? {
                        Some(found) => return self.changed(&found.to_toml(), &found.path),
                        None => return Err(no_config()),
                    },
                };
                let text = read_toml(&path)?;
                (path, text)
            }
        };
        self.changed(&text, &path).map_err(|error| match error {
            Error::Config { path, message } if self.config.is_none() && self.resume => {
                let message = format!(
                    "{message}; without this file --resume takes the settings from the last checkpoint"
                );
                Error::Config { path, message }
            }
            other => other,
        })
    }

    /// Settings with what the command line changes.
    fn changed(&self, text: &str, path: &Path) -> Result<ConfigFile, Error> {
        let device = self.device.map(Device::as_setting);
        let set: Vec<String> = self.set.iter().cloned().chain(device).collect();
        ConfigFile::parse(text, path, &set)
    }
}

fn no_config() -> Error {
    let expected = "a configuration; `lastbit train --example > config.toml` writes one";
    Error::setting("CONFIG", "none", expected)
}

/// A fork has steps left to do.
fn check_goes_on(prepared: &Prepared, opened: &Opened) -> Result<(), Error> {
    let (step, steps) = (opened.state.step, prepared.steps);
    if step < steps {
        return Ok(());
    }
    let key = if prepared.found.settings.training.epochs.is_some() { "epochs" } else { "steps" };
    let found = format!("{steps} steps in all");
    let expected = format!("more than the {step} of the checkpoint; --set training.{key}=…");
    Err(prepared.found.refuse(&format!("training.{key}"), found, expected))
}

/// The output for a run that was stopped at a checkpoint.
fn stopped(reason: StopReason, step: usize, steps: u64, folder: &Path) -> CommandOutput {
    let text = format!(
        "{reason} after step {step} of {steps}, saved; `lastbit train --out {} --resume` resumes from there.\n",
        folder.display()
    );
    let json = json!({ "folder": folder, "steps": step, "steps_planned": steps, "stopped": true });
    CommandOutput::new(text, json).stopped_by(Some(reason))
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
