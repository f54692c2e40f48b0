//! `lastbit diff`.

mod files;
mod run_text;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::CommandOutput;
use super::settings::Called;
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::diff::runs::{self, RunDiff};
use lastbit_lab::diff::{Diff, Only, PathDiff, of_paths};
use lastbit_lab::files::write_atomically;
use lastbit_lab::plot::write_bars;

/// Two files or two runs to compare.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  lastbit diff a.safetensors b.safetensors
  lastbit diff a.safetensors b.safetensors --sort rel-l1 --only 'layer1.*'
  lastbit diff a.safetensors b.safetensors --out compared   also write table, JSON and figure
  lastbit diff run-a run-b                  where two runs first differ, and how the distance grows
  lastbit diff run:k1 run:k3                two replicas of one run of `lastbit train`
  lastbit diff old/checkpoint-100 new/checkpoint-100        two checkpoints, also of several files

A run is a run directory of `lastbit train` or of lastbit.torch.Probe, or a folder of checkpoints:
safetensors with their step in the name of the file or of its folder (step-100.safetensors,
checkpoint-100/model.safetensors, sharded with its index, epoch-3.safetensors). Only steps that both
runs have can be compared, and the answer says which: \"identical up to step 800; at step 850, the
next in common, they differ\". All common steps are looked at, by hashes or by the bytes of files;
tensors are compared at the first step that differs and at up to 50 more. The distance of two runs
is the norm of the difference of all parameters over the norm of those of A. An exponential is
fitted to it from the first difference on while it is at most 0.01; its rate is in e-folds per step.
Logged metrics (loss, accuracy) are compared bit by bit; they are often finer than checkpoints.
Settings that differ are listed. Pickles (optimizer.pt, training_args.bin) are never read.

What is measured of two files, for each tensor and for all of them together:
  RelL1        (2/N) sum |a - b| / (|a| + |b|), with 0/0 = 0: from 0 to 2
  equal %      entries that are bit-identical
  ulps         number of floats between a and b, median and largest; for integers their difference
  bits         significant bits that agree: the mean over the entries of
               -log2( |a - b| / max(|a|, |b|) ), from 0 to the precision of the type (53 for F64,
               24 for F32, 11 for F16, 8 for BF16), which bit-identical entries have
  max |a - b|  the largest absolute difference, and the index where it is
Norms and the hash of the bits of each tensor are in --json and in the files of --out.

The hashes of the parameters are BLAKE3 (the first 32 digits) of the bits of all tensors but batch
norm's running statistics, in the order of A. `lastbit train` prints the same hash of its weights.

Entries that are NaN or infinite in either file are counted and have no distance. Where their bits
differ they are not comparable: the first is named, and the tensor has no largest distance; RelL1,
median and bits are those of the other entries.

Floats of different types are compared in F64, with the ulps and precision of the coarser type.
Tensors whose shapes or types differ, or that are in one file only, are listed. Metadata that differ
are listed, but do not count as a difference.

With --out DIR, and only then, files are written: diff.json, diff.csv, diff.svg, diff.png; of two
runs diff.json, diff.csv (over steps) and a record with the figure of the distance, for the report.

Exit codes: 0 nothing differs, 1 something does, 2 wrong input or environment.")]
pub struct DiffArguments {
    /// A safetensors file, a checkpoint or a run.
    a: PathBuf,

    /// Another.
    b: PathBuf,

    /// Order of the tensors of two files, largest first [default: as in A].
    #[arg(long, value_parser = choice::<Sort>())]
    sort: Option<Sort>,

    /// Compare only tensors whose name matches; * stands for any characters, ? for one.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
}

lastbit::named_enum! {
    /// What tensors are ordered by.
    enum Sort {
        /// Name.
        Name = "name",
        /// RelL1.
        RelL1 = "rel-l1",
        /// Largest number of ulps.
        Ulps = "ulps",
        /// Largest absolute difference.
        Max = "max",
    }
}

impl DiffArguments {
    /// Compares, and writes files where a folder was given.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        let out = called.is_given("out").then_some(out);
        if let Some(path) = out {
            // What cannot be made is found out before anything is read.
            let refuse = |source| Error::WriteFile { path: path.to_owned(), flag: "--out", source };
            fs::create_dir_all(path).map_err(refuse)?;
        }
        let only = Only::parse(self.only.as_deref())?;
        let mut found = of_paths(&self.a, &self.b, &only)?;
        if let PathDiff::Tensors(diff) = &mut found {
            self.order(diff);
        } else if self.sort.is_some() {
            return Err(Error::unused("--sort", "two runs"));
        }
        let json = found.json(&self.a, &self.b);
        let mut text = match &found {
            PathDiff::Tensors(diff) => text::of(diff),
            PathDiff::Runs(found) => run_text::of(found),
        };
        if let Some(out) = out {
            text += &match &found {
                PathDiff::Tensors(diff) => self.write_tensors(diff, &json, out)?,
                PathDiff::Runs(found) => write_runs(found, &json, out)?,
            };
        }
        Ok(CommandOutput::new(text, json).holds(found.is_identical()))
    }

    fn order(&self, diff: &mut Diff) {
        match self.sort {
            None => {}
            Some(Sort::Name) => diff.rows.sort_by(|x, y| x.name.cmp(&y.name)),
            Some(Sort::RelL1) => diff.sort_by_largest(|c| c.rel_l1),
            Some(Sort::Ulps) => diff.sort_by_largest(files::largest_ulps),
            Some(Sort::Max) => diff.sort_by_largest(files::largest_difference),
        }
    }

    fn write_tensors(&self, diff: &Diff, json: &Value, out: &Path) -> Result<String, Error> {
        write_table(json, &files::csv(diff), out)?;
        write_bars(&out.join("diff"), &files::bars(diff, &self.a, &self.b))?;
        Ok(format!("Written: {}/diff.json, .csv, .svg, .png\n", out.display()))
    }
}

fn write_runs(found: &RunDiff, json: &Value, out: &Path) -> Result<String, Error> {
    let has_figure = runs::keep(found, out)?;
    write_table(json, &runs::csv(found), out)?;
    let figure = if has_figure { ", figures" } else { "" };
    Ok(format!("Written: {}/diff.json, diff.csv, record.json{figure}\n", out.display()))
}

fn write_table(json: &Value, csv: &[u8], out: &Path) -> Result<(), Error> {
    write_atomically(&out.join("diff.json"), format!("{json:#}\n").as_bytes())?;
    write_atomically(&out.join("diff.csv"), csv)
}
