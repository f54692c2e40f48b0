//! A folder of PNG images, one sub-folder a class; classes and files in the order of their names.

use std::fs;
use std::path::{Path, PathBuf};

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::{Malformed, png, shape_text};

use super::Named;
use crate::error::Error;
use crate::input::{extension, read as read_file};
use crate::progress::{Monitor, Progress};

/// Reads all images; they must be of one size, and all grey or all in colour.
pub fn read(path: &Path, monitor: &dyn Monitor) -> Result<Named, Error> {
    let folders: Vec<PathBuf> = sorted(path)?.into_iter().filter(|path| path.is_dir()).collect();
    let mut images: Vec<(u32, PathBuf)> = Vec::new();
    for (label, folder) in folders.iter().enumerate() {
        let files = sorted(folder)?.into_iter().filter(|file| extension(file) == "png");
        images.extend(files.map(|file| (label as u32, file)));
    }
    let progress = Progress::new(monitor, "reading images", images.len() as u64);
    let mut shape = None;
    let mut pixels = Vec::new();
    for (_, file) in &images {
        let refuse = |error: Malformed| Error::input(file, error);
        let picture = png::parse(&read_file(file)?).map_err(refuse)?;
        let first = *shape.get_or_insert(picture.shape);
        if picture.shape != first {
            let found = format!("an image of shape {}", shape_text(&picture.shape));
            let expected = format!("{}, as the first one has", shape_text(&first));
            return Err(refuse(Malformed::new(found, expected)));
        }
        pixels.extend(picture.pixels);
        progress.advance(1);
    }
    let Some(shape) = shape else {
        let expected = "sub-folders with images that end in .png, one for each class";
        return Err(Error::input(path, Malformed::new("no images", expected)));
    };
    let name = |folder: &PathBuf| folder.file_name().unwrap_or_default().to_string_lossy().into();
    let labels = images.into_iter().map(|(label, _)| label).collect();
    let targets = Targets::Classes { count: folders.len(), labels };
    Ok(Named {
        set: Dataset { shape, inputs: Inputs::Bytes(pixels), targets },
        classes: folders.iter().map(name).collect(),
        columns: None,
    })
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let refuse = |source| Error::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(refuse)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(refuse)?;
    paths.sort();
    Ok(paths)
}
