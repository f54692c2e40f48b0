//! `lastbit data embed`: makes the embedded data sets from the full ones.
//!
//! Run it in the folder of the crate after `lastbit data get` of `mnist`, `fashion-mnist` and
//! `cifar10`; the assets depend on those and on the version of the compressor alone.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::cli::Answer;
use lastbit_lab::Error;
use lastbit_lab::data::embedded::EMBEDDED;
use lastbit_lab::data::{content_hash, load};
use lastbit_lab::files::write_atomically;

/// Where to write.
#[derive(Debug, Args)]
pub struct Embed {
    /// Folder of the assets.
    #[arg(long, value_name = "DIR", default_value = "assets")]
    assets: PathBuf,
}

impl Embed {
    /// Writes the assets and says their hashes.
    pub fn answer(&self, data: Option<&Path>) -> Result<Answer, Error> {
        let mut text = String::new();
        let mut sets = Vec::new();
        for set in &EMBEDDED {
            let (train, test) = set.of(&load(set.part_of, data)?);
            let asset = set.pack(&train, &test);
            let path = self.assets.join(format!("{}.xz", set.name));
            write_atomically(&path, &asset)?;
            let hash = content_hash(&train, &test);
            text.push_str(&format!("{}: {} bytes, content hash {hash}\n", set.name, asset.len()));
            sets.push(json!({"name": set.name, "bytes": asset.len(), "content_hash": hash}));
        }
        Ok(Answer { text, json: json!({"embedded": sets}), holds: true })
    }
}
