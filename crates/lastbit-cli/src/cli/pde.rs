//! `lastbit pde`.

mod beltrami;
mod heat;
mod kernel;
mod scheme;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lastbit::verdict::VerdictKind;

use super::CommandOutput;
use super::settings::Called;
use super::table::table;
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::pde::{PdeResult, PdeRun, in_words};

/// The PDEs.
#[derive(Debug, Subcommand)]
pub enum Pde {
    /// The heat equation on an interval.
    Heat(heat::Heat),
    /// Beltrami reaction-diffusion of a signal or an image.
    Beltrami(beltrami::Beltrami),
    /// Any explicit linear scheme on a periodic mesh.
    Scheme(scheme::Scheme),
    /// A one-layer network under gradient descent, or one of its linear equations.
    Kernel(kernel::Kernel),
}

impl Pde {
    /// Runs and judges.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        match self {
            Self::Heat(heat) => heat.options.answer(heat.run(called)?, out),
            Self::Beltrami(beltrami) => beltrami.options.answer(beltrami.run(called)?, out),
            Self::Scheme(scheme) => scheme.options.answer(scheme.run(called)?, out),
            Self::Kernel(kernel) => kernel.options.answer(kernel.run(called)?, out),
        }
    }
}

/// Options of every PDE that are not settings of the run.
#[derive(Debug, Clone, Default, Args)]
pub struct RunOptions {
    /// Settings from a TOML file with the names of the flags; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Exit with code 1 unless the verdict is this one.
    #[arg(long, value_parser = choice::<VerdictKind>(), value_name = "VERDICT")]
    pub expect: Option<VerdictKind>,

    /// Compute again, even if the result is there.
    #[arg(long)]
    pub fresh: bool,
}

impl RunOptions {
    fn answer(&self, run: PdeRun, out: &Path) -> Result<CommandOutput, Error> {
        let result = match run.record(out, self.fresh, &Terminal::new(None)) {
            Err(Error::Stopped(reason)) => {
                let again = "an unfinished run is not saved. The same command starts it again.";
                return Ok(CommandOutput::stopped(reason, again));
            }
            ended => ended?,
        };
        let kind = result.verdict.kind;
        let holds = self.expect.is_none_or(|expected| expected == kind);
        let mut text = text(&result);
        if let (Some(expected), false) = (self.expect, holds) {
            text.push_str(&format!("Expected {expected}: the check fails.\n"));
        }
        Ok(CommandOutput::new(text, result.to_json()).holds(holds))
    }
}

fn text(result: &PdeResult) -> String {
    let rows = result.numbers.iter().map(|(name, number)| vec![name.clone(), number.to_string()]);
    format!(
        "{}\n{}\n\n{}\nhash {}\nRecord, curves and figures: {}\n",
        result.title,
        in_words(&result.verdict),
        table(&["measured", ""], rows),
        result.hash.as_deref().unwrap_or("none"),
        result.folder().expect("the run was recorded").display()
    )
}
