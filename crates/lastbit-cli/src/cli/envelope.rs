//! `lastbit envelope`.

mod slurm;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::run::parts::Parts;
use super::table::table;
use super::values::{choice, duration};
use super::{CommandOutput, resumes_with};
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::envelope::Reproducibility;
use lastbit_lab::logged::Choice;
use lastbit_lab::perturbed_runs::{self, Kind, Made, Request, Spread, TrainingRequest, plan};
use lastbit_lab::runner::Existing;
use lastbit_lab::train::{ConfigSource, Device};

/// Runs that differ by rounding.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lastbit envelope -n 8 --out E -- python train.py --log {run}/metrics.jsonl
  lastbit envelope --files logs/metrics.csv -- python train.py     a script that writes to logs/metrics.csv
  lastbit envelope -- torchrun --nproc-per-node 2 -m lastbit.torch.launch train.py --output-dir {run}
  lastbit envelope config.toml                                     a configuration of `lastbit train`
  lastbit envelope -n 16 --out E -- python train.py --log {run}/metrics.jsonl      8 more runs: a wider sample

The program runs twice without a perturbation, which shows whether it is bit-reproducible, and then n times with
perturbations of the size of rounding errors. `python SCRIPT` and `python -m MODULE` run through `python -m
lastbit.torch.launch`, which perturbs every optimizer of torch.optim that they create. Other programs do it themselves:

  LASTBIT_PERTURB         seed of the perturbation; 0: none
  LASTBIT_PERTURB_KIND    ulps, ulp or k, from --kind
  LASTBIT_RUN             folder of the run; {run} in an argument is replaced by it

Metrics are read from what the program writes to that folder: JSON lines, CSV, event files of TensorBoard,
trainer_state.json, run directories of lastbit. Each run is kept in E/runs/NAME with its stdout.log and stderr.log.

The same command resumes after an interruption, and with a larger -n it adds runs, if the program is still the same. Exit
codes: 0 done, 1 the perturbation did not reach the program, 2 wrong input, or a run failed, 130 interrupted.")]
pub struct Envelope {
    /// A configuration of `lastbit train`; its replicas k = 1, 3, 5, … are trained at once.
    #[arg(value_name = "CONFIG", conflicts_with_all = ["command", "kind", "no_launcher", "files", "jobs", "timeout", "keep_going", "cells", "slurm"])]
    config: Option<PathBuf>,

    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,

    /// Number of perturbed runs.
    #[arg(short = 'n', long, value_name = "N", default_value = "8")]
    runs: NonZeroUsize,

    /// How the runs are perturbed.
    #[arg(long, value_parser = choice::<Kind>(), default_value = "ulps")]
    kind: Kind,

    /// Run Python programs as they are: they read LASTBIT_PERTURB themselves.
    #[arg(long)]
    no_launcher: bool,

    /// Files below the working directory that the program writes; moved to the folder of each run (repeatable).
    #[arg(long, value_name = "PATTERN")]
    files: Vec<String>,

    /// Metrics to keep, by name or pattern [default: all but times].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,

    /// The key or column that holds the step [default: step, global_step, iteration, epoch, …].
    #[arg(long, value_name = "KEY")]
    step_key: Option<String>,

    /// Programs that run at once.
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,

    /// A run that takes longer has failed (90s, 15m, 2h).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,

    /// Make the other runs, too, after one has failed.
    #[arg(long)]
    keep_going: bool,

    /// Remove the runs that are there, and make all again.
    #[arg(long)]
    fresh: bool,

    /// Divide the runs into N parts and make parts A up to, but not including, B.
    ///
    /// Several processes may make parts of one envelope at the same time; the last one writes it. A..A only gathers runs.
    #[arg(long, value_name = "A..B/N", conflicts_with = "fresh")]
    cells: Option<Parts>,

    /// Write a Slurm script with one task per run to FILE or stdout, and run nothing.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["cells", "fresh"])]
    slurm: Option<Option<PathBuf>>,

    /// Override a key of CONFIG (repeatable).
    #[arg(long, value_name = "SECTION.KEY=VALUE", requires = "config")]
    set: Vec<String>,

    /// Device to train CONFIG on.
    #[arg(long, value_parser = choice::<Device>(), requires = "config")]
    device: Option<Device>,

    /// Folder of the data sets of CONFIG [default: as of `lastbit train`].
    #[arg(long, value_name = "DIR", requires = "config")]
    data: Option<PathBuf>,
}

impl Envelope {
    /// Makes the runs that are missing, and the envelope. Its folder is `out` where that was given, and one below it
    /// otherwise.
    pub fn answer(&self, out: &Path, out_was_given: bool) -> Result<CommandOutput, Error> {
        let out = if out_was_given { out.to_owned() } else { out.join("envelope") };
        let made = match &self.config {
            Some(config) => {
                let request = self.training(config)?;
                perturbed_runs::of_training(&request, &out, &Terminal::new(None))?
            }
            None => {
                if let Some(file) = &self.slurm {
                    return slurm::answer(self, file.as_deref(), &out);
                }
                perturbed_runs::make(&self.request(), &out, &Terminal::new(None))?
            }
        };
        let holds = made.reached != Some(false);
        let output = CommandOutput::new(self.text(&made), json!(made));
        Ok(output.holds(holds).stopped_by(made.stopped))
    }

