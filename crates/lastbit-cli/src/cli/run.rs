//! `lastbit run`.

pub mod parts;
pub mod slurm;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::table::table;
use super::values::duration;
use super::{CommandOutput, resumes_with};
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::experiments::{
    Exhibit, RecordSummary, RunOptions, find, require, run_exhibit, select,
};
use lastbit_lab::origin::COMMIT;
use lastbit_lab::progress::Monitor;
use lastbit_lab::record::{Check, CheckOutcome, Record, Scale, Status, Store};
use lastbit_lab::runner::Existing;
use lastbit_lab::train::Device;
use parts::Parts;
use slurm::Script;

/// Figures and tables to reproduce.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit run fig-heat
  lastbit run all --scale smoke
  lastbit run fig-beltrami-2d --scale paper --out results
  lastbit run tab-relu --scale paper --device cuda --time-limit 8h

Over several machines with a common folder:
  lastbit run all --scale paper --out /shared --cells 0..1/2     on the first
  lastbit run all --scale paper --out /shared --cells 1..2/2     on the second, at the same time
  lastbit run all --scale paper --out /shared --slurm grid.sh    as a Slurm job array: bash grid.sh")]
pub struct Run {
    /// Names of figures and tables (`lastbit list`), or `all`.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// How much to compute.
    #[arg(long, value_parser = choice::<Scale>(), default_value = "desk")]
    scale: Scale,

    /// Device for trainings; a GPU's results are recorded separately.
    #[arg(long, value_parser = choice::<Device>(), default_value = "cpu")]
    device: Device,

    /// Stop at a checkpoint after this time (90s, 15m, 2h); the same command resumes.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "fresh")]
    time_limit: Option<Duration>,

    /// Compute everything again, even what is finished.
    #[arg(long)]
    fresh: bool,

    /// Divide the cells into N parts and compute parts A up to, but not including, B.
    ///
    /// Several processes may compute parts of one record at the same time. The last one adds checks
    /// and figures. A..A only merges finished cells.
    #[arg(long, value_name = "A..B/N")]
    cells: Option<Parts>,

    /// Write a Slurm script with one task per cell to FILE or stdout, and compute nothing.
    ///
    /// `--threads` sets the cores per task. Comments in the script say how to submit it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["cells", "fresh", "device", "time_limit"])]
    slurm: Option<Option<PathBuf>>,

    /// Number of tasks [default: one per cell, at most 1000].
    #[arg(long, value_name = "N", requires = "slurm")]
    slurm_tasks: Option<NonZeroUsize>,
}

impl Run {
    /// Runs them one after the other; each record is complete before the next begins.
    pub fn answer(
        &self,
        out: &Path,
        threads: Option<NonZeroUsize>,
    ) -> Result<CommandOutput, Error> {
        let exhibits = select(&self.ids)?;
        if let Some(file) = &self.slurm {
            return self.script(&exhibits, file.as_deref(), out, threads);
        }
        let only_assembles = self.cells.is_some_and(Parts::is_empty);
        if !only_assembles {
            require(&exhibits, self.scale, self.device, out)?;
        }
        let parts = self.parts_of(&exhibits);
        let existing = if self.fresh { Existing::Discard } else { Existing::Reuse };
        let monitor = Terminal::new(self.time_limit);
        let mut done = Vec::new();
        let mut unfinished = false;
        for (exhibit, part) in exhibits.into_iter().zip(parts) {
            let is_ours = part.as_ref().is_none_or(|part| !part.is_empty());
            if is_ours || only_assembles {
                // Not before the first: the shortest limit comes to an end in the end.
                if monitor.stop_requested().is_some() && !done.is_empty() {
                    unfinished = true;
                    break;
                }
                let (scale, device) = (self.scale, self.device);
                let order = RunOptions { scale, device, cells: part, existing };
                done.push(run_exhibit(exhibit, order, out, &monitor)?);
            }
        }
        let mut text: String = done.iter().map(|(store, record)| summary(store, record)).collect();
        if let (true, Some(cells)) = (done.is_empty(), self.cells) {
            text =
                format!("--cells {cells}: there are fewer cells than parts, and none in these.\n");
        }
        unfinished |= done.iter().any(|(_, record)| !record.is_complete());
        let mut stopped = None;
        if let (Some(reason), true) = (monitor.stop_requested(), unfinished) {
            let resume = resumes_with("finished cells are saved", self.fresh);
            text += &format!("{reason}; {resume}\n");
            stopped = Some(reason);
        }
        let records: Vec<RecordSummary> =
            done.iter().map(|(store, record)| RecordSummary::new(store, record)).collect();
        let json = json!({ "records": records });
        let holds = done.iter().all(|(_, record)| record.status() != Status::Fails);
        Ok(CommandOutput::new(text, json).holds(holds).stopped_by(stopped))
    }

