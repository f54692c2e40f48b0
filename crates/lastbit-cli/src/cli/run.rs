//! `lastbit run`.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::Answer;
use super::list::known;
use super::table::table;
use crate::error::Error;
use crate::experiments::{CATALOGUE, Exhibit, Scale};
use crate::record::{Record, Store};
use crate::runner::{COMMIT, Existing, run_exhibit};

/// Which exhibits, and how large.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit run fig-heat
  lastbit run all --scale smoke
  lastbit run fig-beltrami-2d --scale paper --out results")]
pub struct Run {
    /// Exhibits, or `all`.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// How much to compute.
    #[arg(long, value_enum, default_value = "desk")]
    scale: Scale,

    /// Compute everything again, also what is finished.
    #[arg(long)]
    fresh: bool,
}

impl Run {
    /// Runs them one after the other; each record is complete before the next begins.
    pub fn answer(&self, out: &Path) -> Result<Answer, Error> {
        let exhibits: Vec<&'static dyn Exhibit> = if self.ids.iter().any(|id| id == "all") {
            CATALOGUE.to_vec()
        } else {
            self.ids.iter().map(|id| known(id)).collect::<Result<_, _>>()?
        };
        let existing = if self.fresh { Existing::Discard } else { Existing::Reuse };
        let mut done = Vec::new();
        for exhibit in exhibits {
            done.push(run_exhibit(exhibit, self.scale, out, existing)?);
        }
        Ok(Answer {
            text: done.iter().map(|(store, record)| summary(store, record)).collect(),
            json: json!({ "records": done.iter().map(|(s, r)| entry(s, r)).collect::<Vec<_>>() }),
            holds: done.iter().all(|(_, record)| record.holds()),
        })
    }
}

/// The checks of a record as a table.
pub fn summary(store: &Store, record: &Record) -> String {
    let rows: Vec<Vec<String>> = record
        .checks
        .iter()
        .map(|check| {
            vec![
                if check.holds { "holds" } else { "FAILS" }.to_owned(),
                check.name.clone(),
                check.expected.to_string(),
                check.band.to_string(),
                check.found.to_string(),
            ]
        })
        .collect();
    let held = record.checks.iter().filter(|check| check.holds).count();
    let kept = record.cells.iter().filter(|cell| cell.commit != COMMIT).count();
    let note = match kept {
        0 => String::new(),
        kept => {
            format!("{kept} cells were kept from another commit; --fresh computes them again.\n")
        }
    };
    format!(
        "{} ({}): {held} of {} checks hold; record in {}\n{note}{}\n",
        record.id,
        record.variant,
        record.checks.len(),
        store.folder().display(),
        table(&["", "check", "expected", "band", "found"], &rows),
    )
}

fn entry(store: &Store, record: &Record) -> Value {
    json!({
        "id": record.id,
        "scale": record.variant,
        "holds": record.holds(),
        "checks": record.checks,
        "folder": store.folder(),
    })
}
