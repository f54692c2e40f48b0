//! The command line: what can be asked, and the answers as text or JSON.

mod bounds;
mod check;
mod completions;
mod data;
mod demo;
mod diff;
mod edge;
mod envelope;
mod export;
mod kernel;
mod list;
mod noise;
mod pde;
mod report;
mod run;
mod scheme;
pub mod settings;
pub mod table;
mod train;
mod values;
mod verify;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgMatches, Args, CommandFactory, Parser, Subcommand};

use lastbit_lab::Error;
use lastbit_lab::progress::StopReason;
use settings::Called;

/// What a command prints, and how it ended.
pub struct CommandOutput {
    /// For people.
    pub text: String,
    /// For programs: one object.
    pub json: serde_json::Value,
    holds: bool,
    stopped: Option<StopReason>,
}

impl CommandOutput {
    /// Of a command that is done.
    pub fn new(text: String, json: serde_json::Value) -> Self {
        Self { text, json, holds: true, stopped: None }
    }

    /// Of a command that was stopped; `how_to_resume` is a sentence or two.
    pub fn stopped(reason: StopReason, how_to_resume: &str) -> Self {
        let text = format!("{reason}; {how_to_resume}\n");
        Self::new(text, serde_json::json!({ "stopped": true })).stopped_by(Some(reason))
    }

    /// The same with whether every check holds.
    #[must_use]
    pub fn holds(self, holds: bool) -> Self {
        Self { holds, ..self }
    }

    /// The same with why it was stopped, if it was.
    #[must_use]
    pub fn stopped_by(self, stopped: Option<StopReason>) -> Self {
        Self { stopped, ..self }
    }

    /// A time limit that was asked for is no failure.
    pub fn exit_code(&self) -> u8 {
        match self.stopped {
            Some(StopReason::Interrupt) => 130,
            Some(StopReason::TimeLimit) | None => u8::from(!self.holds),
        }
    }
}

/// What is saved of a command that was stopped, and how it resumes.
pub fn resumes_with(saved: &str, fresh: bool) -> String {
    let without = if fresh { " without --fresh" } else { "" };
    format!("{saved}. The same command{without} resumes from there.")
}

/// A numerical-stability laboratory for neural-network training.
///
/// Which learning rate is stable, and why? How much of a result is decided by rounding? Is this
/// difference between two runs a bug, or rounding? Start with `lastbit demo`.
#[derive(Debug, Parser)]
#[command(name = "lastbit", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lastbit demo                                  show the effect in seconds
  lastbit list                                  what can be reproduced
  lastbit run all                               every figure and table, in minutes each
  lastbit report                                one HTML file of all results
  lastbit pde beltrami --overdrive 10           a restrained instability
  lastbit pde heat --dt 0.51 --json             a verdict for a program to read
  lastbit bounds scheme wave-leap-frog --dx 0.1 largest stable step of a scheme
  lastbit bounds kernel --kernel 16x16          stable weight decays of a one-layer network
  lastbit edge config.toml                      largest stable learning rate of a training
  lastbit edge kernel                           ... of a one-layer network
  lastbit diff a.safetensors b.safetensors      compare two checkpoints, down to the last bit
  lastbit check run --envelope envelope         bug or rounding?
  lastbit data get cifar10                      download a data set
  lastbit train --example > config.toml         a commented configuration to start from
  lastbit noise --from results.csv              is my gain larger than the noise?
  lastbit envelope -n 8 -- python train.py      what can rounding do to my own training?
  lastbit verify                                is every saved file as it was written?

Exit codes: 0 done and no check failed, 1 a check failed, 2 wrong input or environment, 130 interrupted.";

/// Options of every command.
#[derive(Debug, Args)]
pub struct Common {
    /// Print exactly one JSON object on stdout; progress goes to stderr.
    #[arg(long, global = true)]
    json: bool,

    /// Threads to use; the results do not depend on it [default: all cores].
    #[arg(long, global = true, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Folder for records and the report.
    #[arg(long, global = true, value_name = "DIR", default_value = "lastbit-out")]
    out: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the effect in seconds: pairs of runs that differ in the last bit.
    Demo,
    /// List the figures and tables that can be reproduced, or describe one.
    List(list::List),
    /// Reproduce figures and tables; resumes if interrupted.
    Run(run::Run),
    /// Write one self-contained HTML report of all results.
    Report,
    /// Simulate a PDE with your own parameters and data, with a verdict on its stability.
    #[command(subcommand)]
    Pde(pde::Pde),
    /// What theory says: largest stable time step, stable weight decays, most unstable frequency.
    #[command(subcommand)]
    Bounds(bounds::Bounds),
    /// Find the edge of stability of a training by bisection: largest stable learning rate.
    Edge(edge::Edge),
    /// Compare two safetensors files to the last bit, or two runs: where they first differ.
    Diff(diff::DiffArguments),
    /// Bug or rounding? Compare runs with the envelope of runs that differ by rounding alone.
    Check(check::Check),
    /// Data sets: get, import, list, show.
    Data(data::Data),
    /// Train replicas of a network that differ in rounding or a seed, and measure how they diverge.
    Train(train::Train),
    /// Is a gain larger than the noise of seeds and rounding? Intervals, tests, a verdict.
    Noise(noise::Noise),
    /// What can rounding alone do to a training? Runs of any program that differ by rounding.
    Envelope(envelope::Envelope),
    /// Write a run as event files of TensorBoard.
    Export(export::Export),
    /// Check that no file of records, training runs and data sets is damaged.
    Verify(verify::Verify),
    /// Print a completion script for a shell.
    Completions(completions::Completions),
}

impl Cli {
    /// The command line. A negative number after a flag is its value, so that the flag's own check
    /// speaks, in words of ours.
    pub fn command_line() -> clap::Command {
        fn with_negative_numbers(command: clap::Command) -> clap::Command {
            command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
        }
        values::in_words(with_negative_numbers(Self::command()))
    }

    /// Does what was asked. `matches` tells flags that were given from defaults.
    pub fn run(&self, matches: &ArgMatches) -> Result<CommandOutput, Error> {
        if let Some(threads) = self.common.threads {
            lastbit_lab::validate::within("--threads", threads.get(), 1, 1024)?;
        }
        // Threads are started here, where a system that has no room for them can be named.
        let threads = self.common.threads.map_or(0, NonZeroUsize::get);
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| {
            let found =
                if threads == 0 { "one for each core".to_owned() } else { threads.to_string() };
            Error::setting("--threads", found, format!("fewer ({error})"))
        })?;
        let out = &self.common.out;
        let command = Self::command_line();
        let called = Called::innermost(matches, &command);
        let answer = match &self.command {
            Command::Demo => demo::demo(out),
            Command::List(list) => list.answer(),
            Command::Run(run) => run.answer(out, self.common.threads),
            Command::Report => report::report(out),
            Command::Pde(pde) => pde.answer(called, out),
            Command::Bounds(bounds) => bounds.answer(called, out),
            Command::Edge(edge) => edge.answer(called, out),
            Command::Diff(diff) => diff.answer(called, out),
            Command::Check(check) => check.answer(called, out),
            Command::Data(data) => data.answer(out),
            Command::Train(train) => train.answer(out, called.is_given("out")),
            Command::Noise(noise) => noise.answer(out),
            Command::Envelope(envelope) => envelope.answer(out, called.is_given("out")),
            Command::Export(export) => export.answer(),
            Command::Verify(verify) => verify.answer(out),
            Command::Completions(completions) => Ok(completions.answer()),
        };
        answer.map_err(|error| called.with_file(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command_line().debug_assert();
    }
}