    fn existing(&self) -> Existing {
        if self.fresh { Existing::Discard } else { Existing::Reuse }
    }

    fn choice(&self) -> Choice {
        Choice { metrics: self.metric.clone(), step_key: self.step_key.clone() }
    }

    fn request(&self) -> Request {
        let runs = self.runs.get();
        Request {
            command: self.command.clone(),
            runs,
            kind: self.kind,
            launcher: !self.no_launcher,
            files: self.files.clone(),
            choice: self.choice(),
            jobs: self.jobs.get(),
            timeout: self.timeout,
            keep_going: self.keep_going,
            part: self.cells.map(|parts| parts.of_plans(&[plan(runs).len()]).remove(0)),
            existing: self.existing(),
        }
    }

    fn training(&self, config: &Path) -> Result<TrainingRequest, Error> {
        if config.extension().is_none_or(|end| end != "toml") {
            let expected = "a configuration (.toml); a program comes after --, as in `lastbit envelope -- python train.py`";
            return Err(Error::setting("CONFIG", config.display(), expected));
        }
        Ok(TrainingRequest {
            config: ConfigSource::File(config.to_owned()),
            set: self.set.clone(),
            device: self.device,
            data: self.data.clone(),
            runs: self.runs.get(),
            choice: self.choice(),
            existing: self.existing(),
        })
    }

    fn text(&self, made: &Made) -> String {
        let Made { whole, planned, folder, .. } = made;
        if let Some(reason) = made.stopped {
            let saved = match self.config {
                Some(_) => "a checkpoint is saved".to_owned(),
                None => format!("{whole} of {planned} runs are saved"),
            };
            return format!("{reason}; {}\n", resumes_with(&saved, self.fresh));
        }
        let Some(file) = &made.file else {
            return format!(
                "{whole} of {planned} runs are whole; the envelope comes when all are.\n"
            );
        };
        let header = ["metric", "steps", "differs from", "last step", "mean", "SD", "SD/mean"];
        let row = |spread: &Spread| {
            vec![
                spread.metric.clone(),
                spread.steps.to_string(),
                spread.differs_from.map_or("-".to_owned(), |step| step.to_string()),
                spread.last_step.to_string(),
                spread.mean.to_string(),
                spread.sd.to_string(),
                spread.relative.to_string(),
            ]
        };
        let notes: String = made.notes.iter().map(|note| format!("Note: {note}.\n")).collect();
        let next = match made.reached {
            Some(false) => String::new(),
            _ => format!(
                "`lastbit check RUN --envelope {}` says whether rounding can have made another run.\n",
                folder.display()
            ),
        };
        format!(
            "{}{}\n{notes}Envelope in {}; each run is kept in {}.\n{next}",
            reproducible(made),
            table(&header, made.metrics.iter().map(row)),
            file.display(),
            folder.join("runs").display(),
        )
    }
}

/// What the runs without a perturbation say.
fn reproducible(made: &Made) -> String {
    match (&made.reproducibility, made.reached) {
        (None, _) => String::new(),
        (Some(Reproducibility::Differs { metric, step }), reached) => {
            let what = match reached {
                Some(true) => "The envelope has this noise, too.",
                Some(false) => {
                    "THE LAUNCHER PERTURBED NO OPTIMIZER OF PYTORCH, so this is no envelope: its runs differ by that noise \
                     alone.\nA program that starts others (torchrun, accelerate) needs `-m lastbit.torch.launch` before its script."
                }
                None => {
                    "It is not known whether the perturbation reached the program: its runs differ anyway. One of PyTorch needs \
                     `-m lastbit.torch.launch` before its script, another must read LASTBIT_PERTURB."
                }
            };
            format!(
                "Not bit-reproducible: of two runs without a perturbation, {metric} differs from step {step} on.\n{what}\n"
            )
        }
        (Some(Reproducibility::BitIdentical), Some(false)) => "\
            NO PERTURBED RUN DIFFERS from those without a perturbation in any bit, so this is no envelope.\n\
            Most probably the perturbation did not reach the program. A Python program that starts others (torchrun, \
            accelerate) needs\n`-m lastbit.torch.launch` before its script; another program must read LASTBIT_PERTURB. \
            Or the metrics are logged with\ntoo few digits, or too few steps.\n"
            .to_owned(),
        (Some(Reproducibility::BitIdentical), _) => {
            "Bit-reproducible: two runs without a perturbation are bit-identical in all metrics.\n".to_owned()
        }
    }
}
