//! `lastbit diff`.

mod files;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::CommandOutput;
use super::settings::Called;
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::diff::{Only, json};
use lastbit_lab::files::write_atomically;
use lastbit_lab::plot::write_bars;
use lastbit_lab::tensors;

/// Two files to compare.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  lastbit diff a.safetensors b.safetensors
  lastbit diff a.safetensors b.safetensors --sort rel-l1 --only 'layer1.*'
  lastbit diff a.safetensors b.safetensors --out compared   also write table, JSON and figure

What is measured, for each tensor and for all of them together:
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

With --out DIR, and only then, files are written: diff.json, diff.csv, diff.svg, diff.png.

Exit codes: 0 the tensors are identical, 1 they are not, 2 wrong input or environment.")]
pub struct DiffArguments {
    /// A safetensors file.
    a: PathBuf,

    /// Another safetensors file.
    b: PathBuf,

    /// Order of the tensors, largest first [default: as in A].
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
        let (a, b) = rayon::join(|| tensors::read(&self.a), || tensors::read(&self.b));
        let (a, b) = (a?, b?);
        let mut diff = only.compare(&a, &b)?;
        match self.sort {
            None => {}
            Some(Sort::Name) => diff.rows.sort_by(|x, y| x.name.cmp(&y.name)),
            Some(Sort::RelL1) => diff.sort_by_largest(|c| c.rel_l1),
            Some(Sort::Ulps) => diff.sort_by_largest(files::largest_ulps),
            Some(Sort::Max) => diff.sort_by_largest(files::largest_difference),
        }
        let json = json(&diff, &self.a, &self.b);
        let mut text = text::of(&diff);
        if let Some(out) = out {
            let pretty = format!("{json:#}\n");
            write_atomically(&out.join("diff.json"), pretty.as_bytes())?;
            write_atomically(&out.join("diff.csv"), &files::csv(&diff))?;
            write_bars(&out.join("diff"), &files::bars(&diff, &self.a, &self.b))?;
            text += &format!("Written: {}/diff.json, .csv, .svg, .png\n", out.display());
        }
        Ok(CommandOutput::new(text, json).holds(diff.different() == 0))
    }
}