    /// The cells to compute of each exhibit; none where all are.
    fn parts_of(&self, exhibits: &[&Exhibit]) -> Vec<Option<Range<usize>>> {
        let Some(parts) = self.cells else { return vec![None; exhibits.len()] };
        parts.of_plans(&self.counts(exhibits)).into_iter().map(Some).collect()
    }

    /// Cells of each exhibit.
    fn counts(&self, exhibits: &[&Exhibit]) -> Vec<usize> {
        exhibits.iter().map(|exhibit| exhibit.plan(self.scale).cells.len()).collect()
    }

    fn script(
        &self,
        exhibits: &[&Exhibit],
        file: Option<&Path>,
        out: &Path,
        threads: Option<NonZeroUsize>,
    ) -> Result<CommandOutput, Error> {
        if let Some(name) = file.and_then(Path::to_str).filter(|name| find(name).is_some()) {
            let expected = "a file to write, not an exhibit; exhibits come before --slurm";
            return Err(Error::setting("--slurm", name, expected));
        }
        let script = Script {
            ids: &self.ids,
            scale: self.scale.name(),
            cells: self.counts(exhibits).iter().sum(),
            tasks: self.slurm_tasks.map(NonZeroUsize::get),
            threads: threads.map(NonZeroUsize::get),
            out,
        };
        script.answer(file)
    }
}

/// What a record says about its claim, with its checks as a table once it is complete.
fn summary(store: &Store, record: &Record) -> String {
    let (id, folder, place) = (&record.id, record.folder_name(), store.folder().display());
    if !record.is_complete() {
        return format!(
            "{id} ({folder}): {} of {} cells, checks come when all are there; record in {place}\n",
            record.cells.len(),
            record.planned,
        );
    }
    let status = match record.status() {
        Status::NotTested { why } => format!("not tested at this scale: {why}"),
        status => {
            let count = record.count_of_checks().map(|count| format!(": {count}"));
            status.in_words().to_owned() + &count.unwrap_or_default()
        }
    };
    let kept = record.cells.iter().filter(|cell| cell.commit != COMMIT).count();
    let note = match kept {
        0 => String::new(),
        kept => {
            format!("{kept} cells were kept from another commit; --fresh computes them again.\n")
        }
    };
    let row = |check: &Check| {
        vec![
            in_words(check.outcome).to_owned(),
            check.name.clone(),
            check.expected.to_string(),
            check.band.to_string(),
            check.found_in_words(),
        ]
    };
    let header = ["", "check", "expected", "band", "found"];
    let checks = match &record.checks[..] {
        [] => String::new(),
        checks => table(&header, checks.iter().map(row)),
    };
    format!("{id} ({folder}) {status}; record in {place}\n{note}{checks}\n")
}

/// A failure stands out.
fn in_words(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Fails => "FAILS",
        CheckOutcome::Holds | CheckOutcome::Undecided => outcome.name(),
    }
}
