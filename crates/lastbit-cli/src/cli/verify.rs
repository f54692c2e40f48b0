//! `lastbit verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::CommandOutput;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::damage::Finding;
use lastbit_lab::verify::{Verified, verify};

/// What to check.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit verify                    all records below lastbit-out
  lastbit verify results            ... below another folder
  lastbit verify run                a training run
  lastbit verify --json | jq .damaged

Every file carries a hash, or another file carries it: a changed, truncated, swapped or missing file is named, with
the command that mends it. Nothing is written. Exit codes: 0 all files are whole, 1 some are damaged, 2 there is nothing to
check.")]
pub struct Verify {
    /// The folder, with all below it [default: that of --out].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Verify {
    /// One line for each damaged file, then counts.
    pub fn answer(&self, out: &Path) -> Result<CommandOutput, Error> {
        let folder = self.folder.as_deref().unwrap_or(out);
        let verified = verify(folder, &Terminal::new(None))?;
        let is_whole = verified.damaged.is_empty();
        Ok(CommandOutput::new(text(&verified), json!(verified)).holds(is_whole))
    }
}

fn text(verified: &Verified) -> String {
    let Verified { records, cells, runs, data_sets, envelopes, whole, damaged, notes } = verified;
    let line = |word: &str, finding: &Finding| {
        let Finding { path, message, mend } = finding;
        format!("{word}: {}: {message}; {mend}\n", path.display())
    };
    let mut text: String = damaged.iter().map(|finding| line("damaged", finding)).collect();
    text.extend(notes.iter().map(|finding| line("note", finding)));
    let parts = [
        (*records, "record"),
        (*cells, "cell"),
        (*runs, "training run"),
        (*data_sets, "data set"),
        (*envelopes, "envelope"),
    ];
    let counted = parts.into_iter().filter(|(count, _)| *count > 0).map(|(n, word)| count(n, word));
    let counted: Vec<String> = counted.collect();
    let ending = match damaged.len() {
        0 => "all whole".to_owned(),
        n => format!("{n} damaged"),
    };
    text + &format!(
        "{}: {} checked, {ending}.\n",
        counted.join(", "),
        count(whole + damaged.len(), "file")
    )
}

fn count(n: usize, word: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {word}{plural}")
}
