//! `lastbit data`.

mod get;
mod import;
mod list;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::CommandOutput;
use lastbit_lab::Error;
use lastbit_lab::data::store::{Answers, Description};
use lastbit_lab::data::{directory, find_directory};

/// Data sets.
#[derive(Debug, Args)]
pub struct Data {
    /// Folder of data sets [default: $LASTBIT_DATA, else lastbit in the user's folder for data].
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Download a data set: mnist, fashion-mnist or cifar10.
    Get(get::Get),
    /// Import your own data: CSV, NPY, IDX, CIFAR, folders of PNG images.
    Import(import::Import),
    /// List data sets: embedded, on disk, and available for download.
    List,
    /// Show a data set: a contact sheet of its images, or statistics of its columns.
    Show(show::Show),
}

impl Data {
    /// Does it.
    pub fn answer(&self, out: &Path) -> Result<CommandOutput, Error> {
        let given = self.data.as_deref();
        match &self.command {
            Command::Get(get) => get.answer(&directory(given)?),
            Command::Import(import) => import.answer(&directory(given)?),
            Command::List => list::list(find_directory(given).as_deref()),
            Command::Show(show) => show.answer(given, out),
        }
    }
}

/// Height x width x channels of images, the length of vectors.
fn shape_words(shape: [usize; 3]) -> String {
    match shape {
        [1, 1, n] => n.to_string(),
        [height, width, channels] => format!("{height}x{width}x{channels}"),
    }
}

fn targets_words(targets: &Answers) -> String {
    match targets {
        Answers::Classes(names) => format!("{} classes", names.len()),
        Answers::Reals(1) => "1 number".to_owned(),
        Answers::Reals(width) => format!("{width} numbers"),
    }
}

/// A data set that has just been written.
fn written(description: &Description, folder: &Path) -> CommandOutput {
    let text = format!(
        "{}: {} examples to train on, {} to test on, inputs {}, targets {}\n\
         content hash {}\nin {}\n",
        description.name,
        description.train,
        description.test,
        shape_words(description.shape),
        targets_words(&description.targets),
        description.content_hash,
        folder.display(),
    );
    let json = serde_json::json!({"dataset": description, "folder": folder});
    CommandOutput::new(text, json)
}
