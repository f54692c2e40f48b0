//! `lastbit data show`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::shape_words;
use crate::cli::CommandOutput;
use crate::cli::table::table;
use lastbit_lab::Error;
use lastbit_lab::data::sheet::contact_sheet;
use lastbit_lab::data::statistics::{histogram, summaries};
use lastbit_lab::data::{Split, load};
use lastbit_lab::files::write_atomically;
use lastbit_lab::input::extension;
use lastbit_lab::number::{Number, significant};

/// What to show.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lastbit data show mnist01 --out sheet.png
  lastbit data show curve

Images go to a sheet, a row for each class: to --out if it ends in .png, else to that folder.")]
pub struct Show {
    /// The data set.
    name: String,
}

impl Show {
    /// Statistics in text, images in a file.
    pub fn answer(&self, data: Option<&Path>, out: &Path) -> Result<CommandOutput, Error> {
        let split = load(&self.name, data)?;
        let sheet = self.sheet(&split, out)?;
        let columns = split.columns.as_ref();
        let parts = [("train", &split.train), ("test", &split.test)];
        let mut text = format!(
            "{}: {} examples to train on, {} to test on, inputs {}\n\n",
            split.name,
            split.train.len(),
            split.test.len(),
            shape_words(split.train.shape)
        );
        let mut rows = Vec::new();
        for (part, set) in parts {
            for s in summaries(set, columns) {
                let numbers =
                    [s.min, s.mean, s.std, s.max].map(|x| Number(significant(x, 6)).to_string());
                rows.push([vec![part.to_owned(), s.name], numbers.to_vec()].concat());
            }
        }
        text.push_str(&table(&["part", "of", "min", "mean", "std", "max"], rows));
        for (part, set) in parts {
            let counts: Vec<String> = histogram(set).iter().map(ToString::to_string).collect();
            if !counts.is_empty() {
                let of = columns.map(|it| format!(" of {}", it.targets.join(", ")));
                let of = of.unwrap_or_default();
                text.push_str(&format!(
                    "\n{part}, examples of each class{of}: {}\n",
                    counts.join(" ")
                ));
            }
        }
        if let Some(path) = &sheet {
            text.push_str(&format!("\nSheet of images: {}\n", path.display()));
        }
        let part = |(name, set): (&str, _)| {
            let value = json!({"summaries": summaries(set, columns), "histogram": histogram(set)});
            (name.to_owned(), value)
        };
        let mut json = json!({
            "name": split.name,
            "content_hash": split.content_hash,
            "shape": split.train.shape,
            "columns": columns,
            "sheet": sheet,
        });
        let object = json.as_object_mut().expect("it was made as one");
        object.extend(parts.map(part));
        Ok(CommandOutput::new(text, json))
    }

    fn sheet(&self, split: &Split, out: &Path) -> Result<Option<PathBuf>, Error> {
        let Some(sheet) = contact_sheet(&split.train) else { return Ok(None) };
        let path = match extension(out).as_str() {
            "png" => out.to_owned(),
            _ => out.join(format!("{}.png", self.name)),
        };
        let drawn = sheet
            .to_png()
            .map_err(|error| Error::Figure { path: path.clone(), message: error.to_string() })?;
        if let Some(folder) = path.parent() {
            let refuse =
                |source| Error::WriteFile { path: folder.to_owned(), flag: "--out", source };
            std::fs::create_dir_all(folder).map_err(refuse)?;
        }
        write_atomically(&path, &drawn).map_err(|error| error.of_flag("--out"))?;
        Ok(Some(path))
    }
}
